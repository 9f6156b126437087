"""The shuffled view: how many noisy labels of each kind a cluster holds, without their owners.

Reports are drawn from these counts alone, so whatever holds for the shuffled view holds for the learner too.

* Two labels: the count N1 of noisy ones decides everything, and its pair of laws is compared for every n1
  (`Labels`, a family for `worst`).
* Any number of labels, and any labels of the others: the *variation-ratio* bound. Whatever a user holds, her noisy
  label equals each of the victim's two candidates with probability ``low`` at least. So with probability 2 low
  she is a *clone* who picks one of the two at random; revealing all who are not clones leaves

      C ~ Binomial(n - 1, 2 low),   A ~ Binomial(C, 1/2) + Bernoulli(high or low, over high + low)

  where the victim's noisy label is one of the two candidates with probability high + low, and otherwise says
  nothing. Its threshold is known: the ratio exceeds e^epsilon where A / (C + 1 - A) exceeds
  ((1-b) e^epsilon - b) / (1-b - b e^epsilon), b = low / (high + low). So one C costs one binomial tail.
* *Clones* (Feldman, McMillan, Talwar 2021) is the same bound for any randomizer, with fewer clones
  (probability e^-epsilon0), kept for comparison.

exact <= exact shuffle <= variation ratio <= clones.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from p2p_labeldp.privacy.binomial import Floats, log_pmf, noisy_ones, pmf, window
from p2p_labeldp.privacy.reports import exponential
from p2p_labeldp.privacy.views import LocalNoise

_GROUPS = 24


@dataclass(frozen=True)
class Labels:
    """The family of the shuffled view with two labels: the victim and ``others`` further users."""

    others: int
    alpha: float
    others_alpha: float

    def rows(self, first: int, last: int, tail: float) -> "LabelRows":
        return LabelRows([(self, first, last)], tail)

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> "LabelRows":
        """Reveal the flips of last - first users: what remains is the same for every n1 of the block."""
        hidden = [self.others - (last - first) for first, last in blocks]
        members = [
            (Labels(others, self.alpha, self.others_alpha), first, first)
            for others, (first, _) in zip(hidden, blocks, strict=True)
        ]
        return LabelRows(members, tail)

    def smaller(self) -> None:
        return None

    def cost(self, rows: int) -> float:
        unknown = 15 * math.sqrt(self.others * self.others_alpha * (1 - self.others_alpha)) + 2
        return unknown * (unknown / 4 + 4 * rows)


class LabelRows:
    """Laws of N1 without and with the victim's one, for each member (labels, first, last)."""

    looseness = 0.0
    coarseness = 0.0

    def __init__(self, members: Sequence[tuple[Labels, int, int]], tail: float) -> None:
        self._laws: list[tuple[Floats, Floats]] = []
        for labels, first, last in members:
            law = noisy_ones(first, last, labels.others, labels.others_alpha, tail)
            edge = np.zeros((law.mass.shape[0], 1))
            without, victim = np.hstack([law.mass, edge]), np.hstack([edge, law.mass])
            zero = (1 - labels.alpha) * without + labels.alpha * victim
            one = labels.alpha * without + (1 - labels.alpha) * victim
            self._laws.append((zero, one))
        self.missing = 6 * tail
        self.rounding = 2e-14 - 2e-15 * math.log(tail) + 4e-18 * members[0][0].others

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """The outcomes of the first row."""
        zero, one = self._laws[0]
        yield zero[0], one[0]

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        factors = exponential(np.atleast_1d(epsilons)) * ((1 - self.rounding) / (1 + self.rounding))
        parts = []
        for zero, one in self._laws:
            part = np.empty((2, zero.shape[0], factors.size))
            for place, factor in enumerate(factors):
                part[0, :, place] = np.maximum(one - factor * zero, 0.0).sum(axis=1)
                part[1, :, place] = np.maximum(zero - factor * one, 0.0).sum(axis=1)
            parts.append(part)
        return np.minimum(np.concatenate(parts, axis=1) / (1 - self.rounding) + self.missing, 1.0)


@dataclass(frozen=True)
class Clones:
    """Among ``others`` each is a clone with ``chance``; the victim's bit is right with ``right`` out of ``seen``."""

    others: int
    chance: float
    right: float
    seen: float

    @classmethod
    def variation_ratio(cls, others: int, noise: LocalNoise) -> "Clones":
        seen = noise.high + noise.low
        return cls(others, min(1.0, 2 * noise.low), noise.high / seen, min(1.0, seen))

    @classmethod
    def any_randomizer(cls, others: int, noise: LocalNoise) -> "Clones":
        return cls(others, noise.low / noise.high, noise.high / (noise.high + noise.low), 1.0)

    def pairs(self, tail: float) -> "ClonePairs":
        return ClonePairs(self, tail)

    def groups(self, tail: float) -> list[tuple[float, int]]:
        """Weights and numbers of clones, rounded down to a few values (fewer clones reveal more)."""
        where = window(self.others, self.chance, tail)
        masses = pmf(where, self.others, self.chance)
        step = max(1, -(-where.width // _GROUPS))
        listed = [
            (self.seen * float(masses[start : start + step].sum()), where.low + start)
            for start in range(0, where.width, step)
        ]
        return [(weight, clones) for weight, clones in listed if weight > tail / _GROUPS]

    def labels(self, clones: int) -> Labels:
        """The shuffled labels of the victim and so many clones."""
        return Labels(clones, 1 - self.right, 0.5)


class ClonePairs:
    """The one pair of the bound, over every number of clones that is likely enough."""

    looseness = 0.0
    coarseness = 0.0
    # The binomial tails are scipy's incomplete beta function, good to about 1e-12; a hundredfold margin.
    rounding = 1e-10

    def __init__(self, clones: Clones, tail: float) -> None:
        self._right, self._seen = clones.right, clones.seen
        where = window(clones.others, clones.chance, tail)
        self._counts = np.arange(where.low, where.high + 1, dtype=np.float64)
        self._weights = pmf(where, clones.others, clones.chance)
        self.missing = 2 * tail

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        result = np.empty((1, 1, wanted.size))
        for place, epsilon in enumerate(wanted):
            found = self._seen * float(self._weights @ self._per_count(max(0.0, epsilon - 3 * self.rounding)))
            result[0, 0, place] = found * (1 + 2 * self.rounding) + self.missing
        return np.minimum(result, 1.0)

    def _per_count(self, epsilon: float) -> Floats:
        grown, wrong = float(exponential(epsilon)), 1 - self._right
        room = self._right - wrong * grown
        if room <= 0:
            return np.zeros_like(self._counts)
        ratio = (self._right * grown - wrong) / room
        counts = self._counts
        # The least A whose likelihood ratio exceeds e^epsilon; at A = counts + 1 it is right / wrong, which does.
        least = np.minimum(np.floor((counts + 1) * (ratio / (1 + ratio))) + 1, counts + 1)
        tail = special.betainc(np.maximum(least, 1.0), np.maximum(counts - least + 1, 0.5), 0.5)
        tail = np.where(least > counts, 0.0, np.where(least <= 0, 1.0, tail))
        inside = least >= 1
        point = np.where(inside, np.exp(log_pmf(np.where(inside, least - 1, 0.0), counts, 0.5)), 0.0)
        # With S = P(Binomial >= least): the victim adds a one with probability right (or wrong).
        with_one = tail + self._right * point
        without = tail + wrong * point
        excess: Floats = np.maximum(with_one - grown * without, 0.0)
        return excess
