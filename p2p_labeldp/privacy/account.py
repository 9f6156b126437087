"""The accountant: epsilon at a delta, delta at an epsilon, for every view.

``account(...)`` checks the request and returns an `Account`, which decides how its view is computed:

| view | one round, or sticky noise | fresh noise |
|---|---|---|
| peer, metadata, eavesdropper, network, auditor | closed form, exact | composed, exact |
| learner, shuffle, two labels | every n1 searched, exact | every n1 composed, upper bound on a grid |
| learner, shuffle, more labels | clones, upper bound | clones composed, upper bound |
| coalition, two labels | exact for few colluders, else more is revealed | clones composed, upper bound |
| coalition, more labels | clones among the honest, upper bound | the same, composed |

Sticky noise over R rounds is one flip seen through R times as many reports. Two labels are symmetrical in alpha
and 1 - alpha. Whatever is proved for someone who sees more bounds someone who sees less, so an answer is
never above the local guarantee, the learner's never above the shuffled one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import paper
from p2p_labeldp.privacy.answer import Answer, Method
from p2p_labeldp.privacy.binomial import Floats, log_pmf
from p2p_labeldp.privacy.blanket import Blanket
from p2p_labeldp.privacy.coalition import coalition, hidden_chance
from p2p_labeldp.privacy.fresh import Fresh, WalkedFamily, fresh_mixture
from p2p_labeldp.privacy.losses import of_local
from p2p_labeldp.privacy.reports import Reports
from p2p_labeldp.privacy.shuffle import Clones, Labels
from p2p_labeldp.privacy.views import CLOSED_FORM, VIEWS, ClosedForm, LocalNoise, chance_seen
from p2p_labeldp.privacy.worst import SMALLEST_DELTA, WORK, Family, Pairs, solve, worst_delta, worst_epsilon

NOISES = ("sticky", "fresh")
_LARGEST_EPSILON = 690.0
_TAIL = 1e-10
# Within this fraction of the local epsilon an answer is said to have fallen to it.
_FALLEN = 0.05


@dataclass(frozen=True)
class _Found:
    """An epsilon or a delta, and how it was found."""

    value: float
    method: Method
    error_bound: float = 0.0
    searched: float | None = None
    ones: int | None = None
    words: str = ""


@dataclass(frozen=True)
class Account:
    """The privacy of one view of one cluster. Made by `account`, which checks the values."""

    view: str
    cluster_size: int
    alpha: float
    theta: float
    labels: int = 2
    rounds: int = 1
    noise: str = "sticky"
    colluders: int = 0
    work: float = WORK

    @property
    def local(self) -> LocalNoise:
        return LocalNoise.flip(self.alpha, self.labels)

    @property
    def local_epsilon(self) -> float:
        """What the flips alone guarantee against someone who sees every noisy label of the victim."""
        return self.local.epsilon * (self.rounds if self._fresh else 1)

    @property
    def _fresh(self) -> bool:
        return self.noise == "fresh" and self.rounds > 1

    @property
    def _flip(self) -> float:
        """The flip probability with two labels, at most one half by symmetry."""
        return self.local.low

    def get_epsilon(self, target_delta: float) -> Answer:
        """The least epsilon of this view at ``target_delta``, rounded up."""
        if not 0 <= target_delta <= 1:
            raise RequestError(f"delta must be within 0..1, not {target_delta}")
        return _epsilon_answer(self, float(target_delta))

    def get_delta(self, target_epsilon: float) -> Answer:
        """The least delta of this view at ``target_epsilon``, rounded up."""
        if not target_epsilon >= 0:
            raise RequestError(f"epsilon must be 0 or more, not {target_epsilon}")
        return _delta_answer(self, float(target_epsilon))

    def curve(self, epsilons: npt.ArrayLike) -> Floats:
        """delta at each epsilon."""
        wanted = np.asarray(epsilons, dtype=np.float64)
        return np.array([self.get_delta(float(epsilon)).delta for epsilon in wanted.ravel()]).reshape(wanted.shape)

    # How each view is computed: a formula, a family of pairs to search, or one pair that bounds all.

    def chance(self) -> float | None:
        """The chance that the victim's noisy label is seen in one round (fresh) or ever (sticky), or a bound on it."""
        rounds = 1 if self._fresh else self.rounds
        if self.view == "shuffle":
            return None
        view = "metadata" if self.view == "learner" else self.view
        return chance_seen(view, self.cluster_size, self.theta, rounds, self.colluders)

    def _family(self, delta: float) -> tuple[Family, bool] | None:
        """The pairs to search (two labels), and whether they are this view itself rather than a bound on it."""
        n, rounds = self.cluster_size, 1 if self._fresh else self.rounds
        if self.labels != 2:
            return None
        one_round: WalkedFamily
        if self.view == "learner":
            one_round = Reports(n - 1, n, n * rounds, self.theta, self._flip, self._flip)
        elif self.view == "shuffle":
            one_round = Labels(n - 1, self._flip, self._flip)
        elif self.view == "coalition" and not self._fresh:
            return coalition(n, self.colluders, self._flip, self.theta, rounds, self.local, delta)
        else:
            return None
        if self._fresh:
            return Fresh(one_round, self.rounds, self.local.epsilon), False
        return one_round, True

    def _bound(self, tail: float, delta: float) -> Pairs:
        """One pair that bounds the view whatever the labels of the others are."""
        n, noise = self.cluster_size, self.local
        rounds = 1 if self._fresh else self.rounds
        per_round = tail / (4 * self.rounds)
        known, seen = hidden_chance(n, self.colluders, rounds, delta)
        others = n - self.colluders - known - 1
        trials = (n - self.colluders) * rounds
        if self.view == "shuffle":
            clones = Clones.variation_ratio(n - 1, noise)
            if not self._fresh:
                return clones.pairs(tail)
            parts = [
                (weight, clones.labels(count).rows(count // 2, count // 2, per_round))
                for weight, count in clones.groups(per_round)
            ]
            return fresh_mixture(parts, 0.0, noise.high, noise.low, 3 * per_round, self.rounds, per_round)
        blanket = Blanket(others, trials, self.theta / n, noise)
        if not self._fresh:
            return _Seen(blanket.pairs(tail), seen, noise)
        pairs = blanket.pairs(per_round)
        return fresh_mixture(
            pairs.parts(), seen, noise.high, noise.low, 3 * per_round, self.rounds, per_round
        )


@dataclass(frozen=True)
class _Seen:
    """seen * rr + (1 - seen) * a bound."""

    hidden: Pairs
    seen: float
    noise: LocalNoise

    @property
    def missing(self) -> float:
        return self.hidden.missing

    @property
    def looseness(self) -> float:
        return self.hidden.looseness

    @property
    def rounding(self) -> float:
        return self.hidden.rounding

    def deltas(self, epsilons: npt.ArrayLike) -> Floats:
        wanted = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
        result: Floats = self.seen * self.noise.deltas(wanted) + (1 - self.seen) * self.hidden.deltas(wanted)
        return result
