"""One of several views, and it is known which: their deltas add up, each with its probability.

A coalition sees the victim's noisy label with some probability, and otherwise less. Whether it did does not depend on
anyone's label, so delta(epsilon) is the sum of seen * rr(epsilon) and each other case's own, all for the same labels of
the others and in the same direction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Floats
from p2p_labeldp.privacy.pairs import Pairs
from p2p_labeldp.privacy.views import LocalNoise
from p2p_labeldp.privacy.worst import Family


class MixturePairs:
    """seen * rr and each of the ``parts``, a list of (probability, pairs)."""

    def __init__(self, parts: Sequence[tuple[float, Pairs]], seen: float, noise: LocalNoise) -> None:
        self._parts, self._seen, self._noise = parts, seen, noise
        self.missing = sum(chance * pairs.missing for chance, pairs in parts)
        self.looseness = max((pairs.looseness for _, pairs in parts), default=0.0)
        self.coarseness = max((pairs.coarseness for _, pairs in parts), default=0.0)
        self.rounding = max((pairs.rounding for _, pairs in parts), default=0.0) + 1e-15 * (1 + len(parts))

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        result: Floats = np.asarray(self._seen * self._noise.deltas(wanted))
        for chance, pairs in self._parts:
            result = result + chance * pairs.deltas(wanted)
        return np.minimum(result, 1.0)

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """Masses of the outcomes of the first row, the victim's label 0 and 1; those that say nothing are left out."""
        if self._seen > 0:
            shown = self._seen * np.array([self._noise.high, self._noise.low])
            yield shown, shown[::-1].copy()
        for chance, pairs in self._parts:
            for zero, one in pairs.walk():  # type: ignore[attr-defined]
                yield chance * zero, chance * one


@dataclass(frozen=True)
class Mixture:
    """A family whose victim is seen with probability ``seen``, and in each of ``parts`` with its own."""

    parts: tuple[tuple[float, Family], ...]
    seen: float
    noise: LocalNoise

    @property
    def others(self) -> int:
        return self.parts[0][1].others

    def rows(self, first: int, last: int, tail: float) -> MixturePairs:
        parts = [(chance, family.rows(first, last, tail)) for chance, family in self.parts]
        return MixturePairs(parts, self.seen, self.noise)

    def cover(self, blocks: Sequence[tuple[int, int]], tail: float) -> MixturePairs:
        # Where being seen costs nearly everything all n1 are nearly alike: covers must be as precise as pairs.
        parts = [(chance, family.cover(blocks, tail * 1e-5)) for chance, family in self.parts]
        return MixturePairs(parts, self.seen, self.noise)

    def smaller(self) -> "Mixture | None":
        fewer = [(chance, family.smaller()) for chance, family in self.parts]
        parts = tuple((chance, family) for chance, family in fewer if family is not None)
        return Mixture(parts, self.seen, self.noise) if len(parts) == len(fewer) else None

    def cost(self, rows: int) -> float:
        return sum(family.cost(rows) for _, family in self.parts)
