"""Frames: cut out of any stream of bytes, or refused; never waited for without end."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.network.frames import (
    CHUNK,
    MAX_BODY,
    MAX_FIRST,
    MAX_REASON,
    Ack,
    AnyFrame,
    Bye,
    Frame,
    FrameReader,
    Item,
    Open,
    Parting,
    Ping,
    decode,
    pack,
)
from p2p_labeldp.protocol.messages import MAX_FRAME, Refused

FRAMES: list[Frame] = [
    Open(1, "digest", "run", 7),
    Item(0, 0, b""),
    Item(2**48 - 1, 2**63 - 1, b"body"),
    Ack(0),
    Ping(),
    Bye(Parting.CLOSED, "why"),
    Bye(Parting.SHUNNED, ""),
]


class Script:
    """A stream whose pieces, and the seconds before each, were written down beforehand; then it ends."""

    def __init__(self, *pieces: bytes | float, ends: bool = True) -> None:
        self.pieces = list(pieces)
        self.ends = ends

    async def receive_some(self, max_bytes: int) -> bytes:
        while self.pieces:
            piece = self.pieces.pop(0)
            if isinstance(piece, bytes):
                assert len(piece) <= max_bytes
                return piece
            await trio.sleep(piece)
        if not self.ends:
            await trio.sleep_forever()
        return b""


def reader(*pieces: bytes | float, ends: bool = True, largest: int = MAX_FRAME) -> FrameReader:
    return FrameReader(Script(*pieces, ends=ends), silence=10, frame=4, largest=largest)


async def read_all(frames: FrameReader) -> list[AnyFrame]:
    found: list[AnyFrame] = []
    while batch := await frames.read():
        found += map(decode, batch)
    return found


# What a frame may say


@pytest.mark.parametrize("frame", FRAMES, ids=repr)
def test_what_is_packed_is_decoded_again(frame: Frame) -> None:
    data = pack(frame)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert decode(data[4:]) == frame


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "ping",
        {},
        [],
        ["pong"],
        [7],
        ["ping", 1],
        ["ack"],
        ["ack", -1],
        ["ack", 2**48],
        ["ack", 1.5],
        ["ack", True],
        ["ack", "1"],
        ["item", 0, 0],
        ["item", -1, 0, b""],
        ["item", 0, -1, b""],
        ["item", 0, 2**63, b""],
        ["item", 0, 0, "text"],
        ["item", 0, 0, b"", 0],
        ["open", 1, "digest", "run"],
        ["open", 1, "d" * 3001, "run", 0],
        ["open", 1, "digest", "r" * 129, 0],
        ["open", 1, "digest", "run", -1],
        ["open", 1.5, "digest", "run", 0],
        ["bye", "x" * (MAX_REASON + 1)],
        ["bye", b"bytes"],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(Refused) as refused:
        decode(msgspec.msgpack.encode(value))
    assert refused.value.fault == "malformed"


@given(st.binary(max_size=60))
def test_garbage_is_refused_and_nothing_else_is_raised(data: bytes) -> None:
    for attempt in (data, b"\x92\xa3ack" + data, b"\x94\xa4item" + data, b"\x91" * 5000 + data):
        with contextlib.suppress(Refused):
            assert isinstance(decode(attempt), Frame)


def test_a_refusal_does_not_quote_what_the_peer_sent() -> None:
    with pytest.raises(Refused) as refused:
        decode(msgspec.msgpack.encode(["secret", "label 3"]))
    assert "secret" not in str(refused.value)


def test_the_largest_body_fits_into_a_frame_whatever_its_number_and_clock() -> None:
    assert len(pack(Item(2**48 - 1, 2**63 - 1, bytes(MAX_BODY)))) <= MAX_FRAME + 4
    with pytest.raises(Refused, match="oversized"):
        decode(pack(Item(0, 0, bytes(MAX_FRAME)))[4:])


def test_the_longest_goodbye_and_the_longest_opening_fit_into_the_first_frame() -> None:
    widest = "\U0001f600"
    assert len(pack(Bye(Parting.CERTIFICATE, widest * MAX_REASON))) <= MAX_FIRST
    assert len(pack(Open(2**63, widest * 3000, widest * 128, 2**48 - 1))) <= MAX_FIRST


# Reading


async def test_one_read_yields_every_frame_that_has_arrived() -> None:
    frames = reader(b"".join(map(pack, FRAMES)))
    assert list(map(decode, await frames.read())) == FRAMES
    assert await frames.read() == []


async def test_frames_are_found_wherever_the_stream_is_cut() -> None:
    data = b"".join(map(pack, FRAMES))
    for place in range(1, len(data)):
        assert await read_all(reader(data[:place], data[place:])) == FRAMES
    assert await read_all(reader(*(bytes([byte]) for byte in data))) == FRAMES


async def test_a_frame_of_the_largest_size_is_read_from_many_pieces() -> None:
    data = pack(Item(3, 4, bytes(MAX_BODY))) + pack(Ping())
    pieces = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    assert await read_all(reader(*pieces)) == [Item(3, 4, bytes(MAX_BODY)), Ping()]


@pytest.mark.parametrize("length", [MAX_FRAME + 1, 2**31, 2**32 - 1])
async def test_a_length_that_is_too_large_is_refused_before_a_byte_of_it_is_read(length: int) -> None:
    stream = Script(length.to_bytes(4, "big"), b"never read")
    with pytest.raises(Refused, match="oversized"):
        await FrameReader(stream, silence=10, frame=4).read()
    assert stream.pieces == [b"never read"]


async def test_a_first_frame_may_be_held_to_a_smaller_size_than_later_ones() -> None:
    large = pack(Item(0, 0, bytes(MAX_FIRST)))
    frames = reader(pack(Ack(0)) + large, largest=MAX_FIRST)
    assert list(map(decode, await frames.read())) == [Ack(0)]
    frames.largest = MAX_FRAME
    assert list(map(decode, await frames.read())) == [Item(0, 0, bytes(MAX_FIRST))]
    with pytest.raises(Refused, match="oversized"):
        await reader(large, largest=MAX_FIRST).read()


@pytest.mark.parametrize("bad", [bytes(4), b"\xff\xff\xff\xff"], ids=["empty", "oversized"])
async def test_frames_before_a_bad_one_are_read_first(bad: bytes) -> None:
    frames = reader(pack(Ack(1)) + pack(Ack(2)) + bad)
    assert list(map(decode, await frames.read())) == [Ack(1), Ack(2)]
    with pytest.raises(Refused):
        await frames.read()


@pytest.mark.parametrize("kept", [1, 3, 4, 5])
async def test_an_end_within_a_frame_is_refused(kept: int) -> None:
    frames = reader(pack(Ping()) + pack(Ack(1))[:kept])
    assert len(await frames.read()) == 1
    with pytest.raises(Refused, match="malformed: the stream ended"):
        await frames.read()


# Time


async def test_half_a_frame_and_silence_is_refused(autojump_clock: object) -> None:
    frames = reader(8.0, pack(Ack(1))[:5], ends=False)
    with pytest.raises(Refused, match="malformed: half a frame"):
        await frames.read()
    assert trio.current_time() == 8.0 + 4.0


async def test_a_frame_that_trickles_in_too_slowly_is_refused(autojump_clock: object) -> None:
    trickle = [piece for byte in pack(Bye(Parting.CLOSED, "a long farewell")) for piece in (1.0, bytes([byte]))]
    with pytest.raises(Refused, match="half a frame"):
        await reader(*trickle).read()


async def test_silence_has_a_limit_and_is_no_ones_fault(autojump_clock: object) -> None:
    frames = reader(9.0, pack(Ping()), 9.0, pack(Ping()), ends=False)
    assert len(await frames.read()) == len(await frames.read()) == 1
    with pytest.raises(trio.TooSlowError, match="nothing was heard"):
        await frames.read()
    assert trio.current_time() == 18.0 + 10.0


async def test_a_reader_who_is_busy_does_not_blame_the_peer(autojump_clock: object) -> None:
    frames = reader(pack(Ping()) + pack(Ack(1))[:5], pack(Ack(1))[5:])
    await frames.read()
    await trio.sleep(1000)
    assert list(map(decode, await frames.read())) == [Ack(1)]
