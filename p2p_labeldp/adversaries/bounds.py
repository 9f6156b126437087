"""What a view's delta(epsilon) says about every attack on it.

For neighbours P and P' (the victim's label replaced) every event E has P'(E) <= e^epsilon P(E) + delta(epsilon),
in both directions. So whatever the attack:

* advantage: P'(E) - P(E) <= delta(0), the total variation distance;
* reconstruction: with the likelier label's probability pi the best guess is right with probability
  pi + sum max(0, (1 - pi) P' - pi P) <= pi + (1 - pi) delta(log(pi / (1 - pi)));
* the true positive rate of a rule whose false positive rate is at most f: min over epsilon of
  e^epsilon f + delta(epsilon), and, with negatives in place of positives, of 1 - e^-epsilon (1 - f - delta(epsilon)). A
  grid of epsilons is tried, which can only make the bound larger.

The first two are attained by the likelihood ratio where delta is exact (``exact``) and the others' labels are the
worst; where the account is a proved upper bound they are upper bounds too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Account, Guarantee

_POINTS = 12
# Of the grid, where the local guarantee is infinite.
_LARGEST = 12.0


@dataclass(frozen=True)
class Bounds:
    """What no attack on one view of one cluster exceeds."""

    account: Account
    prior: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.prior < 1:
            raise RequestError(f"prior must lie between 0 and 1, not {self.prior}")

    @cached_property
    def exact(self) -> bool:
        """Whether they are attained at the worst labels of the others, rather than proved only."""
        return self.account.get_delta(0.0).method == "exact" and self._at_prior.method == "exact"

    @cached_property
    def advantage(self) -> float:
        return self.account.get_delta(0.0).delta

    @cached_property
    def reconstruction(self) -> float:
        likelier = max(self.prior, 1 - self.prior)
        return min(1.0, likelier + (1 - likelier) * self._at_prior.delta)

    @cached_property
    def worst_ones(self) -> int | None:
        """Ones among the others at which most can be reconstructed; None where they do not matter or are not known."""
        return self._at_prior.worst_ones

    def true_rate(self, false_rate: float) -> float:
        """Of every rule whose own false positive rate is at most ``false_rate``."""
        epsilons, deltas = self._curve
        positives = np.exp(epsilons) * false_rate + deltas
        negatives = 1 - np.exp(-epsilons) * (1 - false_rate - deltas)
        return float(min(1.0, positives.min(), negatives.min()))

    @cached_property
    def _at_prior(self) -> Guarantee:
        return self.account.get_delta(abs(math.log(self.prior) - math.log1p(-self.prior)))

    @cached_property
    def _curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        epsilons = np.linspace(0.0, min(self.account.local_epsilon, _LARGEST), _POINTS)
        return epsilons, self.account.curve(epsilons)
