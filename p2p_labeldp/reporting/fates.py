"""What became of a simulation's messages on their way, and who was away when.

A trace says when a message was sent, not how often. The rules of ``[[faults]]`` draw from the seed, keyed by message:
asked again, they say what they said in the run. For messages of the pull exchange, of data that ship: others'
keys, or the seed, are not all in what a report reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from p2p_labeldp.network.rules import NEVER, key_of, offset_of
from p2p_labeldp.protocol.messages import BY_KIND, HOST, Message
from p2p_labeldp.reporting.traffic import Sent
from p2p_labeldp.runs.execute import faults_of
from p2p_labeldp.scenario import EXCHANGES, Scenario
from p2p_labeldp.streams import KeyedStream, Purpose

SHOWN_ATTEMPTS = 12  # of one message: the pauses between them double, and a picture has room for no more


@dataclass(frozen=True)
class Fate:
    """Of one message: when attempts at it were made that got lost, and when it arrived; None: it never did."""

    lost: tuple[float, ...]
    arrives: float | None


@dataclass(frozen=True)
class Absence:
    """Of one user: cut off by a partition, or down, from one moment to another, which may be infinite."""

    user: int
    cut_off: bool
    since: float
    until: float


class Fates:
    """Of all messages of a simulated run with so many ``users``."""

    def __init__(self, scenario: Scenario, users: int) -> None:
        self._faults = faults_of(scenario, users)
        self._network = scenario.network
        self._draws = KeyedStream(scenario.coins.seed, Purpose.NETWORK)

    @staticmethod
    def known(scenario: Scenario) -> bool:
        return scenario.ships and EXCHANGES[scenario.mechanism.exchange].independent

    def of(self, message: Sent) -> Fate:
        sent, sender, receiver = message.time, message.sender, message.receiver
        record = 0, sent, sender, receiver, _message(message)
        travel = self._network.latency
        if self._network.jitter and receiver != HOST:
            travel += self._network.jitter * self._draws.uniform(*key_of(*record[2:]))
        if self._faults is None or receiver == HOST:
            return Fate((), sent + travel)
        if sender == receiver:
            times = self._faults.arrivals(record, travel)
            return Fate((), times[0] if times else None)
        attempt, time = self._faults.gets_through(record, travel)
        made = SHOWN_ATTEMPTS if attempt >= NEVER else min(attempt, SHOWN_ATTEMPTS)
        return Fate(tuple(sent + offset_of(number) for number in range(made)), time if time < math.inf else None)

    def absences(self, users: tuple[int, ...]) -> tuple[Absence, ...]:
        if self._faults is None:
            return ()
        return tuple(
            Absence(user, rule == "partition", since, until)
            for user in users
            for rule, since, until in self._faults.absences(user)
        )


def _message(sent: Sent) -> Message:
    """As much of a message as its key is made from."""
    known = {"round": max(0, sent.round), "user": sent.user}
    cls = BY_KIND[sent.kind]
    found: Message = cls(**{name: known.get(name, 0) for name in cls.__struct_fields__})
    return found
