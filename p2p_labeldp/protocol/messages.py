"""Every message of the protocol: one tagged union of frozen structs; ``wire`` turns them into MessagePack.

On the wire a message is an array, its kind first: ``["ask", 0]``. Addresses are integers: users are
0..n-1, the other parties count down from -1. ``docs/protocol.md`` describes each message's sender,
receiver and meaning. Ranges are checked when a message is decoded, that is where a peer may lie; what
depends on state (who may send it, and when) is checked by the role that receives it.

What is true of a kind of message is stated by its class: its fields, and in its record which parties it goes between,
what it is for and how a page puts it. Audits and reports ask the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.scenario import EXCHANGES

VERSION = 5

COORDINATOR, LEARNER, AUDITOR, HOST, CURATOR, SHUFFLER = -1, -2, -3, -4, -5, -6
PARTIES = {
    "coordinator": COORDINATOR, "learner": LEARNER, "auditor": AUDITOR, "host": HOST, "curator": CURATOR,
    "shuffler": SHUFFLER,
}  # fmt: skip
USER = "user"
"""Where a record names the parties that a message goes between: any user."""
Parties = tuple[int | str, ...]

ASKING = tuple(name for name, record in EXCHANGES.items() if not record.relayed)
RELAYED = tuple(name for name, record in EXCHANGES.items() if record.relayed)
"""The exchanges in which users ask each other, and those in which relays mix what users hand in."""

MAX_FEATURES = 1 << 16  # 256 KiB of float32: larger than any picture or table row we load
ROSTER_PART = 1 << 16  # members per roster message: 512 KiB, so that no frame needs more than 1 MiB
CLOSED_PART = 1 << 16  # bytes of a bitmap, one bit for each user: half a million of them in 64 KiB
MAX_FRAME = 1 << 20  # bytes; a roster part is the largest message and takes half of it

ATTEMPTS = 3  # draws of relays in a round at most: each is a chance for colluders that all relays are theirs
SESSION_PART = 1 << 12  # members per part of what an attempt publishes: 144 bytes for each of them, 576 KiB
BATCH_BYTES = 1 << 19  # of packets per part of a batch; a packet takes 98 bytes for one relay, 3 KiB for 32

Index = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]  # user ids, places and sizes
RoundNumber = Annotated[int, msgspec.Meta(ge=0, lt=10_000)]
MAX_LABELS = 1 << 15
Label = Annotated[int, msgspec.Meta(ge=0, lt=MAX_LABELS)]
Attempt = Annotated[int, msgspec.Meta(ge=0, lt=16)]
Step = Annotated[int, msgspec.Meta(ge=0, le=64)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Short = Annotated[bytes, msgspec.Meta(max_length=64)]  # a nonce, a key or a signature
Outcome = Literal["reported", "dropped", "abstained"]


class Fault(StrEnum):
    """What may be wrong with a message; the code stands on the wire, in traces and in logs."""

    MALFORMED = "malformed"
    OVERSIZED = "oversized"
    OUT_OF_ORDER = "out_of_order"
    DUPLICATE = "duplicate"
    MISDIRECTED = "misdirected"


class Refused(Exception):
    """A peer's message that its receiver will not act on; the receiver stays as it was."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(f"{fault}: {detail}")
        self.fault = fault
        self.detail = detail


class Features:
    """A user's public features; traces record only how many there are, since they are public and bulky."""

    __slots__ = ("row",)

    def __init__(self, row: NDArray[np.float32]) -> None:
        self.row = row

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and np.array_equal(self.row, other.row)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def from_bytes(cls, data: bytes) -> Features:
        if len(data) % 4 or not 0 < len(data) <= 4 * MAX_FEATURES:
            raise ValueError(f"features take 4 to {4 * MAX_FEATURES} bytes, 4 each, not {len(data)}")
        row = np.frombuffer(data, dtype="<f4")
        if not np.isfinite(row).all():
            raise ValueError("features must be finite numbers")
        return cls(row)


@dataclass(frozen=True)
class MessageRecord:
    """What is true of a kind of message."""

    senders: Parties
    receivers: Parties
    purpose: str
    """What it is for, in half a line."""
    exchanges: tuple[str, ...] = tuple(EXCHANGES)
    """Which exchanges of Algorithm 2 have it; other mechanisms have messages of their own."""
    says: str = ""
    """One such message in words, where its kind does not say it all; ``{label}`` and the like stand for its fields."""
    counterpart: str | None = None
    """Of a question and its answer, the kind of the other one."""
    once: bool = False
    """Whether all there is to audit is that nobody says it twice to one receiver, in a round if it has one; other
    messages have a rule in ``audit.invariants``."""


_mixed = partial(MessageRecord, exchanges=RELAYED)
_elsewhere = partial(MessageRecord, exchanges=())  # in other mechanisms


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What all messages share. They hold no cycles, so the collector need not look at them."""

    record: ClassVar[MessageRecord]


class Hello(Message, frozen=True, tag="hello"):
    record = MessageRecord((USER,), (COORDINATOR,), "a user joins, with her public features")

    version: int
    features: Features


class Roster(Message, frozen=True, tag="roster"):
    record = MessageRecord((COORDINATOR,), (HOST, CURATOR, SHUFFLER), "the coordinator lists a cluster's members")

    cluster: Index
    first: Index
    members: bytes  # int64 little-endian user ids, ascending, from place `first` on


class Centre(Message, frozen=True, tag="centre"):
    """Only where users check their assignment; a cluster made of several cells has several."""

    record = MessageRecord((COORDINATOR,), (HOST,), "the coordinator names a cluster's centre")

    cluster: Index
    features: Features


class Assignment(Message, frozen=True, tag="assignment"):
    record = MessageRecord((COORDINATOR,), (USER,), "a user is told her cluster")

    cluster: Index
    size: Index
    place: Index


class Round(Message, frozen=True, tag="round"):
    """The round before is closed for everyone; ``release`` says whether she reports what she was answered in it."""

    record = MessageRecord((COORDINATOR,), (USER, HOST), "another round begins", says="next round")

    round: RoundNumber
    release: bool


class Ask(Message, frozen=True, tag="ask"):
    record = MessageRecord(
        (USER,), (USER,), "a user asks one of her cluster", exchanges=ASKING, says="question", counterpart="answer"
    )

    round: RoundNumber


class Answer(Message, frozen=True, tag="answer"):
    record = MessageRecord(
        (USER,), (USER,), "she is told a noisy label", exchanges=ASKING, says="answer “{label}”", counterpart="ask"
    )

    round: RoundNumber
    label: Label


class Report(Message, frozen=True, tag="report"):
    record = MessageRecord((USER,), (LEARNER,), "a user forwards what she was told", says="report “{label}”")

    round: RoundNumber
    label: Label


class Submit(Message, frozen=True, tag="submit"):
    record = _elsewhere((USER,), (CURATOR, SHUFFLER), "a user hands her label over", says="label “{label}” handed over")

    label: Label


class Release(Message, frozen=True, tag="release"):
    record = _elsewhere(
        (CURATOR, SHUFFLER),
        (LEARNER,),
        "a curator or shuffler passes a noisy label on",
        says="label “{label}” released for user {user}",
    )

    user: Index
    label: Label


class Done(Message, frozen=True, tag="done"):
    record = MessageRecord((USER,), (COORDINATOR,), "a user has finished a round", says="done: {outcome}")

    round: RoundNumber
    outcome: Outcome


class Closed(Message, frozen=True, tag="closed"):
    """Whose labels of a round count; ``protocol.collection`` makes these messages and reads them."""

    record = MessageRecord(
        (COORDINATOR, CURATOR, SHUFFLER), (LEARNER, CURATOR, SHUFFLER), "a round is over: whose labels count"
    )

    round: RoundNumber
    first: Index
    counted: Annotated[bytes, msgspec.Meta(max_length=CLOSED_PART)]  # bit i, lowest first: user `first` + i counts
    shares: Index  # how many `shares` come with the round


class ClusterShares(Message, frozen=True, tag="shares"):
    """The label distribution that a curator publishes for a cluster."""

    record = _elsewhere((CURATOR,), (LEARNER,), "the curator publishes a cluster's label distribution")

    cluster: Index
    values: Annotated[bytes, msgspec.Meta(max_length=8 * MAX_LABELS)]  # float64 little-endian, one for each label


class Prior(Message, frozen=True, tag="prior"):
    """What the learner expects of a user's label before she reports, in a mechanism of two stages."""

    record = _elsewhere(
        (LEARNER,), (USER,), "the learner tells a user of the second stage what it expects of her", says="prior"
    )

    values: Annotated[bytes, msgspec.Meta(max_length=8 * MAX_LABELS)]  # float64 little-endian, one for each label


class OfMember(Message, frozen=True):
    """Of an attempt of the mixed exchange, from or to one member: her cluster is known."""

    round: RoundNumber
    attempt: Attempt


class OfAttempt(Message, frozen=True):
    """Of an attempt of the mixed exchange, to or about a whole cluster."""

    round: RoundNumber
    cluster: Index
    attempt: Attempt


class Commit(OfMember, frozen=True, tag="commit"):
    """A member's commitment to a nonce and to the keys she would relay with."""

    record = _mixed((USER,), (COORDINATOR,), "a member commits to a nonce and keys", says="commits")

    commitment: Digest


class Committed(OfAttempt, frozen=True, tag="committed"):
    """Everyone's commitments, from place ``first`` of the attempt's ``size`` members on, and the coordinator's own."""

    record = _mixed((COORDINATOR,), (HOST,), "everyone's commitments are published")

    size: Index
    first: Index
    members: bytes  # int64 little-endian user ids, ascending
    commitments: bytes  # 32 for each of them
    own: Digest


class Open(OfMember, frozen=True, tag="open"):
    """Signed, since others seal labels for these keys."""

    record = _mixed((USER,), (COORDINATOR,), "she opens what she committed to", says="opens")

    nonce: Short
    outer: Short
    inner: Short
    signature: Short


class Opened(OfAttempt, frozen=True, tag="opened"):
    """What everyone opened, from place ``first`` on: nonce, outer and inner key, signature of each. Relays follow.

    ``signers`` is a digest of whose key signs for each member.
    """

    record = _mixed((COORDINATOR,), (HOST,), "all openings are published: the relays are known")

    first: Index
    openings: bytes
    own: Short
    signers: Digest


class Deposit(OfMember, frozen=True, tag="deposit"):
    record = _mixed((USER,), (USER,), "a member hands her sealed label to the first relay", says="sealed label")

    packet: bytes


class Batch(OfAttempt, frozen=True, tag="batch"):
    """Packets after ``step`` relays, from place ``first`` on: for the next relay or, after the last, for everyone.

    The last relay signs the batch that it shows to everyone, all of it in every part; the others need not.
    """

    record = _mixed((USER,), (USER, HOST, COORDINATOR), "a relay passes all sealed labels on", says="sealed batch")

    step: Step
    first: Index
    packets: list[bytes]
    signature: Short


class Passed(OfAttempt, frozen=True, tag="passed"):
    """Digests of the batch that a relay took and of the one it passed on."""

    record = _mixed((USER,), (COORDINATOR,), "a relay tells the digests of its batches")

    step: Step
    taken: Digest
    passed: Digest


class Go(OfMember, frozen=True, tag="go"):
    """My packet is in the batch with this digest, which the last relay has ``shown`` me: signed by it, and by me."""

    record = _mixed((USER,), (USER,), "a member has found her packet in the batch")

    digest: Digest
    shown: Short
    signature: Short


class NoGo(OfMember, frozen=True, tag="nogo"):
    """My packet is not in the batch ``digest``, which the last relay has ``shown`` me, signed by it.

    Its outer layers, first to last, and what each was sealed with.
    """

    record = _mixed((USER,), (USER, COORDINATOR), "a member has not found her packet", says="no-go")

    digest: Digest
    shown: Short
    layers: list[bytes]
    proofs: list[Short]


class Unlock(OfMember, frozen=True, tag="unlock"):
    """A relay's inner key, released to the relays, and its commitment to a nonce of the draw."""

    record = _mixed((USER,), (USER,), "a relay releases its inner key to the relays", says="inner key")

    key: Short
    commitment: Digest


class Reveal(OfMember, frozen=True, tag="reveal"):
    """A relay's nonce of the draw."""

    record = _mixed((USER,), (USER,), "a relay opens its nonce of the draw", says="nonce")

    nonce: Short


class Drawn(OfMember, frozen=True, tag="drawn"):
    record = _mixed((USER,), (USER,), "a member is told the label that was drawn for her", says="label {label}")

    label: Label


class Halt(OfAttempt, frozen=True, tag="halt"):
    """A relay gives an attempt up before it released its key, and never will; ``named`` may be to blame.

    ``evidence``: that the last relay has signed two batches (``signatures.signed_twice``), where it has.
    """

    record = _mixed((USER,), (HOST, COORDINATOR), "a relay gives an attempt up")

    named: list[Index]
    reason: str
    evidence: Annotated[list[Short], msgspec.Meta(max_length=5)]


class Overdue(OfAttempt, frozen=True, tag="overdue"):
    """A relay that has released its key waits for those of others, or for their nonces: there is no way back for it."""

    record = _mixed((USER,), (COORDINATOR,), "a relay that has released says for whom it waits")

    named: list[Index]


class Stop(OfAttempt, frozen=True, tag="stop"):
    """The coordinator ends an attempt; ``again``: another one begins, with fresh commitments from everyone."""

    record = _mixed((COORDINATOR,), (HOST,), "an attempt is over")

    again: bool


class Goodbye(Message, frozen=True, tag="goodbye"):
    """The last round is closed for everyone; ``release`` as in a `Round`."""

    record = MessageRecord((COORDINATOR,), (USER, HOST), "everyone is dismissed")

    release: bool


class Refusal(Message, frozen=True, tag="refusal"):
    """``about`` sent the message of that kind; the reason is for people."""

    record = MessageRecord(
        (USER, COORDINATOR, LEARNER, HOST, CURATOR, SHUFFLER), (AUDITOR,), "someone will not act on a message"
    )

    about: int
    kind: str
    fault: Fault
    reason: str


AnyMessage = (
    Hello | Roster | Centre | Assignment | Round | Ask | Answer | Commit | Committed | Open | Opened | Deposit | Batch
    | Passed | Go | NoGo | Unlock | Reveal | Drawn | Halt | Overdue | Stop | Report | Prior | Submit
    | ClusterShares | Release | Done | Closed | Goodbye | Refusal
)  # fmt: skip
MESSAGES: tuple[type[Message], ...] = get_args(AnyMessage)
"""In the order in which a run sends them."""
BY_KIND = {str(cls.__struct_config__.tag): cls for cls in MESSAGES}
KINDS: dict[str, tuple[str, ...]] = {kind: cls.__struct_fields__ for kind, cls in BY_KIND.items()}
Outgoing = tuple[int, Message]  # (receiver, message)


def kind_of(message: Message) -> str:
    """The message's kind as it stands on the wire and in traces."""
    return str(type(message).__struct_config__.tag)


def name_of(address: int) -> str:
    """An address in words, for messages to people."""
    for name, party in PARTIES.items():
        if address == party:
            return f"the {name}"
    return f"user {address}"
