"""Bugs that a simulated world must find: each is a small change of the shipped code, as somebody might make it.

``python planted_disasters.py NAME SEED`` plants one, replays a seed and says what failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.costs import Costs
from p2p_labeldp.deployment.disk import LogFile
from p2p_labeldp.deployment.erasure import RoundKeys
from p2p_labeldp.deployment.journal import EXPIRED, Entry, Journal, JournaledCoins
from p2p_labeldp.deployment.learning import LearnerPart
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.phases import CLOSING, RUNNING
from p2p_labeldp.deployment.simulated.disk import OpenFile
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.errors import RunError
from p2p_labeldp.network.connections import Peer
from p2p_labeldp.network.links import Link
from p2p_labeldp.network.tls import Transport
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.messages import Go
from p2p_labeldp.protocol.relay import _HANDLERS, Relay
from p2p_labeldp.protocol.user import WAITING, User

Plant = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[str, Plant] = {}


def bug(plant: Plant) -> Plant:
    BUGS[plant.__name__] = plant
    return plant


@bug
def an_answer_before_its_journal_entry(patch: pytest.MonkeyPatch) -> None:
    async def do(self: Node, entries: list[Entry]) -> None:
        for entry in entries:
            self.journal.append(entry)
            self._apply(entry)
            for said in self._part.said():
                self._transport.post(*said)
        await self._world.work(self.journal.commit)

    patch.setattr(Node, "_do", do)


@bug
def an_acknowledgement_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    take = Node._take

    async def early(self: Node, arrivals: list[Any]) -> None:
        for arrival in arrivals:
            self._transport.acknowledge(arrival.key)
        await take(self, arrivals)

    patch.setattr(Node, "_take", early)


@bug
def a_dropped_acknowledgement(patch: pytest.MonkeyPatch) -> None:
    acknowledge = Transport.acknowledge

    def drop(self: Transport, key: str) -> None:
        if self._peers[key].received % 3:
            acknowledge(self, key)

    patch.setattr(Transport, "acknowledge", drop)


@bug
def deduplication_off_by_one(patch: pytest.MonkeyPatch) -> None:
    restore = Link.restore
    patch.setattr(Link, "restore", lambda self, received: restore(self, received - 1))


@bug
def a_duplicate_taken_twice(patch: pytest.MonkeyPatch) -> None:
    accept = Link.accept

    def again(self: Link, number: int) -> bool:
        return (number == self.taken - 1) or accept(self, number)

    patch.setattr(Link, "accept", again)


@bug
def a_limit_forgotten(patch: pytest.MonkeyPatch) -> None:
    limit = CoordinatorPart.limit.fget  # type: ignore[attr-defined]
    patch.setattr(
        CoordinatorPart, "limit", property(lambda self: None if self.phase in (RUNNING, CLOSING) else limit(self))
    )


def _leave_out(patch: pytest.MonkeyPatch, call: str, within: str) -> None:
    """A method of the journal does not call that one of its log file."""
    method = getattr(Journal, within)

    class Without:
        def __init__(self, log: LogFile) -> None:
            self._log = log

        def __getattr__(self, name: str) -> Any:
            return (lambda *_: None) if name == call else getattr(self._log, name)

    def hasty(self: Journal, *arguments: Any) -> None:
        log, self._log = self._log, Without(self._log)  # type: ignore[assignment]
        try:
            method(self, *arguments)
        finally:
            self._log = log

    patch.setattr(Journal, within, hasty)


@bug
def a_journal_that_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    _leave_out(patch, "sync", within="commit")


@bug
def a_resumed_link_that_trusts_the_peers_count(patch: pytest.MonkeyPatch) -> None:
    """What the peer has taken in counts as acknowledged, though it is not in its journal yet."""
    resume = Link.resume

    def trusting(self: Link, received: int) -> None:
        resume(self, received)
        self.acknowledged(received)

    patch.setattr(Link, "resume", trusting)


@bug
def a_redrawn_coin(patch: pytest.MonkeyPatch) -> None:
    def block(self: JournaledCoins, round_: int, start: int, stop: int) -> Any:
        found = self._coins.block(round_, start, stop)
        if self._journal.block(round_, start, stop) is None:
            self._journal.keep_block(round_, start, stop, found)
        return found

    patch.setattr(JournaledCoins, "block", block)


@bug
def a_flip_made_again_in_every_round(patch: pytest.MonkeyPatch) -> None:
    begin = User._begin

    def fresh(self: User, round_: int) -> Any:
        said = begin(self, round_)
        parameters = self.host.parameters
        if round_ and hasattr(self, "noisy"):
            flip, _, _, other = self.host.coins(round_, self.id)
            self.noisy = self.label
            if flip < parameters.alpha:
                self.noisy = (self.label + 1 + int(other * (parameters.labels - 1))) % parameters.labels
        return said

    patch.setattr(User, "_begin", fresh)


@bug
def a_limit_that_is_not_journaled(patch: pytest.MonkeyPatch) -> None:
    append = Journal.append
    patch.setattr(Journal, "append", lambda self, entry: None if entry.kind == EXPIRED else append(self, entry))


@bug
def reports_in_the_order_of_answers(patch: pytest.MonkeyPatch) -> None:
    def as_they_came(self: UsersPart, receiver: int, held: list[Any]) -> None:
        for user, message in reversed(held):
            super(UsersPart, self).send(user, receiver, message)

    patch.setattr(UsersPart, "_pass_on", as_they_came)


@bug
def a_restart_that_forgets_what_it_took(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transport, "restore", lambda self, key, received: None)


@bug
def a_torn_write_taken_for_a_whole_one(patch: pytest.MonkeyPatch) -> None:
    def fits(self: Journal, frame: bytes, place: int, end: int) -> bool:
        if len(frame) < end - place:
            return False
        self._seal = frame[-16:]
        return True

    patch.setattr(Journal, "_fits", fits)


@bug
def a_journal_read_and_not_synced_after_a_kill(patch: pytest.MonkeyPatch) -> None:
    _leave_out(patch, "write_again", within="_open")


@bug
def seconds_between_two_clocks(patch: pytest.MonkeyPatch) -> None:
    finish = LearnerPart._finish

    def by_another_clock(self: LearnerPart, facts: Any) -> None:
        write, directory = self._write, self.dealt.directory
        assert directory is not None
        between = self.now - directory.started
        self._write = lambda outcome, facts, directory, _, known: write(outcome, facts, directory, between, known)
        finish(self, facts)

    patch.setattr(LearnerPart, "_finish", by_another_clock)


@bug
def a_flood_that_is_journaled_before_it_is_judged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Costs, "admits", lambda self, key, name, size: True)


@bug
def missing_users_who_are_not_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorPart, "_missing_users", lambda self: np.empty(0, dtype=np.int64).tolist())


@bug
def a_failed_sync_that_is_believed_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """What could be read and was perhaps never written is synced, not written again."""
    patch.setattr(OpenFile, "write_again", lambda self, start: self.sync())


@bug
def a_stale_introduction_that_counts_as_a_lost_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "admitted", property(lambda self: 0, lambda self, number: None), raising=False)


@bug
def hosts_that_are_there_and_count_as_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorPart, "_note_who_is_there", lambda self: None)


@bug
def a_round_key_that_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    key = RoundKeys._key

    def hasty(self: RoundKeys, round_: int, new: bool) -> bytes:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(OpenFile, "sync", lambda self: None)
            return key(self, round_, new)

    patch.setattr(RoundKeys, "_key", hasty)


@bug
def a_relay_that_does_not_wait_for_the_last_go(patch: pytest.MonkeyPatch) -> None:
    said_go = Relay._go_of

    def hasty(self: Relay, sender: int, message: Any) -> Any:
        found = said_go(self, sender, message)
        missing = [user for user in self.session.members if user not in self._gos]
        if found or len(missing) != 1:
            return found
        self._gos[missing[0]] = message
        return self.agreed()

    patch.setitem(_HANDLERS, Go, hasty)


@bug
def a_second_attempt_after_a_go(patch: pytest.MonkeyPatch) -> None:
    """Members enter the next attempt though a relay of this one may have released its key."""

    def retries(self: Depositor, session: Any) -> Any:
        share = self._share
        if self.state is not WAITING or share is None or share.session is not session:
            return ()
        attempt = share.attempt + 1
        self._leave_share()
        return (self._enter(attempt),)

    patch.setattr(Depositor, "retries", retries)


@bug
def a_secret_erased_before_what_was_said_has_arrived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transport, "all_acknowledged", lambda self, made: True)


@bug
def a_node_that_ends_when_its_clock_runs_back(patch: pytest.MonkeyPatch) -> None:
    """What happens to a clock explains nobody's end."""
    take = Part.take

    def strict(self: Part, key: str, name: str, clock: int, body: bytes, now: float) -> None:
        if now < self.now - 1.0:
            raise RunError("the clock of this machine runs back")
        take(self, key, name, clock, body, now)

    patch.setattr(Part, "take", strict)


def main(name: str, seed: int) -> int:
    from p2p_labeldp.deployment.simulated.run import simulate

    with pytest.MonkeyPatch.context() as patch:
        BUGS[name](patch)
        outcome = simulate(seed)
    print(outcome.history.sha256, outcome.history.content_sha256, *outcome.failures, sep="\n")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
