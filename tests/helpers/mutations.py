"""Bytes that a broken or hostile peer might send: random ones, and real ones that were tampered with.

Everything is drawn from one seeded generator, so that a case that breaks something can be had again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

DEEP = 3000  # arrays within arrays: more than any decoder follows


class Mutations:
    def __init__(self, seed: int, corpus: Sequence[bytes]) -> None:
        """``corpus`` holds real ones; rare kinds of them are drawn as often as common ones."""
        self.chance = random.Random(seed)
        kinds: dict[str, list[bytes]] = {}
        for data in corpus:
            kinds.setdefault(_kind(data), []).append(data)
        self._kinds = list(kinds.values())
        self._ways: list[Callable[[bytes], bytes]] = [
            self._random,
            self._flipped,
            self._cut,
            self._spliced,
            self._repeated,
            self._resized,
            self._deepened,
            self._changed,
            self._changed,
            self._changed,
        ]

    def draw(self) -> bytes:
        """One more; now and then several changes to one."""
        data = self._real()
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            data = self.chance.choice(self._ways)(data)
        return data

    def _real(self) -> bytes:
        return self.chance.choice(self.chance.choice(self._kinds))

    def _random(self, data: bytes) -> bytes:
        return self.chance.randbytes(self.chance.randrange(60))

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.chance.randrange(1, 4)):
            if changed:
                changed[self.chance.randrange(len(changed))] ^= 1 << self.chance.randrange(8)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        place = self.chance.randrange(len(data) + 1)
        return data[:place] if self.chance.random() < 0.7 else data[place:]

    def _spliced(self, data: bytes) -> bytes:
        other = self._real()
        return data[: self.chance.randrange(len(data) + 1)] + other[self.chance.randrange(len(other) + 1) :]

    def _repeated(self, data: bytes) -> bytes:
        first, last = sorted(self.chance.randrange(len(data) + 1) for _ in range(2))
        return data[:last] + data[first:last] * self.chance.randrange(1, 4) + data[last:]

    def _resized(self, data: bytes) -> bytes:
        """Another length in some array, text or bytes."""
        places = [place for place, byte in enumerate(data[:200]) if 0x80 <= byte <= 0xC6 or 0xD9 <= byte <= 0xDF]
        if not places:
            return data
        changed = bytearray(data)
        changed[self.chance.choice(places)] = self.chance.choice(
            (0x90, 0x91, 0x9F, 0xA0, 0xBF, 0xC4, 0xC6, 0xDB, 0xDC, 0xDD, 0xDF, 0x80)
        )
        return bytes(changed)

    def _deepened(self, data: bytes) -> bytes:
        place = self.chance.randrange(len(data) + 1)
        return data[:place] + self.chance.choice((b"\x91", b"\x81\xa0")) * DEEP + data[place:]

    def _changed(self, data: bytes) -> bytes:
        """The same structure with one value replaced, removed, doubled or moved."""
        try:
            value = msgpack.unpackb(data, raw=False, strict_map_key=False)
        except (ValueError, TypeError, msgpack.exceptions.UnpackException):
            return self._flipped(data)
        return pack(self._alter(value))

    def _alter(self, value: Any) -> Any:
        if isinstance(value, list) and value and self.chance.random() < 0.85:
            place = self.chance.randrange(len(value))
            way = self.chance.random()
            if way < 0.75:
                return [*value[:place], self._alter(value[place]), *value[place + 1 :]]
            if way < 0.85:
                return [*value[:place], *value[place + 1 :]]
            if way < 0.95:
                return [*value[:place], value[place], *value[place:]]
            return self.chance.sample(value, len(value))
        return self.odd(value)

    def odd(self, value: Any = None) -> Any:
        """A value that stands where another is expected."""
        chance = self.chance
        if isinstance(value, int) and chance.random() < 0.5:
            near = chance.choice((value + 1, value - 1, -value, value ^ 1, chance.randrange(-6, 40), 10_000, 2**15))
            return max(-(2**63), min(near, 2**64 - 1))
        if isinstance(value, bytes) and chance.random() < 0.5:
            return chance.choice((value[:-1], value + b"\0", value * 2, value[:-8], value[8:] + value[:8]))
        return chance.choice(
            (
                None, True, False, 0, 1, -1, -2, 39, 40, 2**31, 2**48 - 1, 2**48, 2**63 - 1, 2**63, 2**64 - 1, -(2**63),
                0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324,
                "", "x", "\udcff\udcfe", "mail", "coordinator", "y" * 5000, "clusters",
                b"", b"\xff", bytes(8), bytes(7), bytes(4096), b"\x00\x00\x80\x7f" * 2, b"\xff\xff\x7f\x7f" * 2,
                [], [[]], [None] * 20, {}, {"a": 1}, {1: 2}, msgpack.ExtType(5, b"?"), msgpack.Timestamp(1, 2),
                ["mail", []], ["refusal", 0, "ask", "why"], chance.randbytes(9),
            )
        )  # fmt: skip


def pack(value: Any) -> bytes:
    """MessagePack, with text that is no UTF-8 where it holds lone surrogates."""
    packed: bytes = msgpack.packb(value, use_bin_type=True, unicode_errors="surrogateescape")
    return packed


def _kind(data: bytes) -> str:
    """What real bytes are about: their tag and, of mail, the kind of its first message."""
    try:
        value = msgpack.unpackb(data)
        return f"{value[0]} {value[1][0][2][0]}" if value[0] == "mail" else str(value[0])
    except (ValueError, TypeError, IndexError):
        return ""
