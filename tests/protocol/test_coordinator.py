"""The coordinator: hellos, clusters, rounds, and who is missing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from roles import Row, assert_refused, closed, fault, roster

from p2p_labeldp.protocol import Coordinator, collection, coordinator
from p2p_labeldp.protocol.coordinator import EXCHANGE, HELLOS, OVER
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    LEARNER,
    VERSION,
    Answer,
    Ask,
    Assignment,
    Closed,
    Done,
    Features,
    Goodbye,
    Hello,
    Outcome,
    Outgoing,
    Refused,
    Report,
    Roster,
    Round,
)


def by_first_feature(_: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.integer]:
    return features[:, 0].astype(np.int64)


def make(users: int = 4, rounds: int = 1) -> Coordinator:
    return Coordinator(users, 2, rounds, by_first_feature, hello_limit=5.0, round_limit=7.0)


def hello(cluster: float, version: int = VERSION) -> Hello:
    return Hello(version, Features(np.array([cluster, 0.5], dtype=np.float32)))


def assigned(*clusters: int, rounds: int = 1) -> tuple[Coordinator, list[Outgoing]]:
    someone = make(len(clusters), rounds)
    sent = [out for user, cluster in enumerate(clusters) for out in someone.receive(user, hello(cluster))]
    return someone, sent


# What is not for it, not from whom it should be, or not now

FOR_OTHERS = [Ask(0), Answer(0, 1), Report(0, 1), Round(0, True), closed(2), Goodbye(True)]
STRANGERS = (4, 100, COORDINATOR, LEARNER, HOST)
OF_THREE_FEATURES = Hello(VERSION, Features(np.zeros(3, dtype=np.float32)))
REFUSED: dict[str, Row] = {
    "a hello comes once": (make, [(0, hello(0))], [0], [hello(1)], "duplicate"),
    "a hello after the assignment": (lambda: assigned(0, 0)[0], [], [0], [hello(0)], "out_of_order"),
    "another version": (make, [], [0], [hello(0, version) for version in (0, VERSION + 1, -1)], "malformed"),
    "everyone has as many features": (make, [(0, hello(0))], [1], [OF_THREE_FEATURES], "malformed"),
    "strangers": (make, [], STRANGERS, [hello(0)], "misdirected"),
    "strangers who are done": (lambda: assigned(0, 0, 0, 0)[0], [], STRANGERS, [Done(0, "dropped")], "misdirected"),
    "messages for others": (lambda: assigned(0, 0)[0], [], [0], FOR_OTHERS, "misdirected"),
    "a done before the assignment": (make, [], [0], [Done(0, "dropped")], "out_of_order"),
    "a user is done once in a round": (
        lambda: assigned(0, 0)[0], [(0, Done(0, "reported"))], [0], [Done(0, "dropped")], "duplicate",
    ),
    "a round that has not begun": (
        lambda: assigned(0, 0, rounds=3)[0], [], [0], [Done(1, "reported"), Done(5, "reported")], "out_of_order",
    ),
    "a round that is over": (
        lambda: assigned(0, rounds=2)[0], [(0, Done(0, "reported"))], [0], [Done(0, "reported")], "out_of_order",
    ),
    "the end": (lambda: assigned(0)[0], [(0, Done(0, "reported"))], [0], [Done(0, "reported")], "out_of_order"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_and_stays_as_it_was(what: str) -> None:
    assert_refused(*REFUSED[what])


def test_another_version_is_named() -> None:
    with pytest.raises(Refused, match=f"malformed: protocol version 9, but this is {VERSION}"):
        make().receive(0, hello(0, 9))


# Hellos


def test_nothing_is_sent_before_the_last_hello() -> None:
    someone = make()
    assert [list(someone.receive(user, hello(0))) for user in (3, 0, 2)] == [[], [], []]
    assert someone.phase == HELLOS
    assert list(someone.receive(1, hello(0)))
    assert (someone.phase, someone.round) == (EXCHANGE, 0)


def test_each_cluster_has_its_roster_and_then_its_assignments() -> None:
    someone, sent = assigned(0, 1, 1, 0)
    assert sent == [
        (HOST, roster(0, [0, 3])), (0, Assignment(0, 2, 0)), (3, Assignment(0, 2, 1)),
        (HOST, roster(1, [1, 2])), (1, Assignment(1, 2, 0)), (2, Assignment(1, 2, 1)),
    ]  # fmt: skip
    assert someone.clusters.tolist() == [0, 1, 1, 0]


def test_the_order_of_hellos_does_not_matter() -> None:
    sent = []
    for order in ([0, 1, 2], [2, 0, 1]):
        someone = make(3)
        sent.append([out for user in order for out in someone.receive(user, hello(user % 2))])
    assert sent[0] == sent[1]


def test_clusters_fill_as_their_users_are_done_and_begin_again_with_every_round() -> None:
    someone = make(rounds=2)
    assert [part.tolist() for part in someone.filled()] == [[], []]
    someone, _ = assigned(1, 0, 1, 1, rounds=2)
    assert [part.tolist() for part in someone.filled()] == [[0, 0], [1, 3]]
    someone.receive(0, Done(0, "reported"))
    someone.receive(3, Done(0, "dropped"))
    assert [part.tolist() for part in someone.filled()] == [[0, 2], [1, 3]]
    someone.receive(1, Done(0, "reported"))
    list(someone.receive(2, Done(0, "reported")))
    assert [part.tolist() for part in someone.filled()] == [[0, 0], [1, 3]]


def test_clusters_without_members_have_no_roster() -> None:
    _, sent = assigned(2, 0, 2)
    assert [message.cluster for _, message in sent if isinstance(message, Roster)] == [0, 2]


def test_one_user_is_a_cluster() -> None:
    assert assigned(0)[1] == [(HOST, roster(0, [0])), (0, Assignment(0, 1, 0))]


def test_a_long_roster_travels_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "ROSTER_PART", 2)
    _, sent = assigned(0, 0, 1, 0, 0, 0)
    parts = [message for to, message in sent if to == HOST]
    assert parts == [roster(0, [0, 1]), roster(0, [3, 4], 2), roster(0, [5], 4), roster(1, [2])]
    first_assignment = next(place for place, (to, _) in enumerate(sent) if to != HOST)
    assert first_assignment == 3


def test_a_roster_that_fills_its_parts_exactly_has_no_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "ROSTER_PART", 2)
    assert [message for to, message in assigned(0, 0, 0, 0)[1] if to == HOST] == [
        roster(0, [0, 1]),
        roster(0, [2, 3], 2),
    ]


# When hellos are missing


def test_the_limit_of_each_phase_is_its_own() -> None:
    someone = make(1)
    limits = [someone.limit]
    someone.receive(0, hello(0))
    limits.append(someone.limit)
    someone.receive(0, Done(0, "dropped"))
    assert [*limits, someone.limit] == [5.0, 7.0, None]


def test_when_the_hello_limit_passes_those_present_go_on() -> None:
    someone = make(4)
    someone.receive(3, hello(0))
    someone.receive(1, hello(0))
    assert list(someone.expire()) == [
        (HOST, roster(0, [1, 3])),
        (1, Assignment(0, 2, 0)),
        (3, Assignment(0, 2, 1)),
    ]
    assert someone.absent == [0, 2]
    assert someone.clusters.tolist() == [-1, 0, -1, 0]


def test_the_absent_are_not_waited_for_and_cannot_be_done() -> None:
    someone = make(3)
    someone.receive(1, hello(0))
    list(someone.expire())
    assert fault(someone, (0, Done(0, "reported"))) == "out_of_order"
    assert fault(someone, (0, hello(0))) == "out_of_order"
    list(someone.receive(1, Done(0, "reported")))
    assert someone.finished


def test_without_any_hello_every_round_is_closed_empty() -> None:
    someone = make(3, rounds=2)
    sent = list(someone.expire())
    assert [out for out in sent if out[0] == LEARNER] == [(LEARNER, closed(3, 0)), (LEARNER, closed(3, 1))]
    assert someone.finished
    assert someone.absent == [0, 1, 2]


def test_a_refused_hello_leaves_its_user_absent() -> None:
    someone = make(2)
    fault(someone, (0, hello(0, version=9)))
    someone.receive(1, hello(0))
    list(someone.expire())
    assert someone.absent == [0]


# Rounds


def test_the_last_done_closes_the_round_with_the_list_of_those_who_report() -> None:
    someone, _ = assigned(0, 0, 0, 0)
    for user, done in [(3, Done(0, "reported")), (0, Done(0, "dropped")), (1, Done(0, "abstained"))]:
        assert list(someone.receive(user, done)) == []
    sent = list(someone.receive(2, Done(0, "reported")))
    assert sent[0] == (LEARNER, closed(4, 0, [2, 3]))
    assert someone.attendance[0].outcomes == {"reported": 2, "dropped": 1, "abstained": 1}
    assert someone.attendance[0].missing == []


def test_a_long_list_travels_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "CLOSED_PART", 1)
    someone, _ = assigned(*[0] * 18)
    sent = [out for user in range(18) for out in someone.receive(user, Done(0, "reported" if user % 3 else "dropped"))]
    assert [message for to, message in sent if to == LEARNER] == [
        Closed(0, 0, bytes([0b10110110]), 0), Closed(0, 8, bytes([0b01101101]), 0), Closed(0, 16, bytes([0b11]), 0),
    ]  # fmt: skip


def test_everyone_is_told_goodbye_at_the_end_and_whether_she_reports_and_the_host_last() -> None:
    someone, _ = assigned(0, 1)
    someone.receive(0, Done(0, "dropped"))
    assert list(someone.receive(1, Done(0, "reported"))) == [
        (LEARNER, closed(2, 0, [1])),
        (0, Goodbye(False)),
        (1, Goodbye(True)),
        (HOST, Goodbye(False)),
    ]
    assert (someone.phase, someone.finished) == (OVER, True)


def test_rounds_follow_each_other() -> None:
    someone, _ = assigned(0, 0, rounds=3)
    for round_ in (0, 1):
        someone.receive(0, Done(round_, "reported"))
        assert list(someone.receive(1, Done(round_, "dropped"))) == [
            (LEARNER, closed(2, round_, [0])),
            (0, Round(round_ + 1, True)),
            (1, Round(round_ + 1, False)),
            (HOST, Round(round_ + 1, False)),
        ]
    assert (someone.round, someone.finished) == (2, False)
    someone.receive(0, Done(2, "dropped"))
    assert (HOST, Goodbye(False)) in list(someone.receive(1, Done(2, "dropped")))
    assert len(someone.attendance) == 3


def test_who_is_not_done_at_the_limit_is_missing_does_not_report_and_is_still_invited_to_the_next_round() -> None:
    someone, _ = assigned(0, 0, 0, rounds=2)
    someone.receive(1, Done(0, "reported"))
    assert list(someone.expire()) == [
        (LEARNER, closed(3, 0, [1])),
        (0, Round(1, False)),
        (1, Round(1, True)),
        (2, Round(1, False)),
        (HOST, Round(1, False)),
    ]
    assert someone.attendance[0].missing == [0, 2]
    for user in (0, 2, 1):
        list(someone.receive(user, Done(1, "reported")))
    assert someone.attendance[1].missing == []


def test_nobody_waits_a_second_time_for_who_is_gone() -> None:
    someone, _ = assigned(0, 0, 0, rounds=3)
    someone.receive(1, Done(0, "reported"))
    list(someone.expire())
    assert someone.awaited == 1
    list(someone.receive(1, Done(1, "reported")))  # and the round is closed
    assert someone.round == 2
    assert someone.attendance[1].missing == [0, 2]


def test_who_speaks_of_a_round_that_is_over_is_waited_for_again() -> None:
    someone, _ = assigned(0, 0, 0, rounds=2)
    someone.receive(1, Done(0, "reported"))
    list(someone.expire())
    for _ in range(2):
        with pytest.raises(Refused, match="at the wrong time"):
            someone.receive(2, Done(0, "reported"))
    assert someone.awaited == 2
    list(someone.receive(1, Done(1, "reported")))
    assert someone.round == 1
    list(someone.receive(2, Done(1, "reported")))
    assert someone.finished
    assert someone.attendance[1].missing == [0]


def test_the_limit_of_the_last_round_ends_everything() -> None:
    someone, _ = assigned(0, 0)
    sent = list(someone.expire())
    assert sent[0] == (LEARNER, closed(2))
    assert sent[1:] == [(0, Goodbye(False)), (1, Goodbye(False)), (HOST, Goodbye(False))]
    assert list(someone.expire()) == []


def test_a_broadcast_that_is_read_late_is_still_of_its_round() -> None:
    """Dones of the next round may arrive while a broadcast is being sent."""
    someone, _ = assigned(0, 0, rounds=3)
    someone.receive(0, Done(0, "reported"))
    first = iter(someone.receive(1, Done(0, "reported")))
    someone.receive(0, Done(1, "dropped"))
    second = iter(someone.receive(1, Done(1, "dropped")))
    assert list(first)[:3] == [(LEARNER, closed(2, 0, [0, 1])), (0, Round(1, True)), (1, Round(1, True))]
    assert list(second)[:3] == [(LEARNER, closed(2, 1)), (0, Round(2, False)), (1, Round(2, False))]


# A target for epsilon


def with_target(*clusters: int, rounds: int = 1, least: int = 0) -> Coordinator:
    someone = Coordinator(len(clusters), 2, rounds, by_first_feature, 5.0, 7.0, target=lambda size: size >= least)
    for user, cluster in enumerate(clusters):
        list(someone.receive(user, hello(cluster)))
    return someone


# Of clusters: what each user says, if she says anything; how large a cluster must be; who reports; what is withheld.
WITHHELD: dict[str, tuple[list[int], dict[int, Outcome], int, list[int], list[int]]] = {
    "someone is missing": ([0, 0, 0, 1, 1], dict.fromkeys((0, 1, 3, 4), "reported"), 0, [3, 4], [0]),
    "too small though complete, since others never said hello": (
        [0, 0, 0, 1, 1], dict.fromkeys(range(5), "reported"), 3, [0, 1, 2], [1],
    ),
    "who abstains has nothing to withhold": ([0, 0, 1], {0: "abstained", 2: "reported"}, 0, [2], []),
    "where some abstain the others hide among fewer than was accounted for": (
        [0, 0, 0, 1, 1], {0: "abstained", 1: "reported", 2: "dropped", 3: "reported", 4: "reported"}, 0, [3, 4], [0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WITHHELD)
def test_with_a_target_whatever_does_not_keep_it_reports_nothing_and_the_others_do(what: str) -> None:
    clusters, said, least, reporters, withheld = WITHHELD[what]
    someone = with_target(*clusters, least=least)
    sent = [out for user, outcome in said.items() for out in someone.receive(user, Done(0, outcome))]
    sent += someone.expire()
    assert sent[0] == (LEARNER, closed(len(clusters), 0, reporters))
    assert [to for to, message in sent if message == Goodbye(True)] == reporters
    assert someone.withheld == withheld
    outcomes, would = someone.attendance[0].outcomes, [*said.values()].count("reported")
    assert (outcomes["reported"], outcomes.get("withheld", 0)) == (len(reporters), would - len(reporters))


def test_a_cluster_that_is_withheld_once_is_withheld_from_then_on() -> None:
    someone = with_target(0, 0, 1, rounds=3)
    for user in range(3):
        list(someone.receive(user, Done(0, "reported")))
    assert someone.withheld == []
    for user in (0, 2):
        someone.receive(user, Done(1, "reported"))
    assert next(iter(someone.expire())) == (LEARNER, closed(3, 1, [2]))
    sent = [out for user in range(3) for out in someone.receive(user, Done(2, "reported"))]
    assert sent[0] == (LEARNER, closed(3, 2, [2]))
    assert someone.withheld == [0]


def test_without_a_target_everything_that_counts_is_released() -> None:
    someone, _ = assigned(0, 0)
    someone.receive(0, Done(0, "reported"))
    assert next(iter(someone.expire())) == (LEARNER, closed(2, 0, [0]))
    assert someone.withheld == []
