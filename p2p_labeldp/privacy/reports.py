"""What the learner receives from one cluster, as a pair of distributions, and how far apart they are.

A cluster's unknown part is the victim and ``others`` further users, n1 of whom hold a one. N1 of those labels
are ones after the flips. Each of ``trials`` reports arrives with probability ``rate`` and carries
a draw from ``size`` labels, of which ``known`` are known ones and N1 are unknown ones. So the learner sees

    m ~ Binomial(trials, rate),   k ~ Binomial(m, (N1 + known) / size)

(where some draws are seen for sure, as colluders see their own, m is Binomial(sure, sure_rate) more). With P where the
victim holds 0 and P' where she holds 1, delta(epsilon) of the pair is
sum_m P(m) sum_k max(0, P'_m(k) - e^epsilon P_m(k)), and the same with P and P' exchanged.

**All m at the cost of one.** Leaving out one report at random turns P_m into P_(m-1):

    m P_(m-1)(k) = (m - k) P_m(k) + (k + 1) P_m(k + 1)

so only the largest m is summed over N1, and u = P' - e^epsilon P obeys the same recursion. It only adds products
of non-negative numbers to P and P', so both keep their relative accuracy r (`rounding`).

**Safe side.** P' (1 - r) <= computed P' and computed P <= P (1 + r) give
delta(epsilon) <= computed(epsilon - log((1+r)/(1-r))) / (1 - r): see `Rows.deltas`. Tails that are cut are added
to delta; cutting P (which is subtracted) errs upwards by itself. Small m are counted as the smallest m kept,
which is more since delta_m grows with m (one more report can be thrown away).

**Revealing is covering.** If the flips of w other users are revealed, and which reports carry their labels, what
remains unknown is `Reports` with ``size`` and ``others`` less by w and ``rate`` times (size - w)/size, whatever
the revealed labels were. Hence one row covers every n1 from a to a + w: see `worst`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Draws, Floats, Window, mixed, noisy_ones, with_victim

# Mass of the smallest m counted as one m: moves delta by this relative amount at most (delta_m grows with m).
_FEW = 1e-9
# Covers need to be proved, not precise: they cut more.
_FEW_IN_COVERS = 3e-4
_COARSER = 1e5
# Elements of a batch that still fit the processor's second cache.
_BATCH = 1 << 14
# Entries of a pair's whole table; beyond it every comparison walks through the reports again.
_TABLE = 1 << 21
_LARGE = 20_000
_LARGEST_EXPONENT = 700.0


def exponential(epsilon: npt.ArrayLike) -> Floats:
    """e^epsilon, or where that overflows a smaller number: delta is then stated too large."""
    result: Floats = np.exp(np.minimum(epsilon, _LARGEST_EXPONENT))
    return result


@dataclass(frozen=True)
class Reports:
    """The geometry of a view of reports; the labels of the others are left open."""

    others: int
    size: int
    trials: int
    rate: float
    alpha: float
    others_alpha: float
    known: int = 0
    sure: int = 0
    sure_rate: float = 1.0

    def rows(self, first: int, last: int, tail: float) -> "Rows":
        """The pairs with n1 = first..last, each exact up to ``tail``."""
        return Rows([(self, first, last)], tail)

    def revealed(self, hidden: int) -> "Reports":
        """The same view by someone who also knows all about all others but ``hidden`` of them."""
        size = self.size - (self.others - hidden)
        share = size / self.size
        return replace(
            self,
            others=hidden,
            size=size,
            rate=self.rate * share,
            sure_rate=self.sure_rate * share if self.sure else 1.0,
        )

    @property
    def draws(self) -> Draws:
        """How many reports arrive: m."""
        return Draws(self.trials, self.rate, self.sure, self.sure_rate)

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> "Rows":
        """A pair for each block first..last, at least as far apart as the pair of each n1 in it."""
        members = [(self.revealed(self.others - (last - first)), first, first) for first, last in blocks]
        return covers(members, tail)

    def cost(self, rows: int) -> float:
        """Elementary steps to build and compare a batch of so many rows, roughly."""
        varied = self.trials * self.rate * (1 - self.rate) + self.sure * self.sure_rate * (1 - self.sure_rate)
        sent = 15 * math.sqrt(varied) + 1
        unknown = 15 * math.sqrt(self.others * self.others_alpha * (1 - self.others_alpha)) + 2
        received = 15 * math.sqrt((self.trials * self.rate + self.sure * self.sure_rate) / 4) + 2
        return received * (2 * unknown + rows * (sent + unknown / 16))

    def smaller(self) -> "Reports | None":
        """A cluster that is a hundred times smaller, whose epsilon is about ten times larger."""
        if self.others < _LARGE:
            return None
        few = self.others // 100
        return replace(self, others=few, size=few + 1, trials=self.trials // 100, known=0, sure=self.sure // 100)


def covers(members: Sequence[tuple[Reports, int, int]], tail: float) -> "Rows":
    """Pairs to cover others with, which need to be proved but not precise."""
    return Rows(members, min(tail * _COARSER, 1e-6), _FEW_IN_COVERS)


class Rows:
    """Pairs, ready to be compared at any epsilon: for each member (reports, first, last) those of n1 = first..last.

    All rows share the recursion over m, so members should be alike. ``missing`` bounds what was cut and is already
    in the answers; ``looseness`` bounds the relative excess.
    """

    coarseness = 0.0

    def __init__(self, members: Sequence[tuple[Reports, int, int]], tail: float, few_mass: float = _FEW) -> None:
        self.missing = 9 * tail
        sent = [reports.draws.window(tail) for reports, _, _ in members]
        few = [reports.draws.window(max(tail, few_mass)) for reports, _, _ in members]
        if any(reports.sure for reports, _, _ in members):
            self.missing, few_mass = 13 * tail, 2 * few_mass
        self._sent = Window(min(each.low for each in few), max(each.high for each in sent))
        self.looseness = few_mass if self._sent.low > 0 else 0.0
        distributions = [_Unknown(*member, tail) for member in members]
        received = [
            received_window(
                self._sent, distribution.ones / distribution.size, distribution.zero + distribution.one, tail
            )
            for distribution in distributions
        ]
        self._received = Window(min(each.low for each in received), max(each.high for each in received))

        tops, weights = [], []
        for (reports, _, _), distribution in zip(members, distributions, strict=True):
            both = mixed(
                np.concatenate([distribution.zero, distribution.one]),
                distribution.ones,
                distribution.size,
                self._sent.high,
                self._received,
            )
            tops.append(np.split(both, 2))
            arrive = reports.draws.masses(self._sent, tail)
            if self._sent.low > reports.draws.least:
                arrive[0] += few_mass
            weights.append(np.broadcast_to(arrive, (distribution.zero.shape[0], arrive.size)))
        self._zero, self._one = (np.concatenate([top[place] for top in tops]) for place in (0, 1))
        self._weights = np.concatenate(weights)
        most = max(reports.trials + reports.sure for reports, _, _ in members)
        self.rounding = 2e-14 - 2e-15 * math.log(tail) + 1e-15 * self._sent.width + 4e-18 * most

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        """delta at each epsilon, never below the truth: axes are direction (up, down), row, epsilon."""
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        factors = exponential(wanted) * ((1 - self.rounding) / (1 + self.rounding))
        rows, width = self._zero.shape
        result = np.empty((2, rows, wanted.size))
        if rows == 1 and width * self._sent.width <= _TABLE:
            zero, one = self.table
            for place, factor in enumerate(factors):
                result[0, 0, place] = np.maximum(one - factor * zero, 0.0).sum()
                result[1, 0, place] = np.maximum(zero - factor * one, 0.0).sum()
        else:
            step = max(1, _BATCH // (2 * width * wanted.size))
            arrive = np.repeat(self._weights, wanted.size, axis=0)
            for start in range(0, rows, step):
                zero, one = self._zero[start : start + step, None], self._one[start : start + step, None]
                scaled = factors[None, :, None]
                excess = np.concatenate([one - scaled * zero, zero - scaled * one])
                weights = arrive[start * wanted.size : (start + step) * wanted.size]
                sums = self._sums(excess.reshape(-1, width), np.concatenate([weights, weights]))
                result[:, start : start + step] = sums.reshape(2, zero.shape[0], wanted.size)
        result /= 1 - self.rounding
        result += self.missing
        return np.minimum(result, 1.0)

    def _sums(self, excess: Floats, weights: Floats) -> Floats:
        """sum over m of P(m) sum_k max(0, excess_m(k)), starting from the excess at the largest m."""
        positive, ones = np.empty_like(excess), np.ones(excess.shape[1])
        total = np.zeros(excess.shape[0])
        for sent in leaving_out(excess, self._sent, self._received):
            np.maximum(excess, 0.0, out=positive)
            total += weights[:, sent - self._sent.low] * (positive @ ones)
        return total

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """P and P' of the first row over the k kept, weighted with P(m), for each m from the largest down."""
        current = np.array([self._zero[0], self._one[0]])
        for sent in leaving_out(current, self._sent, self._received):
            weighted = self._weights[0, sent - self._sent.low] * current
            yield weighted[0], weighted[1]

    @cached_property
    def table(self) -> tuple[Floats, Floats]:
        """P and P' of the first row at every (m, k) kept, weighted with P(m)."""
        rows = list(self.walk())
        return np.array([zero for zero, _ in rows]), np.array([one for _, one in rows])


def leaving_out(current: Floats, sent: Window, received: Window) -> Iterator[int]:
    """Turn masses over k, the last axis, at the largest m into those at each smaller m, in place; gives every m."""
    k = np.arange(received.low, received.high + 1, dtype=np.float64)
    left = np.maximum(sent.high - k, 0.0)
    shifted = np.empty_like(current)
    for many in range(sent.high, sent.low - 1, -1):
        yield many
        if many > sent.low:
            np.multiply(current, k / many, out=shifted)
            current *= left / many
            current[..., :-1] += shifted[..., 1:]
            left -= 1
            if left[-1] < 0:
                np.maximum(left, 0.0, out=left)


class _Unknown:
    """Distributions of the ones among ``size`` labels, the victim's zero or one included: a row for each n1."""

    def __init__(self, reports: Reports, first: int, last: int, tail: float) -> None:
        distribution = noisy_ones(first, last, reports.others, reports.others_alpha, tail)
        self.zero, self.one = with_victim(distribution.mass, reports.alpha)
        self.ones = np.arange(distribution.low, distribution.low + self.zero.shape[1]) + float(reports.known)
        self.size = reports.size


def received_window(sent: Window, shares: Floats, masses: Floats, tail: float) -> Window:
    """Where k lies but for ``tail`` on either side, by Chernoff's bound at a few exponents (any is valid)."""
    log_tail = -math.log(tail)
    bounds = []
    for many, mass, sign in ((sent.low, masses[0], -1), (sent.high, masses[-1], 1)):
        mean = float(mass @ shares) / float(mass.sum())
        spread = float(mass @ (shares - mean) ** 2) / float(mass.sum())
        variance = many * mean * (1 - mean) + many * many * spread + 1e-3
        best = math.inf
        for stretch in (0.6, 0.85, 1.0):
            exponent = min(stretch * math.sqrt(2 * log_tail / variance), 30.0)
            with np.errstate(divide="ignore"):
                grown = many * np.log1p(np.maximum(shares * math.expm1(sign * exponent), -1.0))
            top = float(grown.max())
            log_moment = top + math.log(float(mass @ np.exp(grown - top)) + 1e-300)
            best = min(best, (log_moment + log_tail) / exponent)
        bounds.append(best)
    return Window(max(0, math.floor(-bounds[0])), min(sent.high, math.ceil(bounds[1])))
