"""Curator and shuffler: they gather what users hand over, and pass on what the learner is to have."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from roles import Row, assert_refused, closed, fault, roster

from p2p_labeldp.protocol.intermediary import Curator, Shuffler, Work
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    LEARNER,
    Ask,
    ClusterShares,
    Fault,
    Outgoing,
    Refusal,
    Release,
    Roster,
    Submit,
)

Ids = NDArray[np.int64]


def moved(users: Ids, labels: Ids, clusters: Ids) -> tuple[Ids, Ids, None]:
    return users, (labels + clusters) % 3, None


def shuffler(work: Work = moved) -> Shuffler:
    """Of four users the last two are in cluster 1."""
    someone = Shuffler(4, 3, work, closing_limit=9.0, submit_limit=5.0)
    for cluster, members in enumerate(([0, 1], [2, 3])):
        someone.receive(COORDINATOR, roster(cluster, members))
    return someone


def released(*labels: tuple[int, int]) -> list[Outgoing]:
    close = closed(4, 0, [user for user, _ in labels])
    return [*((LEARNER, Release(user, label)) for user, label in labels), (LEARNER, close)]


def test_it_works_when_everyone_who_counts_has_handed_over() -> None:
    someone = shuffler()
    assert list(someone.receive(2, Submit(1))) == []
    assert list(someone.receive(COORDINATOR, closed(4, 0, [0, 2]))) == []
    assert list(someone.receive(0, Submit(2))) == released((0, 2), (2, 2))
    assert someone.finished


def test_the_close_may_come_last() -> None:
    someone = shuffler()
    someone.receive(1, Submit(1))
    assert list(someone.receive(COORDINATOR, closed(4, 0, [1]))) == released((1, 1))


def test_a_roster_may_come_after_the_close() -> None:
    someone = Shuffler(4, 3, moved, 9.0, 5.0)
    someone.receive(1, Submit(1))
    assert list(someone.receive(COORDINATOR, closed(4, 0, [1]))) == []
    assert list(someone.receive(COORDINATOR, roster(2, range(4)))) == released((1, 0))


def test_labels_of_those_who_do_not_count_are_dropped() -> None:
    someone = shuffler()
    someone.receive(1, Submit(1))
    someone.receive(3, Submit(1))
    refusal = AUDITOR, Refusal(3, "submit", Fault.OUT_OF_ORDER, "does not count")
    assert list(someone.receive(COORDINATOR, closed(4, 0, [1]))) == [refusal, *released((1, 1))]


def test_when_the_wait_is_over_it_goes_on_with_what_there_is() -> None:
    someone = shuffler()
    assert someone.limit == 9.0
    someone.receive(1, Submit(1))
    someone.receive(COORDINATOR, closed(4, 0, [0, 1, 2]))
    assert someone.limit == 5.0
    assert list(someone.expire()) == released((1, 1))
    assert someone.lost() == [0, 2]
    assert fault(someone, (2, Submit(0))) == "out_of_order"


def test_what_a_curator_publishes_goes_to_the_learner_before_the_labels() -> None:
    shares = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    someone = Curator(2, 3, lambda users, labels, clusters: (users, labels, shares), 9.0, 5.0)
    someone.receive(COORDINATOR, roster(0, range(2)))
    someone.receive(1, Submit(1))
    assert list(someone.receive(COORDINATOR, closed(2, 0, [1]))) == [
        (LEARNER, ClusterShares(0, shares[0].tobytes())),
        (LEARNER, ClusterShares(1, shares[1].tobytes())),
        (LEARNER, Release(1, 1)),
        (LEARNER, closed(2, 0, [1], shares=2)),
    ]


HANDED = 1, Submit(1)
REFUSED: dict[str, Row] = {
    "a second label": (shuffler, [HANDED], [1], [Submit(1)], "duplicate"),
    "a label that does not exist": (shuffler, [], [2], [Submit(3)], "malformed"),
    "a stranger's": (shuffler, [], [4], [Submit(0)], "misdirected"),
    "messages for others": (shuffler, [], [0], [closed(4), Ask(0), roster(0, [0])], "misdirected"),
    "a roster of anything but users": (
        shuffler, [], [COORDINATOR], [Roster(0, 0, b"1234567"), roster(0, [4])], "malformed",
    ),
    "a second close": (
        shuffler, [HANDED, (COORDINATOR, closed(4, 0, [0, 1]))], [COORDINATOR], [closed(4)], "duplicate",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_and_stays_as_it_was(what: str) -> None:
    assert_refused(*REFUSED[what])
