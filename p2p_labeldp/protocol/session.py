"""What is public of one attempt at a cluster's mixed exchange: members, commitments, relays, keys, and the batch to
agree on.

    COMMITTING --all commitments--> OPENING --all openings, which fit--> MIXING --the whole last batch--> SHOWN

A host keeps one for all its users in the cluster, as it keeps their roster. Everything in it is the same for every
member, or they will not agree: ``context`` is a digest of run, round, attempt, members, who signs for them, nonces and
keys, so of the relays too. A go signs the context and ``digest``, that of every packet of the batch.

What arrives may come in parts and in any order within its kind. A publication that does not fit is refused, and the
session stays as it was.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from operator import lt

import numpy as np

from p2p_labeldp.mechanisms.mixing import DOMAIN, NONCE, PACKED, digest, relay_places
from p2p_labeldp.protocol.messages import Batch, Committed, Fault, Go, Opened, Refused, name_of
from p2p_labeldp.protocol.signatures import SIGNED_BATCH, SIGNED_GO, SIGNED_KEYS, Signatures, statement

COMMITMENT = 32  # bytes
_COMMITMENT, _whose = DOMAIN + b"commitment", PACKED[4]


class Stage(IntEnum):
    COMMITTING = 0
    OPENING = 1
    MIXING = 2
    SHOWN = 3


COMMITTING, OPENING, MIXING, SHOWN = Stage

TRANSITIONS: dict[Stage, Stage] = {COMMITTING: OPENING, OPENING: MIXING, MIXING: SHOWN}


def commitment(round_: int, cluster: int, attempt: int, user: int, opening: bytes) -> bytes:
    """To a nonce and two public keys, by a user; to a nonce alone, by the coordinator."""
    return hashlib.sha256(_COMMITMENT + _whose(round_, cluster, attempt, user) + opening).digest()


def keys_statement(user: int, sealed: bytes, run: str) -> bytes:
    """What a user signs of her keys; ``sealed`` is her commitment, to them and to all else that they are for."""
    return statement(SIGNED_KEYS, user, sealed + run.encode())


def batch_digest(packets: Sequence[bytes]) -> bytes:
    """Of packets of one size, in their order."""
    return digest(b"batch", [struct.pack("<2q", len(packets), len(packets[0]) if packets else 0), b"".join(packets)])


class Parts:
    """A list that comes in parts, each from its own place on."""

    __slots__ = ("_parts", "_size", "whole")

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: dict[int, list[bytes]] = {}
        self.whole: list[bytes] | None = None

    def take(self, first: int, items: Sequence[bytes]) -> list[bytes] | None:
        """The whole list, if this was the last part missing."""
        if self.whole is not None or first in self._parts:
            raise Refused(Fault.DUPLICATE, f"places from {first} on are known")
        known = sum(map(len, self._parts.values()))
        if not items or known + len(items) > self._size or first + len(items) > self._size:
            raise Refused(Fault.MALFORMED, f"{len(items)} items from place {first} on, of {self._size}")
        self._parts[first] = list(items)
        if known + len(items) < self._size:
            return None
        whole: list[bytes] = []
        for start in sorted(self._parts):
            if start != len(whole):
                raise Refused(Fault.MALFORMED, f"places from {len(whole)} on are told twice, or not at all")
            whole += self._parts[start]
        self.whole, self._parts = whole, {}
        return whole


class Session:
    """``roster`` are all users of the cluster; ``relays`` how many relays there are to be."""

    __slots__ = (
        "_committing", "_key_size", "_openings", "_own", "_shown", "attempt", "batch", "cluster", "commitments",
        "context", "digest", "found", "gos", "halted", "inner", "members", "outer", "places", "proof", "relays",
        "round", "run", "signatures", "stage", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        run: str,
        round_: int,
        cluster: int,
        attempt: int,
        wanted: int,
        key_size: int,
        signatures: Signatures | None = None,
    ) -> None:
        """``signatures`` are None for whoever looks at what was published, and has checked it."""
        self.run = run
        self.round, self.cluster, self.attempt = round_, cluster, attempt
        self.wanted = wanted
        self.stage = COMMITTING
        self.members: list[int] = []
        self.places: dict[int, int] = {}
        """Of each member, her place among them."""
        self.commitments: list[bytes] = []
        """By place."""
        self.relays: tuple[int, ...] = ()
        """User ids, first to last; known once everyone has opened."""
        self.outer: list[bytes] = []
        self.inner: list[bytes] = []
        """The relays' public keys."""
        self.context = b""
        self.batch: list[bytes] = []
        self.found: frozenset[bytes] = frozenset()
        """The packets that all are shown, for looking up one's own."""
        self.digest = b""
        """Of the batch that all are shown."""
        self.proof = b""
        """The last relay's signature on it."""
        self.signatures = signatures
        self.halted: set[int] = set()
        """Relays who have said that they gave the attempt up, and released nothing."""
        self._key_size = key_size
        self._committing: Parts | None = None
        self._openings: Parts | None = None
        self._shown: Parts | None = None
        self._own = b""
        self.gos: dict[int, Go] = {}
        """Of each member, one that she is known to have signed: it was checked, or her host is this one."""

    @property
    def name(self) -> tuple[int, int, int]:
        return self.round, self.cluster, self.attempt

    def dealer_of(self, place: int) -> int:
        """The relay that tells the member at a place what was drawn for her; it follows from the place alone."""
        return self.relays[place % len(self.relays)]

    def commit(self, part: Committed, roster: Sequence[int], least: int) -> bool:
        """A part of the commitments; whether it was the last. Fewer than ``least`` members would hide nobody."""
        self._require(COMMITTING)
        count = len(part.members) // 8
        if len(part.members) % 8 or len(part.commitments) != count * COMMITMENT or not part.size <= len(roster):
            raise Refused(Fault.MALFORMED, "a commitment of 32 bytes for each member, who takes 8")
        if self._committing is None:
            self._committing, self._own = Parts(part.size), part.own
        if part.own != self._own:
            raise Refused(Fault.MALFORMED, "two commitments of the coordinator")
        ids, sealed = part.members, part.commitments
        rows = [ids[8 * i : 8 * i + 8] + sealed[COMMITMENT * i : COMMITMENT * (i + 1)] for i in range(count)]
        whole = self._committing.take(part.first, rows)
        if whole is None:
            return False
        members: list[int] = np.frombuffer(b"".join([row[:8] for row in whole]), dtype="<i8").tolist()
        self._committing = None
        least = max(least, self.wanted)
        ascending = all(map(lt, members, members[1:]))
        if not ascending or not set(roster).issuperset(members) or len(members) < least:
            raise Refused(
                Fault.MALFORMED,
                f"members are users of cluster {self.cluster}, each once, ascending, at least {least} of them",
            )
        self._list(members)
        self.commitments = [row[8:] for row in whole]
        self.stage = TRANSITIONS[COMMITTING]
        return True

    def open(self, part: Opened) -> bool:
        """A part of the openings; with the last one relays and keys are known."""
        self._require(OPENING)
        assert self.signatures is not None
        size = NONCE + 2 * self._key_size
        each = size + self.signatures.size
        if not part.openings or len(part.openings) % each or len(part.own) != NONCE:
            raise Refused(Fault.MALFORMED, f"an opening takes {each} bytes, the coordinator's {NONCE}")
        if commitment(*self.name, -1, part.own) != self._own:
            raise Refused(Fault.MALFORMED, "the coordinator opens what it did not commit to")
        if part.signers != self.signatures.signers(self.members):
            raise Refused(Fault.MALFORMED, "the coordinator says that other keys sign for the members")
        if self._openings is None:
            self._openings = Parts(len(self.members))
        rows = [part.openings[start : start + each] for start in range(0, len(part.openings), each)]
        name, members, commitments = self.name, self.members, self.commitments
        for place, row in enumerate(rows, part.first):
            if place >= len(members) or commitments[place] != commitment(*name, members[place], row[:size]):
                raise Refused(Fault.MALFORMED, f"the opening at place {place} is not what was committed to")
        whole = self._openings.take(part.first, rows)
        if whole is None:
            return False
        self._openings = None
        self._draw([row[:size] for row in whole], part.own, part.signers)
        for relay in self.relays:
            place = self.places[relay]
            if not self.signed_keys(relay, commitments[place], whole[place][size:]):
                self.stage = OPENING
                raise Refused(Fault.MALFORMED, f"the keys of {name_of(relay)} are not signed by her")
        return True

    def signed_keys(self, user: int, sealed: bytes, signature: bytes) -> bool:
        """Whether a user signed the keys that she committed to."""
        assert self.signatures is not None
        return self.signatures.verifies(user, keys_statement(user, sealed, self.run), signature)

    def assume(self, openings: Mapping[int, bytes], own: bytes, signers: bytes) -> None:
        """What members opened, known to fit what they committed to: for the coordinator, who checked each of them."""
        self._list(sorted(openings))
        self.stage = OPENING
        self._draw([openings[user] for user in self.members], own, signers)

    def _list(self, members: list[int]) -> None:
        self.members = members
        self.places = {user: place for place, user in enumerate(members)}

    def _draw(self, whole: Sequence[bytes], own: bytes, signers: bytes) -> None:
        """Relays and keys, from what everyone opened."""
        ids = np.array(self.members, dtype="<i8").tobytes()
        facts = struct.pack("<5q", *self.name, self.wanted, len(self.members))
        self.context = digest(b"session", [facts, ids, *whole, own, signers, self.run.encode()])
        chosen = relay_places(self.context, len(self.members), self.wanted)
        self.relays = tuple(self.members[place] for place in chosen)
        self.outer = [whole[place][NONCE : NONCE + self._key_size] for place in chosen]
        self.inner = [whole[place][NONCE + self._key_size :] for place in chosen]
        self.stage = TRANSITIONS[OPENING]

    def show(self, sender: int, part: Batch, size: int) -> bool:
        """A part of the batch that the last relay shows to all, of packets that take ``size`` bytes each."""
        self._require(MIXING)
        if sender != self.relays[-1]:
            raise Refused(Fault.MISDIRECTED, f"user {sender} is not the last relay of cluster {self.cluster}")
        if not {size}.issuperset(map(len, part.packets)):
            raise Refused(Fault.MALFORMED, f"a packet of another size than {size} bytes")
        if self._shown is None:
            self._shown = Parts(len(self.members))
        whole = self._shown.take(part.first, part.packets)
        if whole is None:
            return False
        self._shown = None
        found = batch_digest(whole)
        if not self.showed(found, part.signature):
            raise Refused(
                Fault.MALFORMED, f"the last relay, {name_of(sender)}, has not signed the batch that she shows"
            )
        self.batch, self.digest, self.proof = whole, found, part.signature
        self.found = frozenset(self.batch)
        self.stage = TRANSITIONS[MIXING]
        return True

    def showed(self, digest_: bytes, signature: bytes) -> bool:
        """Whether the last relay has signed a batch of this attempt as the one that it shows."""
        assert self.signatures is not None
        return self.signatures.verifies(
            self.relays[-1], self.statement(SIGNED_BATCH, self.relays[-1], digest_), signature
        )

    def said_go(self, user: int, go: Go) -> bool:
        """Whether a member has signed her go; found out once, however many relays of this host are told of it."""
        assert self.signatures is not None
        if self.gos.get(user) == go:
            return True
        if not self.signatures.verifies(user, self.statement(SIGNED_GO, user, go.digest), go.signature):
            return False
        self.gos[user] = go
        return True

    def statement(self, what: bytes, user: int, digest_: bytes) -> bytes:
        """What is signed of a batch of this attempt."""
        return statement(what, user, self.context + digest_)

    @property
    def distinct(self) -> bool:
        """Whether no packet occurs twice in the batch that all are shown."""
        return len(self.found) == len(self.members)

    def _require(self, stage: Stage) -> None:
        if self.stage is not stage:
            fault = Fault.DUPLICATE if self.stage > stage else Fault.OUT_OF_ORDER
            raise Refused(fault, f"attempt {self.attempt} of cluster {self.cluster} is {self.stage.name.lower()}")
