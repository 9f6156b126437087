"""Frames: length-prefixed items on a stream of bytes.

A frame is its length in four bytes, big-endian, then that many bytes: one of the five structs below in
MessagePack. ``Open`` comes first from both sides of a connection and once; ``Item`` carries what nodes have
to say, ``Ack`` how much of it is safe with the other, ``Ping`` that someone is still there, and ``Bye`` why
someone will not be.

Nothing here trusts the peer: a length is checked before anything of that length is kept, whatever is not one
of the five is refused, and neither silence nor half a frame is waited for without end.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol

import msgspec
import trio

from p2p_labeldp.protocol.messages import MAX_FRAME, Fault, Refused

CHUNK = 1 << 16  # bytes asked for at once: four TLS records, and thousands of small frames
MAX_BODY = MAX_FRAME - 64  # what an Item adds to its body takes at most 29 bytes
MAX_FIRST = 1 << 14  # before a peer is admitted: the longest Open, if each of its characters took four bytes
MAX_REASON = 1000  # characters: a few lines, so that a peer cannot fill our log

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]  # as protocol.messages.Index: more than any run sends
Name = Annotated[str, msgspec.Meta(max_length=128)]  # a SHA-512 in hex is the longest name anyone needs
Digest = Annotated[str, msgspec.Meta(max_length=3000)]  # of every key of a scenario, so that one that differs is named


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What all frames share. They hold no cycles, so the collector need not look at them."""


class Open(Frame, frozen=True, tag="open"):
    """Who speaks which version of what, in which run, and how many of the other's items have arrived here.

    ``program`` came later: one that does not name itself is older than 0.2.0.
    """

    version: int
    digest: Digest
    run: Name
    received: Count
    program: Name = ""


class Item(Frame, frozen=True, tag="item"):
    number: Count
    clock: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    body: bytes


class Ack(Frame, frozen=True, tag="ack"):
    """So many items will never be asked for again."""

    received: Count


class Ping(Frame, frozen=True, tag="ping"):
    pass


class Parting(StrEnum):
    """Why a node ends a connection, for the peer's program; the words beside it are for people."""

    CLOSED = "closed"
    FAULT = "fault"  # something that was sent breaks the rules
    REPLACED = "replaced"  # by a newer connection
    BESIDE = "beside"  # two have dialled each other at the same time, and the other connection stays
    VERSION = "version"
    SCENARIO = "scenario"
    RUN = "run"  # the peer belongs to another one
    CERTIFICATE = "certificate"  # another node has the peer's role
    NO_SHARE = "no_share"
    DEALT = "dealt"  # shares are, and the peer has none
    JOURNAL = "journal"  # one of the two has lost what it had said or heard
    SHUNNED = "shunned"  # the peer was refused too often
    NOT_ALLOWED = "not_allowed"  # the peer is not on the list of those that may join

    @property
    def final(self) -> bool:
        """Whether it makes no sense to come again."""
        return self not in (Parting.CLOSED, Parting.FAULT, Parting.REPLACED, Parting.BESIDE, Parting.NO_SHARE)


class Bye(Frame, frozen=True, tag="bye"):
    code: Parting
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON)]


class Barred(Refused):
    """A peer that is not admitted, or no longer."""

    def __init__(self, code: Parting, fault: Fault, detail: str) -> None:
        super().__init__(fault, detail)
        self.code = code


AnyFrame = Open | Item | Ack | Ping | Bye

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)


def pack(frame: Frame) -> bytes:
    """The bytes that go out: length and frame."""
    data = _encoder.encode(frame)
    return len(data).to_bytes(4, "big") + data


def decode(data: bytes) -> AnyFrame:
    """Read what a peer sent, without its length, or refuse it."""
    if len(data) > MAX_FRAME:
        raise Refused(Fault.OVERSIZED, f"a frame takes at most {MAX_FRAME} bytes, not {len(data)}")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        detail = str(error)
        # That one text quotes what the peer sent, which has no place in a log.
        if detail.startswith("Invalid value"):
            detail = "there is no such kind of frame"
        raise Refused(Fault.MALFORMED, detail) from None


class ByteStream(Protocol):
    """As much of a stream as reading takes; end of file is empty bytes."""

    async def receive_some(self, max_bytes: int) -> bytes | bytearray: ...


class FrameReader:
    """Cuts a stream into frames, many at a time: a wait for each would cost more than all the rest."""

    def __init__(self, stream: ByteStream, *, silence: float, frame: float, largest: int = MAX_FRAME) -> None:
        self.largest = largest
        """The longest frame allowed from now on."""
        self._stream = stream
        self._silence = silence
        self._frame = frame
        self._buffer = bytearray()

    async def read(self) -> list[bytes]:
        """The frames that have arrived, at least one; none when the stream has come to its end.

        TooSlowError says that nobody spoke, Refused that somebody spoke badly: too long a frame, an empty
        one, or one that did not end in time. Time counts only here: a caller who is busy harms no peer.
        """
        begun = trio.current_time()
        while not (frames := self._cut()):
            within = bool(self._buffer)
            with trio.move_on_at(begun + (self._frame if within else self._silence)) as limit:
                chunk = await self._stream.receive_some(CHUNK)
            if limit.cancelled_caught:
                if within:
                    raise Refused(Fault.MALFORMED, f"half a frame, and no more of it within {self._frame:g} s")
                raise trio.TooSlowError(f"nothing was heard for {self._silence:g} s")
            if not chunk:
                if within:
                    raise Refused(Fault.MALFORMED, "the stream ended within a frame")
                return []
            if not within:
                begun = trio.current_time()
            self._buffer += chunk
        return frames

    def _cut(self) -> list[bytes]:
        """Take every complete frame out of the buffer, up to one that must be refused; refuse that by itself."""
        buffer, place = self._buffer, 0
        frames: list[bytes] = []
        while len(buffer) - place >= 4:
            start = place + 4
            length = int.from_bytes(buffer[place:start], "big")
            if not 0 < length <= self.largest:
                if frames:
                    break
                if length:
                    raise Refused(Fault.OVERSIZED, f"a frame takes at most {self.largest} bytes here, not {length}")
                raise Refused(Fault.MALFORMED, "an empty frame")
            if len(buffer) - start < length:
                break
            place = start + length
            frames.append(bytes(memoryview(buffer)[start:place]))
        if place:
            del buffer[:place]
        return frames
