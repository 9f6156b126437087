"""Binomial distributions with a stated accuracy: point masses, windows that hold all but a given tail, and noisy ones.

Point masses use Loader's form, ``exp(stirling - deviance)``, because differences of log-gammas lose eight
digits at a million trials and this keeps thirteen. Windows come from Bernstein's inequality, so the mass
outside is below the tail asked for whatever the rounding; nobody has to estimate it from a sum near one.
Sums of independent flips are convolutions of non-negative terms and therefore lose nothing either.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# Elements of a block that still fit the processor's second cache.
_BLOCK = 1 << 16


class Window(NamedTuple):
    """The integers from ``low`` to ``high``, both included."""

    low: int
    high: int

    @property
    def width(self) -> int:
        return self.high - self.low + 1


def window(trials: int, chance: float, tail: float) -> Window:
    """Values outside are less likely than ``tail`` on either side (Bernstein)."""
    if chance <= 0 or chance >= 1:
        certain = 0 if chance <= 0 else trials
        return Window(certain, certain)
    log_tail = -math.log(tail)
    mean = trials * chance
    reach = log_tail / 3
    reach += math.sqrt(reach * reach + 2 * log_tail * mean * (1 - chance))
    return Window(max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach)))


# log(x!) minus Stirling's formula for x up to 15, where its series is too short; zero counts as one. Factorials so
# small are exact in float64.
_SMALLEST_STIRLING = np.array(
    [math.log(math.factorial(x)) - (x + 0.5) * math.log(x) + x - _HALF_LOG_TWO_PI for x in (1, *range(1, 16))]
)


def _stirling_series(counts: Floats) -> Floats:
    """log(x!) minus Stirling's formula of whole numbers; zero counts as one."""
    safe = np.maximum(counts, 1.0)
    square = safe * safe
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square) / safe
    direct = _SMALLEST_STIRLING[np.minimum(safe, 15.0).astype(np.intp)]
    result: Floats = np.where(safe > 15.5, series, direct)
    return result


@cache
def _small_stirling() -> Floats:
    return _stirling_series(np.arange(1 << 12, dtype=np.float64))


def _stirling_error(counts: Floats) -> Floats:
    if counts.size and counts.max() < 1 << 12:
        return _small_stirling()[counts.astype(np.intp)]
    return _stirling_series(counts)


def _bend(x: Floats) -> Floats:
    """(1 + x) log(1 + x) - x, without cancellation near zero; 1 at x = -1."""
    value: Floats = np.maximum(x, -0.9999999999999998)
    np.log1p(value, out=value)
    value *= 1 + x
    value -= x
    near = np.abs(x) <= 1e-3
    if near.any():
        y = x[near]
        value[near] = y * y * (1 / 2 - y * (1 / 6 - y * (1 / 12 - y * (1 / 20 - y / 30))))
    return value


def _deviance(counts: Floats, mean: Floats) -> Floats:
    """counts * log(counts / mean) + mean - counts."""
    with np.errstate(
        over="ignore"
    ):  # a mean of next to nothing: what is not 0 then has no chance that float64 can tell
        result: Floats = mean * _bend((counts - mean) / mean)
    return result


_LEAST_CHANCE = 1e-290  # less is nothing beside what every sum is rounded up by, and would overflow a ratio


def log_pmf(counts: npt.ArrayLike, trials: npt.ArrayLike, chance: float) -> Floats:
    """Logarithms of the binomial point masses at ``counts``, all of them within 0..trials."""
    k, n = np.asarray(counts, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if chance < _LEAST_CHANCE or chance >= 1:
        return np.where(k == (n if chance >= 1 else 0), 0.0, -np.inf)
    rest = n - k
    inner = (k > 0) & (rest > 0)
    many = np.maximum(n, 1.0)
    bulk = (
        _stirling_error(many)
        - _stirling_error(k)
        - _stirling_error(rest)
        - _deviance(k, many * chance)
        - _deviance(rest, many * (1 - chance))
        + 0.5 * (np.log(many) - np.log(np.where(inner, k * rest, 1.0)))
        - _HALF_LOG_TWO_PI
    )
    ends = np.where(k == 0, n * math.log1p(-chance), n * math.log(chance))
    result: Floats = np.where(inner, bulk, ends)
    return result


def pmf(where: Window, trials: int, chance: float) -> Floats:
    """Binomial point masses over a window."""
    result: Floats = np.exp(log_pmf(np.arange(where.low, where.high + 1), trials, chance))
    return result


_NEGLIGIBLE = 40.0


@cache  # on first use: most processes do without polynomials, and their memory
def _nodes() -> tuple[Floats, Floats]:
    """Places in [0, 1] and weights of a Gauss-Legendre sum: exact up to degree 63, and to the last digit for e^-40x."""
    places, weights = np.polynomial.legendre.leggauss(32)
    return (places + 1) / 2, weights / 2


def fair_tail(trials: Floats, least: Floats) -> Floats:
    """P(Binomial(trials, 1/2) >= least) for each of them, to about 1e-12 of itself; ``trials`` and ``least`` are whole.

    From half of the trials up it is least P(Binomial = least) times the integral of (1 - u^2)^(b-1) (1 - u)^(a-b) over
    [0, 1], where a = least and b = trials - least + 1: the incomplete beta function, of terms that are all positive.
    The integrand falls faster and faster, so that what lies beyond the place where it is e^-40 is less than that share.
    Below half, what the other side lacks of one. In numpy alone: a user host does without scipy's functions, and
    their memory.
    """
    upper = np.clip(np.where(2 * least > trials, least, trials - least + 1), 1.0, np.maximum(trials, 1.0))
    beyond, rest = 2 * upper - trials - 1, trials - upper
    slope = beyond + np.sqrt(beyond * beyond + 2 * _NEGLIGIBLE * np.maximum(trials - 1, 0.0))
    reach = np.minimum(2 * _NEGLIGIBLE / np.maximum(slope, 1.0), 1.0)
    area = np.empty(upper.size)
    nodes, weights = _nodes()
    step = max(1, _BLOCK // nodes.size)
    for start in range(0, upper.size, step):
        block = slice(start, start + step)
        u = np.multiply.outer(reach[block], nodes)
        exponent = rest[block, None] * np.log1p(-u * u) + beyond[block, None] * np.log1p(-u)
        area[block] = reach[block] * (np.exp(exponent, out=exponent) @ weights)
    tail = np.minimum(upper * np.exp(log_pmf(upper, np.maximum(trials, 1.0), 0.5)) * area, 1.0)
    result: Floats = np.where(2 * least > trials, tail, 1 - tail)
    return np.where(least > trials, 0.0, np.where(least <= 0, 1.0, result))


class Draws(NamedTuple):
    """How many there are: Binomial(trials, rate) and, independently, Binomial(sure, sure_rate) more."""

    trials: int
    rate: float
    sure: int = 0
    sure_rate: float = 1.0

    @property
    def least(self) -> int:
        """The smallest possible value."""
        return (self.trials if self.rate >= 1 else 0) + (self.sure if self.sure_rate >= 1 else 0)

    def times(self, share: float) -> "Draws":
        """How many of them are of a kind that so many times as many are, each of them for itself."""
        return Draws(self.trials, min(1.0, self.rate * share), self.sure, min(1.0, self.sure_rate * share))

    def window(self, tail: float) -> Window:
        """Values outside are less likely than ``tail`` on either side, or than twice that where some are sure."""
        first = window(self.trials, self.rate, tail)
        if not self.sure:
            return first
        second = window(self.sure, self.sure_rate, tail)
        return Window(first.low + second.low, first.high + second.high)

    def masses(self, where: Window, tail: float) -> Floats:
        """Point masses over a window; where some are sure, all but ``tail`` on either side of both."""
        if not self.sure:
            return pmf(where, self.trials, self.rate)
        first, second = window(self.trials, self.rate, tail), window(self.sure, self.sure_rate, tail)
        both = np.convolve(pmf(first, self.trials, self.rate), pmf(second, self.sure, self.sure_rate))
        masses = np.zeros(where.width)
        place = np.arange(both.size) + first.low + second.low - where.low
        inside = (place >= 0) & (place < where.width)
        masses[place[inside]] = both[inside]
        return masses


def mixed(distributions: Floats, ones: Floats, size: int, trials: int, where: Window) -> Floats:
    """Masses over a window of Binomial(trials, N / size) when N, from ``ones``, follows each row of ``distributions``.

    The binomials are written around one share in the middle, so that the exponents stay small and their rounding with
    them: log pmf(k; p) = log pmf(k; p0) + (k - trials p0)(logit p - logit p0) - trials KL(p0 || p).
    """
    k = np.arange(where.low, where.high + 1, dtype=np.float64)
    inner = (ones > 0) & (ones < size)
    total = np.zeros((distributions.shape[0], k.size))
    for edge in np.flatnonzero(~inner):
        total += distributions[:, edge, None] * (k == (0 if ones[edge] <= 0 else trials))
    inside, weights = ones[inner], distributions[:, inner]
    if not inside.size:
        return total
    centre = float(inside[inside.size // 2])
    tilt = np.log1p((inside - centre) / centre) - np.log1p((centre - inside) / (size - centre))
    far = inside * _bend((centre - inside) / inside) + (size - inside) * _bend((inside - centre) / (size - inside))
    far *= trials / size
    middle = log_pmf(k, trials, centre / size)
    away = k - trials * (centre / size)
    step = max(1, _BLOCK // k.size)
    for start in range(0, inside.size, step):
        block = slice(start, start + step)
        exponent = np.multiply.outer(tilt[block], away)
        exponent -= far[block, None]
        exponent += middle
        np.minimum(exponent, 0.0, out=exponent)
        total += weights[:, block] @ np.exp(exponent, out=exponent)
    return total


class Distribution(NamedTuple):
    """Masses of consecutive integers that start at ``low``; a matrix has one distribution per row."""

    low: int
    mass: Floats


def _pascal(size: int, chance: float) -> list[Floats]:
    """The distributions of Binomial(i, chance) for i = 0..size."""
    rows = [np.ones(1)]
    step = np.array([1 - chance, chance])
    for _ in range(size):
        rows.append(np.convolve(rows[-1], step))
    return rows


def _trimmed(distribution: Distribution, tail: float) -> Distribution:
    below = int(np.searchsorted(np.cumsum(distribution.mass), tail))
    above = int(np.searchsorted(np.cumsum(distribution.mass[::-1]), tail))
    return Distribution(distribution.low + below, distribution.mass[below : distribution.mass.size - above])


def with_victim(others: Floats, flip: float) -> tuple[Floats, Floats]:
    """Noisy ones among the others and a victim who holds a zero, and one who holds a one; a row for each of theirs."""
    edge = np.zeros((others.shape[0], 1))
    without, one_more = np.hstack([others, edge]), np.hstack([edge, others])
    return (1 - flip) * without + flip * one_more, flip * without + (1 - flip) * one_more


def noisy_ones(first: int, last: int, others: int, flip: float, tail: float) -> Distribution:
    """Noisy ones among ``others`` users of whom n1 hold a one: a row for each n1 from first to last.

    Every row misses a mass of at most six times ``tail``.
    """
    width = last - first
    ones, zeros = window(first, 1 - flip, tail), window(others - last, flip, tail)
    distribution = Distribution(
        ones.low + zeros.low, np.convolve(pmf(ones, first, 1 - flip), pmf(zeros, others - last, flip))
    )
    if distribution.mass.size > 64:
        distribution = _trimmed(distribution, tail)
    if width == 0:
        return Distribution(distribution.low, distribution.mass[None, :])
    from_ones, from_zeros = _pascal(width, 1 - flip), _pascal(width, flip)
    rows = [np.convolve(distribution.mass, np.convolve(from_ones[i], from_zeros[width - i])) for i in range(width + 1)]
    return Distribution(distribution.low, np.array(rows))
