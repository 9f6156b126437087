"""The learner with colluders: users of the victim's cluster who share with the learner all that they know.

Of n users a collude and h = n - a are honest. In R rounds the colluders ask aR times. With probability
rho = 1 - (1 - 1/n)^(aR) the victim has answered one of them: that costs her rr(epsilon). Otherwise the colluders
know the noisy labels of a set S of other honest users, and the honest users' reports that carry an honest
label are `Reports` with h labels, S of them known:

    m ~ Binomial(hR, theta h/n),   k ~ Binomial(m, (N1' + K_S)/h)

* `_Honest`, exact: the sum over |S|, how many true ones S holds, and K_S. S is a random subset of the other
  honest users; |S| counts distinct hits of the aR questions.
* for larger groups: a quantile s of |S| is used instead of |S|, all about those s users is revealed (also
  which reports carry their labels), and the chance of a larger S counts as if the victim had been seen.

At a = 0 both are the learner's view; at a = n - 1 both are the closed form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats, Window, pmf
from p2p_labeldp.privacy.mixture import Mixture
from p2p_labeldp.privacy.pairs import Pairs
from p2p_labeldp.privacy.reports import Reports, covers
from p2p_labeldp.privacy.views import LocalNoise, chance_seen
from p2p_labeldp.privacy.worst import Family

# Combinations of (|S|, ones in S, K_S) up to which every one is summed, and the work that may take.
_COMBINATIONS = 60
_WORK = 1e9
QUESTIONS = 4000


def known_users(cluster_size: int, colluders: int, rounds: int) -> Floats:
    """The distribution of |S|, given that the victim answered no colluder."""
    questions, targets = colluders * rounds, cluster_size - colluders - 1
    distribution = np.zeros(min(questions, targets) + 1)
    distribution[0] = 1.0
    if targets:
        fresh = (targets - np.arange(distribution.size)) / (cluster_size - 1)
        for _ in range(questions):
            moved = distribution * fresh
            distribution = distribution - moved
            distribution[1:] += moved[:-1]
    return distribution


@dataclass(frozen=True)
class _Honest:
    """The reports about honest users when no colluder got the victim's answer, every S summed."""

    cluster_size: int
    colluders: int
    alpha: float
    theta: float
    rounds: int

    @property
    def honest(self) -> int:
        return self.cluster_size - self.colluders

    @property
    def others(self) -> int:
        return self.honest - 1

    def _reports(self, others: int, known: int) -> Reports:
        h = self.honest
        rate = self.theta * h / self.cluster_size
        return Reports(others, h, h * self.rounds, rate, self.alpha, self.alpha, known)

    def rows(self, first: int, last: int, tail: float) -> "_HonestRows":
        return _HonestRows(self, first, last, tail)

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> Pairs:
        """Whatever S is, at least these ones and zeros are unknown; everything about all others is revealed."""
        taken = known_users(self.cluster_size, self.colluders, self.rounds).size - 1
        members = []
        for first, last in blocks:
            ones, zeros = max(0, first - taken), max(0, self.others - last - taken)
            members.append((self._reports(self.others, 0).revealed(ones + zeros), ones, ones))
        return covers(members, tail)

    def smaller(self) -> None:
        return None

    def cost(self, rows: int) -> float:
        sizes = known_users(self.cluster_size, self.colluders, self.rounds).size
        return self._reports(self.others, 0).cost(rows) * sum((s + 1) ** 2 for s in range(sizes))


class _HonestRows:
    coarseness = 0.0

    def __init__(self, honest: _Honest, first: int, last: int, tail: float) -> None:
        self._count = last - first + 1
        self._parts: list[tuple[int, Floats, Pairs]] = []
        sizes = known_users(honest.cluster_size, honest.colluders, honest.rounds)
        totals = range(first, last + 1)
        for size, chance in enumerate(sizes):
            hidden = honest.others - size
            for true_ones in range(size + 1):
                low, high = max(first - true_ones, 0), min(last - true_ones, hidden)
                if low > high:
                    continue
                drawn = _drawn(true_ones, honest.others, totals, size)
                place = low + true_ones - first
                weights = chance * drawn[place : place + high - low + 1]
                stays = pmf(Window(0, true_ones), true_ones, 1 - honest.alpha)
                moves = pmf(Window(0, size - true_ones), size - true_ones, honest.alpha)
                for known, likely in enumerate(np.convolve(stays, moves)):
                    pairs = honest._reports(hidden, known).rows(low, high, tail)
                    self._parts.append((place, likely * weights, pairs))
        self.missing = max(pairs.missing for _, _, pairs in self._parts)
        self.looseness = max(pairs.looseness for _, _, pairs in self._parts)
        self.rounding = max(pairs.rounding for _, _, pairs in self._parts) + 1e-14

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        result = np.zeros((2, self._count, wanted.size))
        for place, weights, pairs in self._parts:
            result[:, place : place + weights.size] += weights[:, None] * pairs.deltas(wanted)
        return result * (1 + 1e-14)


def _drawn(true_ones: int, others: int, totals: range, size: int) -> Floats:
    """The chance that ``size`` users drawn from ``others`` hold so many ones, for each total number of ones."""
    ways = math.comb(others, size)
    chances = [math.comb(ones, true_ones) * math.comb(others - ones, size - true_ones) / ways for ones in totals]
    return np.array(chances)


def hidden_chance(cluster_size: int, colluders: int, rounds: int, delta: float) -> tuple[int, float]:
    """A size s that |S| exceeds hardly ever, and the chance that the victim is seen or |S| is larger."""
    seen = chance_seen("peer", cluster_size, 0.0, rounds * colluders) if colluders else 0.0
    targets = cluster_size - colluders - 1
    most = min(colluders * rounds, targets)
    if most == 0 or colluders * rounds > QUESTIONS:
        return most, seen
    above = np.cumsum(known_users(cluster_size, colluders, rounds)[::-1])[::-1]
    rare = max(1e-4 * delta, 1e-18)
    size = int(np.argmax(np.append(above[1:], 0.0) <= rare))
    return size, min(1.0, seen + (1 - seen) * float(np.append(above, 0.0)[size + 1]))


def coalition(
    cluster_size: int, colluders: int, alpha: float, theta: float, rounds: int, noise: LocalNoise, delta: float
) -> tuple[Family, bool]:
    """The family of pairs of this view (two labels), and whether it is exact."""
    n, honest = cluster_size, cluster_size - colluders
    if colluders == 0:
        return Reports(n - 1, n, n * rounds, theta, alpha, alpha), True
    sizes = min(colluders * rounds, honest - 1)
    if sum((s + 1) ** 2 for s in range(min(sizes, 10) + 1)) <= _COMBINATIONS:
        exact = _Honest(n, colluders, alpha, theta, rounds)
        if exact.cost(16) * (honest / 32 + 1) <= _WORK:
            seen = chance_seen("peer", n, 0.0, rounds * colluders)
            return Mixture(((1 - seen, exact),), seen, noise), True
    size, seen = hidden_chance(n, colluders, rounds, delta)
    left = honest - size
    reports = Reports(left - 1, left, honest * rounds, min(1.0, theta * left / n), alpha, alpha)
    return Mixture(((1 - seen, reports),), seen, noise), False
