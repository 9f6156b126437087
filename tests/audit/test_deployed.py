"""Traces of deployments: causal order in place of time, no true labels, and what that leaves to be seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded import (
    as_deployment,
    broken,
    edit_summary,
    forget_the_seed,
    read_trace,
    recount,
    timed_anew,
    violations,
    write_trace,
)
from small import sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(["network.latency=0.25"], id="sticky noise"),
        pytest.param(["network.latency=0.1", "network.jitter=0.5"], id="messages overtake each other"),
        pytest.param(["mechanism.noise=fresh", "mechanism.rounds=3"], id="fresh noise"),
        pytest.param(["clusters.minimum_size=21"], id="some abstain"),
        pytest.param(["coins.source=system"], id="the system's coins"),
    ],
)
def test_honest_runs_pass_in_every_causal_order(settings: list[str], tmp_path: Path) -> None:
    for seed in range(2):
        scenario = sixty(*settings, seed=seed)
        run(scenario, out=tmp_path / f"{seed}", hosting=("user", "cluster")[seed % 2])
        for order in range(2):
            out = tmp_path / f"{seed}-{order}"
            as_deployment(tmp_path / f"{seed}", out, order, scenario.network.latency)
            assert violations(out) == []


def test_the_orders_are_really_other_orders(tmp_path: Path) -> None:
    """In a simulation everyone is assigned before anyone asks, and everyone has asked before anyone answers."""
    run(sixty("network.latency=0.25"), out=tmp_path / "run")
    records = read_trace(as_deployment(tmp_path / "run", tmp_path / "deployed", latency=0.25))[1]
    assigned: set[int] = set()
    early, kinds = Counter[str](), []
    for _, _, _, receiver, (kind, *_) in records:
        kinds.append(kind)
        if kind == "assignment":
            assigned.add(receiver)
        elif kind == "ask":
            early[kind] += receiver not in assigned
    assert early["ask"] > 5
    assert kinds.index("done") < len(kinds) - 1 - kinds[::-1].index("assignment")


@pytest.fixture
def deployed(tmp_path: Path) -> Callable[..., Path]:
    def make(*settings: str) -> Path:
        run(sixty(*settings), out=tmp_path / "run")
        out: Path = as_deployment(tmp_path / "run", tmp_path / "deployed")
        return out

    return make


def test_flips_are_not_tested_where_nobody_knows_true_labels(deployed: Callable[..., Path]) -> None:
    audit = audit_runs([deployed()])
    assert audit.passed
    assert {test.name for test in audit.tests} == {
        "subsampling", "self_asks", "choice_of_place", "choice_beside_oneself", "asked_by_user",
    }  # fmt: skip


def change_an_answer(folder: Path, chosen: Callable[[list[Any], list[list[Any]]], bool]) -> None:
    header, records = read_trace(folder)
    answers = [record for record in records if record[4][0] == "answer"]
    answer = next(record for record in answers if chosen(record, records))
    answer[4][2] = (answer[4][2] + 1) % 3
    write_trace(folder, header, records)


def lonely(answer: list[Any], records: list[list[Any]]) -> bool:
    """Whether nobody else was answered by the same user, and the receiver has not reported what she heard."""
    _, _, sender, receiver, (_, round_, _) = answer
    spoken = sum(record[2] == sender and record[4][0] == "answer" for record in records)
    return spoken == 1 and [receiver, -2, ["report", round_]] not in [[*r[2:4], r[4][:2]] for r in records]


def test_a_consistent_lie_about_one_dropped_answer_goes_unseen(deployed: Callable[..., Path]) -> None:
    """The documented limit: the seed says that a label was moved and how far, and the label itself is unknown."""
    folder = deployed("mechanism.rounds=1", "mechanism.theta=0.3")
    change_an_answer(folder, lonely)
    assert audit_runs([folder]).passed


def test_answers_of_two_rounds_must_come_from_one_true_label(deployed: Callable[..., Path]) -> None:
    """With fresh noise they may differ, but only as the seed has it; every answer is dropped, so no report tells."""

    def first_of_two(answer: list[Any], records: list[list[Any]]) -> bool:
        spoken = Counter(record[4][1] for record in records if record[2] == answer[2] and record[4][0] == "answer")
        return spoken[0] == spoken[1] == 1 and answer[4][1] == 0

    folder = deployed("mechanism.noise=fresh", "mechanism.theta=0")
    change_an_answer(folder, first_of_two)
    assert broken(folder) == {"coins"}


def test_a_report_that_the_learner_lost_is_missed(deployed: Callable[..., Path]) -> None:
    """The trace has one report more than reports.npz; nobody is missing who could have sent it late."""
    folder = deployed()
    header, records = read_trace(folder)
    summary = json.loads((folder / "summary.json").read_text())
    outcomes = summary["outcomes_by_round"]
    dropped = next(place for place, record in enumerate(records) if record[4] == ["done", 0, "dropped"])
    user = records[dropped][2]
    heard = next(r[4][2] for r in records if r[3] == user and r[4][:2] == ["answer", 0])
    records[dropped][4][2] = "reported"
    closed = next(record[4] for record in records if record[4][:2] == ["closed", 0])
    closed[3] = bytes(byte | (1 << user % 8 if place == user // 8 else 0) for place, byte in enumerate(closed[3]))
    told = next(place for place, record in enumerate(records) if record[3] == user and record[4][:2] == ["round", 1])
    records[told][4][2] = True
    records.insert(told + 1, [0, 0.0, user, -2, ["report", 0, heard]])
    outcomes[0] |= {"reported": outcomes[0]["reported"] + 1, "dropped": outcomes[0]["dropped"] - 1}
    recount(folder, header, timed_anew(records), outcomes_by_round=outcomes)
    forget_the_seed(folder)
    found = violations(folder)
    assert [str(violation) for violation in found] == [
        f"summary: at the end: reports.npz has no label of user {user} in round 0, but the trace has {heard}"
    ]


def lose_a_host(folder: Path, users: range, kept: int) -> None:
    """Of a host's users so many records reached the trace, and then it was lost for good."""
    header, records = read_trace(folder)
    theirs = [record for record in records if record[2] in users]
    records = [record for record in records if record[2] not in users or record in theirs[:kept]]
    recount(folder, header, timed_anew(records), missing=list(users), missing_hosts=["users-1"])


@pytest.mark.parametrize("kept", [0, 15, 30, 45])
def test_effects_of_a_lost_hosts_messages_are_told_from_messages_that_have_no_cause(
    kept: int, deployed: Callable[..., Path], rules_alone: None
) -> None:
    """What the lost host said reached others and not the trace: lacking, and no violation. Of others it is one."""
    folder = deployed("data.users=60")
    lose_a_host(folder, range(20), kept)
    found = audit_runs([folder]).runs[0]
    assert found.violations == []
    assert {each.invariant for each in found.lacking} >= {"answer_follows_ask", "done_once", "report_is_answer"}
    header, records = read_trace(folder)
    ask = next(place for place, record in enumerate(records) if record[4][0] == "ask" and min(record[2:4]) >= 20)
    peer = records.pop(ask)[3]
    recount(folder, header, timed_anew(records))
    (violation, *_) = violations(folder)
    assert (violation.invariant, violation.party) == ("answer_follows_ask", peer)


@pytest.mark.parametrize(("change", "invariants"), [(0, {"asked_once"}), (1, {"asked_once", "same_answer"})])
def test_who_answers_a_lost_host_that_asked_somebody_else_on_record_is_blamed_for_the_label_alone(
    change: int, invariants: set[str], deployed: Callable[..., Path], rules_alone: None
) -> None:
    """Begun anew without its disk, the host asked again, and the auditor did not listen to it any more."""
    folder = deployed("data.users=60", "mechanism.rounds=1")
    header, records = read_trace(folder)
    first = next(record for record in records if record[4][0] == "answer" and record[2] >= 20 > record[3])
    asker = first[3]
    place = next(
        place
        for place, record in enumerate(records)
        if record[4][0] == "answer" and record[2] not in (*range(20), first[2]) and record[3] >= 20
    )
    _, _, peer, _, (_, round_, label) = records[place]
    records.insert(place + 1, [0, 0.0, peer, asker, ["answer", round_, (label + change) % 3]])
    recount(folder, header, timed_anew(records), missing=list(range(20)), missing_hosts=["users-1"])
    found = violations(folder)
    assert {(each.invariant, each.party) for each in found} == {
        (invariant, asker if invariant == "asked_once" else peer) for invariant in invariants
    }


def test_without_a_lost_host_what_is_lacking_is_a_violation(deployed: Callable[..., Path], rules_alone: None) -> None:
    folder = deployed("data.users=60")
    lose_a_host(folder, range(20), 15)
    edit_summary(folder, missing_hosts=[])
    found = audit_runs([folder]).runs[0]
    assert found.lacking == []
    assert found.violations


@pytest.mark.parametrize(
    ("header", "summary", "words"),
    [
        ({"clock": "virtual"}, {}, "different runs: one is of a deployment, one is not"),
        ({}, {"engine": "actors", "virtual_seconds": 1.0}, "different runs: one is of a deployment, one is not"),
        ({}, {"virtual_seconds": 1.0}, "virtual_seconds is missing or not of type NoneType"),
        ({"clock": "sundial"}, {}, "the header's clock must be virtual or wall"),
        ({}, {"outcomes_by_round": [3]}, "outcomes_by_round must list what was counted in each round"),
    ],
)
def test_a_folder_that_does_not_know_what_it_is_is_refused(
    header: dict[str, Any],
    summary: dict[str, Any],
    words: str,
    deployed: Callable[..., Path],
) -> None:
    folder = deployed()
    before, records = read_trace(folder)
    write_trace(folder, before | header, records)
    edit_summary(folder, **summary)
    with pytest.raises(RequestError, match=words):
        audit_runs([folder])
