"""Nodes killed with signal 9 and started again: the data set is the one that an undisturbed run gives.

An undisturbed run takes a second. Who is killed when is decided by what nodes have written so far, so that kills
fall into the run on any machine.
"""

from __future__ import annotations

import io
import time
from collections import Counter, defaultdict
from pathlib import Path

import msgpack
import numpy as np
import pytest
from journals import COINS, of_kind
from numpy.typing import NDArray
from processes import LOOK, Fleet, Machine, audited, expected_sha256, fleet
from small import ONE_CLUSTER

from p2p_labeldp.audit.folder import SUMMARY, TRACE
from p2p_labeldp.data import load
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.protocol.beforehand import parameters_of
from p2p_labeldp.runs.clusters import ClusterPlan
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

RETURNING = parse_scenario(ONE_CLUSTER, overrides=["deployment.away_limit=15"])
SYSTEM_COINS = replace(RETURNING, mechanism__rounds=12, coins__source="system")
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


@pytest.mark.slow
def test_no_flip_is_made_twice_whatever_moment_nodes_are_killed_at(machine: Machine, tmp_path: Path) -> None:
    """With the system's coins: a flip made again would be another one. Everyone is killed at once, too."""
    results = tmp_path / "work"
    with fleet(machine, SYSTEM_COINS, 2, results) as nodes:
        nodes.start()
        for name, event in (
            ("coordinator", "joined"),
            ("users-1", "share"),
            ("coordinator", "begun"),
            ("coordinator", "clustered"),
        ):
            nodes.wait_for(name, event)
            nodes.restart(name)
        nodes.wait_for_return("coordinator")
        nodes.wait_for_more("learner")
        assert {name: nodes.kill(name) for name in nodes.names} == dict.fromkeys(nodes.names, True)
        nodes.start()
        nodes.wait_for("coordinator", "exchanged")
        for name in ("users-2", "coordinator"):
            nodes.restart(name)
        # What is written is there before the journal knows: then it is there already when it is written again.
        nodes.until("the trace", (results / "auditor" / TRACE).exists)
        nodes.restart("auditor")
        nodes.wait_for("coordinator", "progress", phase="writing")
        nodes.restart("learner")
        nodes.until("the summary", (results / "learner" / SUMMARY).exists)
        for name in ("learner", "coordinator", "users-1"):
            nodes.restart(name)
        nodes.finish()
        nodes.collect(tmp_path / "run")
    answers, asks = heard_by_users(tmp_path / "run" / TRACE)
    assert all(len(labels) == 1 for labels in answers.values()), "a user gave two answers"
    assert set(asks.values()) == {1}
    assert len(asks) == 80 * 12
    assert audited(tmp_path / "run").passed
    with np.load(tmp_path / "run" / "reports.npz") as reports:
        taken = [
            (reports["user"][reports["round"] == round_], reports["label"][reports["round"] == round_])
            for round_ in range(12)
        ]
    again = run_vectorized(
        population(SYSTEM_COINS), exchange_of(parameters_of(SYSTEM_COINS, 2)), CoinsOfJournals(results)
    )
    for (users, labels), (its_users, its_labels) in zip(taken, again.rounds, strict=True):
        assert np.array_equal(users, its_users)
        assert np.array_equal(labels, its_labels)


def heard_by_users(trace: Path) -> tuple[dict[int, set[int]], Counter[tuple[int, int]]]:
    """From a trace: every label each user answered with, and how often she asked in each round."""
    answers: dict[int, set[int]] = defaultdict(set)
    asks: Counter[tuple[int, int]] = Counter()
    _, *records = msgpack.Unpacker(io.BytesIO(trace.read_bytes()), raw=False)
    for _, _, sender, _, message in records:
        if message[0] == "answer":
            answers[sender].add(message[2])
        elif message[0] == "ask":
            asks[sender, message[1]] += 1
    return answers, asks


def population(scenario: Scenario) -> Population:
    dataset = load(scenario.data, scenario.coins.seed)
    plan = ClusterPlan(scenario, len(dataset.labels), dataset.given_clusters)
    return Population(dataset.features, dataset.labels, plan)


class CoinsOfJournals:
    """The coins that the hosts of a deployment drew, each block once, as they wrote them down."""

    def __init__(self, work: Path) -> None:
        self._blocks: dict[tuple[int, int], NDArray[np.float64]] = {}
        for journal in sorted((work / "state").glob(f"users-*/{FILE}")):
            for round_, first, last, block in of_kind(journal, COINS):
                assert (round_, first) not in self._blocks
                self._blocks[round_, first] = np.frombuffer(block, dtype="<f8").reshape(last - first, 4)

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        parts = [block for (drawn, _), block in sorted(self._blocks.items()) if drawn == round_]
        return np.concatenate(parts)[start:stop]
