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
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from p2p_labeldp.privacy.pairs import Pairs, solve, uncertainty

# Work in elementary steps of about five nanoseconds before an exact answer is given up for a bound.
WORK = 2e9
# The share of it after which the bound is loosened again.
_MORE = 0.15
# Smaller probabilities than this are not resolved: their epsilon is bounded by the pure one.
SMALLEST_DELTA = 1e-100
_TAIL = 1e-11
# Up to so many others every n1 is compared, none covered, and the tolerance is not needed.
_SMALL = 32
_TOGETHER = 4000
_RELATIVE = 1e-7
_ABSOLUTE = 2e-10


class Family(Protocol):
    """The pairs of one view, one for each number of ones among the others."""

    @property
    def others(self) -> int: ...

    def rows(self, first: int, last: int, tail: float) -> Pairs: ...

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> Pairs: ...

    def cost(self, rows: int) -> float: ...

    def smaller(self) -> "Family | None":
        """A family whose epsilon is about ten times larger, where looking for epsilon blindly would be slow."""
        ...


@dataclass(frozen=True)
class Worst:
    """What a search found. ``value`` (an epsilon or a delta) is proved; ``searched`` is attained by ``ones``."""

    value: float
    searched: float
    ones: int
    error_bound: float
    exact: bool
    compared: int


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
        smaller = family.smaller()
        self._guess = solve(smaller.rows(0, 0, self.tail), delta, ceiling) / 10 if smaller else None
        self.meet(family.rows(0, 0, self.tail), 0, 1.0)

    def meet(self, pairs: Pairs, ones: int, slack: float) -> None:
        found = solve(pairs, self.delta, self.ceiling, self.found or self._guess)
        if found >= self.found:
            self.found, self.ones, self.error = found, ones, uncertainty(pairs, self.delta, found)
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


def _search(family: Family, bar: _Bar, work: float) -> tuple[bool, int]:
    """Raise the bar until every pair keeps to it. Was it raised by what was found only; how many were compared."""
    chunk = _chunk(family)
    pairs = family.others // 2 + 1
    whole = _Sweep(family, bar, chunk)
    if family.cost(chunk) * pairs / chunk <= work:
        if family.others <= _TOGETHER:
            return True, _split(family, bar, chunk)
        return whole.run(math.inf), whole.compared
    # First a bound that is sure to come out, then the exact value if there is work left for it.
    exact_bar = copy(bar)
    whole.slack = 2.0 if work >= 16 * family.cost(1) else 8.0
    bar.lift(whole.slack)
    whole.run(work)
    if whole.slack == 2 and whole.spent < 0.6 * work:
        again = _Sweep(family, exact_bar, chunk)
        if again.run(work, give_up=True):
            bar.__dict__.update(exact_bar.__dict__)
            return True, again.compared
    return False, whole.compared


def _split(family: Family, bar: _Bar, chunk: int) -> int:
    """Small clusters: cover several blocks at once, split those that fail. Returns how many pairs were compared."""
    half = family.others // 2
    blocks, start, compared = [], chunk, 0
    while start <= half:
        blocks.append((start, min(half, 3 * start - 1)))
        start *= 3
    groups = [blocks, [(0, min(half, chunk - 1))]] if blocks else [[(0, half)]]
    while groups:
        group = groups.pop()
        if group[0][0] > 0:
            values = family.cover(group, bar.tail).deltas(bar.epsilon).max(axis=(0, 2))
            group = [block for block, value in zip(group, values, strict=True) if value > bar.delta]
        for first, last in reversed(_joined(group, chunk)):
            if last - first < 4 * chunk:
                compared += last - first + 1
                _compare(family, bar, first, last, 1.0)
            else:
                part = max(chunk, -(-(last - first + 1) // 4))
                groups.append([(edge, min(last, edge + part - 1)) for edge in range(first, last + 1, part)])
    return compared


def _joined(blocks: list[tuple[int, int]], chunk: int) -> list[tuple[int, int]]:
    """Neighbouring small blocks as one, to be compared at once; larger ones as they are."""
    joined: list[tuple[int, int]] = []
    for first, last in blocks:
        if joined and joined[-1][1] == first - 1 and last - joined[-1][0] < 4 * chunk:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


class _Sweep:
    """Large clusters: cover from n1 = 0 upwards with blocks as wide as will do.

    The logarithm of a cover's delta grows about linearly with its width, so each cover tells how wide the next may be.
    """

    def __init__(self, family: Family, bar: _Bar, chunk: int) -> None:
        self.family, self.bar, self.chunk = family, bar, chunk
        self.spent, self.slack, self.compared = 0.0, 1.0, 0

    def run(self, work: float, *, give_up: bool = False) -> bool:
        """Until all is covered. When the work is used up: give up, or loosen the bar again and again."""
        family, bar, half = self.family, self.bar, self.family.others // 2
        start, width = 0, 2e-3 * self.slack * family.others if self.slack > 1 else 0.0
        growth = 0.0
        while start <= half:
            if self.spent > work:
                if give_up:
                    return False
                self.slack *= 2
                work = self.spent + max(_MORE * work, 4 * family.cost(1))
                bar.lift(self.slack)
                width *= 2
            if width < self.chunk:
                last = min(half, start + self.chunk - 1)
                self.spent += family.cost(last - start + 1)
                self.compared += last - start + 1
                _compare(family, bar, start, last, self.slack)
                start, width = last + 1, 2.0 * self.chunk
                continue
            last = min(half, start + int(width) - 1)
            self.spent += family.cost(1)
            value = float(family.cover([(start, last)], bar.tail).deltas(bar.epsilon).max())
            excess = math.log(max(value, 1e-300) / bar.delta)
            used = last - start + 1
            if growth == 0.0:
                growth = _growth(family, bar, used, value)
            fits = used - excess / growth if growth > 0 else used * (2.0 if excess <= 0 else 0.5)
            if excess <= 0:
                start = last + 1
                width = min(max(0.9 * fits, used), 16.0 * used)
            else:
                width = min(max(0.8 * fits, 0.0), 0.7 * used)
        return True


def _growth(family: Family, bar: _Bar, width: int, value: float) -> float:
    """How fast the logarithm of a cover's delta grows with its width, from the block that starts at n1 = 0."""
    single = float(family.rows(0, 0, bar.tail).deltas(bar.epsilon).max())
    return max(0.0, math.log(max(value, 1e-300) / max(single, 1e-300))) / width


def _compare(family: Family, bar: _Bar, first: int, last: int, slack: float) -> None:
    """Raise the bar to the pairs of n1 = first..last that are above it."""
    rows = family.rows(first, last, bar.tail)
    # A pair that has been met keeps to the bar by its own comparison, whatever this one says in the last digit.
    open_pairs = np.ones(last - first + 1)
    while True:
        values = rows.deltas(bar.epsilon).max(axis=(0, 2)) * open_pairs
        if values.max() <= bar.delta:
            return
        best = int(values.argmax())
        bar.meet(family.rows(first + best, first + best, bar.tail), first + best, slack)
        open_pairs[best] = 0.0


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
