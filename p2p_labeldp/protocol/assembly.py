"""The coordinator's side of one cluster's mixed exchange in one round: it publishes, and sees no label and no draw.

    COMMITTING --everyone's commitment--> OPENING --everyone's opening--> MIXING --everyone is done--> SETTLED
         ^____________ another attempt _______|______________________________|

Whoever does not commit in time is left out of the attempt. Whoever commits and does not open is named, and the
attempt is made anew without her, with fresh commitments from all others: if those that are there were combined anew,
colluders could choose among as many outcomes as they are many. An attempt that a relay halts, or whose time is over,
is made anew with everyone: whoever was in an attempt that had relays must be in the next one, or the cluster stops. For
a crooked relay could keep some from coming along, those whom it let say go and does not tell that it has halted, and
single out the others. There are ``ATTEMPTS`` at most, so that whoever spoils attempts until the relays suit him
has so many draws and no more. Then, or with too few members left, the cluster stops: its users abstain.

A no-go is judged by what its sender and the relays show (``blame``); what is found is told, and nobody is excluded
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from p2p_labeldp.mechanisms.mixing import NONCE, Secret, Secrets
from p2p_labeldp.protocol.blame import judge
from p2p_labeldp.protocol.messages import (
    ATTEMPTS,
    HOST,
    SESSION_PART,
    Batch,
    Commit,
    Committed,
    Fault,
    Halt,
    NoGo,
    Open,
    Opened,
    Outgoing,
    Overdue,
    Passed,
    Refused,
    Stop,
    name_of,
)
from p2p_labeldp.protocol.sealing import Cipher, Sealed
from p2p_labeldp.protocol.session import Parts, Session, batch_digest, commitment
from p2p_labeldp.protocol.signatures import Signatures, signed_twice


class Stage(StrEnum):
    COMMITTING = "committing"
    OPENING = "opening"
    MIXING = "mixing"
    SETTLED = "settled"


class Event(StrEnum):
    COMMITTED = "committed"  # everyone who will
    OPENED = "opened"  # everyone
    RETRIED = "retried"
    ENDED = "ended"  # everyone is done, or the cluster has stopped


COMMITTING, OPENING, MIXING, SETTLED = Stage

TRANSITIONS: dict[Stage, dict[Event, Stage]] = {
    COMMITTING: {Event.COMMITTED: OPENING, Event.RETRIED: COMMITTING, Event.ENDED: SETTLED},
    OPENING: {Event.OPENED: MIXING, Event.RETRIED: COMMITTING, Event.ENDED: SETTLED},
    MIXING: {Event.RETRIED: COMMITTING, Event.ENDED: SETTLED},
    SETTLED: {},
}


@dataclass(frozen=True)
class Mixing:
    """What the coordinator knows of the mixed exchange before it begins."""

    cipher: Cipher
    signatures: Signatures
    secrets: Secrets
    """Its own, for its nonces."""
    relays: int
    least: int
    """How many members an attempt needs."""
    run: str = ""
    """The run's name, where it has one."""


class Assembly:
    """``members`` are the users of the cluster."""

    def __init__(self, mixing: Mixing, round_: int, cluster: int, members: Sequence[int]) -> None:
        self.stage: Stage = COMMITTING
        self.round, self.cluster, self.attempt = round_, cluster, 0
        self.members = tuple(members)
        self.stopped = False
        """Whether the cluster has released nothing in this round."""
        self.named: list[str] = []
        """What went wrong, for people: who is caught, or may be to blame."""
        self._waiting = set(members)  # those who may still commit
        self._least, self._relays = mixing.least, mixing.relays
        self._run, self._cipher, self._secrets = mixing.run, mixing.cipher, mixing.secrets
        self._signatures = mixing.signatures
        self._done: set[int] = set()
        self._mixed = 0  # how many members of this attempt are among them
        self._commitments: dict[int, bytes] = {}
        self._openings: dict[int, bytes] = {}
        self._signed: dict[int, bytes] = {}  # who opened: her signature
        self._left_out: set[int] = set()  # who did not open: no commitment of theirs is taken any more
        self._session: Session | None = None  # of this attempt
        self._sessions: dict[int, Session] = {}
        self._halted: set[tuple[int, int]] = set()  # (attempt, relay) that halted, or waits and cannot
        self._overdue: set[int] = set()  # attempts whose time was over
        self._digests: dict[int, Passed] = {}
        self._refusal: tuple[int, NoGo] | None = None
        self._shown: dict[int, Parts] = {}

    # Messages of members.

    def commit(self, sender: int, message: Commit) -> Iterable[Outgoing]:
        self._require(message.attempt, COMMITTING, sender)
        if sender in self._commitments:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has committed")
        self._commitments[sender] = message.commitment
        self._waiting.discard(sender)
        return self._commit_all() if not self._waiting else ()

    def open(self, sender: int, message: Open) -> Iterable[Outgoing]:
        self._require(message.attempt, OPENING, sender)
        if sender in self._openings:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has opened")
        opening = message.nonce + message.outer + message.inner
        if len(message.nonce) != NONCE or len(opening) != NONCE + 2 * self._cipher.key_size:
            raise Refused(Fault.MALFORMED, f"{name_of(sender)} opens with a nonce or a key of another size")
        hers = commitment(self.round, self.cluster, self.attempt, sender, opening)
        if hers != self._commitments.get(sender):
            raise Refused(Fault.MALFORMED, f"{name_of(sender)} opens what she did not commit to")
        if len(message.signature) != self._signatures.size:
            raise Refused(Fault.MALFORMED, f"{name_of(sender)} opens with a signature of another size")
        self._openings[sender], self._signed[sender] = opening, message.signature
        return self._open_all() if len(self._openings) == len(self._commitments) else ()

    def done(self, sender: int) -> Iterable[Outgoing]:
        """She is done with the round, whatever the outcome: nothing more will come of her."""
        self._waiting.discard(sender)
        self._done.add(sender)
        if self.stage is COMMITTING and not self._waiting:
            return self._commit_all()
        session = self._session
        if session is None:
            return ()
        self._mixed += sender in session.places
        if self.stage is MIXING and self._mixed == len(session.members):
            self._go(Event.ENDED)
            # Whoever was left out need not wait any longer.
            return () if len(self._done) == len(self.members) else [(HOST, Stop(*self._name, False))]
        return ()

    @property
    def reduced(self) -> bool:
        """Whether relays were drawn for fewer than all members: the others hid among those."""
        return any(len(session.members) < len(self.members) for session in self._sessions.values())

    def settle(self) -> None:
        """Everyone is done."""
        if self.stage != SETTLED:
            self._go(Event.ENDED)

    # Messages of relays.

    def passed(self, sender: int, message: Passed) -> Iterable[Outgoing]:
        session = self._require_relay(sender, message.attempt)
        if message.step >= len(session.relays) or session.relays[message.step] != sender:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is not the relay at step {message.step}")
        if message.step in self._digests:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has told what she passed on")
        self._digests[message.step] = message
        before, after = self._digests.get(message.step - 1), self._digests.get(message.step + 1)
        for one, other in ((before, message), (message, after)):
            if one is not None and other is not None and one.passed != other.taken:
                pair = f"{name_of(session.relays[one.step])} and {name_of(session.relays[other.step])}"
                self._name_them(f"{pair} do not agree on the batch between them")
                return self._retry()
        return ()

    def halt(self, sender: int, message: Halt) -> Iterable[Outgoing]:
        """Ends an attempt; of one that is over, whose relays had to give up, it is noted."""
        session = self._sessions.get(message.attempt)
        if session is None:
            raise Refused(Fault.OUT_OF_ORDER, f"attempt {message.attempt} of cluster {self.cluster} has no relays")
        if sender not in session.relays:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is no relay of this attempt")
        if (message.attempt, sender) in self._halted:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has halted")
        self._halted.add((message.attempt, sender))
        if any(user not in self.members for user in message.named) or len(message.named) > len(session.members):
            raise Refused(Fault.MALFORMED, "a halt names members")
        if message.evidence and not self._proves(session, message.evidence):
            raise Refused(Fault.MALFORMED, "evidence that proves nothing")
        about = ", ".join(name_of(user) for user in message.named[:5]) + (" and others" if message.named[5:] else "")
        running = message.attempt == self.attempt and self.stage == MIXING
        who = "caught, signed by her" if message.evidence else "may be to blame" if running else "waited for"
        reason = "".join(each for each in message.reason[:200] if each.isprintable())
        what = f"{name_of(sender)} halts: {reason}" + (f"; {who}: {about}" if about else "")
        # Of an attempt that something else has ended those who had to give up have nothing to tell.
        if running or message.evidence or message.attempt in self._overdue:
            self._name_them(what, message.attempt)
        # A no-go, or what it is judged by, may still be on its way.
        return self._retry() if running and self._refusal is None and not self._shown else ()

    def overdue(self, sender: int, message: Overdue) -> Iterable[Outgoing]:
        """Of an attempt that is over: there will be no other for whoever said go in it."""
        session = self._sessions.get(message.attempt)
        if session is None or sender not in session.relays:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is no relay of attempt {message.attempt}")
        if (message.attempt, sender) in self._halted:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has halted, or said that she waits")
        if not message.named or not set(message.named) < set(session.relays):
            raise Refused(Fault.MALFORMED, "a relay waits for other relays")
        self._halted.add((message.attempt, sender))
        waits = f"{name_of(sender)} has released her key, and waits for {_names(message.named)}"
        self._name_them(waits, message.attempt)
        return ()

    def no_go(self, sender: int, message: NoGo) -> Iterable[Outgoing]:
        self._require(message.attempt, MIXING, sender)
        if self._refusal is not None:
            raise Refused(Fault.DUPLICATE, "a no-go is being judged")
        self._refusal = sender, message
        return self._judge() if self._all_shown else ()

    def show(self, sender: int, message: Batch) -> Iterable[Outgoing]:
        """A part of a batch that a relay shows because someone said no-go; it may overtake the no-go."""
        session = self._require_relay(sender, message.attempt)
        step = message.step
        holder = session.relays[max(0, step - 1)] if step <= len(session.relays) else None
        if sender != holder:
            raise Refused(Fault.MISDIRECTED, f"batch {step} is not {name_of(sender)}'s to show")
        parts = self._shown.setdefault(step, Parts(len(session.members)))
        parts.take(message.first, message.packets)
        return self._judge() if self._refusal is not None and self._all_shown else ()

    @property
    def _all_shown(self) -> bool:
        """Whether every relay has shown what it took and passed on."""
        whole = all(each.whole is not None for each in self._shown.values())
        return self._session is not None and len(self._shown) == len(self._session.relays) + 1 and whole

    def expire(self) -> Iterable[Outgoing]:
        """The time of an attempt is over."""
        self._overdue.add(self.attempt)
        if self.stage == COMMITTING:
            missing = sorted(self._waiting)
            if self.attempt and not self._commitments:
                self._name_them("nobody takes part in another attempt; in the one before a relay may have released")
            else:
                self._name_them(f"{_count(missing)} did not commit")
            self._left_out |= self._waiting
            self._waiting.clear()
            return self._commit_all()
        if self.stage == OPENING:
            silent = sorted(set(self._commitments) - set(self._openings))
            self._name_them(f"{_count(silent)} committed and did not open")
            self._left_out.update(silent)
            return self._retry()
        if self.stage == MIXING and self._refusal is not None:
            return self._judge()
        return self._retry() if self.stage == MIXING else ()

    # Inner workings.

    @property
    def _name(self) -> tuple[int, int, int]:
        return self.round, self.cluster, self.attempt

    def _commit_all(self) -> Iterable[Outgoing]:
        if len(self._commitments) < self._least:
            return self._stop()
        before = {user for session in self._sessions.values() for user in session.members}
        if behind := sorted(before.difference(self._commitments)):
            self._name_them(f"{_count(behind)} took part in an attempt before, and the others do not go on alone")
            return self._stop()
        self._go(Event.COMMITTED)
        members = sorted(self._commitments)
        sealed = b"".join(self._commitments[user] for user in members)
        ids = np.array(members, dtype="<i8").tobytes()
        own = commitment(*self._name, -1, self._nonce)
        return [
            (
                HOST,
                Committed(
                    *self._name, len(members), first, ids[8 * first : 8 * last], sealed[32 * first : 32 * last], own
                ),
            )
            for first, last in _parts(len(members))
        ]

    def _open_all(self) -> Iterable[Outgoing]:
        """Everyone has opened: publish it, and work out who the relays are as everyone else does.

        Whoever would relay with keys that she has not signed, or that nothing can be sealed for, has not opened.
        """
        members = sorted(self._openings)
        signers = self._signatures.signers(members)
        session = Session(self._run, *self._name, self._relays, self._cipher.key_size, self._signatures)
        session.assume(self._openings, self._nonce, signers)
        unsigned = [
            user
            for user in session.relays
            if not session.signed_keys(user, self._commitments[user], self._signed[user])
        ]
        keys = zip(session.relays, session.outer, session.inner, strict=True)
        unusable = [user for user, *both in keys if not all(map(self._cipher.usable, both))]
        for wrong, what in ((unsigned, "did not sign her keys"), (unusable, "published a key that seals nothing")):
            if wrong:
                self._name_them(f"{_count(wrong)} {what}")
        if unsigned or unusable:
            self._left_out.update(unsigned, unusable)
            return self._retry()
        self._go(Event.OPENED)
        self._session = self._sessions[self.attempt] = session
        self._mixed = len(self._done.intersection(members))
        out: list[Outgoing] = []
        for first, last in _parts(len(members)):
            opened = b"".join(self._openings[user] + self._signed[user] for user in members[first:last])
            out.append((HOST, Opened(*self._name, first, opened, self._nonce, signers)))
        return out

    def _proves(self, session: Session, evidence: Sequence[bytes]) -> bool:
        return evidence[0] == session.context and signed_twice(self._signatures, session.relays[-1], evidence)

    @property
    def _nonce(self) -> bytes:
        return self._secrets.of(Secret.COORDINATOR, *self._name)[:NONCE]

    def _judge(self) -> Iterable[Outgoing]:
        assert self._refusal is not None
        assert self._session is not None
        session, (sender, message) = self._session, self._refusal
        proved = self._cipher.proves(Sealed(message.layers, message.proofs), session.outer, session.context)
        batches: dict[int, Sequence[bytes]] = {}
        for step, parts in self._shown.items():
            told = self._digests.get(max(0, step - 1))
            expected = None if told is None else told.taken if step == 0 else told.passed
            if parts.whole is not None and batch_digest(parts.whole) == expected:
                batches[step] = parts.whole
        last = self._digests.get(len(session.relays) - 1)
        agreed = last is not None and last.passed == message.digest
        shown = session.showed(message.digest, message.shown)
        verdict = judge(sender, message.layers, proved, session.relays, batches, agreed, shown)
        who = f"caught: {_names(verdict.caught)}" if verdict.caught else f"one of them: {_names(verdict.disputed)}"
        self._name_them(f"{verdict.why} ({who})")
        return self._retry()

    def _retry(self) -> Iterable[Outgoing]:
        if self.attempt + 1 >= ATTEMPTS:
            return self._stop()
        stop = Stop(*self._name, True)
        self._go(Event.RETRIED)
        self.attempt += 1
        # Everyone commits afresh but those who did not open.
        self._waiting = set(self.members) - self._left_out
        self._commitments, self._openings, self._signed, self._digests, self._shown = {}, {}, {}, {}, {}
        self._session = self._refusal = None
        return [(HOST, stop)]

    def _stop(self) -> Iterable[Outgoing]:
        stop = Stop(*self._name, False)
        self.stopped = True
        self._go(Event.ENDED)
        self._name_them("the cluster stopped; its users abstain")
        return [(HOST, stop)]

    def _name_them(self, what: str, attempt: int | None = None) -> None:
        """``attempt`` is the one under way unless given."""
        which = self.attempt if attempt is None else attempt
        self.named.append(f"cluster {self.cluster}, round {self.round}, attempt {which}: {what}")

    def _go(self, event: Event) -> None:
        self.stage = TRANSITIONS[self.stage][event]

    def _require(self, attempt: int, stage: Stage, sender: int) -> None:
        if attempt != self.attempt or self.stage is not stage or (stage is COMMITTING and sender in self._left_out):
            raise Refused(
                Fault.OUT_OF_ORDER, f"attempt {self.attempt} of cluster {self.cluster} is {self.stage}, not {stage}"
            )

    def _require_relay(self, sender: int, attempt: int) -> Session:
        session = self._session
        if session is None or attempt != self.attempt or self.stage != MIXING:
            raise Refused(Fault.OUT_OF_ORDER, f"attempt {self.attempt} of cluster {self.cluster} is {self.stage}")
        if sender not in session.relays:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is no relay of this attempt")
        return session


def _parts(size: int) -> list[tuple[int, int]]:
    return [(first, min(size, first + SESSION_PART)) for first in range(0, size, SESSION_PART)]


def _names(users: Iterable[int]) -> str:
    return ", ".join(map(name_of, users))


def _count(users: Sequence[int]) -> str:
    return _names(users) if len(users) <= 5 else f"{_names(users[:5])} and {len(users) - 5} more"
