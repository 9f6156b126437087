"""Networks that lose packets, part and stall, and nodes that freeze, on real processes.

Every node has a network namespace of its own, joined by a bridge, and nft does the harm. Each run ends in the data set
of an undisturbed one or names who was absent; no wait is without a limit.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from processes import Fleet, Machine, audited, expected_sha256, fleet
from small import ONE_CLUSTER

from p2p_labeldp.experiments.run import run
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

PATIENT = parse_scenario(ONE_CLUSTER, overrides=["mechanism.rounds=8"])
HASTY = replace(
    PATIENT,
    mechanism__rounds=2,
    network__hello_limit=5.0,
    network__round_limit=1.0,
    deployment__away_limit=2.0,
)


def all_arrived(nodes: Fleet, out: Path, scenario: Scenario = PATIENT) -> None:
    """The run went on to its end, and what came of it is what comes of a run without faults."""
    nodes.finish()
    summary = nodes.collect(out)
    assert summary.missing == summary.missing_hosts == ()
    assert summary.noisy_sha256 == expected_sha256(scenario)
    assert audited(out).passed


def dropped(lab: Machine, name: str) -> int:
    """Packets that a node's filters have counted."""
    found = lab.ask("run", words=["ip", "netns", "exec", name, "nft", "list", "table", "inet", "faults"])
    return sum(int(count) for count in re.findall(r"counter packets (\d+)", found))


def test_a_tenth_of_all_packets_lost_changes_nothing(lab: Machine, tmp_path: Path) -> None:
    short = replace(PATIENT, mechanism__rounds=2)
    with fleet(lab, short, 2, tmp_path / "work", networks=True) as nodes:
        for name in nodes.names:
            lab.filter(name, "input numgen random mod 100 < 10 counter drop")
        nodes.start()
        all_arrived(nodes, tmp_path / "run", short)
        assert all(dropped(lab, name) > 0 for name in nodes.names)


@pytest.mark.slow
def test_hosts_lost_for_good_are_named_and_the_others_finish(lab: Machine, tmp_path: Path) -> None:
    """One host freezes and thaws when all is over, another is cut off from everyone."""
    with fleet(lab, HASTY, 3, tmp_path / "work", networks=True) as nodes:
        nodes.start()
        nodes.wait_for("coordinator", "clustered")
        nodes.freeze("users-2")
        lab.filter("users-3", "input iifname eth0 drop", "output oifname eth0 ip protocol tcp reject with tcp reset")
        others = ["coordinator", "learner", "auditor", "users-1"]
        assert nodes.wait(*others, "users-3") == dict.fromkeys(others, 0) | {"users-3": 3}
        assert nodes.said("users-3")[-1]["text"] == "p2p-labeldp: the coordinator stayed away for 4 seconds"
        assert nodes.status("users-2") is None
        # Its dismissal has waited for it, or, where the coordinator had dropped the connection by then, nobody has.
        nodes.thaw("users-2")
        assert nodes.wait("users-2")["users-2"] in (0, 3)
        shares = [nodes.heard(name, "share")[0] for name in ("users-2", "users-3")]
        summary = nodes.collect(tmp_path / "run")
    assert summary.missing_hosts == ("users-2", "users-3")
    assert {user for share in shares for user in range(share["first"], share["last"])} <= set(summary.missing)
    assert summary.reports > 0
    what_arrived_is_what_would_have(HASTY, tmp_path / "run")


@pytest.mark.slow
def test_a_host_that_cannot_reach_the_learner_is_named(lab: Machine, tmp_path: Path) -> None:
    """It takes part in everything else, but nobody can say that its users' reports have arrived."""
    unhurried = replace(HASTY, network__round_limit=20.0)
    with fleet(lab, unhurried, 2, tmp_path / "work", networks=True) as nodes:
        lab.filter("users-1", f"output ip daddr {nodes.address('learner')} counter reject with tcp reset")
        nodes.start()
        nodes.finish()
        assert dropped(lab, "users-1") > 0
        share = nodes.heard("users-1", "share")[0]
        summary = nodes.collect(tmp_path / "run")
    assert summary.missing_hosts == ("users-1",)
    assert list(summary.missing) == list(range(share["first"], share["last"]))
    with np.load(tmp_path / "run" / "reports.npz") as reports:
        assert not np.isin(reports["user"], np.arange(share["first"], share["last"])).any()
    assert 0 < summary.reports < sum(round_["reported"] for round_ in summary.outcomes_by_round)
    what_arrived_is_what_would_have(unhurried, tmp_path / "run")
    assert audited(tmp_path / "run").passed


@pytest.mark.slow
def test_without_a_learner_everyone_gives_up_in_time(machine: Machine, tmp_path: Path) -> None:
    with fleet(machine, replace(HASTY, deployment__away_limit=1.0), 1, tmp_path / "work") as nodes:
        names = ("coordinator", "auditor", "users-1")
        nodes.start(*names)
        assert nodes.wait(*names, limit=15.0) == dict.fromkeys(names, 3)
        last = {name: nodes.said(name)[-1]["text"] for name in names}
    assert last["coordinator"] == "p2p-labeldp: the learner stayed away for 1 seconds"
    told = "p2p-labeldp: the coordinator ended the run: the learner stayed away for 1 seconds"
    assert last["users-1"] == last["auditor"] == told


def what_arrived_is_what_would_have(scenario: Scenario, out: Path) -> None:
    """Nobody chose anew: every report is the one of a run without faults."""
    expected = run(scenario, engine="vectorized").outcome.rounds
    with np.load(out / "reports.npz") as reports:
        for round_, user, label in zip(reports["round"], reports["user"], reports["label"], strict=True):
            users, labels = expected[round_]
            assert label == labels[users == user]
