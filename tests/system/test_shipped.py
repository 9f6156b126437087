"""Every scenario that ships runs, both engines agree on it, and its trace passes the audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.engines import run
from p2p_labeldp.scenario import load_scenario

EVERY = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))
SHIPPED = [path for path in EVERY if not path.stem.startswith("figure-")]  # those need large files and minutes


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_scenario_runs_and_passes_its_audit(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path)
    by_actors = run(scenario, out=tmp_path / "run").summary
    by_arrays = run(scenario, engine="vectorized").summary
    assert by_actors["noisy_sha256"] == by_arrays["noisy_sha256"]
    assert by_actors["privacy"] == by_arrays["privacy"]
    assert by_actors["accuracy"] > by_actors["majority_accuracy"]
    assert audit_runs([tmp_path / "run"]).passed
