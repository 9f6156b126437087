"""Crooked relays and members who want fewer to be mixed with their victim: the roles as they are, against strategies.

The crooked spoil the first attempt as they like and then do all they can to have another one opened. Whatever they did,
everyone who is honest is in the batch that is opened, or nobody is. ``tests/privacy/test_mixed_strategies.py`` has the
same by the definition, for every strategy; what is opened there is accounted for to twelve digits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from mixing import Mixed, Sent

from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import View
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.messages import HOST, Batch, Commit, Drawn, Go, Halt, NoGo, Outgoing, Unlock
from p2p_labeldp.protocol.session import Session, batch_digest
from p2p_labeldp.protocol.signatures import SIGNED_BATCH
from p2p_labeldp.protocol.user import WAITING
from p2p_labeldp.runs.guarantees import Circumstances, guarantees

SIZE, RELAYS = 5, 2
CROOKED = frozenset({3, 4})
HONEST = frozenset(range(SIZE)) - CROOKED


class Returning(Depositor):
    """Comes along to every attempt, whatever was released in the one before."""

    __slots__ = ()

    def retries(self, session: Session | None) -> Sequence[Outgoing]:
        share = self._share
        if self.state is not WAITING or share is None or share.session is not session:
            return ()
        self._leave_share()
        return (self._enter(share.attempt + 1),)


@dataclass(frozen=True)
class Strategy:
    """What the crooked do in the first attempt, or in the first two; from then on they want it opened."""

    dropped: frozenset[int]
    """Whose packets are not in the batch that a crooked last relay shows; it knows which those are."""
    told: frozenset[int]
    """Who hears of a crooked relay that it gave up."""
    joining: frozenset[int]
    """Which of the crooked come along to the next attempt."""
    refusing: bool
    """Whether they say nothing of the batch, or go to all relays."""
    until: int = 1


def played(strategy: Strategy, seed: int) -> Mixed:
    """A host for each user, so that a relay can tell some and not others."""

    def tamper(sender: int, receiver: int, message: Any) -> Iterable[Sent]:
        spoils = getattr(message, "attempt", -1) < strategy.until
        if sender not in CROOKED:
            return [(sender, receiver, message)]
        if type(message) is Commit and message.attempt > 0 and sender not in strategy.joining:
            return []
        if spoils and type(message) in (Go, NoGo) and strategy.refusing:
            return []
        if spoils and type(message) is Batch and receiver == HOST:
            return [(sender, receiver, without(sender, message))]
        # They keep their own keys, and what they would deal, to themselves.
        return [] if type(message) in (Unlock, Drawn) else [(sender, receiver, message)]

    def without(sender: int, message: Batch) -> Batch:
        session, packets = run.session, list(message.packets)
        for user in strategy.dropped:
            share = run.users[user]._share
            if share is not None and share.sealed is not None and share.sealed.layers[-1] in packets:
                packets[packets.index(share.sealed.layers[-1])] = bytes([user]) * len(packets[0])
        statement = session.statement(SIGNED_BATCH, sender, batch_digest(packets))
        signature = run.hosts[0].signatures.sign(sender, statement)
        return msgspec.structs.replace(message, packets=packets, signature=signature)

    roles = dict.fromkeys(CROOKED, Returning)
    run = Mixed(SIZE, relays=RELAYS, hosts=SIZE, coins=SeededCoins(seed), tamper=tamper, roles=roles)
    deliver = run._deliver

    def selective(sender: int, receiver: int, place: int, message: Any) -> None:
        if type(message) is Halt and sender in CROOKED and receiver == HOST and place in HONEST - strategy.told:
            return
        deliver(sender, receiver, place, message)

    run._deliver = selective  # type: ignore[method-assign]
    return run.run()


def opened(run: Mixed) -> list[tuple[int, frozenset[int]]]:
    """Rounds and honest members of the attempts whose honest relays have all released their keys, if there are any."""
    found = []
    for (round_, _, attempt), session in run.sessions.items():
        fair = HONEST.intersection(session.relays)
        keys = {
            sender
            for sender, _, message in run.of_kind(Unlock)
            if (message.round, message.attempt) == (round_, attempt)
        }
        if fair and fair <= keys:
            found.append((round_, HONEST.intersection(session.members)))
    return found


def subsets(users: frozenset[int]) -> list[frozenset[int]]:
    return [frozenset(chosen) for count in range(len(users) + 1) for chosen in itertools.combinations(users, count)]


STRATEGIES = [
    Strategy(*each)
    for each in itertools.product(subsets(HONEST), subsets(HONEST), subsets(CROOKED), (False, True), (1, 2))
]


def crooked_first(seed: int) -> bool:
    """Whether a crooked relay is the last of the first attempt, and the first is honest."""
    first, last = Mixed(SIZE, relays=RELAYS, coins=SeededCoins(seed)).run().session.relays
    return last in CROOKED and first in HONEST


SEED = next(seed for seed in itertools.count() if crooked_first(seed))


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_they_do_all_who_are_honest_are_in_the_batch_that_is_opened(every: int) -> None:
    """512 strategies, half of which spoil two attempts, or one in seven of them."""
    ways = set()
    for strategy in STRATEGIES[::every]:
        run = played(strategy, SEED)
        found = opened(run)
        assert found in ([], [(0, HONEST)])
        assert not run.coordinator.reduced
        assert run.coordinator.finished
        ways.add(len(found))
    assert ways == {0, 1}, "some have it opened, with everyone in it"


SINGLED_OUT = Strategy(frozenset({0}), frozenset(), CROOKED, refusing=False)
"""Only the victim misses her packet, and the others are not told that the crooked relay gave up."""


def test_who_comes_along_alone_is_not_mixed_with_the_crooked_alone() -> None:
    run = played(SINGLED_OUT, SEED)
    again = {sender for sender, _, message in run.of_kind(Commit) if message.attempt == 1}
    assert again == {0, *CROOKED}
    assert opened(run) == []
    assert "user 1, user 2 took part in an attempt before, and the others do not go on alone" in run.named
    assert run.coordinator.stopped == [0]
    assert run.outcomes()[0]["abstained"] == SIZE


def stated(run: Mixed, **facts: Any) -> str:
    role = run.coordinator
    outcome = Outcome(
        role.clusters,
        [],
        outcomes=run.outcomes(),
        missing=sorted({user for each in role.attendance for user in each.missing}),
        stopped=role.stopped,
        reduced=role.reduced,
    )
    parameters = dataclasses.replace(run.parameters, attempts=3)
    found = Circumstances.of(outcome, parameters, 1e-3, crooked={SIZE: len(CROOKED)}, **facts)
    return str(guarantees(exchange_of(parameters), found)[View.LEARNER].reason)


def test_who_is_left_out_of_an_attempt_is_not_forgotten_since_the_cluster_stops_in_another_round() -> None:
    """User 1 is not heard of in the first attempt of round 0, and the four others are mixed; round 1 is stopped."""
    lost: list[Any] = []

    def late(sender: int, receiver: int, message: Any) -> Iterable[Sent]:
        if type(message) is Commit and sender == 1 and message.round == 0:
            lost.append(message)
            return []
        return [] if type(message) is Go and message.round == 1 else [(sender, receiver, message)]

    run = Mixed(SIZE, relays=RELAYS, rounds=2, tamper=late).run()
    assert lost
    assert run.outcomes()[0]["abstained"] == 1
    assert run.outcomes()[1]["abstained"] == SIZE
    assert run.coordinator.stopped == run.coordinator.reduced == [0]
    assert "the flips alone are counted on" in stated(run, misbehaving=("crooked_relays",))
    assert "the flips alone are counted on" in stated(run)


def test_what_crooked_relays_can_tell_counts_though_a_cluster_reports_nothing() -> None:
    clusters = np.zeros(SIZE, dtype=np.int64)
    held = Outcome(clusters, [], missing=[1], withheld=[0])
    parameters = dataclasses.replace(Mixed(SIZE, relays=RELAYS).parameters, attempts=3)
    crooked = Circumstances.of(held, parameters, 1e-3, crooked={SIZE: 1}, misbehaving=("crooked_relays",))
    assert "went missing: the flips alone" in str(guarantees(exchange_of(parameters), crooked)[View.LEARNER].reason)
