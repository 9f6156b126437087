"""Messages on the wire: MessagePack, in an envelope with their addresses, and labels of one width.

MessagePack writes small numbers shorter, so that a message's size would tell something of its label. Labels are
therefore written as 16-bit numbers, whatever they are; who reads them sees numbers like any other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from p2p_labeldp.protocol.messages import MAX_FRAME, MESSAGES, AnyMessage, Fault, Features, Message, Refused


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message with its addresses: one frame on the wire."""

    sender: int
    receiver: int
    message: AnyMessage


def features_to_wire(value: object) -> bytes:
    if isinstance(value, Features):
        return value.row.astype("<f4").tobytes()
    raise NotImplementedError(f"no wire form for {type(value).__name__}")


def features_from_wire(kind: type, value: object) -> object:
    if kind is Features and isinstance(value, bytes):
        return Features.from_bytes(value)
    raise ValueError("features must be bytes")


_WIDE: dict[type[Message], Any] = {
    kind: msgspec.defstruct(
        kind.__name__,
        [(name, msgspec.Raw if name == "label" else int) for name in kind.__struct_fields__],
        bases=(Message,),
        frozen=True,
        tag=str(kind.__struct_config__.tag),
    )
    for kind in MESSAGES
    if "label" in kind.__struct_fields__
}
LABELLED = frozenset(_WIDE)
"""The messages that carry a label."""


@lru_cache(maxsize=1024)
def _uint16(label: int) -> msgspec.Raw:
    return msgspec.Raw(b"\xcd" + label.to_bytes(2, "big"))


def wide(message: Message) -> Message:
    """A message of ``LABELLED`` as it is encoded for the wire: its size does not depend on its label."""
    *others, label = msgspec.structs.astuple(message)  # the label comes last
    found: Message = _WIDE[type(message)](*others, _uint16(label))
    return found


_encoder = msgspec.msgpack.Encoder(enc_hook=features_to_wire)
_decoder = msgspec.msgpack.Decoder(Envelope, dec_hook=features_from_wire)


def encode(envelope: Envelope) -> bytes:
    """One frame."""
    if type(envelope.message) not in LABELLED:
        return _encoder.encode(envelope)
    return _encoder.encode((envelope.sender, envelope.receiver, wide(envelope.message)))


def decode(frame: bytes) -> Envelope:
    """Read one frame from a peer, or refuse it."""
    if len(frame) > MAX_FRAME:
        raise Refused(Fault.OVERSIZED, f"a frame takes at most {MAX_FRAME} bytes, not {len(frame)}")
    try:
        return _decoder.decode(frame)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Refused(Fault.MALFORMED, str(error)) from None
