"""Executions that look alike to one party and differ in everything else, and what that party receives in them.

An execution is laid down by what everyone holds and does: noisy labels, whom each user asks, who keeps what she hears.
`alike` draws two of them in which the same users report the same labels, while noisy labels, true labels and who asked
whom are drawn anew. Coins are worked out backwards from that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.messages import Message
from p2p_labeldp.protocol.wire import Envelope, encode

Ids = NDArray[np.int64]


class Tossed:
    """Coins that were tossed beforehand: one array of (users, 4) for each round."""

    def __init__(self, rounds: list[NDArray[np.float64]]) -> None:
        self.rounds = rounds

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        return self.rounds[round_][start:stop].copy()


@dataclass(frozen=True)
class Execution:
    """One cluster of users, every round of it."""

    noisy: Ids
    asked: list[Ids]
    keeps: list[NDArray[np.bool_]]
    labels: Ids
    """True labels: those that were not flipped are the noisy ones."""

    @property
    def reports(self) -> list[dict[int, int]]:
        """Per round, who reports what: the learner's view."""
        return [
            {int(user): int(self.noisy[asked[user]]) for user in np.flatnonzero(keeps)}
            for asked, keeps in zip(self.asked, self.keeps, strict=True)
        ]

    def coins(self, alpha: float, theta: float) -> Tossed:
        """Coins of two labels that lead to this, everyone being in one cluster."""
        size, rounds = len(self.noisy), []
        for asked, keeps in zip(self.asked, self.keeps, strict=True):
            flip = np.where(self.noisy != self.labels, alpha / 2, (1 + alpha) / 2)
            keep = np.where(keeps, theta / 2, (1 + theta) / 2)
            rounds.append(np.stack([flip, (asked + 0.5) / size, keep, np.full(size, 0.5)], axis=1))
        return Tossed(rounds)


def drawn(generator: np.random.Generator, size: int, rounds: int) -> Execution:
    """Any execution, with both labels among the noisy ones."""
    noisy = np.append([0, 1], generator.integers(0, 2, size - 2)).astype(np.int64)
    generator.shuffle(noisy)
    return Execution(
        noisy,
        [generator.integers(0, size, size) for _ in range(rounds)],
        [generator.random(size) < 0.7 for _ in range(rounds)],
        generator.integers(0, 2, size),
    )


def alike(generator: np.random.Generator, size: int, rounds: int) -> tuple[Execution, Execution]:
    """Two executions that the learner's view does not tell apart."""
    one = drawn(generator, size, rounds)
    noisy = drawn(generator, size, rounds).noisy
    holders = [np.flatnonzero(noisy == label) for label in (0, 1)]
    asked = [
        np.array([generator.choice(holders[one.noisy[peer]]) for peer in peers], dtype=np.int64) for peers in one.asked
    ]
    other = Execution(noisy, asked, one.keeps, generator.integers(0, 2, size))
    assert one.reports == other.reports
    assert any((mine != its).any() for mine, its in zip(one.asked, asked, strict=True))
    return one, other


@dataclass
class Received:
    """What one party of a simulation receives, in order: times, senders and bytes."""

    address: int
    network: Any
    messages: list[tuple[float, int, bytes]] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    """Which round each message is of."""

    def note(self, sender: int, message: Message) -> None:
        frame = encode(Envelope(sender, self.address, message))  # type: ignore[arg-type]
        self.messages.append((self.network.now, sender, frame))
        self.rounds.append(getattr(message, "round", 0))

    def since_each_close(self) -> list[tuple[float, int, bytes]]:
        """The same round by round, with times that count from its close.

        Where no time passes, what comes at one moment is in the order in which tasks happened to be run: by sender.
        """
        instant = self.messages[-1][0] == 0
        both = list(zip(self.rounds, self.messages, strict=True))
        closes = {round_: time for round_, (time, _, frame) in both if b"\xa6closed" in frame}
        return [
            (round(time - closes[round_], 9), sender, frame)
            for round_, (time, sender, frame) in sorted(both, key=lambda pair: (pair[0], pair[1][:2] if instant else 0))
        ]


def listen(simulation: Any, role: str, address: int) -> Received:
    """Note what a role of a simulation receives."""
    received = Received(address, simulation.network)
    someone = getattr(simulation, role)
    honest = someone.receive

    def receive(sender: int, message: Message) -> Any:
        received.note(sender, message)
        return honest(sender, message)

    someone.receive = receive
    return received
