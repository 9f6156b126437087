"""The learner knows when it has everything it will get."""

from __future__ import annotations

import numpy as np
import pytest

from p2p_labeldp.protocol import Learner
from p2p_labeldp.protocol.messages import AUDITOR, COORDINATOR, HOST, LEARNER, Ask, Closed, Message, Refused, Report


def make(users: int = 4, rounds: int = 1, labels: int = 3) -> Learner:
    return Learner(users, rounds, labels, rounds_limit=50.0, report_limit=9.0)


def fault(learner: Learner, sender: int, message: Message) -> str:
    before = [[column.tolist() for column in learner.reports(round_)] for round_ in range(learner.rounds)]
    with pytest.raises(Refused) as caught:
        learner.receive(sender, message)
    assert [[column.tolist() for column in learner.reports(round_)] for round_ in range(learner.rounds)] == before
    return caught.value.fault


def reports(learner: Learner, round_: int = 0) -> list[tuple[int, int]]:
    users, labels = learner.reports(round_)
    return list(zip(users.tolist(), labels.tolist(), strict=True))


def test_reports_are_kept_by_round_in_the_order_of_users() -> None:
    learner = make(rounds=2)
    for sender, report in [(3, Report(0, 2)), (1, Report(1, 0)), (0, Report(0, 1))]:
        assert learner.receive(sender, report) == ()
    assert (reports(learner, 0), reports(learner, 1)) == ([(0, 1), (3, 2)], [(1, 0)])
    assert [column.dtype for column in learner.reports(0)] == [np.int64, np.int64]


def test_it_is_complete_when_the_announced_reports_are_in() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    assert not learner.finished
    learner.receive(COORDINATOR, Closed(0, 2))
    assert not learner.finished
    learner.receive(2, Report(0, 1))
    assert learner.finished


def test_it_is_complete_at_the_close_if_nothing_is_outstanding() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    learner.receive(COORDINATOR, Closed(0, 1))
    assert learner.finished


def test_a_round_without_reports_is_complete_at_once() -> None:
    learner = make()
    learner.receive(COORDINATOR, Closed(0, 0))
    assert learner.finished
    assert reports(learner) == []


def test_every_round_must_be_closed_and_complete() -> None:
    learner = make(rounds=2)
    learner.receive(COORDINATOR, Closed(0, 1))
    learner.receive(1, Report(1, 0))
    learner.receive(COORDINATOR, Closed(1, 1))
    assert not learner.finished
    learner.receive(1, Report(0, 0))
    assert learner.finished


def test_reports_of_one_round_do_not_make_up_for_those_of_another() -> None:
    learner = make(rounds=2)
    for user in range(3):
        learner.receive(user, Report(0, 0))
    learner.receive(COORDINATOR, Closed(0, 1))
    learner.receive(COORDINATOR, Closed(1, 1))
    assert not learner.finished


def test_a_report_may_come_before_its_rounds_turn() -> None:
    learner = make(rounds=3)
    learner.receive(2, Report(2, 1))
    assert reports(learner, 2) == [(2, 1)]


def test_more_reports_than_announced_are_all_kept() -> None:
    learner = make()
    for user in range(3):
        learner.receive(user, Report(0, 2))
    learner.receive(COORDINATOR, Closed(0, 1))
    assert learner.finished
    assert len(reports(learner)) == 3


def test_a_report_beyond_those_announced_comes_too_late() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    learner.receive(COORDINATOR, Closed(0, 1))
    assert fault(learner, 1, Report(0, 1)) == "out_of_order"


def test_a_second_report_of_a_round_is_a_duplicate_even_after_its_close() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    assert fault(learner, 0, Report(0, 2)) == "duplicate"
    learner.receive(COORDINATOR, Closed(0, 2))
    assert fault(learner, 0, Report(0, 1)) == "duplicate"
    assert not learner.finished


def test_a_label_or_round_that_does_not_exist_is_refused() -> None:
    assert fault(make(labels=3), 0, Report(0, 3)) == "malformed"
    assert fault(make(labels=3), 0, Report(0, -1)) == "malformed"
    assert fault(make(rounds=1), 0, Report(1, 0)) == "out_of_order"


@pytest.mark.parametrize("sender", [4, COORDINATOR, LEARNER, AUDITOR, HOST, -9])
def test_only_users_report(sender: int) -> None:
    assert fault(make(users=4), sender, Report(0, 0)) == "misdirected"


@pytest.mark.parametrize("sender", [0, LEARNER, HOST])
def test_only_the_coordinator_closes_a_round(sender: int) -> None:
    assert fault(make(), sender, Closed(0, 0)) == "misdirected"


def test_other_messages_are_misdirected() -> None:
    assert fault(make(), 0, Ask(0)) == "misdirected"


def test_rounds_are_closed_in_any_order_and_once() -> None:
    """Where messages overtake each other, so do these."""
    learner = make(rounds=2)
    learner.receive(COORDINATOR, Closed(1, 0))
    assert fault(learner, COORDINATOR, Closed(1, 0)) == "duplicate"
    assert not learner.finished
    learner.receive(COORDINATOR, Closed(0, 0))
    assert learner.finished


def test_a_round_beyond_the_last_cannot_be_closed() -> None:
    learner = make(rounds=1)
    learner.receive(COORDINATOR, Closed(0, 0))
    assert fault(learner, COORDINATOR, Closed(1, 0)) == "out_of_order"


def test_every_wait_has_a_limit_a_shorter_one_once_every_round_is_closed() -> None:
    learner = make(rounds=2)
    assert learner.limit == 50.0
    learner.receive(COORDINATOR, Closed(0, 1))
    assert learner.limit == 50.0
    learner.receive(COORDINATOR, Closed(1, 1))
    assert learner.limit == 9.0


def test_when_the_limit_passes_it_goes_on_with_what_it_has() -> None:
    learner = make()
    learner.receive(0, Report(0, 1))
    learner.receive(COORDINATOR, Closed(0, 3))
    assert learner.expire() == ()
    assert learner.finished
    assert reports(learner) == [(0, 1)]
    assert fault(learner, 1, Report(0, 1)) == "out_of_order"


def test_the_largest_label_that_may_travel_can_be_kept() -> None:
    learner = make(labels=2**15)
    learner.receive(0, Report(0, 2**15 - 1))
    assert reports(learner) == [(0, 2**15 - 1)]
