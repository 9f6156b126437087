"""Rounds with fresh noise: every pair is composed with itself, then the worst is taken.

The ones among the other users do not change between rounds, so each n1 is composed separately: `Fresh` wraps a
family for ``worst`` and turns its pairs into composed ones. Covers stay covers, since revealing more in each
round reveals more in all. The bound through clones has one pair only: `fresh_mixture`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats
from p2p_labeldp.privacy.losses import Losses, of_local, step_for
from p2p_labeldp.privacy.pairs import Pairs
from p2p_labeldp.privacy.views import LocalNoise
from p2p_labeldp.privacy.worst import Family

# Losses beyond this are counted as total; only reached when the local guarantee is infinite.
_LARGEST = 60.0


class WalkedPairs(Pairs, Protocol):
    """Pairs whose first row can be listed, outcome by outcome."""

    def walk(self) -> Iterable[tuple[Floats, Floats]]: ...


class WalkedFamily(Family, Protocol):
    def rows(self, first: int, last: int, tail: float) -> WalkedPairs: ...

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> WalkedPairs: ...


class Composed:
    """Pairs composed over rounds: a row for each, both directions."""

    looseness = 0.0

    def __init__(self, rows: list[tuple[Losses, Losses]], rounds: int, rounding: float) -> None:
        self._rows, self._rounds = rows, rounds
        self.rounding, self.missing = rounding * rounds, 0.0
        # A loss moves up by less than a step in each round.
        self.coarseness = rounds * max(losses.step for losses, _ in rows)

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64)) - 3 * self.rounding
        result = np.array([[losses.deltas(wanted) for losses in row] for row in self._rows])
        return np.minimum(np.swapaxes(result, 0, 1) * (1 + 2 * self.rounding), 1.0)


def _spread(pairs: WalkedPairs) -> float:
    total = 0.0
    for zero, one in pairs.walk():
        both = (zero > 0) & (one > 0)
        loss = np.log(one[both]) - np.log(zero[both])
        total += float(one[both] @ (loss * loss))
    return math.sqrt(total)


def _losses(pairs: WalkedPairs, step: float, limit: float) -> tuple[Losses, Losses]:
    """The losses of one round in both directions, the cut tails as total losses."""
    up = down = Losses(step, 0, np.zeros(1), pairs.missing)
    for zero, one in _merged(pairs.walk()):
        up = _add(up, Losses.of_pair(one, zero, step, limit))
        down = _add(down, Losses.of_pair(zero, one, step, limit))
    return up, down


def _merged(rows: Iterable[tuple[Floats, Floats]]) -> Iterator[tuple[Floats, Floats]]:
    """Fewer, longer lists: the grid is filled once for each."""
    kept: list[tuple[Floats, Floats]] = []
    size = 0
    for row in rows:
        kept.append(row)
        size += row[0].size
        if size > 1 << 20:
            yield np.concatenate([zero for zero, _ in kept]), np.concatenate([one for _, one in kept])
            kept, size = [], 0
    if kept:
        yield np.concatenate([zero for zero, _ in kept]), np.concatenate([one for _, one in kept])


def _add(first: Losses, second: Losses) -> Losses:
    mixed = first.plus(second, 0.5)
    return Losses(mixed.step, mixed.low, 2 * mixed.mass, 2 * mixed.infinite)


@dataclass(frozen=True)
class Fresh:
    """A family whose every pair is composed with itself over ``rounds`` rounds of fresh noise."""

    one_round: WalkedFamily
    rounds: int
    local_epsilon: float

    @property
    def others(self) -> int:
        return self.one_round.others

    def rows(self, first: int, last: int, tail: float) -> Composed:
        tail /= 4 * self.rounds
        return self._composed([self.one_round.rows(ones, ones, tail) for ones in range(first, last + 1)], tail)

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> Composed:
        tail /= 4 * self.rounds
        return self._composed([self.one_round.cover([block], tail) for block in blocks], tail)

    def smaller(self) -> None:
        return None

    def cost(self, rows: int) -> float:
        return rows * (20 * self.one_round.cost(1) + 4e6)

    def _composed(self, pairs: list[WalkedPairs], tail: float) -> Composed:
        limit = min(self.local_epsilon, _LARGEST)
        rows = []
        for pair in pairs:
            step = step_for(_spread(pair), limit)
            up, down = _losses(pair, step, limit)
            rows.append((up.times(self.rounds, tail), down.times(self.rounds, tail)))
        return Composed(rows, self.rounds, max(pair.rounding for pair in pairs))


_MIXED_CELLS = 1 << 12


def fresh_mixture(
    parts: Iterable[tuple[float, WalkedPairs]],
    seen: float,
    noise: LocalNoise,
    missing: float,
    rounds: int,
    tail: float,
) -> Composed:
    """Rounds in which the victim is seen with probability ``seen``, else one of the weighted parts happens.

    What the masses leave out says nothing; both directions of a part are alike.
    """
    listed = list(parts)
    limit = min(noise.epsilon, _LARGEST)
    spread = max((_spread(pairs) for _, pairs in listed), default=limit)
    # A seen label's losses are at the limit's ends, so that the whole grid is convolved: no finer than need be.
    step = max(step_for(spread, limit), limit / _MIXED_CELLS)
    total = Losses(step, 0, np.zeros(1), missing)
    rounding = 0.0
    for weight, pairs in listed:
        up, _ = _losses(pairs, step, limit)
        total = _add(total, Losses(step, up.low, weight * up.mass, weight * up.infinite))
        rounding = max(rounding, pairs.rounding)
    total = _add(total, Losses(step, 0, np.array([max(0.0, 1 - float(total.mass.sum()))])))
    if seen > 0:
        total = total.plus(_on_grid(of_local(noise.high, noise.low, 1.0), step, limit), seen)
    composed = total.times(rounds, tail)
    return Composed([(composed, composed)], rounds, rounding)


def _on_grid(local: Losses, step: float, limit: float) -> Losses:
    """The three losses of a seen label on a finer grid that divides them."""
    if local.mass.size == 1:
        return Losses(step, 0, local.mass, local.infinite)
    cells = round(limit / step)
    mass = np.zeros(2 * cells + 1)
    mass[0], mass[cells], mass[-1] = local.mass
    return Losses(step, -cells, mass)
