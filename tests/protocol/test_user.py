"""A user: every state, every refusal, and Algorithm 2 in between."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np
import pytest
from roles import Heard, Row, assert_refused, fault, hearing, roster
from transcripts import Tossed

from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol import Host, User, user
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    VERSION,
    Answer,
    Ask,
    Assignment,
    Closed,
    Done,
    Fault,
    Features,
    Goodbye,
    Hello,
    Message,
    Outgoing,
    Refusal,
    Report,
    Round,
)
from p2p_labeldp.protocol.user import ABSTAINING, DONE, JOINING, LEFT, WAITING

MEMBERS = (2, 5, 7, 9)
ME = 5
FIRST, MYSELF, THIRD, LAST = 0.0, 0.25, 0.5, 0.99  # the peer's coin for each place among four members


def coins(flip: float = 0.9, peer: float = THIRD, keep: float = 0.0, other: float = 0.0) -> tuple[float, ...]:
    return flip, peer, keep, other


def make(*rounds: Sequence[float], parameters: Parameters | None = None, label: int = 0) -> User:
    parameters = parameters or Parameters(alpha=0.5, theta=0.5, rounds=3)
    host = Host(parameters, Tossed([np.tile(each, (20, 1)) for each in rounds or [coins()] * 3]), 0, 20)
    host.receive(COORDINATOR, roster(4, MEMBERS))
    return User(ME, label, host)


HER_PLACE = Assignment(4, 4, 1)


def begin(someone: User) -> list[Outgoing]:
    return list(someone.receive(COORDINATOR, HER_PLACE))


def begun(*rounds: Sequence[float], parameters: Parameters | None = None, label: int = 0) -> User:
    someone = make(*rounds, parameters=parameters, label=label)
    begin(someone)
    return someone


def abstaining() -> User:
    return begun(parameters=Parameters(0.5, 1.0, minimum_size=5, rounds=2))


# What is not for her, not from whom it should be, or not now

FOR_OTHERS = [
    Hello(1, Features(np.ones(1, dtype=np.float32))), Report(0, 0), Done(0, "dropped"), Closed(0, 0, b"", 0),
    roster(4, MEMBERS),
]  # fmt: skip
NEXT, GONE = (COORDINATOR, Round(1, False)), (COORDINATOR, Goodbye(False))
REFUSED: dict[str, Row] = {
    "only the coordinator assigns": (make, [], (2, ME, LEARNER, HOST, AUDITOR), [HER_PLACE], "misdirected"),
    "she is assigned once": (begun, [], [COORDINATOR], [HER_PLACE], "duplicate"),
    "an assignment needs the whole roster": (
        make, [], [COORDINATOR], [Assignment(3, 4, 1), Assignment(4, 5, 1), Assignment(4, 3, 1)], "out_of_order",
    ),
    "another user's place": (
        make, [], [COORDINATOR], [Assignment(4, 4, place) for place in (0, 2, 3, 4, 2**40)], "misdirected",
    ),
    "no round begins before she is assigned": (
        make, [], [COORDINATOR], [Round(0, False), Round(1, False)], "out_of_order",
    ),
    "no answer is awaited before she is assigned": (make, [], [7], [Answer(0, 1)], "out_of_order"),
    "messages for others": (begun, [], [COORDINATOR], FOR_OTHERS, "misdirected"),
    "nobody outside her cluster is answered": (
        begun, [], (0, 3, 6, 10, COORDINATOR, LEARNER), [Ask(0), Ask(1)], "misdirected",
    ),
    "a second ask of a round": (begun, [(9, Ask(0))], [9], [Ask(0)], "duplicate"),
    "asks of past or far rounds": (begun, [NEXT], [9], [Ask(0), Ask(3)], "out_of_order"),
    "an early ask for a later round than the next": (make, [], [9], [Ask(1)], "out_of_order"),
    "an early ask comes once": (make, [(9, Ask(0))], [9], [Ask(0)], "duplicate"),
    "who asked early has asked": (make, [(9, Ask(0)), (COORDINATOR, HER_PLACE)], [9], [Ask(0)], "duplicate"),
    "an answer from someone she did not ask": (
        begun, [], (2, ME, 9, 3, COORDINATOR, LEARNER), [Answer(0, 1)], "misdirected",
    ),
    "a second answer": (begun, [(7, Answer(0, 1))], [7], [Answer(0, 1)], "duplicate"),
    "an answer of a later round": (begun, [], [7], [Answer(1, 1)], "out_of_order"),
    "an answer of a round that is over": (begun, [NEXT], [7], [Answer(0, 1)], "out_of_order"),
    "an answer to whoever has left without one": (
        begun, [(COORDINATOR, Goodbye(True))], [7], [Answer(0, 1)], "out_of_order",
    ),
    "a label that does not exist": (begun, [], [7], [Answer(0, 2)], "malformed"),
    "a round cannot be left out": (begun, [], [COORDINATOR], [Round(2, False)], "out_of_order"),
    "a round that has begun": (begun, [NEXT], [COORDINATOR], [Round(1, False)], "duplicate"),
    # Each may cost another flip: with as many as a coordinator likes, every label would be known.
    "a round after the last": (
        begun, [NEXT, (COORDINATOR, Round(2, False))], [COORDINATOR], [Round(3, False), Round(3, True)], "out_of_order",
    ),
    "only the coordinator begins rounds and ends them": (
        begun, [], (2, LEARNER), [Round(1, False), Goodbye(False)], "misdirected",
    ),
    "who abstains answers nobody and hears nobody": (
        abstaining, [], [2], [Ask(0), Ask(1), Answer(0, 1)], "out_of_order",
    ),
    "who has left takes part no more": (begun, [GONE], [7], [Ask(0), Ask(1), Answer(0, 1)], "out_of_order"),
    "who has left begins no round": (begun, [GONE], [COORDINATOR], [Round(1, False)], "out_of_order"),
    "who has left leaves no more": (begun, [GONE], [COORDINATOR], [Goodbye(False)], "duplicate"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_she_refuses_and_stays_as_she_was(what: str) -> None:
    assert_refused(*REFUSED[what])


# Joining


def test_she_says_hello_with_her_features_and_the_version() -> None:
    features = Features(np.ones(2, dtype=np.float32))
    assert make().hello(features) == (COORDINATOR, Hello(VERSION, features))


@pytest.mark.parametrize(("coin", "member"), [(FIRST, 2), (MYSELF, 5), (THIRD, 7), (0.7499, 7), (0.75, 9), (LAST, 9)])
def test_her_coin_picks_a_place_among_the_members_in_ascending_order(coin: float, member: int) -> None:
    someone = make(coins(peer=coin))
    assert begin(someone) == [(member, Ask(0))]
    assert (someone.state, someone.round, someone.cluster) == (WAITING, 0, 4)


# Answering


def test_every_asker_gets_the_same_answer() -> None:
    someone = begun(coins(flip=0.1))
    assert [list(someone.receive(asker, Ask(0))) for asker in MEMBERS] == [[(asker, Answer(0, 1))] for asker in MEMBERS]


def test_she_answers_herself_through_her_own_mailbox() -> None:
    someone = make(coins(flip=0.1, peer=MYSELF))
    assert begin(someone) == [(ME, Ask(0))]
    assert list(someone.receive(ME, Ask(0))) == [(ME, Answer(0, 1))]
    assert list(someone.receive(ME, Answer(0, 1))) == [(COORDINATOR, Done(0, "reported"))]


def test_she_goes_on_answering_when_she_has_her_answer() -> None:
    someone = begun(coins(flip=0.1))
    someone.receive(7, Answer(0, 0))
    assert someone.state == DONE
    assert list(someone.receive(9, Ask(0))) == [(9, Answer(0, 1))]


@pytest.mark.parametrize(
    ("flip", "other", "labels", "label", "noisy"),
    [
        (0.49, 0.0, 2, 0, 1), (0.49, 0.99, 2, 1, 0), (0.5, 0.0, 2, 1, 1), (0.0, 0.0, 10, 3, 4), (0.0, 0.99, 10, 3, 2),
        (0.0, 0.0, 10, 9, 0), (0.0, 0.5, 3, 0, 2),
    ],
)  # fmt: skip
def test_her_coins_decide_her_noisy_label(flip: float, other: float, labels: int, label: int, noisy: int) -> None:
    someone = begun(coins(flip=flip, other=other), parameters=Parameters(0.5, 0.5, labels), label=label)
    assert list(someone.receive(2, Ask(0))) == [(2, Answer(0, noisy))]


# Asks that come early


def test_asks_before_the_assignment_are_held_and_answered_after_it() -> None:
    someone = make(coins(flip=0.1))
    assert [list(someone.receive(asker, Ask(0))) for asker in (9, 2)] == [[], []]
    assert begin(someone) == [(7, Ask(0)), (9, Answer(0, 1)), (2, Answer(0, 1))]


def test_asks_for_the_next_round_are_held_until_it_begins() -> None:
    someone = begun()
    assert list(someone.receive(9, Ask(1))) == []
    assert list(someone.receive(COORDINATOR, Round(1, False))) == [(7, Ask(1)), (9, Answer(1, 0))]


def test_where_whoever_asks_may_ask_often_early_asks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user, "MAX_EARLY", 2)
    someone = make()
    someone.host.one_answer = False
    someone.receive(9, Ask(0))
    someone.receive(2, Ask(0))
    assert fault(someone, (7, Ask(0))) == "out_of_order"
    assert len(begin(someone)) == 3


def test_however_many_ask_early_nobody_is_kept_out_and_an_asker_waits_in_one_place() -> None:
    someone = make()
    other = User(2, 0, someone.host)
    for asker in range(100, 3100):
        someone.receive(asker, Ask(0))
    assert fault(other, (100, Ask(0))) == "duplicate"  # who asks, asks one user in a round
    someone.receive(9, Ask(0))
    answers = [message for receiver, message in begin(someone) if receiver == 9]
    assert answers == [Answer(0, 0)]
    assert not someone.host.early


def test_an_early_ask_from_outside_her_cluster_does_not_keep_her_from_taking_part() -> None:
    someone = make()
    for asker in (9, 3, 2):
        someone.receive(asker, Ask(0))
    refusal = AUDITOR, Refusal(3, "ask", Fault.MISDIRECTED, "user 3 is not in cluster 4")
    assert begin(someone) == [(7, Ask(0)), (9, Answer(0, 0)), refusal, (2, Answer(0, 0))]


# Reporting


def test_when_she_has_her_answer_she_tells_the_coordinator_alone() -> None:
    someone = begun(coins(keep=0.49), parameters=Parameters(0.0, 0.5, 10), label=3)
    assert list(someone.receive(7, Answer(0, 8))) == [(COORDINATOR, Done(0, "reported"))]
    assert someone.state == DONE


@pytest.mark.parametrize("close", [Goodbye(True), Round(1, True)])
def test_at_the_close_she_reports_the_label_she_was_given_not_her_own(close: Message) -> None:
    someone = begun(coins(keep=0.49), coins(), parameters=Parameters(0.0, 0.5, 10, rounds=2), label=3)
    someone.receive(7, Answer(0, 8))
    assert next(iter(someone.receive(COORDINATOR, close))) == (LEARNER, Report(0, 8))


@pytest.mark.parametrize("close", [Goodbye(False), Round(1, False)])
def test_who_is_not_told_to_release_never_reports_that_round(close: Message) -> None:
    someone = begun()
    someone.receive(7, Answer(0, 1))
    said = list(someone.receive(COORDINATOR, close))
    assert all(to != LEARNER for to, _ in said)


@pytest.mark.parametrize("close", [Goodbye(True), Round(2, True)])
@pytest.mark.parametrize("before", [[], [(7, Answer(0, 1))]], ids=["none", "one of the round before"])
def test_without_an_answer_there_is_nothing_to_release(before: list[Heard], close: Message) -> None:
    someone = hearing(begun(), *before)
    released = [*someone.receive(COORDINATOR, Round(1, not before)), *someone.receive(COORDINATOR, close)]
    assert all(to != LEARNER for to, _ in released)


def test_what_she_does_not_keep_she_does_not_report() -> None:
    someone = begun(coins(keep=0.5))
    assert list(someone.receive(7, Answer(0, 1))) == [(COORDINATOR, Done(0, "dropped"))]
    assert list(someone.receive(COORDINATOR, Goodbye(True))) == []


# Rounds


def test_if_she_is_never_answered_she_reports_nothing_and_does_not_choose_again() -> None:
    someone = begun(coins(peer=THIRD), coins(peer=LAST), coins(peer=FIRST))
    assert list(someone.receive(COORDINATOR, Round(1, False))) == [(9, Ask(1))]
    assert list(someone.receive(COORDINATOR, Round(2, False))) == [(2, Ask(2))]
    assert list(someone.receive(COORDINATOR, Goodbye(False))) == []


def test_every_round_has_its_own_choice_and_keep() -> None:
    someone = begun(coins(peer=THIRD, keep=0.9), coins(peer=LAST, keep=0.1))
    assert list(someone.receive(7, Answer(0, 1))) == [(COORDINATOR, Done(0, "dropped"))]
    assert list(someone.receive(COORDINATOR, Round(1, False))) == [(9, Ask(1))]
    assert list(someone.receive(9, Answer(1, 1))) == [(COORDINATOR, Done(1, "reported"))]
    assert list(someone.receive(COORDINATOR, Goodbye(True))) == [(LEARNER, Report(1, 1))]


@pytest.mark.parametrize(("noise", "second"), [("sticky", 1), ("fresh", 0)])
def test_sticky_noise_keeps_the_first_flip_and_fresh_noise_flips_again(noise: str, second: int) -> None:
    someone = begun(coins(flip=0.1), coins(flip=0.9), parameters=Parameters(0.5, 1.0, noise=noise, rounds=2))
    assert list(someone.receive(2, Ask(0))) == [(2, Answer(0, 1))]
    someone.receive(COORDINATOR, Round(1, False))
    assert list(someone.receive(2, Ask(1))) == [(2, Answer(1, second))]


def test_fresh_noise_flips_the_true_label_not_the_last_noisy_one() -> None:
    someone = begun(coins(flip=0.1), coins(flip=0.1), parameters=Parameters(0.5, 1.0, noise="fresh", rounds=2))
    someone.receive(COORDINATOR, Round(1, False))
    assert list(someone.receive(2, Ask(1))) == [(2, Answer(1, 1))]


def test_an_asker_of_one_round_may_ask_again_in_the_next() -> None:
    someone = begun()
    someone.receive(2, Ask(0))
    someone.receive(COORDINATOR, Round(1, False))
    assert list(someone.receive(2, Ask(1))) == [(2, Answer(1, 0))]


# Abstaining


def test_in_a_cluster_below_the_minimum_size_she_abstains() -> None:
    someone = make(parameters=Parameters(0.5, 1.0, minimum_size=5))
    assert begin(someone) == [(COORDINATOR, Done(0, "abstained"))]
    assert someone.state == ABSTAINING


def test_in_a_cluster_of_exactly_the_minimum_she_takes_part() -> None:
    assert begin(make(parameters=Parameters(0.5, 1.0, minimum_size=4))) == [(7, Ask(0))]


def test_an_abstaining_user_refuses_early_asks() -> None:
    someone = make(parameters=Parameters(0.5, 1.0, minimum_size=5))
    someone.receive(2, Ask(0))
    refusal = AUDITOR, Refusal(2, "ask", Fault.OUT_OF_ORDER, "user 5 has abstained")
    assert begin(someone) == [(COORDINATOR, Done(0, "abstained")), refusal]


def test_an_abstaining_user_abstains_in_every_round() -> None:
    assert list(abstaining().receive(*NEXT)) == [(COORDINATOR, Done(1, "abstained"))]


# Leaving


@pytest.mark.parametrize("state", [JOINING, WAITING, DONE, ABSTAINING])
def test_she_leaves_from_any_state(state: int) -> None:
    someone = make(parameters=Parameters(0.5, 1.0, minimum_size=5 if state == ABSTAINING else 1))
    if state != JOINING:
        begin(someone)
    if state == DONE:
        someone.receive(7, Answer(0, 0))
    assert someone.state == state
    assert list(someone.receive(COORDINATOR, Goodbye(False))) == []
    assert someone.state == LEFT


def kinds_of(role: type[User]) -> list[type[User]]:
    return [role, *(kind for each in role.__subclasses__() for kind in kinds_of(each))]


def test_what_a_kind_of_user_overrides_is_what_she_does() -> None:
    """Tables hold functions, so that one which takes the place of another must stand in its table too."""
    for room in (
        "adversaries.leaders",
        "adversaries.mixers",
        "adversaries.roles",
        "protocol.depositor",
        "protocol.submitter",
    ):
        importlib.import_module(f"p2p_labeldp.{room}")
    kinds = kinds_of(User)
    assert {"User", "Submitter", "Responder", "Depositor"} <= {kind.__name__ for kind in kinds}
    for kind in kinds:
        assert all(getattr(kind, does.__name__) is does for does in kind.handlers.values()), kind
