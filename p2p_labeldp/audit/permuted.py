"""What must hold besides in every trace of an honest run whose users ask each other by a permutation of their cluster.

Everyone asks once and nobody is asked twice, so that everybody is asked exactly once where all take part. What a member
knows of whom she asks says whom others cannot ask, so that choices of one round are not independent: one choice of each
round and cluster goes into the tests of uniformity.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from p2p_labeldp.audit.invariants import Checker
from p2p_labeldp.audit.rules import INVARIANTS, require
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.privacy import Exchange


class PermutedChecker(Checker):
    """Of runs whose exchange is a permutation."""

    exchange = Exchange.PERMUTATION
    invariants = INVARIANTS | {"one_asker": "nobody is asked by two users in a round"}

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._askers: dict[tuple[int, int], int] = {}
        self._agreed: dict[tuple[int, int], NDArray[Any] | None] = {}

    def _chosen(self, event: Event, round_: int, cluster: int, size: int, place: int, chosen: int) -> None:
        before = self._askers.setdefault((round_, event.receiver), event.sender)
        require(before == event.sender, "one_asker", f"asks user {event.receiver}, whom user {before} has asked")
        if place == round_ % size:
            self.sample.choice(chosen, place, size, event.sender, event.receiver, (round_, cluster))
        if (round_, cluster) not in self._agreed:
            self._agreed[round_, cluster] = self._expected.agreed(self._rosters[cluster], round_)
        agreed = self._agreed[round_, cluster]
        if agreed is not None:
            expected = int(agreed[place])
            require(chosen == expected, "coins", f"by the seed place {expected} was agreed on, not {chosen}")
