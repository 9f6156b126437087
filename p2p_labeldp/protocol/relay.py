"""A relay of one attempt at a cluster's mixed exchange, beside the user who holds it.

    MIXING --its batch--> PASSED --a go of every member--> RELEASED --every inner key--> DRAWING --every nonce--> DEALT
       \\______________________\\--anything wrong, or the limit--> HALTED

It takes the whole batch, strips its outer layer, permutes and passes on. It releases its inner key, to the relays
only, when it holds a go of every member over the one batch that it was shown itself; until then it may halt, and then
it never releases: a member who said go takes part in another attempt only if every relay has halted. After the
release there is no way back.

With the keys the relays open what was drawn, and nothing else. The draw follows from nonces to which they commit with
their keys and which they open when all have committed. Each member is told the label of her draw, by a relay that
follows from her own place, and never where it stood. A packet that holds no label counts as label 0: else its sender
could mark it.

Keys and the permutation are forgotten when the relay has dealt or halted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

from p2p_labeldp.mechanisms.mixing import NONCE, Secret, Secrets, draw_nonce, drawn_places, permutation
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    BATCH_BYTES,
    COORDINATOR,
    HOST,
    Batch,
    Deposit,
    Drawn,
    Fault,
    Go,
    Halt,
    Message,
    NoGo,
    Outgoing,
    Overdue,
    Passed,
    Refusal,
    Refused,
    Reveal,
    Unlock,
    kind_of,
    name_of,
)
from p2p_labeldp.protocol.sealing import Cipher
from p2p_labeldp.protocol.session import Parts, Session, batch_digest, commitment
from p2p_labeldp.protocol.signatures import SIGNED_BATCH


class Stage(IntEnum):
    MIXING = 0
    PASSED = 1
    RELEASED = 2
    DRAWING = 3
    DEALT = 4
    HALTED = 5


class Event(IntEnum):
    PASSES = 0  # its batch is complete and in order
    RELEASES = 1  # every member said go
    UNLOCKED = 2  # it has all inner keys
    DEALS = 3  # it has all nonces
    HALTS = 4


MIXING, PASSED, RELEASED, DRAWING, DEALT, HALTED = Stage
PASSES, RELEASES, UNLOCKED, DEALS, HALTS = Event

TRANSITIONS: dict[Stage, dict[Event, Stage]] = {
    MIXING: {PASSES: PASSED, HALTS: HALTED},
    PASSED: {RELEASES: RELEASED, HALTS: HALTED},
    RELEASED: {UNLOCKED: DRAWING},
    DRAWING: {DEALS: DEALT},
    DEALT: {},
    HALTED: {},
}
"""What is not here does not happen: above all nobody halts who has released."""


def batch_parts(session: Session, step: int, packets: Sequence[bytes], signature: bytes = b"") -> Iterator[Batch]:
    """A batch as messages of a bounded size."""
    each = max(1, BATCH_BYTES // max(1, len(packets[0]))) if packets else 1
    for first in range(0, len(packets), each):
        yield Batch(*session.name, step, first, list(packets[first : first + each]), signature)


class Relay:
    """The relay at a position, 0 to L-1, of a session that is mixing. ``key`` and ``inner`` are its secret keys."""

    def __init__(
        self, session: Session, position: int, key: bytes, inner: bytes, cipher: Cipher, secrets: Secrets, labels: int
    ) -> None:
        self.session = session
        self.position = position
        self.me = session.relays[position]
        self.stage = MIXING
        self._cipher = cipher
        self._secrets = secrets
        self._labels = labels
        self._size = cipher.packet_size(len(session.relays), position)  # of the packets that it takes
        self._key, self._inner = key, inner
        self._nonce = draw_nonce(secrets, *session.name, position)
        self._deposits: dict[int, bytes] = {}  # by place
        self._taking = Parts(len(session.members))
        self._taken: list[bytes] = []
        self._passed: list[bytes] = []
        self._gos: dict[int, Go] = {}  # by user
        self._keys: dict[int, Unlock] = {}  # by position
        self._nonces: dict[int, bytes] = {}  # by position

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        """Act on a message, or raise Refused and stay as it was."""
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise Refused(Fault.MISDIRECTED, f"a relay takes no {kind_of(message)}")
        return handler(self, sender, message)

    # Mixing.

    def _deposit(self, sender: int, message: Deposit) -> Sequence[Outgoing]:
        place, deposits, packet = self.session.places.get(sender), self._deposits, message.packet
        if place is None:
            raise self._stranger(sender)
        if self.position != 0:
            raise Refused(Fault.MISDIRECTED, f"user {self.me} is not the first relay")
        if place in deposits:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has deposited")
        if self.stage is not MIXING:
            raise self._untimely()
        if len(packet) != self._size:
            raise self._misshapen(sender)
        deposits[place] = packet
        if len(deposits) < len(self.session.members):
            return ()
        return self._mix([deposits[place] for place in range(len(deposits))])

    def _batch(self, sender: int, message: Batch) -> Sequence[Outgoing]:
        session = self.session
        if self.position == 0 or sender != session.relays[self.position - 1] or message.step != self.position:
            raise Refused(Fault.MISDIRECTED, f"user {self.me} takes no batch {message.step} from {name_of(sender)}")
        if self.stage is not MIXING or self._taking.whole is not None:
            raise Refused(Fault.DUPLICATE, f"user {self.me} has taken her batch")
        if not {self._size}.issuperset(map(len, message.packets)):
            raise self._misshapen(sender)
        whole = self._taking.take(message.first, message.packets)
        return () if whole is None else self._mix(whole)

    def _mix(self, packets: list[bytes]) -> Sequence[Outgoing]:
        """The whole batch is there: refuse it, or strip, permute and pass it on."""
        session = self.session
        self._taken = packets
        if len(set(packets)) < len(packets):
            return self.halt(self._before(_twice(packets)), "a packet occurs twice")
        peeled = self._strip(packets)
        if None in peeled:
            unopened = [place for place, packet in enumerate(peeled) if packet is None]
            return self.halt(self._before(unopened), "a packet that the relay's key does not open")
        if len(set(peeled)) < len(peeled):
            return self.halt(self._before(_twice(peeled)), "two packets hold the same one")
        order = self._order(len(packets))
        self._passed = [packet for place in order if (packet := peeled[place]) is not None]
        self._go(PASSES)
        last = self.position + 1 == len(session.relays)
        receiver = HOST if last else session.relays[self.position + 1]
        digests = batch_digest(packets), batch_digest(self._passed)
        out: list[Outgoing] = [(COORDINATOR, Passed(*session.name, self.position, *digests))]
        signature = self._signed(digests[1]) if last else b""
        out += [(receiver, part) for part in batch_parts(session, self.position + 1, self._passed, signature)]
        return out

    def _signed(self, digest: bytes) -> bytes:
        """The last relay's signature on the batch that it shows to all."""
        assert self.session.signatures is not None
        return self.session.signatures.sign(self.me, self.session.statement(SIGNED_BATCH, self.me, digest))

    def _strip(self, packets: list[bytes]) -> list[bytes | None]:
        return self._cipher.peel(self._key, packets, self.session.context, self.position)

    def _order(self, count: int) -> list[int]:
        order: list[int] = permutation(
            self._secrets.of(Secret.ORDER, *self.session.name, self.position), count
        ).tolist()
        return order

    def _before(self, places: list[int]) -> list[int]:
        """Who may be to blame for packets of its batch: their senders, or the relay before it."""
        session = self.session
        if self.position == 0:
            return [session.members[place] for place in places]
        return [session.relays[self.position - 1]]

    # Agreement.

    def _go_of(self, sender: int, message: Go) -> Sequence[Outgoing]:
        session, gos = self.session, self._gos
        if sender not in session.places:
            raise self._stranger(sender)
        if sender in gos:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} has said go")
        if self.stage > PASSED:
            raise self._untimely()
        if session.gos.get(sender) is not message and not session.said_go(sender, message):
            raise Refused(Fault.MALFORMED, f"{name_of(sender)} has not signed this go")
        gos[sender] = message
        return self.agreed() if len(gos) == len(session.members) else ()

    def agreed(self) -> Sequence[Outgoing]:
        """Release the inner key, if the batch is known here and every member said go over it."""
        session = self.session
        if self.stage is not PASSED or not session.digest or len(self._gos) < len(session.members):
            return ()
        if others := {user: go for user, go in self._gos.items() if go.digest != session.digest}:
            shown = next((go for go in others.values() if session.showed(go.digest, go.shown)), None)
            if shown is None:
                return self.halt(list(others), "members signed a batch that the last relay did not show")
            evidence = [session.context, session.digest, session.proof, shown.digest, shown.shown]
            return self.halt([session.relays[-1]], "the last relay signed two batches", evidence)
        if not session.distinct:
            return self.halt([session.relays[-1]], "a packet occurs twice in the batch that all were shown")
        self._go(RELEASES)
        unlock = Unlock(session.round, session.attempt, self._inner, self._pledge(self.me, self._nonce))
        self._keys[self.position] = unlock
        return [*((relay, unlock) for relay in session.relays if relay != self.me), *self._unlocked()]

    def _no_go(self, sender: int, message: NoGo) -> Sequence[Outgoing]:
        if sender not in self.session.places:
            raise self._stranger(sender)
        if self.stage > PASSED:
            raise self._untimely()
        # Evidence for whoever judges; nothing was opened, and inner layers stay sealed.
        shown: list[Outgoing] = []
        if self.position == 0:
            shown += [(COORDINATOR, part) for part in batch_parts(self.session, 0, self._taken)]
        shown += [(COORDINATOR, part) for part in batch_parts(self.session, self.position + 1, self._passed)]
        return [*shown, *self.halt([sender], "a member does not find her packet in the batch")]

    # Opening and drawing.

    def _unlock(self, sender: int, message: Unlock) -> Sequence[Outgoing]:
        position = self._relay(sender)
        if position in self._keys:
            raise Refused(Fault.DUPLICATE, f"the key of {name_of(sender)} is known")
        if self._cipher.public_key(message.key) != self.session.inner[position]:
            raise Refused(Fault.MALFORMED, f"{name_of(sender)} shows another key than the one she published")
        if self.stage > RELEASED:
            raise self._untimely()
        self._keys[position] = message
        return self._unlocked()

    def _unlocked(self) -> Sequence[Outgoing]:
        session = self.session
        if self.stage is not RELEASED or len(self._keys) < len(session.relays):
            return ()
        self._go(UNLOCKED)
        reveal = Reveal(session.round, session.attempt, self._nonce)
        self._nonces[self.position] = self._nonce
        return [*((relay, reveal) for relay in session.relays if relay != self.me), *self._revealed()]

    def _reveal(self, sender: int, message: Reveal) -> Sequence[Outgoing]:
        position = self._relay(sender)
        if position in self._nonces:
            raise Refused(Fault.DUPLICATE, f"the nonce of {name_of(sender)} is known")
        # It may overtake her commitment. Ours is out, or she opens too early; that harms nobody, for ours is made.
        if not PASSED <= self.stage <= DRAWING:
            raise self._untimely()
        if len(message.nonce) != NONCE:
            raise Refused(Fault.MALFORMED, f"a nonce takes {NONCE} bytes")
        self._nonces[position] = message.nonce
        return self._revealed()

    def _revealed(self) -> Sequence[Outgoing]:
        session = self.session
        relays = len(session.relays)
        if self.stage is not DRAWING or len(self._nonces) < relays:
            return ()
        for position, relay in enumerate(session.relays):
            if self._pledge(relay, self._nonces[position]) != self._keys[position].commitment:
                del self._nonces[position]
                reason = f"{name_of(relay)} opens what she did not commit to"
                return [(AUDITOR, Refusal(relay, "reveal", Fault.MALFORMED, reason))]
        self._go(DEALS)
        places = drawn_places([self._nonces[position] for position in range(relays)], len(session.members)).tolist()
        keys = [self._keys[position].key for position in range(relays)]
        dealt = self._deal(places, keys)
        self.forget()
        return dealt

    def _deal(self, places: list[int], keys: list[bytes]) -> list[Outgoing]:
        """To each of its members the label at her place in the batch. What is none counts as label 0: whoever was told
        something else would report nothing, and tell so that she drew a packet that somebody had marked."""
        session = self.session
        mine = range(self.position, len(places), len(session.relays))
        found = self._cipher.labels(keys, [session.batch[places[place]] for place in mine], session.context)
        labels = (0 if label is None or label >= self._labels else label for label in found)
        return [
            (session.members[place], Drawn(session.round, session.attempt, label))
            for place, label in zip(mine, labels, strict=True)
        ]

    # Giving up.

    def halt(self, about: Sequence[int], reason: str, evidence: Sequence[bytes] = ()) -> Sequence[Outgoing]:
        """Give the attempt up, unless the key is released; everyone is told."""
        if self.stage not in (MIXING, PASSED):
            return ()
        self._go(HALTS)
        self.forget()
        told = Halt(*self.session.name, sorted(about), reason, list(evidence))
        return [(HOST, told), (COORDINATOR, told)]

    def expire(self) -> Sequence[Outgoing]:
        """The attempt's time is over: name whom it waited for; one that has released goes on waiting."""
        if self.stage in (RELEASED, DRAWING):
            return [(COORDINATOR, Overdue(*self.session.name, self.awaited))]
        return self.halt(self.awaited, "the limit is over")

    @property
    def awaited(self) -> list[int]:
        """Whom it waits for."""
        session = self.session
        if self.stage is MIXING and self.position == 0:
            return [user for place, user in enumerate(session.members) if place not in self._deposits]
        if self.stage is MIXING:
            return [session.relays[self.position - 1]]
        if self.stage is PASSED:
            waiting = [user for user in session.members if user not in self._gos]
            return waiting if session.digest else [session.relays[-1]]
        known = self._keys if self.stage is RELEASED else self._nonces
        return [] if self.stage >= DEALT else [r for place, r in enumerate(session.relays) if place not in known]

    def forget(self) -> None:
        """Erase keys, nonces and what links one batch to the next."""
        self._key = self._inner = self._nonce = b""
        self._deposits, self._taken, self._passed, self._keys, self._nonces = {}, [], [], {}, {}
        self._taking = Parts(0)

    # Checks.

    def _pledge(self, relay: int, nonce: bytes) -> bytes:
        return commitment(*self.session.name, relay, nonce)

    def _stranger(self, sender: int) -> Refused:
        return Refused(Fault.MISDIRECTED, f"{name_of(sender)} is no member of this attempt")

    def _relay(self, sender: int) -> int:
        if sender == self.me or sender not in self.session.relays:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is no other relay of this attempt")
        return self.session.relays.index(sender)

    def _untimely(self) -> Refused:
        return Refused(Fault.OUT_OF_ORDER, f"user {self.me} is {self.stage.name.lower()} as a relay")

    def _misshapen(self, sender: int) -> Refused:
        return Refused(Fault.MALFORMED, f"{name_of(sender)} sends a packet of another size than {self._size} bytes")

    def _go(self, event: Event) -> None:
        self.stage = TRANSITIONS[self.stage][event]


_HANDLERS: dict[type, Callable[[Relay, int, Any], Sequence[Outgoing]]] = {
    Deposit: Relay._deposit,
    Batch: Relay._batch,
    Go: Relay._go_of,
    NoGo: Relay._no_go,
    Unlock: Relay._unlock,
    Reveal: Relay._reveal,
}


def _twice(packets: Sequence[bytes | None]) -> list[int]:
    seen: dict[bytes | None, int] = {}
    found: set[int] = set()
    for place, packet in enumerate(packets):
        first = seen.setdefault(packet, place)
        if first != place:
            found |= {first, place}
    return sorted(found)
