"""Messages on the wire: what a peer may send, and how anything else is refused."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_labeldp.protocol.messages import (
    BY_KIND,
    CLOSED_PART,
    COORDINATOR,
    KINDS,
    MAX_FEATURES,
    MAX_FRAME,
    MAX_LABELS,
    MESSAGES,
    ROSTER_PART,
    Answer,
    AnyMessage,
    Ask,
    Assignment,
    Attempt,
    Batch,
    Centre,
    Closed,
    ClusterShares,
    Commit,
    Committed,
    Deposit,
    Digest,
    Done,
    Drawn,
    Fault,
    Features,
    Go,
    Goodbye,
    Halt,
    Hello,
    Index,
    Label,
    Message,
    NoGo,
    Open,
    Opened,
    Outcome,
    Overdue,
    Passed,
    Prior,
    Refusal,
    Refused,
    Release,
    Report,
    Reveal,
    Roster,
    Round,
    RoundNumber,
    Short,
    Step,
    Stop,
    Submit,
    Unlock,
    kind_of,
    name_of,
)
from p2p_labeldp.protocol.wire import Envelope, decode, encode

ONE_OF_EACH: list[AnyMessage] = [
    Hello(1, Features(np.array([0.5, -2.0], dtype=np.float32))),
    Roster(3, 0, np.arange(4, dtype="<i8").tobytes()),
    Assignment(3, 4, 2),
    Round(1, True),
    Ask(0),
    Answer(0, 9),
    Report(0, 9),
    Submit(4),
    Release(7, 2),
    Done(0, "reported"),
    Closed(0, 0, b"\x0c", 0),
    ClusterShares(2, np.array([0.25, 0.75], dtype="<f8").tobytes()),
    Prior(np.array([0.25, 0.75], dtype="<f8").tobytes()),
    Goodbye(False),
    Refusal(5, "ask", Fault.DUPLICATE, "user 5 asked already"),
    Centre(3, Features(np.array([0.5, -2.0], dtype=np.float32))),
    Commit(0, 1, bytes(32)),
    Committed(0, 3, 1, 2, 0, np.arange(2, dtype="<i8").tobytes(), bytes(64), bytes(32)),
    Open(0, 1, bytes(16), bytes(32), bytes(32), bytes(64)),
    Opened(0, 3, 1, 0, bytes(288), bytes(16), bytes(32)),
    Deposit(0, 1, bytes(290)),
    Batch(0, 3, 1, 2, 0, [bytes(194), bytes(194)], b""),
    Batch(0, 3, 1, 3, 0, [bytes(146), bytes(146)], bytes(64)),
    Passed(0, 3, 1, 2, bytes(32), bytes(32)),
    Go(0, 1, bytes(32), bytes(64), bytes(64)),
    NoGo(0, 1, bytes(32), bytes(64), [bytes(290), bytes(242)], [bytes(32)]),
    Unlock(0, 1, bytes(32), bytes(32)),
    Reveal(0, 1, bytes(16)),
    Drawn(0, 1, 9),
    Halt(0, 3, 1, [4, 7], "a packet occurs twice", []),
    Halt(0, 3, 1, [4], "the last relay signed two batches", [bytes(32)] * 5),
    Overdue(0, 1, 2, [3, 4]),
    Stop(0, 3, 1, True),
]

EXAMPLES = {kind_of(message): msgpack.unpackb(encode(Envelope(0, 1, message)))[2] for message in ONE_OF_EACH}
"""Of each kind, what stands on the wire: the kind and its fields."""


def frame(*parts: Any, sender: Any = 0, receiver: Any = 1) -> bytes:
    packed: bytes = msgpack.packb([sender, receiver, list(parts)])
    return packed


def fault(data: bytes) -> str:
    with pytest.raises(Refused) as caught:
        decode(data)
    assert str(caught.value).startswith(f"{caught.value.fault}: ")
    return caught.value.fault


def verdict(data: bytes) -> str:
    """The fault of a frame that may be right or wrong."""
    try:
        decode(data)
    except Refused as refused:
        return refused.fault
    return "accepted"


def test_there_is_an_example_of_every_kind() -> None:
    assert {type(message) for message in ONE_OF_EACH} == set(MESSAGES)


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=kind_of)
def test_every_kind_survives_the_wire(message: AnyMessage) -> None:
    envelope = Envelope(7, COORDINATOR, message)
    assert decode(encode(envelope)) == envelope


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_wire_a_message_is_a_plain_array_with_its_kind_first(kind: str) -> None:
    assert EXAMPLES[kind][0] == kind
    assert len(EXAMPLES[kind]) == 1 + len(KINDS[kind])


def test_an_ask_is_the_array_that_the_documentation_shows() -> None:
    assert encode(Envelope(4, 5, Ask(0))) == msgpack.packb([4, 5, ["ask", 0]])


def test_messages_cannot_be_changed() -> None:
    assert all(kind.__struct_config__.frozen for kind in MESSAGES)


VALUES: dict[Any, st.SearchStrategy[Any]] = {
    Index: st.integers(0, 2**48 - 1),
    RoundNumber: st.integers(0, 9_999),
    Label: st.integers(0, 2**15 - 1),
    Attempt: st.integers(0, 15),
    Step: st.integers(0, 64),
    Digest: st.binary(min_size=32, max_size=32),
    Short: st.binary(max_size=64),
    bool: st.booleans(),
    bytes: st.binary(max_size=80),
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(max_size=40),
    Features: st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20).map(
        lambda row: Features(np.array(row, dtype=np.float32))
    ),
    Fault: st.sampled_from(Fault),
    Outcome: st.sampled_from(get_args(Outcome)),
}
"""What a field may hold, by its type; of bytes and lists with a limit of their own a few."""


def values_of(type_: Any) -> st.SearchStrategy[Any]:
    if type_ in VALUES:
        return VALUES[type_]
    if get_origin(type_) is Annotated:
        return values_of(get_args(type_)[0])
    assert get_origin(type_) is list
    return st.lists(values_of(get_args(type_)[0]), max_size=5)


any_message = st.one_of(
    [st.builds(kind, *(values_of(field.type) for field in msgspec.structs.fields(kind))) for kind in MESSAGES]
)


@given(st.integers(-4, 2**48), st.integers(-4, 2**48), any_message)
def test_whatever_is_in_range_survives_the_wire(sender: int, receiver: int, message: AnyMessage) -> None:
    envelope = Envelope(sender, receiver, message)
    assert decode(encode(envelope)) == envelope


# Refusals


@pytest.mark.parametrize(
    "parts",
    [
        ("ask", -1), ("ask", 10_000), ("ask", 0.0), ("ask", True), ("ask", "0"), ("ask", None), ("ask", 2**64 - 1),
        ("answer", 0, -1), ("answer", 0, 2**15), ("answer", 0, 1.5), ("report", -1, 0), ("report", 0, -1),
        ("report", 0, float("nan")), ("done", 0, "finished"), ("done", 0, 1), ("closed", 0, -1, b"", 0),
        ("closed", 0, 0, bytes(CLOSED_PART + 1), 0), ("goodbye", 1), ("round", 1, None),
        ("refusal", 0, "ask", "rude", ""), ("shares", 0, bytes(2**18 + 1)),
        ("assignment", -1, 1, 0), ("assignment", 0, 2**48, 0), ("assignment", 0, 1, -1), ("roster", 0, -1, b""),
        ("roster", 0, 0, [1, 2]), ("roster", 0, 0, "text"), ("hello", 1, [0.5]), ("hello", 1, None),
        ("hello", 1, b""), ("hello", 1, b"123"), ("hello", "1", b"\0\0\0\0"),
    ],
)  # fmt: skip
def test_a_field_out_of_range_or_of_another_type_is_malformed(parts: tuple[Any, ...]) -> None:
    assert fault(frame(*parts)) == "malformed"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_features_must_be_finite(value: float) -> None:
    assert fault(frame("hello", 1, np.array([0, value], dtype="<f4").tobytes())) == "malformed"


def test_features_are_limited_in_number() -> None:
    most = np.zeros(MAX_FEATURES, dtype="<f4").tobytes()
    hello = decode(frame("hello", 1, most)).message
    assert isinstance(hello, Hello)
    assert len(hello.features) == MAX_FEATURES
    assert fault(frame("hello", 1, most + b"\0\0\0\0")) == "malformed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_too_many_or_too_few_is_malformed(kind: str) -> None:
    parts = EXAMPLES[kind]
    assert fault(frame(*parts, 0)) == "malformed"
    assert fault(frame(*parts[:-1])) == "malformed"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc1", b"garbage", b"\x93", msgpack.packb({"ask": 0}), msgpack.packb(["ask", 0]), msgpack.packb(None),
        frame("gossip", 0), frame("Ask", 0), frame(), frame(0, 0), frame("ask", 0, sender="0"),
        frame("ask", 0, receiver=1.0), frame("ask", 0, sender=None), frame("ask", 0) + b"\x00",
        frame("ask", 0) + frame("ask", 0), frame("ask", 0)[:-1], msgpack.packb([0, 1, ["ask", 0], 2]),
        msgpack.packb([0, 1]), b"\xdd\xff\xff\xff\xff", b"\x93\x00\x01\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
        b"\x93\x00\x01\x95\xa7refusal\x00\xa1\xff\xa9malformed\xa0",
    ],
)  # fmt: skip
def test_garbage_is_malformed(data: bytes) -> None:
    assert fault(data) == "malformed"


def test_nesting_without_end_is_malformed() -> None:
    assert fault(b"\x91" * 100_000) == "malformed"
    assert fault(b"\x93\x00\x01\x93\xa5hello\x01" + b"\x91" * 100_000) == "malformed"


def test_a_frame_over_the_limit_is_refused_unread() -> None:
    whole = frame("refusal", 0, "ask", "malformed", "x" * (MAX_FRAME - 32))
    assert len(whole) == MAX_FRAME
    assert kind_of(decode(whole).message) == "refusal"
    assert fault(frame("refusal", 0, "ask", "malformed", "x" * (MAX_FRAME - 31))) == "oversized"
    assert fault(b"\xc1" * (MAX_FRAME + 1)) == "oversized"


def test_the_largest_messages_fit_into_a_frame() -> None:
    roster = Roster(2**48 - 1, 2**48 - 1, bytes(8 * ROSTER_PART))
    hello = Hello(1, Features(np.zeros(MAX_FEATURES, dtype=np.float32)))
    shares = ClusterShares(2**48 - 1, bytes(8 * MAX_LABELS))
    closed = Closed(9_999, 2**48 - 1, bytes(CLOSED_PART), 2**48 - 1)
    assert all(len(encode(Envelope(-1, -4, message))) <= MAX_FRAME for message in (roster, hello, shares, closed))


@pytest.mark.parametrize("kind", [Answer, Report, Release, Submit])
def test_the_size_of_a_message_does_not_depend_on_its_label(kind: type[Message]) -> None:
    """MessagePack writes numbers from 128 on, and from 256 on, with more bytes than smaller ones."""
    before = [7] * (len(kind.__struct_fields__) - 1)
    frames = [encode(Envelope(3, 4, kind(*before, label))) for label in (0, 1, 127, 128, 255, 256, 2**15 - 1)]
    assert len({len(frame_) for frame_ in frames}) == 1
    assert [msgpack.unpackb(frame_)[2][-1] for frame_ in frames] == [0, 1, 127, 128, 255, 256, 2**15 - 1]


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_be_refused(data: bytes) -> None:
    assert verdict(data) in ("accepted", "malformed")


nested = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.sampled_from(sorted(KINDS)), st.lists(nested, max_size=4), nested, nested)
def test_no_fields_do_worse_than_be_refused(kind: str, fields: list[Any], sender: Any, receiver: Any) -> None:
    assert verdict(msgpack.packb([sender, receiver, [kind, *fields]])) in ("accepted", "malformed")


@given(any_message, st.data())
def test_one_altered_byte_does_no_worse_than_be_refused(message: AnyMessage, data: st.DataObject) -> None:
    frame_ = bytearray(encode(Envelope(1, 2, message)))
    frame_[data.draw(st.integers(0, len(frame_) - 1))] = data.draw(st.integers(0, 255))
    assert verdict(bytes(frame_)) in ("accepted", "malformed")


# Names


def test_addresses_have_names_for_people() -> None:
    assert [name_of(address) for address in (-1, -2, -3, -4, -5, -6, 0, 7)] == [
        "the coordinator", "the learner", "the auditor", "the host", "the curator", "the shuffler", "user 0", "user 7",
    ]  # fmt: skip


def test_features_are_equal_when_their_rows_are() -> None:
    row = np.array([1, 2], dtype=np.float32)
    assert Features(row) == Features(row.copy())
    assert Features(row) != Features(row[:1])
    assert Features(row) != "features"


def test_only_features_have_a_wire_form_of_their_own() -> None:
    with pytest.raises(NotImplementedError, match="no wire form for object"):
        encode(msgspec.structs.replace(Envelope(0, 1, Goodbye(False)), message=object()))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_message_says_needs_no_more_than_a_page_keeps_of_it(kind: str) -> None:
    said = BY_KIND[kind].record.says.format(label="a", user=1, outcome="reported")
    assert "{" not in said
