"""The rules that faults are made of: each decides what becomes of one message on its way.

A message is a row of attempts, the first at once, the others after pauses that double from 0.1 s to 5 s. A rule says
which attempt may leave, for how long it is held back, and whether it is sent once more. Every draw is keyed by rule,
attempt and message: the same seed gives the same faults in whatever order tasks happen to run, and a message has the
same fate however many others there are.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.auditor import Record
from p2p_labeldp.protocol.messages import MESSAGES, ClusterShares, Message, Release, Roster
from p2p_labeldp.scenario import Entry
from p2p_labeldp.streams import KeyedStream

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds; a short fault costs little, a long one few attempts
_DOUBLINGS = 6
_OFFSETS = tuple(accumulate((FIRST_PAUSE * (1 << k) for k in range(_DOUBLINGS)), initial=0.0))
NEVER = 1 << 60  # no attempt has this number

Key = tuple[int, int, int, int]


def offset_of(attempt: int) -> float:
    """Seconds after the first attempt."""
    late = attempt - _DOUBLINGS
    return _OFFSETS[attempt] if late <= 0 else _OFFSETS[-1] + LONGEST_PAUSE * late


def first_attempt_from(offset: float) -> int:
    """The first attempt made so many seconds after the first one, or later."""
    if offset <= _OFFSETS[-1]:
        return bisect_left(_OFFSETS, offset)
    return NEVER if math.isinf(offset) else _DOUBLINGS + math.ceil((offset - _OFFSETS[-1]) / LONGEST_PAUSE)


_KINDS = {kind: int.from_bytes(str(kind.__struct_config__.tag).encode()[:7], "little") for kind in MESSAGES}


def key_of(sender: int, receiver: int, message: Message) -> Key:
    """What tells a message from all others of an honest run; draws that concern it are keyed by this."""
    kind = type(message)
    if kind is Release:
        subject: int = message.user  # type: ignore[attr-defined]
    elif kind is ClusterShares or kind is Roster:
        subject = message.cluster  # type: ignore[attr-defined]
    else:
        subject = getattr(message, "round", 0) + (getattr(message, "attempt", 0) << 20)
    return _KINDS[kind], subject, sender, receiver


class Trip:
    """A message on its way."""

    __slots__ = ("message", "receiver", "sender", "sent")

    def __init__(self, record: Record) -> None:
        _, self.sent, self.sender, self.receiver, self.message = record

    @property
    def key(self) -> Key:
        return key_of(self.sender, self.receiver, self.message)

    def time(self, attempt: int) -> float:
        return self.sent + offset_of(attempt) if attempt else self.sent

    def next(self, attempt: int, time: float) -> int:
        """The first attempt after this one that is made at ``time`` or later."""
        return max(attempt + 1, first_attempt_from(time - self.sent))


class Rule:
    """One fault. ``fired`` counts how often it got in the way of a message: stopped, held back or doubled it.

    A rule overrides what it has a say in. ``concerned`` has a place for every address, as mailboxes do.
    """

    def __init__(self, entry: Entry, number: int, concerned: bytearray, draws: KeyedStream) -> None:
        table = entry.as_table()
        self.name = entry.name
        self.number = number
        self.fired = 0
        self._concerned = concerned
        self._uniform = draws.uniform
        self._start: float = table.get("start", 0.0)
        self._end: float = table.get("end", 0.0) or math.inf
        self._probability: float = table.get("probability", 1.0)
        self._seconds: float = table.get("seconds", 0.0)
        self._one_way: bool = table.get("one_way", False)

    def leaves(self, trip: Trip, attempt: int) -> int:
        """The first attempt, from this one on, that may leave as far as this rule is concerned."""
        return attempt

    def holds(self, trip: Trip, attempt: int) -> float:
        """Seconds for which it is held back on the way."""
        return 0.0

    def doubles(self, trip: Trip, attempt: int) -> bool:
        """Whether it is sent once more although it gets through."""
        return False

    def _applies(self, trip: Trip, attempt: int) -> bool:
        """Whether the attempt is made in the rule's window, by or to someone it concerns."""
        if not (self._concerned[trip.sender] or self._concerned[trip.receiver]):
            return False
        return self._start <= trip.time(attempt) < self._end

    def _draw(self, trip: Trip, attempt: int) -> float:
        return self._uniform(self.number, attempt, *trip.key)


class Delay(Rule):
    def holds(self, trip: Trip, attempt: int) -> float:
        if self._applies(trip, attempt) and self._draw(trip, attempt) < self._probability:
            self.fired += 1
            return self._seconds
        return 0.0


class Reorder(Rule):
    def holds(self, trip: Trip, attempt: int) -> float:
        if self._applies(trip, attempt):
            drawn = self._draw(trip, attempt)
            if drawn < self._probability:
                self.fired += 1
                return self._seconds * drawn / self._probability  # the drawn number is uniform below it
        return 0.0


class Slow(Rule):
    """What a slow user sends is late because what made her send it was."""

    def holds(self, trip: Trip, attempt: int) -> float:
        if self._concerned[trip.receiver]:
            self.fired += 1
            return self._seconds
        return 0.0


class Loss(Rule):
    def leaves(self, trip: Trip, attempt: int) -> int:
        probability = self._probability
        if not self._applies(trip, attempt):
            return attempt
        drawn = 1.0 - self._draw(trip, attempt)
        if drawn > probability:
            return attempt
        self.fired += 1
        over = trip.next(attempt, self._end)
        if probability == 1:
            return over
        # The number of attempts lost in a row has a geometric distribution, so that one draw will do.
        return min(over, attempt + max(1, int(math.log(drawn) / math.log(probability))))


class Partition(Rule):
    def leaves(self, trip: Trip, attempt: int) -> int:
        inside, towards = self._concerned[trip.sender], self._concerned[trip.receiver]
        if inside == towards or (self._one_way and not inside) or not self._applies(trip, attempt):
            return attempt
        self.fired += 1
        return trip.next(attempt, self._end)

    def absences(self, users: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each user, since and until when she is cut off; infinite for whoever is not."""
        inside = np.frombuffer(self._concerned, dtype=np.bool_)[:users]
        return np.where(inside, self._start, math.inf), np.where(inside, self._end, math.inf)


class Duplicate(Rule):
    def doubles(self, trip: Trip, attempt: int) -> bool:
        return self._applies(trip, attempt) and self._draw(trip, attempt) < self._probability


class Away(Rule):
    """Users who crash or go away, by address since and until when; nothing leaves or reaches them while they do."""

    def __init__(self, *rule: Any, since: NDArray[np.float64], until: NDArray[np.float64]) -> None:
        super().__init__(*rule)
        self._since = array("d", since.tobytes())
        self._until = array("d", until.tobytes())

    def leaves(self, trip: Trip, attempt: int) -> int:
        return trip.next(attempt, self._until[trip.sender]) if self._down(trip.sender, trip.time(attempt)) else attempt

    def arrives(self, trip: Trip, attempt: int, time: float) -> int:
        """This attempt if its receiver is there at ``time``, or the next one that she may be there for."""
        if not self._down(trip.receiver, time):
            return attempt
        return trip.next(attempt, self._until[trip.receiver] - (time - trip.time(attempt)))

    def wakes(self, user: int, time: float) -> float:
        """When a user does what she would do at ``time`` if she were not down."""
        return self._until[user] if self._down(user, time) else time

    def absences(self, users: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each user, since and until when; infinite for whoever stays."""
        return np.frombuffer(self._since)[:users], np.frombuffer(self._until)[:users]

    def _down(self, user: int, time: float) -> bool:
        down = self._since[user] <= time < self._until[user]
        self.fired += down
        return down
