"""The learner takes the reports of those who count, and knows when it has everything it will get."""

from __future__ import annotations

import numpy as np
import pytest
from roles import Row, assert_refused, closed, fault

from p2p_labeldp.protocol import Learner, collection
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    CURATOR,
    HOST,
    LEARNER,
    SHUFFLER,
    Ask,
    Closed,
    ClusterShares,
    Fault,
    Refusal,
    Release,
    Report,
)


def make(users: int = 4, rounds: int = 1, labels: int = 3, teller: int = COORDINATOR) -> Learner:
    return Learner(users, rounds, labels, rounds_limit=50.0, report_limit=9.0, teller=teller)


def shares(*row: float) -> bytes:
    return np.array(row, dtype="<f8").tobytes()


# What is not for it, not from whom it should be, or not now

CLOSED, REPORTED = (COORDINATOR, closed(4, 0, [0])), (0, Report(0, 1))
PUBLISHED = CURATOR, ClusterShares(0, shares(0.25, 0.75))
WRONG_SHARES = [ClusterShares(0, shares(1.0)), ClusterShares(0, shares(float("nan"), 1.0)),
                ClusterShares(4, shares(0.5, 0.5))]  # fmt: skip
FROM_CURATORS = [Release(0, 1), ClusterShares(0, bytes(24))]
REFUSED: dict[str, Row] = {
    "whoever does not count": (make, [CLOSED], [1], [Report(0, 1)], "out_of_order"),
    "a second report before the close": (make, [REPORTED], [0], [Report(0, 2)], "duplicate"),
    "a second report behind the close": (make, [REPORTED, CLOSED], [0], [Report(0, 1)], "duplicate"),
    "a label that does not exist": (make, [], [0], [Report(0, 3), Report(0, -1)], "malformed"),
    "a round that does not exist": (make, [], [0], [Report(1, 0)], "out_of_order"),
    "reports of anyone but users": (
        make, [], (4, COORDINATOR, LEARNER, AUDITOR, HOST, -9), [Report(0, 0)], "misdirected",
    ),
    "a close from anyone but the coordinator": (make, [], (0, LEARNER, HOST, CURATOR), [closed(4)], "misdirected"),
    "a second close": (make, [CLOSED], [COORDINATOR], [closed(4)], "duplicate"),
    "the close of a round beyond the last": (make, [CLOSED], [COORDINATOR], [closed(4, 1)], "out_of_order"),
    "messages for others": (make, [], [0], [Ask(0)], "misdirected"),
    "what curators send": (make, [], [COORDINATOR], FROM_CURATORS, "misdirected"),
    "reports behind a shuffler": (lambda: make(teller=SHUFFLER), [], [2], [Report(0, 1)], "misdirected"),
    "labels from another party": (lambda: make(teller=SHUFFLER), [], [CURATOR], [Release(1, 1)], "misdirected"),
    "shares of another length, or that are no numbers": (
        lambda: make(labels=2, teller=CURATOR), [], [CURATOR], WRONG_SHARES, "malformed",
    ),
    "shares of a cluster twice": (
        lambda: make(labels=2, teller=CURATOR), [PUBLISHED], [CURATOR], [PUBLISHED[1]], "duplicate",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_and_stays_as_it_was(what: str) -> None:
    assert_refused(*REFUSED[what])


def reports(learner: Learner, round_: int = 0) -> list[tuple[int, int]]:
    users, labels = learner.reports(round_)
    return list(zip(users.tolist(), labels.tolist(), strict=True))


def test_reports_are_kept_by_round_in_the_order_of_users() -> None:
    learner = make(rounds=2)
    learner.receive(COORDINATOR, closed(4, 0, [0, 3]))
    learner.receive(COORDINATOR, closed(4, 1, [1]))
    for sender, report in [(3, Report(0, 2)), (1, Report(1, 0)), (0, Report(0, 1))]:
        assert learner.receive(sender, report) == ()
    assert (reports(learner, 0), reports(learner, 1)) == ([(0, 1), (3, 2)], [(1, 0)])
    assert [column.dtype for column in learner.reports(0)] == [np.int64, np.int64]


def test_it_is_complete_when_all_who_count_have_reported() -> None:
    learner = make()
    learner.receive(COORDINATOR, closed(4, 0, [0, 2]))
    learner.receive(0, Report(0, 1))
    assert not learner.finished
    learner.receive(2, Report(0, 1))
    assert learner.finished


def test_a_report_that_overtakes_the_close_is_held_until_it_comes() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    assert reports(learner) == []
    learner.receive(COORDINATOR, closed(4, 0, [0]))
    assert learner.finished
    assert reports(learner) == [(0, 1)]


def test_an_early_report_of_someone_who_does_not_count_is_dropped_and_takes_nobodys_place() -> None:
    learner = make()
    learner.receive(1, Report(0, 1))
    refusal = Refusal(1, "report", Fault.OUT_OF_ORDER, "does not count in round 0")
    assert learner.receive(COORDINATOR, closed(4, 0, [0])) == [(AUDITOR, refusal)]
    assert not learner.finished
    learner.receive(0, Report(0, 2))
    assert learner.finished
    assert reports(learner) == [(0, 2)]


def test_a_round_without_reports_is_complete_at_once() -> None:
    learner = make()
    learner.receive(COORDINATOR, closed(4))
    assert learner.finished
    assert reports(learner) == []


def test_every_round_must_be_closed_and_complete() -> None:
    learner = make(rounds=2)
    learner.receive(COORDINATOR, closed(4, 0, [1]))
    learner.receive(1, Report(1, 0))
    learner.receive(COORDINATOR, closed(4, 1, [1]))
    assert not learner.finished
    learner.receive(1, Report(0, 0))
    assert learner.finished


def test_a_close_may_come_in_parts_and_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "CLOSED_PART", 1)
    learner = make(users=18)
    learner.receive(COORDINATOR, Closed(0, 16, b"\x02", 0))
    learner.receive(COORDINATOR, Closed(0, 0, b"\x01", 0))
    learner.receive(17, Report(0, 1))
    learner.receive(0, Report(0, 2))
    assert (learner.stage, learner.finished) == (0, False)
    assert fault(learner, (COORDINATOR, Closed(0, 0, b"\x01", 0))) == "duplicate"
    assert fault(learner, (COORDINATOR, Closed(0, 4, b"\x01", 0))) == "malformed"
    assert fault(learner, (COORDINATOR, Closed(0, 8, b"\x01\x00", 0))) == "malformed"
    assert fault(learner, (COORDINATOR, Closed(0, 24, b"\x01", 0))) == "malformed"
    learner.receive(COORDINATOR, Closed(0, 8, b"\x00", 0))
    assert learner.finished
    assert reports(learner) == [(0, 2), (17, 1)]


def test_rounds_are_closed_in_any_order_and_once() -> None:
    """Where messages overtake each other, so do these."""
    learner = make(rounds=2)
    learner.receive(COORDINATOR, closed(4, 1))
    assert not learner.finished
    learner.receive(COORDINATOR, closed(4, 0))
    assert learner.finished


def test_every_wait_has_a_limit_a_shorter_one_once_every_round_is_closed() -> None:
    learner = make(rounds=2)
    assert learner.limit == 50.0
    learner.receive(COORDINATOR, closed(4, 0, [1]))
    assert learner.limit == 50.0
    learner.receive(COORDINATOR, closed(4, 1, [1]))
    assert learner.limit == 9.0


def test_when_the_limit_passes_it_goes_on_with_what_it_has_and_knows_who_is_missing() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    learner.receive(COORDINATOR, closed(4, 0, [0, 1, 3]))
    assert learner.expire() == ()
    assert learner.finished
    assert reports(learner) == [(0, 1)]
    assert learner.lost(0) == [1, 3]
    assert fault(learner, (1, Report(0, 1))) == "out_of_order"


def test_the_largest_label_that_may_travel_can_be_kept() -> None:
    learner = make(labels=2**15)
    learner.receive(COORDINATOR, closed(4, 0, [0]))
    learner.receive(0, Report(0, 2**15 - 1))
    assert reports(learner) == [(0, 2**15 - 1)]


# Behind a curator or a shuffler


def test_labels_come_from_the_party_that_closes_the_round() -> None:
    learner = make(teller=SHUFFLER)
    learner.receive(SHUFFLER, Release(2, 1))
    learner.receive(SHUFFLER, closed(4, 0, [2]))
    assert learner.finished
    assert reports(learner) == [(2, 1)]
    assert learner.shares is None


def test_what_a_curator_publishes_is_waited_for() -> None:
    learner = make(labels=2, teller=CURATOR)
    learner.receive(CURATOR, closed(4, 0, [2], shares=2))
    learner.receive(CURATOR, Release(2, 1))
    learner.receive(CURATOR, ClusterShares(1, shares(0.5, 0.5)))
    assert not learner.finished
    assert learner.shares is None
    learner.receive(CURATOR, ClusterShares(0, shares(0.25, 0.75)))
    assert learner.finished
    assert learner.shares is not None
    assert learner.shares.tolist() == [[0.25, 0.75], [0.5, 0.5]]
