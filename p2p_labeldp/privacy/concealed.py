"""Reports inside the privacy blanket when nobody says how many users show a or b: less is revealed than in ``blanket``.

Where C, the number of those who show one of the victim's candidates a and b, is small, telling it costs up to a third
of epsilon: now and then C is far below its mean, and then it is known to be. What a view really tells about C is how
many reports came from these C, and how often the other reports share a source. So only this is revealed:

* which reports carry a label of the C (x of them, x_a of which say a), and
* each user who is *not* one of the C with probability ``exposed``, independently: by name and label where she is
  outside the blanket, else (blanket users and the victim, who are alike there) as one more anonymous source.

**Why it is a bound.** Of N unknown users, the victim included, each of ``trials`` reports carries the label of any
given one with probability ``rate``. Sources of the reports that do not come from the C are uniform over the other
N - C, so everything seen of them can be made from users who are exposed at random, if enough of them are:

* number of reports about the N unknown (m) not told: a report that is not of the C is of the others with
  probability rho v/(1 + rho v), v = N - C, rho = rate/(1 - N rate). That is the chance that Poisson(rho E v) > 0 for an
  exponential E, so sources are exposed with 1 - e^(-rho sum of E), where the sum is a gamma variable, below ``g`` but
  for a tail: exposed = 1 - e^(-rho g). Good where few reports arrive. (A few more that are sure to be seen are added as
  below.)
* m told (it says nothing about C): m - x <= m draws among N - C users are the first m of Poisson(l (N-C)) draws, which
  are m at least but for a tail: exposed = 1 - e^-l. x ~ Binomial(m, C/N). Good where most reports arrive.

**What is left.** Every other user is one of the C with probability 2 low, the victim with s = high + low. With j users
exposed, j_r of them anonymous, N - 1 - j others are neither; each is one of the C with
p = 2 low/(2 low + (1 - 2 low)(1 - exposed)). Let

    T1(x, x_a) = sum_C Binomial(C-1; N-1-j, p) Binomial(x; trials, rate C) F1_C(x_a | x)
    T0(x, x_a) = sum_C Binomial(C;   N-1-j, p) Binomial(x; trials, rate C) F1_C(x_a | x)

with F1_C the distribution of x_a when one of the C coins says a and C - 1 are fair, and a bar for mirroring x_a to
x - x_a. Given (j, j_r) the victim who holds a gives, up to the chance of (j, j_r) had she been one of the C,

    high T1 + low T1' + (1-s)(1-exposed) T0* + b (p T1* + (1-p) T0*),    T* = (T + T')/2
    b = (1-s) exposed (1-pi) j_r / ((N-j) (labels-2) low exposed),       pi = (1 - 2 low) exposed

(she is one of the C; not, and not exposed; not, and one of the j_r), and who holds b its mirror image. delta is a
convex function of b, so the values of b are spread over a few points that keep their mean.

**Fewer pieces, safely.** All about an unexposed user may be revealed, so neighbouring j are counted as the largest of
them; her reports then leave
fewer ``trials``, each of which carries a given other label with rate/(1 - rate).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Draws, Floats, Window, log_pmf, mixed, pmf, window
from p2p_labeldp.privacy.blanket import spread
from p2p_labeldp.privacy.reports import exponential, leaving_out, received_window
from p2p_labeldp.privacy.views import LocalNoise

# What rounding m and j may change m and N - j by, relatively; epsilon changes by half of it at most.
_COARSE = 0.02
_COARSE_EXPOSED = 0.03
# The chance that too few users are exposed, as a multiple of the tail: it counts as a total loss.
_FAILS = 1e4
# Where the values of b are put, in standard deviations around their mean.
_POINTS = np.array([-1.5, 1.5])
_FARTHER = np.array([5.0])
# So many values are kept as they are.
_ALL = 8
# From this share of reports on it is told how many arrive.
_MOST = 0.4


@dataclass(frozen=True)
class Unknown:
    """N - 1 ``others`` and the victim, and of how many of the ``draws`` a given one is the source."""

    others: int
    draws: Draws
    labels: int
    noise: LocalNoise


class _Group(NamedTuple):
    """What is alike for all numbers of exposed users: the reports, and the chance to be exposed."""

    weight: float
    draws: Draws
    exposed: float


class _Piece(NamedTuple):
    """So many unexposed others, C of them with ``chance`` each; ``shares`` are the masses of b at ``points``."""

    others: int
    chance: float
    exposed: float
    points: Floats
    shares: Floats


class Concealed:
    """The pair of the bound. Both hypotheses mirror each other."""

    looseness = 1.0
    coarseness = 0.0

    def __init__(self, unknown: Unknown, tail: float, coarse: float = 1.0) -> None:
        self._noise = unknown.noise
        self._parts: list[tuple[list[_Piece], _Tables]] = []
        # C, x and x_a are cut on both sides, and x_a may be twice as likely to be outside as fair coins make it.
        self.missing = 14 * tail
        for group in _groups(unknown, tail, coarse):
            pieces, draws = _exposures(unknown, group, tail, coarse)
            if pieces:
                self._parts.append((pieces, _tables(pieces, draws, tail)))
            self.missing += group.weight * (_FAILS + 8) * tail
        steps = max((tables.one.shape[1] for _, tables in self._parts), default=0)
        self.rounding = (
            1e-13 - 2e-15 * math.log(tail) + 2e-15 * steps + 4e-18 * (unknown.draws.trials + unknown.draws.sure)
        )

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """delta at each epsilon, never below the truth."""
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        factors = exponential(wanted) * (1 - 3 * self.rounding)
        # Outcomes without reports are left out: they say nothing, but for a factor below one.
        result: Floats = np.full((1, 1, wanted.size), self.missing) + np.maximum(0.0, 1 - factors)
        high, low = self._noise.high, self._noise.low
        for piece, one, one_back, hidden, alike in self._upper:
            for place, grown in enumerate(factors):
                gain = (high - grown * low) * one - (grown * high - low) * one_back
                gain -= (grown - 1) * hidden
                for b, share in zip(piece.points, piece.shares, strict=True):
                    excess = float(np.maximum(gain - ((grown - 1) * b) * alike, 0.0).sum())
                    result[0, 0, place] += share * excess * (1 + 2 * self.rounding)
        np.minimum(result, 1.0, out=result)
        return result

    @cached_property
    def _upper(self) -> list[tuple[_Piece, Floats, Floats, Floats, Floats]]:
        """Of every piece, from x_a = x/2 on: T1, T1', (1-s)(1-exposed) T0* and p T1* + (1-p) T0*."""
        found = []
        for piece, one, one_back, zero_both in self._listed(upper_half=True):
            alike = piece.chance * ((one + one_back) / 2) + (1 - piece.chance) * zero_both
            hidden = self._unexposed(piece) * zero_both
            found.append((piece, np.ascontiguousarray(one), np.ascontiguousarray(one_back), hidden, alike))
        return found

    def _unexposed(self, piece: _Piece) -> float:
        """The chance that the victim is neither one of the C nor exposed."""
        return max(0.0, 1 - self._noise.high - self._noise.low) * (1 - piece.exposed)

    def _listed(self, *, upper_half: bool) -> Iterator[tuple[_Piece, Floats, Floats, Floats]]:
        """Every piece with T1, T1', T0*. From x_a = x/2 on, where alone F1 exceeds its mirror image, or everywhere."""
        for pieces, tables in self._parts:
            columns = slice(tables.reach if upper_half else 0, None)
            for place, piece in enumerate(pieces):
                one, zero = tables.one[place], tables.zero[place]
                zero_both = (zero + tables.mirrored(zero)) / 2
                yield piece, one[:, columns], tables.mirrored(one)[:, columns], zero_both[:, columns]

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """Masses of every outcome when the victim holds b, and when she holds a; what is cut is in ``missing``."""
        high, low = self._noise.high, self._noise.low
        for piece, one, one_back, zero_both in self._listed(upper_half=False):
            p, one_both = piece.chance, (one + one_back) / 2
            for b, share in zip(piece.points, piece.shares, strict=True):
                alike = (self._unexposed(piece) + b * (1 - p)) * zero_both + (b * p) * one_both
                held_a = share * (high * one + low * one_back + alike)
                held_b = share * (high * one_back + low * one + alike)
                yield held_b.ravel(), held_a.ravel()


def _groups(unknown: Unknown, tail: float, coarse: float) -> Iterator[_Group]:
    """One, or one for each m that is told. See the module's text."""
    size, fails = unknown.others + 1, _FAILS * tail / 3
    told = unknown.draws.times(size)
    left = size - window(unknown.others, 2 * unknown.noise.low, fails).high - 1
    if told.rate <= _MOST and (left > 0 or not told.sure):
        each = unknown.draws.rate / (1 - told.rate) * _gamma_limit(told.trials, fails) if told.trials else 0.0
        if told.sure:  # of which it is told how many are about the unknown: all of them at most
            each += _poisson_mean(told.sure, fails) / left
        yield _Group(1.0, unknown.draws._replace(sure_rate=1 / size), -math.expm1(-each))
        return
    where = told.window(tail)
    masses = told.masses(where, tail)
    mean = told.trials * told.rate + told.sure * told.sure_rate
    varied = told.trials * told.rate * (1 - told.rate) + told.sure * told.sure_rate * (1 - told.sure_rate)
    start = where.low
    for end in _steps(where, mean, math.sqrt(varied), coarse):
        weight = float(masses[start - where.low : end - where.low + 1].sum())
        if end == 0:  # nobody reported: nothing is seen
            start = 1
            continue
        exposed = -math.expm1(-_poisson_mean(end, fails) / left) if left > 0 else 1.0
        yield _Group(weight, Draws(end, 1 / size), exposed)
        start = end + 1


# Where groups of m end, in standard deviations from the mean: more of them where most of the mass is.
_ENDS = np.array([-2.5, -1.5, -0.9, -0.4, 0.0, 0.4, 0.8, 1.2, 1.6, 2.1, 2.7, 3.5, 4.5, 6.0, 8.0])


def _steps(where: Window, mean: float, deviation: float, coarse: float) -> list[int]:
    """The ends of groups of m, none of them narrower than what may be rounded anyway."""
    ends: list[int] = []
    for end in np.floor(mean + _ENDS * deviation):
        if where.low <= end < where.high and (not ends or end > ends[-1] * (1 + _COARSE * coarse)):
            ends.append(int(end))
    return [*ends, where.high]


def _gamma_limit(shape: int, tail: float) -> float:
    """What a sum of so many exponentials exceeds with a chance below ``tail`` (Chernoff)."""
    return shape * _beyond(lambda z: shape * (z - 1 - math.log(z)), -math.log(tail))


def _poisson_mean(count: int, tail: float) -> float:
    """A mean at which fewer than ``count`` have less chance than ``tail`` (Chernoff)."""
    count = max(count, 1)
    return count * _beyond(lambda z: count * (z - 1 - math.log(z)), -math.log(tail))


def _beyond(exponent: Callable[[float], float], least: float) -> float:
    """The least z above one with exponent(z) >= least, rounded up."""
    low, high = 1.0, 2.0
    while exponent(high) < least:
        high *= 2
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if exponent(middle) < least else (low, middle)
    return high


def _exposures(unknown: Unknown, group: _Group, tail: float, coarse: float) -> tuple[list[_Piece], Draws]:
    """The pieces of a group, neighbouring j counted as the largest of them, and the draws that hold for all."""
    low, seen = unknown.noise.low, min(1.0, unknown.noise.high + unknown.noise.low)
    others, size, exposed = unknown.others, unknown.others + 1, group.exposed
    pi = min(1.0, (1 - 2 * low) * exposed)
    chance = min(1.0, 2 * low / (2 * low + (1 - 2 * low) * (1 - exposed)))
    where = window(others, pi, tail)
    masses = group.weight * pmf(where, others, pi)
    anonymous = min(1.0, (unknown.labels - 2) * low / (1 - 2 * low)) if low < 0.5 else 0.0
    scale = (1 - seen) * (1 - pi) / max((unknown.labels - 2) * low, 1e-300)
    pieces, widest = [], 0
    start = where.low
    while start <= where.high:
        end = min(where.high, start + math.floor(_COARSE_EXPOSED * coarse * (others - start)))
        values, shares = [], []
        for j in range(start, end + 1):
            few = window(j, anonymous, tail)
            counts = np.arange(few.low, few.high + 1, dtype=np.float64)
            values.append(scale * counts / (size - j))
            shares.append(masses[j - where.low] * np.exp(log_pmf(counts, j, anonymous)))
        total = sum(float(share.sum()) for share in shares)
        if total > tail * _COARSE / where.width:
            points, likely = np.concatenate(values), np.concatenate(shares)
            if points.size > _ALL:
                points, likely = spread(points, likely, _POINTS, _FARTHER)
            pieces.append(_Piece(others - end, chance, exposed, points[likely > 0], likely[likely > 0]))
            widest = max(widest, end - start)
        start = end + 1
    draws = group.draws._replace(rate=group.draws.rate / (1 - widest * group.draws.rate))
    if draws.sure:
        draws = draws._replace(sure_rate=draws.sure_rate / (1 - widest * draws.sure_rate))
    return pieces, draws


class _Tables(NamedTuple):
    """T1 and T0 of each piece: axes are piece, x from ``low`` on, and x_a from ``reach`` below x/2, rounded up, on."""

    low: int
    reach: int
    one: Floats
    zero: Floats

    def mirrored(self, table: Floats) -> Floats:
        """Of one piece: x_a becomes x - x_a. What would come from outside is cut."""
        result = table[:, ::-1].copy()
        odd = (self.low + np.arange(table.shape[0])) % 2 == 1
        result[odd, :-1] = result[odd, 1:]
        result[odd, -1] = 0.0
        return result


def _tables(pieces: list[_Piece], draws: Draws, tail: float) -> _Tables:
    """Sums over C, one report after another left out from the largest x down, as in ``reports``."""
    likely = [window(piece.others, piece.chance, tail) for piece in pieces]
    coins = np.arange(max(1, min(each.low for each in likely)), max(each.high for each in likely) + 2)
    weights = np.zeros((2, len(pieces), coins.size))
    for place, (piece, where) in enumerate(zip(pieces, likely, strict=True)):
        masses = pmf(where, piece.others, piece.chance)
        for row, first in enumerate((where.low + 1, where.low)):
            inside = np.arange(first, first + masses.size) - coins[0]
            weights[row, place, inside[inside >= 0]] = masses[inside >= 0]
    low, high = draws.times(float(coins[0])).window(tail).low, draws.times(float(coins[-1])).window(tail).high
    sent = Window(max(1, low), max(1, high))
    arrive = np.array([draws.times(float(count)).masses(sent, tail) for count in coins])
    return _summed(coins, weights, arrive, sent, tail)


def _summed(coins: npt.NDArray[np.int64], weights: Floats, arrive: Floats, sent: Window, tail: float) -> _Tables:
    reach = 1
    for count in coins.tolist():
        # Fair coins: that x_a is far from x/2 is the likelier (by Chernoff's bound) the larger x is.
        ones, masses = _fair(count, tail)
        far = received_window(Window(sent.high, sent.high), ones / count, masses[None, :], tail)
        reach = max(reach, far.high - sent.high // 2)
    where = Window(max(0, sent.low // 2 - reach), min(sent.high, sent.high // 2 + reach))
    current = np.empty((coins.size, where.width))
    for place, count in enumerate(coins.tolist()):
        ones, masses = _fair(count - 1, tail)
        current[place] = mixed(masses[None, :], ones + 1, count, sent.high, where)[0]
    tables = np.zeros((2, weights.shape[1], sent.width, 2 * reach + 1))
    offsets = np.arange(-reach, reach + 1) - where.low
    for x in leaving_out(current, sent, where):
        columns = (x + 1) // 2 + offsets
        inside = (columns >= 0) & (columns < where.width)
        band = current[:, columns[inside]]
        tables[:, :, x - sent.low, inside] = (weights * arrive[:, x - sent.low]) @ band
    return _Tables(sent.low, reach, tables[0], tables[1])


@lru_cache(maxsize=1024)
def _fair(coins: int, tail: float) -> tuple[Floats, Floats]:
    """How many of so many fair coins show heads, and the masses: few of them, asked for again and again."""
    where = window(coins, 0.5, tail)
    return np.arange(where.low, where.high + 1, dtype=np.float64), pmf(where, coins, 0.5)
