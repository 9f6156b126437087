"""The learner's view with any number of labels: an upper bound that needs nobody's label but the victim's.

As in ``shuffle``, all users but the victim and her C clones are revealed, and which reports carry their labels. A
clone's noisy label is one of the victim's two candidates at random, so what remains is

    C ~ Binomial(others, 2 low),   `Reports` of the victim and C others whose labels are fair coins

times the probability high + low that the victim's noisy label is one of the two. This is at most the
variation-ratio bound (it is made from the shuffled clones by sampling), and the least of the two is used.

Fewer clones reveal more, so C is rounded down to a few values: that only raises delta.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats
from p2p_labeldp.privacy.reports import Reports, Rows
from p2p_labeldp.privacy.shuffle import Clones
from p2p_labeldp.privacy.views import LocalNoise


@dataclass(frozen=True)
class Blanket:
    """Reports about the victim and ``others`` users: each of ``trials`` carries a given user's label with ``rate``."""

    others: int
    trials: int
    rate: float
    noise: LocalNoise

    def pairs(self, tail: float) -> "BlanketPairs":
        return BlanketPairs(self, tail)


class BlanketPairs:
    """The one pair of the bound, as a mixture over groups of C."""

    def __init__(self, blanket: Blanket, tail: float) -> None:
        clones = Clones.variation_ratio(blanket.others, blanket.noise)
        self._shuffled = clones.pairs(tail)
        self._parts: list[tuple[float, Rows]] = []
        for weight, count in clones.groups(tail):
            rate = min(1.0, blanket.rate * (count + 1))
            reports = Reports(count, count + 1, blanket.trials, rate, 1 - clones.right, 0.5)
            self._parts.append((weight, reports.rows(count // 2, count // 2, tail)))
        self.missing = 3 * tail + sum(weight * rows.missing for weight, rows in self._parts)
        self.rounding = max(rows.rounding for _, rows in self._parts)
        self.looseness, self.coarseness = 1.0, math.inf

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        sampled = sum(weight * rows.deltas(wanted) for weight, rows in self._parts) + self.missing
        result: Floats = np.minimum(np.max(sampled, axis=0, keepdims=True), self._shuffled.deltas(wanted))
        return result

    def parts(self) -> list[tuple[float, Rows]]:
        """Weights and pairs of the mixture; the weight that is left says nothing."""
        return self._parts
