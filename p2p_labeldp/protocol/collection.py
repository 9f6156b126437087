"""Labels of one round as a party gathers them, and the close that says whose of them count.

Labels may overtake the close; they are held until it comes, one for each user. Those of users whom it does
not list are dropped, and whatever they send later is refused: nobody takes the place of someone who counted.

The close travels as a bitmap with one bit for each user, in parts of a bounded size that may come in any order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.messages import CLOSED_PART, Closed, Fault, Refused, name_of

_NOTHING = -1
_UNKNOWN, _COUNTS, _LEFT_OUT = range(3)


def closed_parts(round_: int, counted: NDArray[np.bool_], shares: int = 0) -> Iterator[Closed]:
    """The close of a round as messages; ``counted`` has a place for every user."""
    for first in range(0, len(counted), 8 * CLOSED_PART):
        bits = np.packbits(counted[first : first + 8 * CLOSED_PART], bitorder="little")
        yield Closed(round_, first, bits.tobytes(), shares)


class Collection:
    """``labels`` is how many labels there are; ``round_`` is named in refusals."""

    __slots__ = ("_kept", "_outstanding", "_parts", "_told", "labels", "round", "shares", "users")

    def __init__(self, users: int, labels: int, round_: int) -> None:
        self.users = users
        self.labels = labels
        self.round = round_
        self.shares = 0
        """How many clusters' shares come with the round; known once a part of the close is."""
        self._kept = array("h", [_NOTHING]) * users  # 16-bit labels
        self._told = bytearray(users)
        self._parts = -(-users // (8 * CLOSED_PART))  # of the close, that have not come
        self._outstanding = 0  # labels that count and have not come

    @property
    def closed(self) -> bool:
        return self._parts == 0

    @property
    def complete(self) -> bool:
        """Whether every label that counts has come."""
        return self._parts == 0 and self._outstanding == 0

    def take(self, user: int, label: int) -> None:
        """A user's label, or Refused."""
        if not 0 <= user < self.users:
            raise Refused(Fault.MISDIRECTED, f"{name_of(user)} holds no example")
        if not 0 <= label < self.labels:
            raise Refused(Fault.MALFORMED, f"label {label} is not below {self.labels}")
        if self._kept[user] != _NOTHING:
            raise Refused(Fault.DUPLICATE, f"a label of {name_of(user)} in round {self.round} is known")
        told = self._told[user]
        if told == _LEFT_OUT:
            raise Refused(Fault.OUT_OF_ORDER, f"{name_of(user)} does not count in round {self.round}")
        self._kept[user] = label
        self._outstanding -= told  # 1 where she counts

    def close(self, part: Closed) -> list[int]:
        """A part of the close, or Refused; returns the users whose labels came before it and do not count."""
        first, size = part.first, min(8 * CLOSED_PART, self.users - part.first)
        if first % (8 * CLOSED_PART) or size <= 0 or len(part.counted) != -(-size // 8):
            raise Refused(Fault.MALFORMED, f"{len(part.counted)} bytes from user {first} are no part of a close")
        if self._told[first] != _UNKNOWN:
            raise Refused(Fault.DUPLICATE, f"round {self.round} was closed already for users from {first}")
        here = slice(first, first + size)
        counts = np.unpackbits(np.frombuffer(part.counted, dtype=np.uint8), count=size, bitorder="little").view(bool)
        known = np.frombuffer(self._kept, dtype=np.int16)[here]
        came = known != _NOTHING
        np.frombuffer(self._told, dtype=np.uint8)[here] = np.where(counts, _COUNTS, _LEFT_OUT)
        known[came & ~counts] = _NOTHING
        self._outstanding += int((counts & ~came).sum())
        self.shares = part.shares
        self._parts -= 1
        return (np.flatnonzero(came & ~counts) + first).tolist()

    def counting(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(user ids ascending, labels) of those who count and whose labels have come."""
        labels = np.frombuffer(self._kept, dtype=np.int16)
        users = np.flatnonzero((labels != _NOTHING) & (np.frombuffer(self._told, dtype=np.uint8) == _COUNTS))
        return users, labels[users].astype(np.int64)

    def lost(self) -> list[int]:
        """Users who count and whose labels have not come."""
        waited = np.frombuffer(self._told, dtype=np.uint8) == _COUNTS
        found: list[int] = np.flatnonzero(waited & (np.frombuffer(self._kept, dtype=np.int16) == _NOTHING)).tolist()
        return found
