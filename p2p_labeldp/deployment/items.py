"""What nodes send each other: messages of the roles they carry, records for the auditor, control items.

An item is the body of one numbered place in a stream between two nodes (``network.links``). Nodes speak
of shares and hosts here; the messages of the protocol travel inside ``Mail`` and know nothing of hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.auditor import to_trace
from p2p_labeldp.protocol.messages import MAX_FRAME, Fault, Index, Refused
from p2p_labeldp.protocol.wire import LABELLED, Envelope, decode, features_from_wire, features_to_wire, wide

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Reason = Annotated[str, msgspec.Meta(max_length=1000)]  # characters, as of a refusal: a few lines

# A frame adds a few bytes to an item's body; half a frame leaves room for the largest single message, a roster part.
MAX_BODY = MAX_FRAME - 1024
COLUMN_PART = 1 << 16  # numbers: half a frame
FEATURES_PART = 1 << 18  # bytes, the features of at least one user
LARGEST_FEATURE = np.float32(1e15)
"""A squared distance must stay a number, whatever hosts claim. Features of our data end at a million."""
PART = 2000  # messages encoded at once: about 40 KiB of asks


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What all items share."""


class Mail(Item, frozen=True, tag="mail"):
    """Messages of the protocol between roles of two nodes, in the order they were sent."""

    envelopes: list[Envelope]


class Records(Item, frozen=True, tag="records"):
    """What a node's roles have sent, for the trace: [sender, receiver, message] each, all at one time."""

    time: float
    records: list[msgspec.Raw]


class Join(Item, frozen=True, tag="join"):
    """A user host offers itself to the coordinator, and says how many users it brings.

    In the mixed exchange it says by which certificate others check what it signs.
    """

    address: Name
    users: Count
    chain: bytes = b""


class Declined(Item, frozen=True, tag="declined"):
    """The coordinator's answer to a host that gets no share."""

    reason: str


class Ended(Item, frozen=True, tag="ended"):
    """The coordinator ends the run: before it has begun, or, where it is short of hosts or users, later."""

    reason: str
    status: Literal[1, 2, 3] = 3  # what nodes end with


class Unreached(Item, frozen=True, tag="unreached"):
    """A user host has waited for a connection to these nodes, and there is none."""

    keys: list[Name]


class Holder(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A user host and its share: users ``first`` to ``last - 1``."""

    key: Name
    name: Name
    address: Name
    first: Index
    last: Index


class Progress(Item, frozen=True, tag="progress"):
    """How far the run is, for whoever looks at a node: ``done`` of ``total``. Nothing in it depends on a label."""

    phase: Name
    done: Count
    total: Count


class Away(Item, frozen=True, tag="away"):
    """Hosts of which nobody took part in the round that was closed: whoever asks their users need not be waited for."""

    keys: list[Name]


class Stuck(Item, frozen=True, tag="stuck"):
    """Users (int64 little-endian) of a host who asked one that is away, or that this host cannot reach, in a round."""

    round: Count
    users: bytes


class Directory(Item, frozen=True, tag="directory"):
    """The coordinator's word on who speaks for which users."""

    run: Name
    started: float
    users: Count
    features: Count
    labels: Count
    hosts: list[Holder]


class Certificates(Item, frozen=True, tag="certificates"):
    """Those of the directory's hosts, from place ``first`` on, each followed by those it leads to (PEM)."""

    first: Index
    chains: list[bytes]


class Column(Item, frozen=True, tag="column"):
    """A part of a long array of whole numbers (int64 little-endian), from place ``first`` on."""

    name: Literal["clusters", "missing", "people"]
    first: Index
    values: bytes


class Ready(Item, frozen=True, tag="ready"):
    """The directory is known; a user host says how many of its rows are one person's, at most."""

    person_rows: Count = 1


class Examples(Item, frozen=True, tag="examples"):
    """To the learner: the features of a host's users from id ``first`` on (float32 little-endian, row by row)."""

    first: Index
    features: bytes


class Wanted(Item, frozen=True, tag="wanted"):
    """To the learner: a user host would like to have the model."""


class Result(Item, frozen=True, tag="result"):
    """From the learner: a part of a file, from byte ``first`` of ``size`` on; a model of 0 bytes is none."""

    name: Literal["model.npz", "model-card.md"]
    first: Count
    size: Count
    content: bytes


class Begin(Item, frozen=True, tag="begin"):
    """Everyone knows everyone: users may say hello."""


class Noise(Item, frozen=True, tag="noise"):
    """What meets the scenario's epsilon, and withstands its colluders, in the clusters that came about."""

    alpha: float
    delta: float
    relays: Count = 0  # of the mixed exchange, where they follow from colluders to withstand


class Quiet(Item, frozen=True, tag="quiet"):
    """A node has done its part, and all it said has arrived."""


class Finish(Item, frozen=True, tag="finish"):
    """To the auditor: nothing more will come; write the trace."""

    missing_hosts: list[str]


class Traced(Item, frozen=True, tag="traced"):
    """The trace is written: how many messages of each kind it holds."""

    kinds: dict[str, Count]


class Facts(Item, frozen=True, tag="facts"):
    """What the coordinator knows of the run, for the learner's summary; nothing in it depends on a label."""

    outcomes: list[dict[str, Count]]
    missing_hosts: list[str]
    kinds: dict[str, Count]
    merged: Count
    alpha: float
    delta: float
    unreached: list[tuple[Name, Name]] = []  # (a host, a node that it could not reach)
    withheld: list[Count] = []  # clusters that released nothing, since they would not keep the target
    person_rows: Count = 1  # the most rows of one person
    warnings: list[Reason] = []  # what went wrong in the exchange, and who is or may be to blame
    stopped: list[Count] = []  # clusters that released nothing in some round since their exchange was stopped
    reduced: list[Count] = []  # clusters whose exchange went on in some round without some of their users


class Written(Item, frozen=True, tag="written"):
    """The learner has written the run's results."""


class Over(Item, frozen=True, tag="over"):
    """Everyone may go."""


AnyItem = (
    Mail | Records | Join | Declined | Ended | Progress | Unreached | Away | Stuck | Directory | Certificates | Column
    | Ready | Begin | Examples | Wanted | Noise | Quiet | Finish | Traced | Facts | Result | Written | Over
)  # fmt: skip


SAID_BY: dict[type[Item], str] = {
    **dict.fromkeys(
        (Declined, Ended, Progress, Away, Directory, Certificates, Begin, Noise, Finish, Facts, Over), "coordinator"
    ),
    Traced: "auditor",
    Result: "learner",
    Written: "learner",
}
"""Who alone may say an item; the others several nodes may."""


class _LooseMail(Item, frozen=True, tag="mail"):
    envelopes: list[msgspec.Raw]


_encoder = msgspec.msgpack.Encoder(enc_hook=features_to_wire)
_trace_encoder = msgspec.msgpack.Encoder(enc_hook=to_trace)
_decoder = msgspec.msgpack.Decoder(AnyItem, dec_hook=features_from_wire)
_loose = msgspec.msgpack.Decoder(_LooseMail)
_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)


def encode_item(item: Item) -> bytes:
    return _encoder.encode(item)


def encode_mail(envelopes: Sequence[Envelope]) -> Iterator[bytes]:
    """The bodies of as many items as the messages need, each within a frame."""
    return _bodies(lambda part: _encoder.encode(("mail", part)), envelopes)


def encode_records(time: float, envelopes: Sequence[Envelope]) -> Iterator[bytes]:
    """The same for what the auditor is told."""
    return _bodies(lambda part: _trace_encoder.encode(("records", time, part)), envelopes)


def _bodies(encode: Callable[[list[Any]], bytes], envelopes: Sequence[Envelope]) -> Iterator[bytes]:
    for start in range(0, len(envelopes), PART):
        part = [
            (each.sender, each.receiver, wide(each.message)) if type(each.message) in LABELLED else each
            for each in envelopes[start : start + PART]
        ]
        yield from _within_frames(encode, part)


def _within_frames(encode: Callable[[list[Any]], bytes], part: list[Any]) -> Iterator[bytes]:
    body = encode(part)
    if len(body) <= MAX_BODY or len(part) == 1:
        yield body
    else:
        middle = len(part) // 2
        yield from _within_frames(encode, part[:middle])
        yield from _within_frames(encode, part[middle:])


def encode_examples(first: int, features: NDArray[np.float32]) -> Iterator[Examples]:
    """Features of consecutive users in parts that fit a frame."""
    rows = max(1, FEATURES_PART // max(1, 4 * features.shape[1]))
    for start in range(0, len(features), rows):
        yield Examples(first + start, features[start : start + rows].astype("<f4").tobytes())


def encode_result(name: Literal["model.npz", "model-card.md"], content: bytes) -> Iterator[Result]:
    """A file in parts."""
    for start in range(0, max(1, len(content)), FEATURES_PART):
        yield Result(name, start, len(content), content[start : start + FEATURES_PART])


def encode_column(name: Literal["clusters", "missing", "people"], values: NDArray[np.integer]) -> Iterator[Column]:
    """A long array in parts."""
    for start in range(0, len(values), COLUMN_PART):
        yield Column(name, start, values[start : start + COLUMN_PART].astype("<i8").tobytes())


def encode_stuck(round_: int, users: Sequence[int]) -> Iterator[Stuck]:
    for start in range(0, len(users), COLUMN_PART):
        yield Stuck(round_, np.array(users[start : start + COLUMN_PART], dtype="<i8").tobytes())


def whole_numbers(values: bytes) -> NDArray[np.int64]:
    """Those of a column, or ids of users; or refuse them."""
    if len(values) % 8:
        raise Refused(Fault.MALFORMED, "whole numbers take 8 bytes each")
    return np.frombuffer(values, dtype="<i8").astype(np.int64)


def decode_item(body: bytes) -> Item:
    """Read an item from a peer, or refuse it."""
    try:
        item: Item = _decoder.decode(body)
    except _ERRORS as error:
        raise Refused(Fault.MALFORMED, str(error)) from None
    return item


def salvage(body: bytes) -> Iterator[Envelope | Refused]:
    """The messages of mail that does not decode as a whole, one by one; nothing where it is no mail at all."""
    try:
        parts = _loose.decode(body).envelopes
    except _ERRORS:
        return
    for part in parts:
        try:
            yield decode(bytes(part))
        except Refused as refused:
            yield refused
