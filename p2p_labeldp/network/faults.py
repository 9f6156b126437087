"""Faults as small composable rules that decide what becomes of each message.

Links are reliable, as those of a deployment are: whoever sent a message sends it again, to the same receiver,
until it got through. (Choosing another peer instead would bias the choice.) So a message is a row of attempts, the
first at once, the others after pauses that double from 0.1 s to 5 s, until the run's limits are over; what has not
got through by then is lost for good. In virtual time nobody has to wait for that: when a message is sent the rules
say which attempt is the first to leave, how long it is held back, and whether its receiver is there when it
comes. That is when it arrives.

What the coordinator tells the host, what anyone tells the auditor and what a user asks herself is not on the
network, out of every rule's reach. Only a user who is down hears not even herself until she is back.

Every draw is keyed by rule, attempt and message: the same seed gives the same faults in whatever order
tasks happen to run, and a message has the same fate however many others there are.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.auditor import Record
from p2p_labeldp.protocol.messages import AUDITOR, HOST, MESSAGES, PARTIES, ClusterShares, Message, Release, Roster
from p2p_labeldp.scenario import Entry, entries
from p2p_labeldp.streams import KeyedStream, Purpose, choose, stream

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


Delivered = Literal["sent_again", "duplicates_dropped", "lost_for_good"]
"""What is counted of messages that faults disturb."""

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
        raise NotImplementedError

    def holds(self, trip: Trip, attempt: int) -> float:
        """Seconds for which it is held back on the way."""
        raise NotImplementedError

    def doubles(self, trip: Trip, attempt: int) -> bool:
        """Whether it is sent once more although it gets through."""
        raise NotImplementedError

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


_RULES: dict[type[Entry], Callable[..., Rule]] = {
    entries.Delay: Delay,
    entries.Loss: Loss,
    entries.Duplicate: Duplicate,
    entries.Reorder: Reorder,
    entries.Partition: Partition,
    entries.Crash: Away,
    entries.Churn: Away,
    entries.Slow: Slow,
}


class Faults:
    """All rules of a run. ``horizon`` is the virtual second by which its limits are over, and sending again with them.

    Raises RequestError where an entry names users who do not exist.
    """

    def __init__(self, faults: Sequence[Entry], users: int, seed: int, horizon: float) -> None:
        self.sent_again = 0
        """Messages that took more than one attempt."""
        self.given_up = 0
        """Messages that never got through."""
        self.duplicates = 0
        """Copies that arrived and were dropped."""
        self._users = users
        self._horizon = horizon
        self._draws = KeyedStream(seed, Purpose.FAULTS)
        self._doubled: dict[int, bool] = {}  # number of a message sent twice: whether one copy has arrived
        self.rules = [self._rule(entry, number, seed) for number, entry in enumerate(faults, 1)]
        self._leaving = self._with_a_say("leaves")
        self._holding = self._with_a_say("holds")
        self._doubling = self._with_a_say("doubles")
        self._away = [rule for rule in self.rules if isinstance(rule, Away)]

    def arrivals(self, record: Record, travel: float) -> tuple[float, ...]:
        """When a message that takes ``travel`` seconds arrives: once, twice, or never."""
        number, sent, sender, receiver, _ = record
        if sender == receiver:
            time = self._when_up(sender, sent + travel)
            return (time,) if time < math.inf else ()
        if receiver in (HOST, AUDITOR) or not -len(PARTIES) <= receiver < self._users:
            return (sent + travel,)
        trip = Trip(record)
        attempt, time = self._deliver(trip, 0, travel)
        if attempt >= NEVER:
            self.given_up += 1
            return ()
        self.sent_again += attempt > 0
        doubling = [rule for rule in self._doubling if rule.doubles(trip, attempt)]
        if not doubling:
            return (time,)
        # As if the acknowledgement had been late: the next attempt is made too, and may even overtake.
        again, later = self._deliver(trip, attempt + 1, travel)
        if again != attempt + 1:
            return (time,)
        for rule in doubling:
            rule.fired += 1
        self._doubled[number] = False
        return time, later

    def gets_through(self, record: Record, travel: float) -> tuple[int, float]:
        """Which attempt at a message between others does, from 0, and when; NEVER and infinity where none does."""
        return self._deliver(Trip(record), 0, travel)

    def absences(self, user: int) -> list[tuple[str, float, float]]:
        """(rule, since, until) of every time that a user is cut off or down."""
        found = []
        for rule in self.rules:
            if isinstance(rule, Away | Partition):
                since, until = (each[user] for each in rule.absences(self._users))
                if since < math.inf:
                    found.append((rule.name, float(since), float(until)))
        return found

    def is_new(self, record: Record) -> bool:
        """The receiver's side of the link: whether this has not arrived before."""
        number = record[0]
        if number not in self._doubled:
            return True
        if not self._doubled[number]:
            self._doubled[number] = True
            return True
        del self._doubled[number]
        self.duplicates += 1
        return False

    def fired(self) -> list[dict[str, Any]]:
        """Every rule, in the scenario's order, with how often it fired."""
        return [{"rule": rule.name, "fired": rule.fired} for rule in self.rules]

    def away(self, time: float) -> tuple[int, int]:
        """How many users are down at a time, and how many were and are there again."""
        down = back = np.zeros(self._users, dtype=np.bool_)
        for rule in self._away:
            since, until = rule.absences(self._users)
            down, back = down | ((since <= time) & (time < until)), back | (until <= time)
        return int(down.sum()), int((back & ~down).sum())

    def delivery(self) -> dict[Delivered, int]:
        return {"sent_again": self.sent_again, "duplicates_dropped": self.duplicates, "lost_for_good": self.given_up}

    def warnings(self) -> list[str]:
        return [
            f"faults[{rule.number}] ({rule.name}) never fired: nothing was sent that it could touch"
            for rule in self.rules
            if not rule.fired
        ]

    def _deliver(self, trip: Trip, attempt: int, travel: float) -> tuple[int, float]:
        """The first attempt from this one on that gets through, and when it does; NEVER if none does."""
        while True:
            attempt = self._departure(trip, attempt)
            if attempt >= NEVER:
                return NEVER, math.inf
            time = trip.time(attempt) + travel
            for rule in self._holding:
                time += rule.holds(trip, attempt)
            there = attempt
            for away in self._away:
                there = max(there, away.arrives(trip, attempt, time))
            if there == attempt:
                return attempt, time
            attempt = there

    def _departure(self, trip: Trip, attempt: int) -> int:
        """The first attempt from this one on that no rule keeps from leaving.

        They are asked in turn until all agree. Who named an attempt is not asked about it again: what a loss rule
        answered holds for the attempt it named.
        """
        rules = self._leaving
        agreed = turn = 0
        while agreed < len(rules):
            named = rules[turn].leaves(trip, attempt)
            if named >= NEVER or (named and trip.time(named) > self._horizon):
                return NEVER
            agreed = agreed + 1 if named == attempt else 1
            attempt = named
            turn = (turn + 1) % len(rules)
        return attempt

    def _when_up(self, user: int, time: float) -> float:
        before = -math.inf
        while before < time:
            before = time
            for rule in self._away:
                time = rule.wakes(user, time)
        return time

    def _with_a_say(self, what: str) -> list[Rule]:
        return [rule for rule in self.rules if getattr(type(rule), what) is not getattr(Rule, what)]

    def _rule(self, entry: Entry, number: int, seed: int) -> Rule:
        generator = stream(seed, Purpose.FAULTS, number)
        table = entry.as_table()
        selection = table["users"], table["count"], table["fraction"]
        concerned = bytearray(self._users + len(PARTIES))
        if any(selection):
            where = f"faults[{number}] ({entry.name})"
            chosen = choose(*selection, self._users, generator, where)
            np.frombuffer(concerned, dtype=np.uint8)[chosen] = 1
        else:
            chosen = np.arange(self._users)
            concerned = bytearray(b"\1") * len(concerned)
        more: dict[str, Any] = {}
        if isinstance(entry, entries.Crash | entries.Churn):
            more = self._absences(entry, chosen, generator)
        return _RULES[type(entry)](entry, number, concerned, self._draws, **more)

    def _absences(
        self, entry: entries.Crash | entries.Churn, chosen: NDArray[np.int64], generator: np.random.Generator
    ) -> dict[str, NDArray[np.float64]]:
        """By address, when each user goes away and when she is back."""
        since = np.full(self._users + len(PARTIES), math.inf)
        if isinstance(entry, entries.Crash):
            since[chosen] = entry.at
            return {"since": since, "until": since + (entry.restart or math.inf)}
        end = entry.end or self._horizon
        since[chosen] = generator.uniform(entry.start, max(end, entry.start), len(chosen))
        return {"since": since, "until": since + entry.seconds}
