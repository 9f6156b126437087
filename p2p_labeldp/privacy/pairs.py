"""Pairs of distributions that can be compared, and the epsilon at which a pair reaches a delta."""

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats


class Pairs(Protocol):
    """Pairs of distributions, ready to be compared.

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


class OnePair:
    """One pair of a bound, which is compared at one epsilon after the other."""

    missing: float
    rounding: float
    coarseness = 0.0

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        found = [min(1.0, self._delta(epsilon)) for epsilon in np.atleast_1d(np.asarray(epsilons, dtype=np.float64))]
        return np.array(found).reshape(1, 1, -1)

    def _delta(self, epsilon: float) -> float:
        """Never below the truth."""
        raise NotImplementedError


def solve(pairs: Pairs, delta: float, ceiling: float, guess: float | None = None) -> float:
    """The least epsilon up to ``ceiling`` (rounded up) at which the first of ``pairs`` keeps to delta."""

    def values(epsilons: npt.ArrayLike) -> Floats:
        worst: Floats = pairs.deltas(epsilons)[:, 0].max(axis=0)
        return worst

    low, high = 0.0, ceiling
    if guess is None or not 0 < guess < ceiling:
        points = ceiling * np.array([0.0, 0.002, 0.01, 0.03, 0.08, 0.2, 0.4, 0.7])
    else:
        points = np.minimum(guess * np.array([0.97, 1.0, 1.03]), ceiling)
    known: list[tuple[float, float]] = []
    last = math.inf
    for _ in range(80):
        for point, value in zip(points, values(points), strict=True):
            known.append((math.log(max(value, 1e-300) / delta), float(point)))
            if value <= delta:
                high = min(high, float(point))
            else:
                low = max(low, float(point))
        width = high - low
        if width <= 1e-13 + 1e-11 * high:
            break
        place = min(max(interpolated(known), low), high)
        # Two points around the estimate, as far from it as the estimate still moves; halving as a safeguard.
        reach = min(max(0.1 * abs(place - last), 1e-13 + 4e-12 * high), 0.1 * width)
        last = place
        points = np.clip(np.array([place - reach, place + reach]), low + 0.02 * reach, high - 0.02 * reach)
        if len(known) > 16:
            points = np.append(points, (low + high) / 2)
    return high


def interpolated(known: list[tuple[float, float]]) -> float:
    """Of pairs (excess, point): the point where there is none, by a polynomial through the nearest points."""
    near: list[tuple[float, float]] = []
    for excess, point in sorted(known, key=lambda pair: abs(pair[0])):
        if len(near) < 4 and all(abs(excess - other) > 1e-12 for other, _ in near):
            near.append((excess, point))
    place = 0.0
    for i, (excess, point) in enumerate(near):
        share = 1.0
        for j, (other, _) in enumerate(near):
            if j != i:
                share *= other / (other - excess)
        place += share * point
    return place


def uncertainty(pairs: Pairs, delta: float, epsilon: float) -> float:
    """How far below ``epsilon`` the exact value of a pair may be, by bounding its delta from below."""
    if epsilon == 0:
        return 0.0
    steps = np.minimum(epsilon, (1e-11 + 2e-9 * epsilon) * 4.0 ** np.arange(7))
    shift = 5 * pairs.rounding
    below = pairs.deltas(epsilon - steps + shift)[:, 0].max(axis=0)
    below = below * (1 - shift - 2 * pairs.looseness) - 1.1 * pairs.missing
    enough = np.flatnonzero(below > delta)
    return (float(steps[enough[0]]) if enough.size else epsilon) + pairs.coarseness
