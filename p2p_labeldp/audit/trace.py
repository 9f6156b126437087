"""Reading a trace: a stream of MessagePack objects, the header first, then one array per message.

Reading uses the ``msgpack`` package and nothing of ours, as any reader of a trace may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from p2p_labeldp.errors import RequestError
from p2p_labeldp.protocol.auditor import FORMAT, TRACE_VERSION

MAX_OBJECT = 1 << 20  # bytes; no message is larger than a frame


class Event(NamedTuple):
    """One record of a trace, or what stands in the place of one."""

    position: int
    number: Any
    time: Any
    sender: Any
    receiver: Any
    kind: Any
    fields: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.kind} from {self.sender} to {self.receiver}"


@dataclass(frozen=True)
class Trace:
    """A trace file; iterating reads it from the start, one event at a time."""

    path: Path
    header: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Trace:
        try:
            with path.open("rb") as file:
                header = next(iter(_unpacker(file)), None)
        except OSError as error:
            raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, msgpack.exceptions.UnpackException) as error:
            raise RequestError(f"{path}: not a trace: {error}") from None
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise RequestError(f"{path}: not a trace; its first object must be a header of format {FORMAT!r}")
        if header.get("version") != TRACE_VERSION:
            raise RequestError(f"{path}: trace version {header.get('version')}; this reads {TRACE_VERSION}")
        for fact in ("users", "labels", "rounds", "features"):
            if type(header.get(fact)) is not int or header[fact] < 0:
                raise RequestError(f"{path}: the header's {fact} must be a whole number")
        if header.get("clock", "virtual") not in ("virtual", "wall"):
            raise RequestError(f"{path}: the header's clock must be virtual or wall")
        if type(header.get("faults", False)) is not bool:
            raise RequestError(f"{path}: the header's faults must be true or false")
        return cls(path, header)

    @property
    def wall_clock(self) -> bool:
        """Whether times are those of machines' clocks; in a simulation they are virtual and exact."""
        return bool(self.header.get("clock") == "wall")

    @property
    def faults(self) -> bool:
        """Whether messages may have been held up or sent again: then they may arrive later than they should."""
        return bool(self.header.get("faults"))

    def __iter__(self) -> Iterator[Event]:
        with self.path.open("rb") as file:
            size = self.path.stat().st_size
            unpacker = _unpacker(file)
            next(iter(unpacker))
            position, complete = 0, unpacker.tell()
            try:
                for value in unpacker:
                    complete = unpacker.tell()
                    yield _event(position, value)
                    position += 1
            except (ValueError, msgpack.exceptions.UnpackException) as error:
                raise RequestError(f"{self.path}: not MessagePack after {position} messages: {error}") from None
            if complete != size:
                raise RequestError(f"{self.path}: cut off in the middle of message {position}")


def _unpacker(file: Any) -> Any:
    return msgpack.Unpacker(file, raw=False, max_buffer_size=0, max_bin_len=MAX_OBJECT, max_str_len=MAX_OBJECT)


def _event(position: int, value: Any) -> Event:
    """An event; whatever is not shaped like one keeps its parts, for an invariant to name."""
    if isinstance(value, list) and len(value) == 5 and isinstance(value[4], list) and value[4]:
        number, time, sender, receiver, message = value
        return Event(position, number, time, sender, receiver, message[0], tuple(message[1:]))
    return Event(position, None, None, None, None, None, ())
