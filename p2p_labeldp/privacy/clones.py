"""Bounds that need nobody's label but the victim's, by way of clones: those of the first release, kept as a cap.

* The *variation-ratio* bound (Wang et al.), for the shuffled view. Whatever a user holds, her noisy label equals each
  of the victim's two candidates with probability ``low`` at least. So with probability 2 low she is a *clone* who picks
  one of the two at random; revealing all who are not clones leaves

      C ~ Binomial(n - 1, 2 low),   A ~ Binomial(C, 1/2) + Bernoulli(high or low, over high + low)

  where the victim's noisy label is one of the two candidates with probability high + low, and otherwise says
  nothing. Its threshold is known: the ratio exceeds e^epsilon where A / (C + 1 - A) exceeds
  ((1-b) e^epsilon - b) / (1-b - b e^epsilon), b = low / (high + low). So one C costs one binomial tail.
* The same for the learner: all but the victim and her clones are revealed, and which reports carry their labels. What
  remains are `Reports` of the victim and C others whose labels are fair coins, at most the variation-ratio bound since
  it is made from the shuffled clones by sampling. C is rounded down to a few values (fewer clones reveal more).

The clones of Feldman, McMillan and Talwar (2021) are the same for any randomizer, with fewer clones (probability
e^-epsilon0); their general clones of 2023 are the variation ratio.

``blanket`` does not reveal whether the victim's noisy label is one of the two candidates, and is never above these.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats, fair_tail, log_pmf, pmf, window
from p2p_labeldp.privacy.pairs import OnePair
from p2p_labeldp.privacy.reports import Reports, Rows, exponential
from p2p_labeldp.privacy.shuffle import Labels
from p2p_labeldp.privacy.views import LocalNoise

_GROUPS = 24


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


class ClonePairs(OnePair):
    """The one pair of the bound, over every number of clones that is likely enough."""

    looseness = 0.0
    # ``fair_tail`` is good to about 1e-12; a hundredfold margin.
    rounding = 1e-10

    def __init__(self, clones: Clones, tail: float) -> None:
        self._right, self._seen = clones.right, clones.seen
        where = window(clones.others, clones.chance, tail)
        self._counts = np.arange(where.low, where.high + 1, dtype=np.float64)
        self._weights = pmf(where, clones.others, clones.chance)
        self.missing = 2 * tail

    def _delta(self, epsilon: float) -> float:
        excess = coin_excess(self._counts, np.float64(self._right), max(0.0, epsilon - 3 * self.rounding))
        return self._seen * float(self._weights @ excess) * (1 + 2 * self.rounding) + self.missing


def coin_excess(fair: Floats, right: npt.NDArray[np.float64] | np.float64, epsilon: float) -> Floats:
    """How far apart ``fair`` fair coins and one more, right with ``right`` or 1 - ``right``, are at epsilon."""
    grown, wrong = float(exponential(epsilon)), 1 - right
    room = right - wrong * grown
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(room > 0, (right * grown - wrong) / room, 1.0)
    # The least A whose likelihood ratio exceeds e^epsilon; at A = fair + 1 it is right / wrong, which does.
    least = np.minimum(np.floor((fair + 1) * (ratio / (1 + ratio))) + 1, fair + 1)
    tail = fair_tail(np.broadcast_to(fair, least.shape), least)
    inside = least >= 1
    point = np.where(inside, np.exp(log_pmf(np.where(inside, least - 1, 0.0), fair, 0.5)), 0.0)
    # With S = P(Binomial >= least): the last coin adds a one with probability right (or wrong).
    with_one = tail + right * point
    without = tail + wrong * point
    excess: Floats = np.where(room > 0, np.maximum(with_one - grown * without, 0.0), 0.0)
    return excess


class SampledClones:
    """Reports about the victim and ``others`` users: each of ``trials`` carries a given user's label with ``rate``.

    The one pair of the bound, as a mixture over groups of C.
    """

    def __init__(self, others: int, trials: int, rate: float, noise: LocalNoise, tail: float) -> None:
        clones = Clones.variation_ratio(others, noise)
        self._shuffled = clones.pairs(tail)
        self.parts: list[tuple[float, Rows]] = []
        """Weights and pairs of the mixture; the weight that is left says nothing."""
        for weight, count in clones.groups(tail):
            reports = Reports(count, count + 1, trials, min(1.0, rate * (count + 1)), 1 - clones.right, 0.5)
            self.parts.append((weight, reports.rows(count // 2, count // 2, tail)))
        self.missing = 3 * tail + sum(weight * rows.missing for weight, rows in self.parts)
        self.rounding = max(rows.rounding for _, rows in self.parts)
        self.looseness, self.coarseness = 1.0, math.inf

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        sampled = sum(weight * rows.deltas(wanted) for weight, rows in self.parts) + self.missing
        result: Floats = np.minimum(np.max(sampled, axis=0, keepdims=True), self._shuffled.deltas(wanted))
        return result
