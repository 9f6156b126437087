from __future__ import annotations

import pytest
from swept import plan_of

from p2p_labeldp.experiments.sweeps import Sweep, sweep


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep that nothing ever stopped, in one process."""
    return sweep(plan_of(), tmp_path_factory.mktemp("whole") / "sweep", workers=1)
