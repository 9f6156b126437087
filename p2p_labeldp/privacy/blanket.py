"""More than two labels: the privacy blanket, and what the victim's two candidate labels look like inside it.

Every other user's noisy label is, with probability ``labels * low``, a draw that is uniform over all labels and so
independent of what she holds: the *privacy blanket* of Balle, Bell, Gascon and Nissim (2019). Otherwise she tells the
truth (or, where alpha exceeds (K-1)/K, a uniform one of the labels she does not hold: then ``high`` is the chance of
each label that is not hers, and all that follows holds as it stands). Let a and b be the victim's candidates.

**What is revealed**: who is outside the blanket, their noisy labels and which reports carry them; the number
M ~ Binomial(others, labels * low) of blanket users; and C, how many of these M and the victim hold a or b. Whether the
victim is one of the C is *not* revealed. With p = 2/labels

    P(C | M) = (high+low) Binomial(C-1; M, p) + (1-high-low) Binomial(C; M, p)
    w = (high+low) Binomial(C-1; M, p) / P(C | M)                   the victim is one of the C

Given (M, C) the labels other than a and b, and their reports, have one distribution whichever candidate she holds.
What is left is the two-label problem of C - 1 fair coins and one more that says a with ``right`` or 1 - ``right``:

    right = w high/(high+low) + (1-w)/2

and delta is the average over (M, C). (Merging the other labels without revealing C is not a bound.) The variation-ratio
bound of Wang et al. (``clones``) also reveals whether the victim is one of the C, so it is never less.

**Fewer pieces, safely.** For fixed C delta is convex and increasing in ``right``, so the many values that belong to one
C are spread over a few points that keep their mean (`Cell`). For fixed ``right`` it falls with C, since one coin may be
revealed: neighbouring C are counted as the smallest of them; and so are neighbouring M.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats, log_pmf, pmf, window
from p2p_labeldp.privacy.clones import coin_excess
from p2p_labeldp.privacy.pairs import OnePair
from p2p_labeldp.privacy.views import LocalNoise

# What rounding C and M down may change them by, relatively; epsilon changes by a quarter of it.
_COARSE = 0.003
# Many blanket users are as good as this many fewer: mass of the largest M and C that are rounded down at once.
_FEW = 1e-5
# Values of M at most; more are rounded down to so many.
_COUNTS = 384
# From so many blanket users on ``right`` varies so little that half of the points do.
_MANY = 400
# Where the values of ``right`` that belong to one C are put, in standard deviations around their mean.
_POINTS = np.array([-5.0, -3.7, -2.9, -2.2, -1.7, -1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2, 1.7, 2.2, 2.9, 3.7, 5.0])
_FARTHER: Floats = np.array([5.0 * 1.3**place for place in range(1, 12)])


class Cell(NamedTuple):
    """C coins, the last of them right with each of ``right`` at ``weights``."""

    coins: int
    right: Floats
    weights: Floats


class Cells(NamedTuple):
    """Every C that is likely enough, ascending, and a bound on the chance of the others. C = 0 says nothing."""

    cells: list[Cell]
    missing: float


@dataclass(frozen=True)
class Blanket:
    """The victim and ``others`` users of a cluster whose labels are unknown; ``hidden`` is the distribution of others.

    ``hidden`` lists (number of others, probability): a coalition does not always know equally many of them.
    """

    hidden: tuple[tuple[int, float], ...]
    labels: int
    noise: LocalNoise

    @classmethod
    def of(cls, others: int, labels: int, noise: LocalNoise) -> "Blanket":
        return cls(((others, 1.0),), labels, noise)

    @property
    def chance(self) -> float:
        """That a user is in the blanket."""
        return min(1.0, self.labels * self.noise.low)

    def cells(self, tail: float, coarse: float = 1.0) -> Cells:
        """The pieces; about ``tail`` of their mass is cut, and ``coarse`` multiplies all that is rounded."""
        counts, masses = self._blanket_users(tail, coarse)
        share, seen = 2 / self.labels, min(1.0, self.noise.high + self.noise.low)
        low = min(window(int(counts[0]), share, tail).low, int(counts[0]))
        high = window(int(counts[-1]), share, tail).high + 1
        coins = np.arange(low, high + 1, dtype=np.float64)
        with_victim = masses[:, None] * _grid(coins - 1, counts, share)
        without = masses[:, None] * _grid(coins, counts, share)
        weights = seen * with_victim + (1 - seen) * without
        # (right - 1/2) times the weight, rounded up: more is safe.
        gain = 0.5 * (self.noise.high - self.noise.low) * with_victim
        most = self.noise.high / seen - 0.5
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(weights > 0, np.minimum(gain / weights * (1 + 1e-11), most), 0.0)
        total = weights.sum(axis=0)
        start = int(np.searchsorted(np.cumsum(total), tail))
        above = np.cumsum(total[::-1])[::-1]
        last = int(coins[np.argmax(above <= _FEW)] if above[-1] <= _FEW else coins[-1])
        found, missing = [], 5 * tail
        points = _POINTS if coarse <= 1 and counts[-1] < _MANY else _POINTS[::2] if coarse <= 4 else _POINTS[::4]
        for first, end in _groups(coins, start, last, _COARSE * coarse):
            if coins[first] > 0:
                right, shares = spread(gain[:, first:end], weights[:, first:end], points)
                kept = shares > 1e-4 * tail
                missing += float(shares[~kept].sum())
                if kept.any():
                    found.append(Cell(int(coins[first]), 0.5 + right[kept], shares[kept]))
        return Cells(found, missing)

    def _blanket_users(self, tail: float, coarse: float) -> tuple[Floats, Floats]:
        """Values of M and their probabilities."""
        fewest, most = min(others for others, _ in self.hidden), max(others for others, _ in self.hidden)
        low = window(fewest, self.chance, tail).low
        high = window(most, self.chance, _FEW).high
        counts = np.arange(low, high + 1)
        masses = np.zeros(counts.size)
        for others, likely in self.hidden:
            where = window(others, self.chance, tail)
            part = pmf(where, others, self.chance)
            inside = np.minimum(np.arange(where.low, where.high + 1), high) - low
            masses += likely * np.bincount(inside, part, counts.size)
        step = max(1, math.ceil(counts.size / (_COUNTS / coarse)))
        starts = np.arange(0, counts.size, step)
        return counts[starts].astype(np.float64), np.add.reduceat(masses, starts)


def _grid(coins: Floats, counts: Floats, share: float) -> Floats:
    """Binomial(C; M, share) for every M (rows) and C, zero where C is no possible value."""
    inside = (coins[None, :] >= 0) & (coins[None, :] <= counts[:, None])
    safe = np.clip(coins[None, :], 0.0, counts[:, None])
    result: Floats = np.where(inside, np.exp(log_pmf(safe, np.broadcast_to(counts[:, None], safe.shape), share)), 0.0)
    return result


def _groups(coins: Floats, first: int, last: int, coarse: float) -> Iterable[tuple[int, int]]:
    """Neighbouring C to count as the smallest of them, as slices; all from ``last`` on are one."""
    while first < coins.size:
        if coins[first] >= last:
            yield first, coins.size
            return
        end = min(first + max(1, math.floor(coarse * coins[first])), first + int(last - coins[first]))
        yield first, end
        first = end


def spread(values: Floats, weights: Floats, around: Floats, farther: Floats = _FARTHER) -> tuple[Floats, Floats]:
    """A few points with the same total weight and the same mean as the values; see the module's text.

    They lie ``around`` the mean and ``farther`` from it on either side, in standard deviations.
    """
    kept = weights > 0
    values, weights = np.ravel(values[kept]), np.ravel(weights[kept])
    if not values.size:
        return np.zeros(1), np.zeros(1)
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-9 * high:
        return np.array([high]), np.array([weights.sum()])
    mean = float(weights @ values / weights.sum())
    deviation = math.sqrt(float(weights @ (values - mean) ** 2 / weights.sum()))
    inner = mean + deviation * np.concatenate([-farther, around, farther])
    inner.sort()
    points = np.concatenate([[low], inner[(inner > low) & (inner < high)], [high]])
    place = np.clip(np.searchsorted(points, values, side="right") - 1, 0, points.size - 2)
    upper = np.clip((values - points[place]) / (points[place + 1] - points[place]), 0.0, 1.0)
    shares: Floats = np.bincount(place, weights * (1 - upper), points.size).astype(np.float64)
    shares += np.bincount(place + 1, weights * upper, points.size)
    return points, shares


def flattened(cells: Sequence[Cell]) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """``right`` and weight of every point of every cell, and which cell it belongs to."""
    right = np.concatenate([cell.right for cell in cells] or [np.zeros(0)])
    weights = np.concatenate([cell.weights for cell in cells] or [np.zeros(0)])
    return right, weights, np.repeat(np.arange(len(cells)), [cell.right.size for cell in cells])


class Shuffled(OnePair):
    """The pair of the bound for someone who sees every coin: the shuffled view."""

    looseness = 1.0
    # ``fair_tail`` is good to about 1e-12; a hundredfold margin.
    rounding = 1e-10

    def __init__(self, cells: Cells, tail: float) -> None:
        self._cells, self._tail = cells.cells, tail
        self._right, self._weights, owner = flattened(cells.cells)
        self._fair = np.array([cell.coins - 1.0 for cell in cells.cells])[owner]
        self.missing = cells.missing + tail

    def _delta(self, epsilon: float) -> float:
        excess = coin_excess(self._fair, self._right, max(0.0, epsilon - 3 * self.rounding))
        return float(self._weights @ excess) * (1 + 2 * self.rounding) + self.missing

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """Masses of every outcome when the victim holds b, and when she holds a; what is cut is in ``missing``."""
        for cell in self._cells:
            where = window(cell.coins - 1, 0.5, self._tail)
            fair = pmf(where, cell.coins - 1, 0.5)
            zero, one = np.append(fair, 0.0), np.append(0.0, fair)
            right, weights = cell.right[:, None], cell.weights[:, None]
            held_b, held_a = right * zero + (1 - right) * one, right * one + (1 - right) * zero
            yield (weights * held_b).ravel(), (weights * held_a).ravel()
