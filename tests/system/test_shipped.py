"""Every scenario that ships runs, both engines agree on it, and its trace passes the audit.

Where someone misbehaves there is one engine, and the audit notices.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from p2p_labeldp.adversaries.kinds import adversary_of
from p2p_labeldp.audit import audit_runs
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import run
from p2p_labeldp.scenario import load_scenario, replace

EVERY = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))
SHIPPED = [path for path in EVERY if not path.stem.startswith("figure-")]  # those need large files and minutes
MOST_USERS = 2500
PLAYED = [path for path in SHIPPED if any(adversary_of(entry).misbehaves for entry in load_scenario(path).adversaries)]


pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.mark.parametrize("path", [path for path in SHIPPED if path not in PLAYED], ids=lambda path: path.stem)
def test_a_shipped_scenario_runs_and_passes_its_audit(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path)
    if scenario.data.users > MOST_USERS:  # the same scenario in a minute's fraction
        few = 1000 if scenario.clusters.method == "kmeans" else MOST_USERS  # given clusters keep their minimum size
        # More labels are accounted for quickly in large clusters only: fewer of them.
        groups = scenario.data.groups if scenario.data.labels == 2 else 2
        scenario = replace(scenario, data__users=few, data__groups=groups)
    by_actors = run(scenario, out=tmp_path / "run").summary
    by_arrays = run(scenario, engine="vectorized").summary
    assert by_actors.noisy_sha256 == by_arrays.noisy_sha256
    assert by_actors.privacy == by_arrays.privacy
    assert by_actors.accuracy > by_actors.majority_accuracy
    assert audit_runs([tmp_path / "run"]).passed


@pytest.mark.parametrize("path", PLAYED, ids=lambda path: path.stem)
def test_a_shipped_attack_runs_with_actors_and_its_audit_notices(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path)
    summary = run(scenario, out=tmp_path / "run").summary
    assert summary.accuracy > summary.majority_accuracy
    assert len(summary.adversaries) == len(scenario.adversaries)
    # Sybils say nothing that an honest user might not.
    assert audit_runs([tmp_path / "run"]).passed == (path.stem == "sybils")
    with pytest.raises(RequestError, match="changes messages"):
        run(scenario, engine="vectorized")
