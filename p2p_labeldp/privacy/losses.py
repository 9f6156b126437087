"""Privacy losses on a grid, for noise that is drawn afresh every round.

Rounds with fresh flips are independent, so a pair of distributions becomes its R-fold product and the losses
log(P/P') add up: their distribution is convolved with itself. To keep it finite the losses are put on a grid, safely:
an outcome of masses (p, q) whose loss lies between two grid points becomes two outcomes on those points with
the same total p and the same total q. Whoever sees which of the two happened can forget it, so the new pair
is at least as far apart as the old one, and the error is of the second order in the grid's step. What lies above the
grid counts as a total loss; what lies below it moves up to its lowest point.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats


@dataclass(frozen=True)
class Losses:
    """``mass[i]`` is the chance under P of a loss of (low + i) * step; ``infinite`` that of a total loss."""

    step: float
    low: int
    mass: Floats
    infinite: float = 0.0

    @classmethod
    def of_pair(cls, over: Floats, under: Floats, step: float, limit: float) -> "Losses":
        """The losses of P = ``over`` against P' = ``under``, none of which exceeds ``limit`` in size."""
        p, q = over.ravel(), under.ravel()
        # One more than needed: a loss that equals the limit may be rounded above it.
        cells = min(math.ceil(limit / step) + 1, 1 << 22)
        inner = (p > 0) & (q > 0)
        infinite = float(p[(p > 0) & (q <= 0)].sum())
        p, q = p[inner], q[inner]
        loss = np.log(p) - np.log(q)
        cell = np.clip(np.floor(loss / step), -cells, cells - 1)
        below, above = np.exp(-cell * step), np.exp(-(cell + 1) * step)
        upper = np.clip((p * below - q) / (below - above), 0.0, p)
        above_grid = loss > cells * step
        infinite += float(p[above_grid].sum())
        upper = np.where(above_grid, 0.0, upper)
        lower = np.where(above_grid, 0.0, p - upper)
        index = cell.astype(np.int64) + cells
        mass = np.zeros(2 * cells + 1)
        mass += np.bincount(index, lower, mass.size)
        mass += np.bincount(index + 1, upper, mass.size)
        return cls(step, -cells, mass, infinite)

    def plus(self, other: "Losses", share: float) -> "Losses":
        """With probability ``share`` the other losses instead, and it is known which."""
        low = min(self.low, other.low)
        high = max(self.low + self.mass.size, other.low + other.mass.size)
        mass = np.zeros(high - low)
        mass[self.low - low : self.low - low + self.mass.size] = (1 - share) * self.mass
        mass[other.low - low : other.low - low + other.mass.size] += share * other.mass
        return Losses(self.step, low, mass, (1 - share) * self.infinite + share * other.infinite)

    def trimmed(self, tail: float) -> "Losses":
        """Without the ends: above they become total losses, below they move up. At most ``tail`` each."""
        above = int(np.searchsorted(np.cumsum(self.mass[::-1]), tail))
        below = min(int(np.searchsorted(np.cumsum(self.mass), tail)), self.mass.size - above - 1)
        kept = self.mass[max(below, 0) : self.mass.size - above].copy()
        if kept.size == 0:
            return Losses(self.step, 0, np.zeros(1), self.infinite + float(self.mass.sum()))
        kept[0] += float(self.mass[: max(below, 0)].sum())
        top = float(self.mass[self.mass.size - above :].sum()) if above else 0.0
        return Losses(self.step, self.low + max(below, 0), kept, self.infinite + top)

    def times(self, rounds: int, tail: float) -> "Losses":
        """The losses of so many independent rounds; cuts about 4 ``tail`` log2(rounds) on the way."""
        power, result = self.trimmed(tail), None
        while True:
            if rounds & 1:
                result = power if result is None else _sum(result, power).trimmed(tail)
            rounds >>= 1
            if not rounds:
                assert result is not None
                return result
            power = _sum(power, power).trimmed(tail)

    def power_from_below(self, rounds: int, tail: float) -> "Losses":
        """Losses of so many rounds that are no more than the true ones: what is cut is left out altogether."""
        result = self
        for _ in range(rounds - 1):
            total = _sum(result, self)
            below = int(np.searchsorted(np.cumsum(total.mass), tail / rounds))
            above = int(np.searchsorted(np.cumsum(total.mass[::-1]), tail / rounds))
            kept = total.mass[below : total.mass.size - above]
            result = Losses(self.step, total.low + below, kept, total.infinite)
        return result

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """delta(epsilon) = infinite + sum over losses above epsilon of mass (1 - e^(epsilon - loss))."""
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        points = (self.low + np.arange(self.mass.size)) * self.step
        result = np.empty(wanted.size)
        for place, epsilon in enumerate(wanted):
            start = int(np.searchsorted(points, epsilon, side="right"))
            gained = -np.expm1(epsilon - points[start:])
            result[place] = self.infinite + float(self.mass[start:] @ gained)
        return np.minimum(result, 1.0)


def _sum(first: Losses, second: Losses) -> Losses:
    infinite = first.infinite + second.infinite - first.infinite * second.infinite
    return Losses(first.step, first.low + second.low, np.convolve(first.mass, second.mass), infinite)


def of_local(high: float, low: float, chance: float) -> Losses:
    """One noisy label that is seen with probability ``chance``: exact, its losses are the grid."""
    if low == 0:
        return Losses(1.0, 0, np.array([1 - chance * high]), chance * high)
    if high == low:
        return Losses(1.0, 0, np.ones(1))
    step = math.log(high) - math.log(low)
    return Losses(step, -1, np.array([chance * low, 1 - chance * (high + low), chance * high]))


def step_for(spread: float, limit: float) -> float:
    """A grid fine enough for losses that spread by ``spread`` and never exceed ``limit``, which it divides."""
    cells = math.ceil(limit / max(min(spread / 100, limit / 40), limit / (1 << 20)))
    return limit / cells
