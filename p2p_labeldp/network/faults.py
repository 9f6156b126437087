"""All faults of a run: when each message arrives, by the rules (``rules``) that the scenario asks for.

Links are reliable, as those of a deployment are: whoever sent a message sends it again, to the same receiver,
until it got through or the run's limits are over; what has not got through by then is lost for good. (Choosing another
peer instead would bias the choice.) In virtual time nobody has to wait for that: when a message is sent the rules
say which attempt is the first to leave, how long it is held back, and whether its receiver is there when it
comes. That is when it arrives.

What the coordinator tells the host, what anyone tells the auditor and what a user asks herself is not on the
network, out of every rule's reach. Only a user who is down hears not even herself until she is back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.network.rules import (
    NEVER,
    Away,
    Delay,
    Duplicate,
    Loss,
    Partition,
    Reorder,
    Rule,
    Slow,
    Trip,
)
from p2p_labeldp.protocol.auditor import Record
from p2p_labeldp.protocol.messages import AUDITOR, HOST, PARTIES
from p2p_labeldp.scenario import Entry, entries
from p2p_labeldp.streams import KeyedStream, Purpose, choose, stream

Delivered = Literal["sent_again", "duplicates_dropped", "lost_for_good"]
"""What is counted of messages that faults disturb: those that took more than one attempt, copies that arrived and were
dropped, those that never got through."""

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
        self.delivery: dict[Delivered, int] = {"sent_again": 0, "duplicates_dropped": 0, "lost_for_good": 0}
        self._users = users
        self._horizon = horizon
        self._draws = KeyedStream(seed, Purpose.FAULTS)
        self._doubled: dict[int, bool] = {}  # number of a message sent twice: whether one copy has arrived
        self.rules = [self._rule(entry, number, seed) for number, entry in enumerate(faults, 1)]
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
            self.delivery["lost_for_good"] += 1
            return ()
        self.delivery["sent_again"] += attempt > 0
        doubling = [rule for rule in self.rules if rule.doubles(trip, attempt)]
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
        self.delivery["duplicates_dropped"] += 1
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
            for rule in self.rules:
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
        rules = self.rules
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
