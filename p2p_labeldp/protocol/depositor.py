"""A user of the mixed exchange: she deposits her noisy label instead of being asked for it.

What she does besides, from the hello to the goodbye, is as in ``user``; her steps in one attempt are

    COMMITTED --all commitments--> OPENED --relays--> DEPOSITED --her packet is there--> AGREED --her draw--> DRAWN
        \\___________________________\\___________________\\--stop--> the next attempt, or she abstains
                                            AGREED --stop, and every relay has halted--> the next attempt

She says go, to every relay, only if her own packet is in the batch that all are shown, whole and without a packet
that occurs twice. If hers is not there she says no-go and shows its outer layers. Once she has said go a relay may
have released its key: then she takes part in another attempt only if all relays of this one have said that they did
not, and will not. Otherwise, the coordinator, with one relay, could have the labels of two attempts opened and
compare them.

One in L or so is a relay as well (``relay``); her messages for the relay go there. Those that come before she knows
that she is one are held, up to a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import repeat

from p2p_labeldp.mechanisms.mixing import NONCE, Secret
from p2p_labeldp.protocol.messages import (
    ATTEMPTS,
    COORDINATOR,
    Answer,
    Ask,
    Batch,
    Commit,
    Deposit,
    Drawn,
    Fault,
    Go,
    Goodbye,
    Message,
    NoGo,
    Open,
    Outgoing,
    Refused,
    Reveal,
    Unlock,
    name_of,
)
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.relay import Relay
from p2p_labeldp.protocol.sealing import Cipher, Sealed
from p2p_labeldp.protocol.session import Session, commitment, keys_statement
from p2p_labeldp.protocol.signatures import SIGNED_GO
from p2p_labeldp.protocol.user import BEGINS, WAITING, User


class Step(IntEnum):
    COMMITTED = 0
    OPENED = 1
    DEPOSITED = 2
    AGREED = 3
    REFUSED = 4  # she said no-go
    DRAWN = 5
    OVER = 6


class Event(IntEnum):
    OPENS = 0
    DEPOSITS = 1
    AGREES = 2
    REFUSES = 3
    DRAWS = 4
    LEAVES = 5  # for the next attempt, or for good


COMMITTED, OPENED, DEPOSITED, AGREED, REFUSED, DRAWN, OVER = Step
OPENS, DEPOSITS, AGREES, REFUSES, DRAWS, LEAVES = Event

TRANSITIONS: dict[Step, dict[Event, Step]] = {
    COMMITTED: {OPENS: OPENED, LEAVES: OVER},
    OPENED: {DEPOSITS: DEPOSITED, LEAVES: OVER},
    DEPOSITED: {AGREES: AGREED, REFUSES: REFUSED, LEAVES: OVER},
    AGREED: {DRAWS: DRAWN, LEAVES: OVER},  # leaves only if every relay has halted, or with the round
    REFUSED: {LEAVES: OVER},
    DRAWN: {},
    OVER: {},
}
"""What is not here does not happen: it is refused."""

# By number, as a user's.
_NEXT = tuple(tuple(TRANSITIONS[step].get(event) for event in Event) for step in Step)


class Share:
    """A member's share in one attempt: her step, her secrets, her packet."""

    __slots__ = ("attempt", "commitment", "inner", "nonce", "opening", "outer", "sealed", "session", "step")

    def __init__(self, attempt: int, secret: bytes, cipher: Cipher) -> None:
        self.attempt = attempt
        self.step: Step = COMMITTED
        self.nonce = secret[:NONCE]
        seed = secret[NONCE:]
        self.outer, self.inner = cipher.secret_key(seed, b"outer"), cipher.secret_key(seed, b"inner")
        self.opening = self.nonce + cipher.public_key(self.outer) + cipher.public_key(self.inner)
        self.commitment = b""
        """To the opening."""
        self.session: Session | None = None
        self.sealed: Sealed | None = None

    def go(self, event: Event) -> None:
        step = _NEXT[self.step][event]
        assert step is not None, f"{event.name} at step {self.step.name}"
        self.step = step

    def forget(self) -> None:
        """Erase what would open or link her packet, or the batch that she relayed."""
        self.outer = self.inner = self.nonce = b""
        self.sealed = None


class Depositor(User):
    __slots__ = ("_held", "_share", "relay")

    host: MixingHost

    def __init__(self, id_: int, label: int, host: MixingHost) -> None:
        super().__init__(id_, label, host)
        self.relay: Relay | None = None
        self._share: Share | None = None
        self._held: list[tuple[int, Message]] | None = None

    def _begin(self, round_: int) -> Sequence[Outgoing]:
        self._leave_attempt()
        return super()._begin(round_)

    def _take_part(self, round_: int) -> Sequence[Outgoing]:
        self._toss(round_)
        self._go(BEGINS)
        return (self._enter(0),)

    def _enter(self, attempt: int) -> Outgoing:
        """Commit to a nonce and to the keys that she would relay with."""
        host = self.host
        secret = host.secrets.of(Secret.MEMBER, self.round, attempt, self.id)
        share = self._share = Share(attempt, secret, host.cipher)
        share.commitment = commitment(self.round, self.cluster, attempt, self.id, share.opening)
        return COORDINATOR, Commit(self.round, attempt, share.commitment)

    # What her host tells her: each is public, and the same for all members.

    def opens(self, session: Session) -> Sequence[Outgoing]:
        """All commitments are public: if hers is among them as she made it, she opens."""
        share, place = self._current(session, COMMITTED), session.places.get(self.id)
        if share is None or place is None:
            return ()  # too late: the attempt is made without her
        if session.commitments[place] != share.commitment:
            raise Refused(Fault.MALFORMED, f"the commitment of user {self.id} is not hers")
        share.session = session
        share.go(OPENS)
        host, opening = self.host, share.opening
        half = NONCE + host.cipher.key_size
        signature = host.signatures.sign(self.id, keys_statement(self.id, share.commitment, session.run))
        opened = Open(self.round, share.attempt, share.nonce, opening[NONCE:half], opening[half:], signature)
        return ((COORDINATOR, opened),)

    def deposits(self, session: Session) -> Sequence[Outgoing]:
        """The relays are known: she seals her noisy label and sends it to the first; if she is one, she begins."""
        share = self._current(session, OPENED)
        if share is None:
            return ()
        host, attempt = self.host, share.attempt
        seal = host.secrets.of(Secret.SEAL, self.round, attempt, self.id)
        share.sealed = host.cipher.seal(self.noisy, session.outer, session.inner, session.context, seal)
        share.go(DEPOSITS)
        deposit = session.relays[0], Deposit(self.round, attempt, share.sealed.layers[0])
        return [deposit, *self._relays(session, share)] if self.id in session.relays else (deposit,)

    def _relays(self, session: Session, share: Share) -> Sequence[Outgoing]:
        """She is drawn as a relay: she begins, with what came early for her as one."""
        self.relay = self._relaying(session, session.relays.index(self.id), share)
        held, self._held = self._held or (), None
        out: list[Outgoing] = []
        for sender, message in held:
            if getattr(message, "round", -1) == self.round and getattr(message, "attempt", -1) == share.attempt:
                out += self.relay.receive(sender, message)
        return out

    def _relaying(self, session: Session, position: int, share: Share) -> Relay:
        """What she is when she is drawn as a relay."""
        host = self.host
        labels = host.parameters.labels
        return Relay(session, position, share.outer, share.inner, host.cipher, host.secrets, labels)

    def checks(self, session: Session) -> Sequence[Outgoing]:
        """All are shown the batch: go, if her packet is in it."""
        share = self._current(session, DEPOSITED)
        if share is None:
            return ()
        assert share.sealed is not None
        if session.distinct and share.sealed.layers[-1] in session.found:
            share.go(AGREES)
            digest = session.digest
            signature = self.host.signatures.sign(self.id, session.statement(SIGNED_GO, self.id, digest))
            go = session.gos[self.id] = Go(session.round, session.attempt, digest, session.proof, signature)
            out: list[Outgoing] = list(zip(session.relays, repeat(go), strict=False))
        else:
            share.go(REFUSES)
            missing = NoGo(self.round, share.attempt, session.digest, session.proof, *share.sealed)
            out = [(to, missing) for to in (COORDINATOR, *session.relays)]
        share.sealed = None
        if self.relay is not None and self.relay.session is session:
            out += self.relay.agreed()
        return out

    def stops(self, session: Session | None, attempt: int, again: bool) -> Sequence[Outgoing]:
        """The coordinator ends an attempt: she goes on to the next, if there may be one, or abstains."""
        out: list[Outgoing] = []
        if self.relay is not None and self.relay.session is session:
            out += self.relay.expire()
        share = self._share
        if self.state is not WAITING or share is None or share.attempt > attempt:
            return out
        if not again or attempt + 1 >= ATTEMPTS:  # each is another draw of the relays
            return [*out, *self._abstain()]
        return [*out, *self.retries(session)] if share.attempt == attempt else out

    def retries(self, session: Session | None) -> Sequence[Outgoing]:
        """Enter the next attempt, unless a relay may have released its key."""
        share = self._share
        if self.state is not WAITING or share is None or share.session is not session or share.step is OVER:
            return ()
        if share.step is AGREED and (session is None or len(session.halted) < len(session.relays)):
            return ()
        attempt = share.attempt + 1
        self._leave_share()
        return (self._enter(attempt),)

    # What others tell her.

    def _drew(self, sender: int, message: Drawn) -> Sequence[Outgoing]:
        share = self._share
        if self.state is not WAITING or share is None or share.step is not AGREED or share.session is None:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} waits for no draw")
        if message.round != self.round or message.attempt != share.attempt:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} is in attempt {share.attempt} of round {self.round}")
        if sender != share.session.dealer_of(share.session.places[self.id]):
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is not the relay that deals to user {self.id}")
        said = self._replace(message.label)
        share.go(DRAWS)
        return said

    def _relayed(self, sender: int, message: Message) -> Sequence[Outgoing]:
        """What others tell the relay that she is, or is about to be."""
        relay, round_, attempt = self.relay, message.round, message.attempt  # type: ignore[attr-defined]
        if relay is not None:
            session = relay.session
            if attempt == session.attempt and round_ == session.round:
                return relay.receive(sender, message)
        share, name = self._share, (round_, attempt)
        current = (self.round, -1 if share is None else share.attempt)
        if name < current or (name == current and share is not None and share.step >= DEPOSITED):
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} is no relay of attempt {name[1]} in round {name[0]}")
        if self._held is None:
            self._held = []
        if len(self._held) > 8 * len(getattr(self, "_roster", ())) + 64:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} holds {len(self._held)} early messages and no more")
        self._held.append((sender, message))
        return ()

    def _asked_for_a_label(self, sender: int, message: Ask | Answer) -> Sequence[Outgoing]:
        raise Refused(Fault.MISDIRECTED, "nobody asks for a label in the mixed exchange")

    # Leaving.

    def _leave(self, sender: int, message: Goodbye) -> Sequence[Outgoing]:
        said = super()._leave(sender, message)
        self._leave_attempt()
        return said

    def _abstain(self) -> Sequence[Outgoing]:
        self._leave_share()
        return super()._abstain()

    def _leave_attempt(self) -> None:
        """The round is over, and with it what she had a share in and what she relayed in it."""
        self._leave_share()
        relay, self.relay = self.relay, None
        if relay is not None:
            relay.forget()

    def _leave_share(self) -> None:
        """Forget an attempt: it is over for her."""
        share, self._share = self._share, None
        if share is not None:
            share.forget()
            if share.step not in (DRAWN, OVER):
                share.go(LEAVES)

    def _current(self, session: Session, step: Step) -> Share | None:
        share = self._share
        if share is None or share.step is not step or share.attempt != session.attempt:
            return None
        return share if self.state is WAITING and self.round == session.round else None

    handlers = User.handlers | {
        Drawn: _drew,
        Goodbye: _leave,
        **dict.fromkeys((Deposit, Batch, Go, NoGo, Unlock, Reveal), _relayed),
        **dict.fromkeys((Ask, Answer), _asked_for_a_label),
    }
