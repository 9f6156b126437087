"""Nodes killed with signal 9 and started again: the data set is the one that an undisturbed run gives.

The undisturbed run takes a second; what is killed, and when, is chosen by what nodes have written so far, so
that kills fall into the run however fast the machine is.
"""

from __future__ import annotations

import io
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray
from processes import Fleet, Machine, audited, expected_sha256, fleet

from p2p_labeldp.data import load
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.engines.runner import ClusterPlan, parameters_of
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

MANY_ROUNDS = parse_scenario("""
[data]
name = "synthetic"
users = 120
groups = 2
[clusters]
method = "given"
minimum_size = 5
[mechanism]
alpha = 0.2
theta = 0.7
rounds = 40
""")
POINTS = 10
VICTIMS = ("coordinator", "users-1", "learner", "auditor")


def test_each_role_killed_at_ten_points_of_the_run_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    kills: Counter[str] = Counter()
    with fleet(machine, MANY_ROUNDS, 2, tmp_path / "work") as nodes:
        nodes.start()
        for _ in range(POINTS):
            for name in VICTIMS:
                nodes.wait_for(name, "listening")
                size = nodes.journal(name)
                nodes.until(f"more in the journal of {name}", lambda: nodes.journal(name) > size)  # noqa: B023
                nodes.freeze("users-2")
                kills[name] += nodes.kill(name)
                nodes.start(name)
                nodes.until(f"a connection of {name}", lambda: is_back(nodes, name))  # noqa: B023
                nodes.thaw("users-2")
        import time; t0=time.time(); print("KILLED", len(nodes.heard("coordinator","progress",phase="exchange",done=0)))
        assert nodes.wait() == dict.fromkeys(nodes.names, 0)
        print("ENDED", time.time()-t0)
        assert kills == dict.fromkeys(VICTIMS, POINTS)
        assert all(len(nodes.heard(name, "replayed")) == POINTS for name in VICTIMS)
        summary = nodes.collect(tmp_path / "run")
    assert summary["noisy_sha256"] == expected_sha256(MANY_ROUNDS)
    assert summary["missing"] == summary["missing_hosts"] == []
    assert audited(tmp_path / "run").passed


def is_back(nodes: Fleet, name: str) -> bool:
    """Whether a node that was started again has a connection."""
    events = [line["event"] for line in nodes.said(name)]
    return "connected" in events[len(events) - events[::-1].index("replayed") :] if "replayed" in events else False
