"""The auditor: numbers every message as it is sent, and turns batches of them into trace bytes.

A trace is a plain stream of MessagePack objects, readable with the ``msgpack`` package alone. First a
header that names parties and fields, then one array per message:

    [number, time, sender, receiver, [kind, field, ...]]

Records are encoded a batch at a time: encoding them one by one costs several times as much.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from p2p_labeldp.protocol.messages import KINDS, PARTIES, Features, Message

FORMAT = "p2p_labeldp trace"
TRACE_VERSION = 3
RECORD = ("number", "time", "sender", "receiver", "message")
BATCH = 4096  # records; about 120 KiB, so that little is lost when a process dies

Record = tuple[int, float, int, int, Message]


class Auditor:
    """Owns the batch: the network appends records to it and takes the bytes when it is full."""

    __slots__ = ("_encoder", "batch", "number")

    def __init__(self) -> None:
        self.number = count()
        self.batch: list[Record] = []
        self._encoder = msgspec.msgpack.Encoder(enc_hook=to_trace)

    def header(self, **facts: Any) -> bytes:
        """The trace's first object; ``facts`` are what a reader needs to know of the run."""
        return self._encoder.encode(
            {"format": FORMAT, "version": TRACE_VERSION, "record": RECORD, "kinds": KINDS, "parties": PARTIES, **facts}
        )

    def take(self) -> bytes:
        """The batch as trace bytes; it is empty afterwards."""
        if not self.batch:
            return b""
        data = self._encoder.encode(self.batch)
        size = len(self.batch)
        self.batch.clear()
        # One array of records, less the array's own header, is the records one after the other.
        return data[1 if size < 16 else 3 if size < 1 << 16 else 5 :]


def to_trace(value: object) -> int:
    if isinstance(value, Features):
        return len(value)
    raise NotImplementedError(f"no trace form for {type(value).__name__}")
