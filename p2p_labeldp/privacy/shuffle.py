"""The shuffled view: how many noisy labels of each kind a cluster holds, without their owners.

Reports are drawn from these counts alone, so whatever holds for the shuffled view holds for the learner too.

With two labels the count N1 of noisy ones decides everything, and its pair of distributions is compared for every n1
(`Labels`, a family for `worst`). With more labels it is bounded: ``blanket``, and by less ``clones``.

exact <= exact shuffle <= privacy blanket <= variation ratio <= clones.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats, noisy_ones, with_victim
from p2p_labeldp.privacy.reports import exponential


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
    """Distributions of N1 without and with the victim's one, for each member (labels, first, last)."""

    looseness = 0.0
    coarseness = 0.0

    def __init__(self, members: Sequence[tuple[Labels, int, int]], tail: float) -> None:
        self._pairs: list[tuple[Floats, Floats]] = []
        for labels, first, last in members:
            distribution = noisy_ones(first, last, labels.others, labels.others_alpha, tail)
            self._pairs.append(with_victim(distribution.mass, labels.alpha))
        self.missing = 6 * tail
        self.rounding = 2e-14 - 2e-15 * math.log(tail) + 4e-18 * members[0][0].others

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """The outcomes of the first row."""
        zero, one = self._pairs[0]
        yield zero[0], one[0]

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        factors = exponential(np.atleast_1d(epsilons)) * ((1 - self.rounding) / (1 + self.rounding))
        parts = []
        for zero, one in self._pairs:
            part = np.empty((2, zero.shape[0], factors.size))
            for place, factor in enumerate(factors):
                part[0, :, place] = np.maximum(one - factor * zero, 0.0).sum(axis=1)
                part[1, :, place] = np.maximum(zero - factor * one, 0.0).sum(axis=1)
            parts.append(part)
        return np.minimum(np.concatenate(parts, axis=1) / (1 - self.rounding) + self.missing, 1.0)
