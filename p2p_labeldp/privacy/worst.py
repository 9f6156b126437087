"""The worst cluster: which number of ones among the others lets the victim's label be told best.

A view's guarantee is the worst over n1, the ones that the other users hold. Nobody knows a formula for the worst
n1, so it is searched, completely where that is affordable, by branch and bound:

* *incumbent*: the epsilon at which the worst pair found so far reaches delta;
* *cover*: one pair that is at least as far apart as every n1 of a block (``reports`` derives it: the flips of
  a few users are revealed). A block whose cover stays below delta at the incumbent's epsilon is done with,
  otherwise it is split, down to blocks whose pairs are compared one by one and may become the incumbent.

The test is made at the incumbent's epsilon plus a tolerance, which is what is reported: so a block may be
dropped although one of its n1 is worse than the incumbent by less than the tolerance. Where the work allowed
is used up, the tolerance grows until the blocks that are left are covered: the result is then a proved upper
bound, and the incumbent is the searched value beside it.

Only n1 up to half of the others are visited: exchanging the names of the labels maps n1 to others - n1 and
exchanges the two directions, and both directions are compared everywhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats

# Work in elementary steps of about five nanoseconds before an exact answer is given up for a bound.
WORK = 2e9
# The share of it after which the bound is loosened again.
_MORE = 0.15
# Smaller probabilities than this are not resolved: their epsilon is bounded by the pure one.
SMALLEST_DELTA = 1e-100
_TAIL = 1e-10
# Up to so many others every n1 is compared, none covered, and the tolerance is not needed.
_SMALL = 32
_TOGETHER = 4000
_RELATIVE = 1e-7
_ABSOLUTE = 2e-10


class Pairs(Protocol):
    """Pairs of laws, ready to be compared.

    How much too large their deltas may be: ``missing`` was added for what was cut, ``looseness`` is
    relative, ``rounding`` is the relative error of every mass, and ``coarseness`` moves the epsilon.
    """

    missing: float
    looseness: float
    rounding: float
    coarseness: float

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """Axes: direction, row, epsilon. Never below the truth."""
        ...


class Family(Protocol):
    """The pairs of one view, one for each number of ones among the others."""

    @property
    def others(self) -> int: ...

    def rows(self, first: int, last: int, tail: float) -> Pairs: ...

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> Pairs: ...

    def cost(self, rows: int) -> float: ...


@dataclass(frozen=True)
class Worst:
    """What a search found. ``value`` (an epsilon or a delta) is proved; ``searched`` is attained by ``ones``."""

    value: float
    searched: float
    ones: int
    error_bound: float
    exact: bool
    compared: int


def solve(pairs: Pairs, delta: float, ceiling: float, guess: float | None = None) -> float:
    """The least epsilon up to ``ceiling`` (rounded up) at which the first of ``pairs`` keeps to delta."""

    def values(epsilons: npt.ArrayLike) -> Floats:
        worst: Floats = pairs.deltas(epsilons)[:, 0].max(axis=0)
        return worst

    low, high = 0.0, ceiling
    if guess is None or not 0 < guess < ceiling:
        points = ceiling * np.array([0.0, 0.002, 0.01, 0.03, 0.08, 0.2, 0.4, 0.7])
    else:
        points = np.array([0.0, guess * 0.98, guess, guess + min(guess, ceiling - guess) * 0.02])
    log_low = log_high = math.nan
    for _ in range(60):
        found = values(points)
        for point, value in zip(points, found, strict=True):
            if value <= delta:
                if point < high or math.isnan(log_high):
                    high, log_high = min(float(point), high), math.log(value) if value > 0 else -math.inf
            elif point >= low:
                low, log_low = float(point), math.log(value)
        if high <= low or high - low <= 1e-13 + 1e-11 * high:
            break
        width = high - low
        if math.isfinite(log_low) and math.isfinite(log_high) and log_low > log_high:
            place = (log_low - math.log(delta)) / (log_low - log_high)
            centre = low + width * min(max(place, 0.0), 1.0)
            steps = width * np.array([-0.1, -0.01, -1e-3, -1e-5, 1e-5, 1e-3, 0.01, 0.1])
            points = np.unique(np.clip(centre + steps, low + 1e-3 * steps[-4], high - 1e-3 * steps[-4]))
        else:
            points = low + width * np.array([0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95])
    return high


class _Bar:
    """The (epsilon, delta) that every pair must keep to; it rises with what is found. ``slack`` starts at 1."""

    epsilon: float
    delta: float
    tail: float
    ones = 0
    tolerance = 1.0

    def meet(self, pairs: Pairs, ones: int, slack: float) -> None:
        """Raise the bar to a pair that was found above it."""
        raise NotImplementedError

    def lift(self, slack: float) -> None:
        """Raise the bar because the work allowed is used up."""
        raise NotImplementedError


class _EpsilonBar(_Bar):
    def __init__(self, family: Family, delta: float, ceiling: float) -> None:
        self.delta, self.ceiling, self.tail = delta, ceiling, max(delta, SMALLEST_DELTA) * _TAIL
        self.found = self.epsilon = self.error = 0.0
        self.tolerance = _tolerance(family)
        self.meet(family.rows(0, 0, self.tail), 0, 1.0)

    def meet(self, pairs: Pairs, ones: int, slack: float) -> None:
        found = solve(pairs, self.delta, self.ceiling, self.found or None)
        if found >= self.found:
            self.found, self.ones, self.error = found, ones, _uncertainty(pairs, self.delta, found)
        self.lift(slack)

    def lift(self, slack: float) -> None:
        fine = self.tolerance * (_ABSOLUTE + _RELATIVE * self.found) if self.found else 0.0
        step = fine if slack == 1 else 2e-3 * slack * self.found
        self.epsilon = min(self.ceiling, max(self.epsilon, self.found + step))


class _DeltaBar(_Bar):
    def __init__(self, family: Family, epsilon: float) -> None:
        self.epsilon, self.found, self.delta, self.tail, self.error = epsilon, 0.0, 0.0, 1e-14, 0.0
        self.tolerance = _tolerance(family)
        for _ in range(12):
            pairs = family.rows(0, 0, self.tail)
            found = float(pairs.deltas(epsilon).max())
            if pairs.missing <= 1e-8 * found or self.tail <= SMALLEST_DELTA * _TAIL:
                break
            self.tail = max(SMALLEST_DELTA * _TAIL, min(self.tail * 1e-6, found * _TAIL))
        self.meet(pairs, 0, 1.0)

    def meet(self, pairs: Pairs, ones: int, slack: float) -> None:
        found = float(pairs.deltas(self.epsilon).max())
        if found >= self.found:
            shift = 5 * pairs.rounding
            below = float(pairs.deltas(self.epsilon + shift).max())
            self.error = found - below * (1 - shift - 2 * pairs.looseness) + 1.1 * pairs.missing
            if pairs.coarseness:
                self.error = found
            self.found, self.ones = found, ones
        self.lift(slack)

    def lift(self, slack: float) -> None:
        step = self.tolerance * _RELATIVE if slack == 1 else 0.02 * slack
        self.delta = min(1.0, max(self.delta, self.found * (1 + step)))


def _uncertainty(pairs: Pairs, delta: float, epsilon: float) -> float:
    """How far below ``epsilon`` the exact value of a pair may be, by bounding its delta from below."""
    if epsilon == 0:
        return 0.0
    steps = np.minimum(epsilon, (1e-12 + 1e-10 * epsilon) * 10.0 ** np.arange(0, 11, 2))
    shift = 5 * pairs.rounding
    below = pairs.deltas(epsilon - steps + shift)[:, 0].max(axis=0)
    below = below * (1 - shift - 2 * pairs.looseness) - 1.1 * pairs.missing
    enough = np.flatnonzero(below > delta)
    return (float(steps[enough[0]]) if enough.size else epsilon) + pairs.coarseness


def _search(family: Family, bar: _Bar, work: float) -> tuple[bool, int]:
    """Raise the bar until every pair keeps to it. Was it raised by what was found only; how many were compared."""
    half = family.others // 2
    chunk = _chunk(family)
    # Small covers share their recursion; of large ones each has a range of its own.
    together = 8 if family.others <= _TOGETHER else 1
    groups, start = [[(0, min(half, chunk - 1))]], chunk
    blocks = []
    while start <= half:
        blocks.append((start, min(half, 3 * start - 1)))
        start *= 3
    groups = [*_groups(blocks, together), *groups]
    spent, slack, compared = 0.0, 1.0, 0
    while groups:
        if spent > work:
            slack *= 2
            work = spent + max(_MORE * work, 4 * family.cost(1))
            bar.lift(slack)
        group = groups.pop()
        if group[0][0] > 0:
            spent += family.cost(1) * len(group)
            values = family.cover(group, bar.tail).deltas(bar.epsilon).max(axis=(0, 2))
            group = [block for block, value in zip(group, values, strict=True) if value > bar.delta]
        for first, last in reversed(group):
            if last - first >= chunk:
                part = max(chunk, -(-(last - first + 1) // 4))
                parts = [(edge, min(last, edge + part - 1)) for edge in range(first, last + 1, part)]
                groups.extend(_groups(parts, together))
                continue
            spent += family.cost(last - first + 1)
            compared += last - first + 1
            _compare(family, bar, first, last, slack)
    return slack == 1, compared


def _groups(blocks: list[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
    """Blocks in groups, those with the fewest ones last: they are taken up first."""
    return [blocks[start : start + size] for start in reversed(range(0, len(blocks), size))]


def _compare(family: Family, bar: _Bar, first: int, last: int, slack: float) -> None:
    """Raise the bar to the pairs of n1 = first..last that are above it."""
    rows = family.rows(first, last, bar.tail)
    values = rows.deltas(bar.epsilon).max(axis=(0, 2))
    while values.max() > bar.delta:
        ones = first + int(values.argmax())
        bar.meet(family.rows(ones, ones, bar.tail), ones, slack)
        values[ones - first] = 0.0
        if (values > bar.delta).any():
            values = rows.deltas(bar.epsilon).max(axis=(0, 2))
            values[ones - first] = 0.0


def _tolerance(family: Family) -> float:
    return 0.0 if family.others <= _SMALL else 1.0


def _chunk(family: Family) -> int:
    """How many neighbouring pairs to compare at once rather than to cover again."""
    if family.others <= _SMALL:
        return family.others // 2 + 1
    chunk = 8 if family.others <= _TOGETHER else 4
    while chunk < 64 and chunk * chunk <= family.others and family.cost(2 * chunk) <= 4 * family.cost(1):
        chunk *= 2
    return chunk


def worst_epsilon(family: Family, delta: float, ceiling: float, work: float = WORK) -> Worst:
    """The least epsilon, up to ``ceiling``, at which every pair of the family keeps to ``delta`` > 0.

    ``ceiling`` must be an epsilon at which delta is zero: the local one.
    """
    bar = _EpsilonBar(family, delta, ceiling)
    if bar.epsilon >= ceiling:
        return Worst(ceiling, bar.found, bar.ones, bar.error + ceiling - bar.found, True, 1)
    exact, compared = _search(family, bar, work)
    return Worst(bar.epsilon, bar.found, bar.ones, bar.error + bar.epsilon - bar.found, exact, compared)


def worst_delta(family: Family, epsilon: float, work: float = WORK) -> Worst:
    """The largest delta(epsilon) of the family's pairs."""
    bar = _DeltaBar(family, epsilon)
    exact, compared = _search(family, bar, work)
    return Worst(bar.delta, bar.found, bar.ones, bar.error + bar.delta - bar.found, exact, compared)
