"""A view's guarantee in two other notions: the trade-off function of f-DP and the Renyi divergences of RDP.

Both follow from the profile delta(epsilon), which bounds every pair of neighbours in both directions, and err on the
safe side: they hold whatever delta is known to be an upper bound of, and converge to what the exact profile says.

**Trade-off** (Dong, Roth, Su 2022). Whoever tells two neighbours apart with false positive rate r has a false
negative rate of at least

    f(r) = max over epsilon >= 0 of  1 - delta(epsilon) - e^epsilon r  and  e^-epsilon (1 - delta(epsilon) - r)

Every epsilon gives a line below the curve, so any set of them is safe; more are tried where they matter until the curve
no longer moves. It is convex: where no one pair of neighbours is the worst at every rate it is the convex curve
below them all.

**Renyi** (Mironov 2017). With s = e^epsilon, and E_s the hockey-stick divergence (Sason and Verdu 2016),

    E_Q[(P/Q)^order] = 1 + order (order - 1) integral over s >= 1 of  s^(order-2) E_s(P||Q) + s^(-order-1) E_s(Q||P)

and E_s <= delta(log s) for both. delta is convex in s, so that the chords between computed points lie above it: the
integral over them, in closed form, is an upper bound. From the local epsilon on delta is what it is at infinity: zero,
or the divergence is infinite. Order 1 is Kullback and Leibler's, order infinity the pure epsilon.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy.binomial import Floats

_FIRST = 13
_POINTS = 96
# The trade-off's curve may still move by so much; and the integral by this fraction.
_STILL = 1e-6
_SLACK = 0.01
# Beyond this e^epsilon is not computed; lines as steep are left out, which is safe.
_STEEPEST = 500.0


@dataclass
class Curve:
    """delta at a growing set of epsilons from 0 to ``largest``, the local epsilon."""

    delta: Callable[[float], float]
    largest: float

    def __post_init__(self) -> None:
        top = min(self.largest, _STEEPEST)
        # Dense near zero, where epsilons of large clusters are.
        self.epsilons = np.unique(top * np.linspace(0, 1, _FIRST) ** 3) if self.largest < math.inf else np.zeros(1)
        self.deltas = np.array([self.delta(float(epsilon)) for epsilon in self.epsilons])

    def add(self, wanted: npt.ArrayLike) -> None:
        """Compute delta at more epsilons."""
        more = np.setdiff1d(np.asarray(wanted, dtype=np.float64), self.epsilons)
        self.epsilons = np.concatenate([self.epsilons, more])
        self.deltas = np.concatenate([self.deltas, [self.delta(float(epsilon)) for epsilon in more]])
        order = np.argsort(self.epsilons)
        self.epsilons, self.deltas = self.epsilons[order], self.deltas[order]


def trade_off(curve: Curve, rates: npt.ArrayLike) -> Floats:
    """The least false negative rate at each false positive rate, never above the truth."""
    wanted = np.asarray(rates, dtype=np.float64)
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise RequestError("false positive rates must be within 0..1")
    flat = wanted.ravel()
    while True:
        # Lines as steep as e^epsilon and their mirrors; the former are concave in e^epsilon, the latter in e^-epsilon.
        grown, shrunk = np.exp(curve.epsilons), np.exp(-curve.epsilons)
        steep = (1 - curve.deltas) - grown * flat[:, None]
        gentle = shrunk * ((1 - curve.deltas) - flat[:, None])
        found: Floats = np.maximum(np.maximum(steep.max(axis=1), gentle.max(axis=1)), 0.0)
        gaps = np.unique(np.concatenate([_open(steep, grown, found), _open(gentle, shrunk, found)]))
        if not gaps.size or curve.epsilons.size >= _POINTS:
            # A unit in the last place below, since the lines are rounded.
            result: Floats = np.maximum(found - 4e-16, 0.0).reshape(wanted.shape)
            return result
        curve.add((curve.epsilons[gaps] + curve.epsilons[gaps + 1]) / 2)


def _open(lines: Floats, where: Floats, found: Floats) -> npt.NDArray[np.intp]:
    """Gaps beside a row's largest value in which a concave function may exceed ``found`` by more than is allowed.

    In the gap beyond its largest value it stays below the chord from the other side.
    """
    if where.size < 2:
        return np.zeros(0, dtype=np.intp)
    rows, widths = np.arange(lines.shape[0]), np.abs(np.diff(where))
    best = lines.argmax(axis=1)
    peak = lines[rows, best]
    left, right = np.maximum(best - 1, 0), np.minimum(best + 1, where.size - 1)
    below, above = peak - lines[rows, left], peak - lines[rows, right]
    at_left, at_right = widths[np.minimum(left, widths.size - 1)], widths[np.minimum(best, widths.size - 1)]
    # At the first point nothing is known of the other side: its own fall is taken.
    rise_right = np.where(best > 0, below * at_right / at_left, above)
    rise_left = np.where(best < where.size - 1, above * at_left / at_right, below)
    allowed = found + _STILL - peak
    use_right = (best < where.size - 1) & (rise_right > allowed) & (above > _STILL / 4)
    use_left = (best > 0) & (rise_left > allowed) & (below > _STILL / 4)
    return np.concatenate([best[use_right], best[use_left] - 1])


def renyi(curve: Curve, orders: npt.ArrayLike, pure: float) -> Floats:
    """An upper bound on the Renyi divergence of each order from 1 to infinity; ``pure`` is epsilon at delta = 0."""
    wanted = np.asarray(orders, dtype=np.float64)
    if not (wanted >= 1).all():
        raise RequestError("Renyi orders must be 1 or more")
    if curve.largest == math.inf or curve.largest > _STEEPEST:
        if float(curve.deltas[-1]) > 0:
            return np.full(wanted.shape, math.inf)
        return np.zeros(wanted.shape)
    finite = wanted[np.isfinite(wanted)]
    while finite.size and curve.epsilons.size < _POINTS:
        gaps = np.array([_parts(curve, float(order)) - _parts(curve, float(order), below=True) for order in finite])
        total = np.array([_parts(curve, float(order)).sum() for order in finite])
        share = np.divide(gaps, total[:, None], out=np.zeros_like(gaps), where=total[:, None] > 0)
        if share.sum(axis=1).max() <= _SLACK:
            break
        worst = np.unique(np.argsort(share.max(axis=0))[-8:])
        curve.add((curve.epsilons[worst] + curve.epsilons[worst + 1]) / 2)
    values = [_divergence(curve, float(order), pure) for order in wanted.ravel()]
    return np.array(values).reshape(wanted.shape)


def _divergence(curve: Curve, order: float, pure: float) -> float:
    """min(pure, order pure^2 / 2) is what the pure epsilon alone guarantees (Bun and Steinke 2016)."""
    if order == math.inf:
        return pure
    logs = _log_parts(curve, order)
    total = float(scipy.special.logsumexp(logs)) + 1e-9 if np.isfinite(logs).any() else -math.inf
    if order == 1:
        value = math.exp(total)
    else:
        value = float(np.logaddexp(0.0, math.log(order) + math.log(order - 1) + total)) / (order - 1)
    return min(value, pure, order * pure * pure / 2)


def _parts(curve: Curve, order: float, below: bool = False) -> Floats:
    """The integral over each gap, relative to its largest exponent: by chords, or by the smaller end from below."""
    logs = _log_parts(curve, order, below=below)
    top = (order - 1) * float(curve.epsilons[-1])
    result: Floats = np.exp(logs - top)
    return result


def _log_parts(curve: Curve, order: float, below: bool = False) -> Floats:
    left, right = curve.epsilons[:-1], curve.epsilons[1:]
    first, second = curve.deltas[:-1], curve.deltas[1:]
    second = np.minimum(second, first)
    if below:
        first = second
    parts = []
    for power in (order - 2, -order - 1):
        # The chord is first * (1 - t) + second * t with t = (s - s_left) / (s_right - s_left).
        whole, rising = _moments(left, right, power)
        with np.errstate(divide="ignore"):
            falls, rises = np.log(first) + np.log1p(-rising), np.log(second) + np.log(rising)
        parts.append(whole + np.logaddexp(falls, rises))
    result: Floats = np.logaddexp(*parts)
    return result


def _moments(left: Floats, right: Floats, power: float) -> tuple[Floats, Floats]:
    """log of the integral of s^power over a gap, and the mean of t under that weight, rounded down."""

    def log_integral(exponent: float) -> Floats:
        if exponent == 0:
            return np.log(right - left)
        # |e^(c right) - e^(c left)| / |c|, written around the larger of the two ends.
        larger = np.maximum(exponent * left, exponent * right)
        result: Floats = larger + np.log(-np.expm1(-abs(exponent) * (right - left))) - math.log(abs(exponent))
        return result

    whole = log_integral(power + 1)
    mean = np.exp(log_integral(power + 2) - whole)
    rising = (mean - np.exp(left)) / (np.exp(left) * np.expm1(right - left))
    return whole, np.clip(rising - 1e-9, 0.0, 1.0)
