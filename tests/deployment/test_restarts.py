"""Nodes killed with signal 9 and started again: the data set is the one that an undisturbed run gives.

An undisturbed run takes a second. Who is killed when is decided by what nodes have written so far, so that kills
fall into the run on any machine.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from processes import LOOK, Fleet, Machine, audited, expected_sha256, fleet
from small import ONE_CLUSTER

from p2p_labeldp.scenario import parse_scenario, replace

RETURNING = parse_scenario(ONE_CLUSTER, overrides=["deployment.away_limit=15"])
ROLES = ("coordinator", "users-1", "learner", "auditor")


@pytest.mark.parametrize("points", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_each_role_killed_at_many_points_of_the_run_changes_nothing(
    points: int, machine: Machine, tmp_path: Path
) -> None:
    kills: Counter[str] = Counter()
    scenario = replace(RETURNING, mechanism__rounds=12 * points)  # some pass between two kills on a busy machine
    with fleet(machine, scenario, 2, tmp_path / "work") as nodes:
        nodes.start()
        for _ in range(points):
            for name in ROLES:
                nodes.wait_for(name, "listening")
                wait_by_steps(nodes, name)
                kills[name] += nodes.kill(name)
                nodes.start(name)
                nodes.wait_for_return(name)
        nodes.thaw("users-2")
        nodes.finish()
        assert kills == dict.fromkeys(ROLES, points)
        assert all(len(nodes.heard(name, "replayed")) == points for name in ROLES)
        summary = nodes.collect(tmp_path / "run")
    assert summary.noisy_sha256 == expected_sha256(scenario)
    assert summary.missing == summary.missing_hosts == ()
    assert audited(tmp_path / "run").passed


def wait_by_steps(nodes: Fleet, name: str) -> None:
    """Until there is more in a node's journal, users-2 frozen but for moments: the run lasts until all were killed."""
    size = nodes.journal(name)

    def more() -> bool:
        nodes.thaw("users-2")
        time.sleep(LOOK)
        nodes.freeze("users-2")
        return nodes.journal(name) > size

    nodes.until_of(name, "more in the journal", more)
