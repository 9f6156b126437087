"""The keeper of labels, and the users who hand theirs over."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from numpy.typing import NDArray

from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol import Host
from p2p_labeldp.protocol.keeper import Keeper
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    KEEPER,
    LEARNER,
    Answer,
    Ask,
    Assignment,
    Closed,
    Done,
    Message,
    Refused,
    Release,
    Report,
    Submit,
)
from p2p_labeldp.protocol.submitter import Submitter

Ids = NDArray[np.int64]


def doubled(users: Ids, labels: Ids) -> tuple[Ids, Ids]:
    return users, (2 * labels) % 3


def keeper() -> Keeper:
    return Keeper(4, 3, doubled, closing_limit=9.0, submit_limit=5.0)


def fault(role: Keeper | Submitter, sender: int, message: Message) -> str:
    with pytest.raises(Refused) as refused:
        role.receive(sender, message)
    return refused.value.fault


def test_the_keeper_works_when_everyone_who_was_announced_has_handed_over() -> None:
    someone = keeper()
    assert someone.receive(2, Submit(1)) == ()
    assert someone.receive(COORDINATOR, Closed(0, 2)) == ()
    assert list(someone.receive(0, Submit(2))) == [
        (LEARNER, Release(0, 1)), (LEARNER, Release(2, 2)), (LEARNER, Closed(0, 2)),
    ]  # fmt: skip
    assert someone.finished


def test_the_closing_may_come_last() -> None:
    someone = keeper()
    someone.receive(1, Submit(1))
    assert list(someone.receive(COORDINATOR, Closed(0, 1))) == [(LEARNER, Release(1, 2)), (LEARNER, Closed(0, 1))]


def test_when_the_wait_is_over_the_keeper_goes_on_with_what_there_is() -> None:
    someone = keeper()
    assert someone.limit == 9.0
    someone.receive(1, Submit(1))
    someone.receive(COORDINATOR, Closed(0, 3))
    assert someone.limit == 5.0
    assert list(someone.expire()) == [(LEARNER, Release(1, 2)), (LEARNER, Closed(0, 1))]
    assert fault(someone, 2, Submit(0)) == "out_of_order"


def test_the_keeper_refuses_what_is_not_hers() -> None:
    someone = keeper()
    someone.receive(1, Submit(1))
    assert fault(someone, 1, Submit(1)) == "duplicate"
    assert fault(someone, 2, Submit(3)) == "malformed"
    assert fault(someone, 4, Submit(0)) == "misdirected"
    assert fault(someone, 0, Closed(0, 0)) == "misdirected"
    assert fault(someone, 0, Ask(0)) == "misdirected"
    someone.receive(COORDINATOR, Closed(0, 4))
    assert fault(someone, COORDINATOR, Closed(0, 4)) == "duplicate"


def submitter(to: int, flips: bool, alpha: float = 1.0, minimum: int = 1) -> Submitter:
    host = Host(Parameters(alpha, 1.0, 3, minimum_size=minimum), SeededCoins(1), 0, 2)
    host.rosters[0] = array("q", [0, 1])
    return Submitter(0, 1, host, to, flips)


def test_a_curator_is_handed_the_true_label() -> None:
    said = submitter(KEEPER, flips=False).receive(COORDINATOR, Assignment(0, 2, 0))
    assert list(said) == [(KEEPER, Submit(1)), (COORDINATOR, Done(0, "reported"))]


def test_a_shuffler_is_handed_the_flipped_one() -> None:
    (_, handed), _ = submitter(KEEPER, flips=True).receive(COORDINATOR, Assignment(0, 2, 0))
    assert isinstance(handed, Submit)
    assert handed.label in (0, 2)


def test_without_a_keeper_it_goes_to_the_learner() -> None:
    said = submitter(LEARNER, flips=False).receive(COORDINATOR, Assignment(0, 2, 0))
    assert list(said) == [(LEARNER, Report(0, 1)), (COORDINATOR, Done(0, "reported"))]


def test_she_abstains_in_a_small_cluster_and_answers_nobody() -> None:
    someone = submitter(KEEPER, flips=False, minimum=3)
    assert list(someone.receive(COORDINATOR, Assignment(0, 2, 0))) == [(COORDINATOR, Done(0, "abstained"))]
    assert fault(someone, 1, Ask(0)) == "misdirected"


def test_who_has_handed_over_her_true_label_tells_it_to_nobody_else() -> None:
    someone = submitter(KEEPER, flips=False)
    someone.receive(COORDINATOR, Assignment(0, 2, 0))
    assert fault(someone, 1, Ask(0)) == "misdirected"
    assert fault(someone, 1, Answer(0, 0)) == "misdirected"
