"""Users who hand their labels over use them once; in two stages, whatever the learner sends them and whenever."""

from __future__ import annotations

from array import array

import numpy as np
from roles import closed, fault

from p2p_labeldp.mechanisms import SeededCoins, make_plan
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    CURATOR,
    LEARNER,
    SHUFFLER,
    Answer,
    Ask,
    Assignment,
    Done,
    Goodbye,
    Prior,
    Report,
    Round,
    Submit,
)
from p2p_labeldp.protocol.submitter import Responder, Submitter


def submitter(to: int, *, alpha: float = 0.0, theta: float = 1.0, minimum: int = 1) -> Submitter:
    host = Host(Parameters(alpha, theta, 3, minimum_size=minimum), SeededCoins(1), 0, 2)
    host.rosters[0] = array("q", [0, 1])
    return Submitter(0, 1, host, to)


def test_a_curator_is_handed_the_true_label() -> None:
    said = submitter(CURATOR).receive(COORDINATOR, Assignment(0, 2, 0))
    assert list(said) == [(CURATOR, Submit(1)), (COORDINATOR, Done(0, "reported"))]


def test_a_shuffler_is_handed_the_flipped_one() -> None:
    (_, handed), _ = submitter(SHUFFLER, alpha=1.0).receive(COORDINATOR, Assignment(0, 2, 0))
    assert isinstance(handed, Submit)
    assert handed.label in (0, 2)


def test_where_labels_go_straight_to_the_learner_they_do_so_at_the_close() -> None:
    someone = submitter(LEARNER)
    assert list(someone.receive(COORDINATOR, Assignment(0, 2, 0))) == [(COORDINATOR, Done(0, "reported"))]
    assert list(someone.receive(COORDINATOR, Goodbye(True))) == [(LEARNER, Report(0, 1))]


def test_who_keeps_her_label_to_herself_says_so_and_reports_nothing() -> None:
    someone = submitter(LEARNER, theta=0.0)
    assert list(someone.receive(COORDINATOR, Assignment(0, 2, 0))) == [(COORDINATOR, Done(0, "dropped"))]
    assert list(someone.receive(COORDINATOR, Goodbye(True))) == []


def test_who_has_handed_her_label_over_has_nothing_to_report_at_the_close() -> None:
    someone = submitter(CURATOR)
    someone.receive(COORDINATOR, Assignment(0, 2, 0))
    assert list(someone.receive(COORDINATOR, Goodbye(True))) == []


def test_she_abstains_in_a_small_cluster_and_answers_nobody() -> None:
    someone = submitter(CURATOR, minimum=3)
    assert list(someone.receive(COORDINATOR, Assignment(0, 2, 0))) == [(COORDINATOR, Done(0, "abstained"))]
    assert fault(someone, (1, Ask(0))) == "misdirected"


def test_who_has_handed_over_her_true_label_tells_it_to_nobody_else() -> None:
    someone = submitter(CURATOR)
    someone.receive(COORDINATOR, Assignment(0, 2, 0))
    assert fault(someone, (1, Ask(0))) == "misdirected"
    assert fault(someone, (1, Answer(0, 0))) == "misdirected"


# Two stages

USERS = 40
PRIOR = Prior(np.array([1.0, 0.0, 0.0], dtype="<f8").tobytes())  # keeps label 0 alone


def assigned(minimum: int = 1) -> list[Responder]:
    plan = make_plan("lp_2st", labels=3, sizes=[USERS], epsilon=2.0)
    assert plan.stages is not None
    host = Host(plan.parameters, SeededCoins(5), 0, USERS)
    if minimum > USERS:
        host.parameters = type(plan.parameters)(0.1, labels=3, rounds=2, minimum_size=minimum)
    host.rosters[0] = array("q", range(USERS))
    return [Responder(user, user % 3, host, plan.stages) for user in range(USERS)]


def in_stages() -> tuple[Responder, Responder]:
    """One of each stage, after the first assignment."""
    found: dict[str, Responder] = {}
    for user in assigned():
        ((_, done),) = user.receive(COORDINATOR, Assignment(0, USERS, user.id))
        assert isinstance(done, Done)
        found.setdefault(done.outcome, user)
    return found["reported"], found["dropped"]


def test_who_reports_first_is_done_with_it() -> None:
    first, _ = in_stages()
    report, done = first.receive(COORDINATOR, Round(1, True))
    assert isinstance(report[1], Report)
    assert done == (COORDINATOR, Done(1, "dropped"))
    assert fault(first, (LEARNER, PRIOR)) == "out_of_order"
    assert list(first.receive(COORDINATOR, Goodbye(True))) == []


def test_who_answers_second_waits_for_her_prior_and_answers_once() -> None:
    _, second = in_stages()
    assert list(second.receive(COORDINATOR, Round(1, True))) == []
    assert fault(second, (3, PRIOR)) == "misdirected"
    assert fault(second, (LEARNER, Prior(b"1234"))) == "malformed"
    assert fault(second, (LEARNER, Prior(np.array([1, np.nan, 0], dtype="<f8").tobytes()))) == "malformed"
    assert fault(second, (LEARNER, Prior(np.array([1, -1, 0], dtype="<f8").tobytes()))) == "malformed"
    assert list(second.receive(LEARNER, PRIOR)) == [(COORDINATOR, Done(1, "reported"))]
    assert fault(second, (LEARNER, PRIOR)) == "duplicate"
    assert fault(second, (3, Ask(1))) == "misdirected"
    assert fault(second, (COORDINATOR, Round(2, True))) == "out_of_order"  # she would answer with fresh coins
    assert list(second.receive(COORDINATOR, Goodbye(True))) == [(LEARNER, Report(1, 0))]


def test_a_prior_may_overtake_the_round_that_it_is_for() -> None:
    _, second = in_stages()
    assert list(second.receive(LEARNER, PRIOR)) == []
    assert list(second.receive(COORDINATOR, Round(1, True))) == [(COORDINATOR, Done(1, "reported"))]


def test_who_abstains_takes_no_notice_of_a_prior() -> None:
    someone = assigned(minimum=USERS + 1)[0]
    assert list(someone.receive(COORDINATOR, Assignment(0, USERS, 0))) == [(COORDINATOR, Done(0, "abstained"))]
    assert list(someone.receive(LEARNER, PRIOR)) == []
    assert list(someone.receive(COORDINATOR, Round(1, False))) == [(COORDINATOR, Done(1, "abstained"))]


def test_the_learner_tells_all_others_when_the_last_report_of_the_first_stage_is_there() -> None:
    asked: list[list[int]] = []

    def prior_of(users: np.ndarray, labels: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        asked.append(users.tolist())
        return np.full((4, 2), 0.5)

    learner = Learner(4, 2, 2, 60.0, 60.0, prior_of=prior_of)
    assert list(learner.receive(0, Report(0, 1))) == []
    assert list(learner.receive(COORDINATOR, closed(4, 0, [0, 2]))) == []
    told = learner.receive(2, Report(0, 0))
    assert asked == [[0, 2]]
    assert [to for to, _ in told] == [1, 3]
    assert learner.prior is not None
    assert learner.prior.sum(axis=1).tolist() == [0, 1, 0, 1]
    assert list(learner.receive(1, Report(1, 0))) == []
