"""From a budget to parameters, rounded so that never more is spent than was asked for.

Algorithm 1 costs 2/sigma + log(1 + (1-lambda)/(lambda tau)): given all but one of its terms, the last is solved for in
closed form. The flips of peer_to_peer and shuffle are calibrated by the privacy room on the smallest cluster, and
every other size is checked:

- shuffle: an additional user adds an independent noisy label to what is seen, which is post-processing. So the smallest
  cluster is the worst, proved.
- learner: no such proof is known, so delta at the epsilon found is computed for every size, which is cheaper than
  an epsilon for each, up to the size from which the shuffled view, which sees more, is within it. A size
  that exceeds the smallest one's epsilon is rare (``privacy.account_clusters`` has one) and is not overlooked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.algorithm_1 import chance_for, spent_epsilon
from p2p_labeldp.mechanisms.exact import LARGEST_SCALE, SMALLEST_SCALE
from p2p_labeldp.privacy import Account, Method, Parameters, View, account, account_clusters, calibrate

__all__ = ["Central", "Flips", "central", "chance_for", "flips", "given_flips", "prior_split"]

SPENT = 0.999  # of what was asked for, at least
DEFAULT_TAU = 0.01
# Coins are multiples of 2^-53: an alpha of this size is met to one part in nine million.
LEAST_ALPHA = 1e-9


@dataclass(frozen=True)
class Central:
    """tau, sigma and lambda of Algorithm 1."""

    tau: float
    sigma: float
    chance: float


def central(
    epsilon: float | None,
    label_count: int,
    *,
    tau: Any = None,
    sigma: Any = None,
    chance: Any = None,
    share: Any = 0.5,
) -> Central:
    """What is not given, solved for; where sigma and lambda are not, ``share`` of epsilon goes to the histogram."""
    _check("tau", tau, 0, 1 / label_count, f"from 0 to 1/K = {1 / label_count:g}")
    _check("sigma", sigma, 0, math.inf, "at least 0 (inf is allowed)")
    _check("lambda", chance, 0, 1, "from 0 to 1")
    _check("share", share, 0, 1, "from 0 to 1")
    if sigma is not None and not (sigma in (0, math.inf) or SMALLEST_SCALE <= sigma <= LARGEST_SCALE):
        raise RequestError(f"mechanism.sigma is {sigma}; 0, inf, or from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}")
    if epsilon is None:
        for name, given in (("tau", tau), ("sigma", sigma), ("lambda", chance)):
            if given is None:
                raise RequestError(f"mechanism.{name} is missing; give it, or mechanism.epsilon to solve for it")
        return Central(min(float(tau), 1 / label_count), float(sigma), float(chance))
    if tau is None and sigma is not None and chance is not None:
        return _tau_solved(epsilon, label_count, float(sigma), float(chance))
    tau = min(DEFAULT_TAU if tau is None else float(tau), 1 / label_count)
    if sigma is not None and chance is not None:
        return _within(epsilon, label_count, Central(tau, float(sigma), float(chance)))
    if chance is not None:
        return _sigma_solved(epsilon, label_count, tau, float(chance))
    if sigma is None:
        sigma = _sigma_for(epsilon * share)
    rest = epsilon - _histogram_cost(float(sigma))
    if rest < 0:
        raise RequestError(
            f"mechanism.sigma is {sigma:g}, which alone costs 2/sigma = {_histogram_cost(float(sigma)):.4g} of epsilon "
            f"{epsilon:g}; at least {2 / epsilon:.6g}"
        )
    chance = chance_for(rest, tau, label_count)
    while chance < 1 and spent_epsilon(float(sigma), tau, chance, label_count) > epsilon:
        chance = math.nextafter(chance, 1.0)
    return _within(epsilon, label_count, Central(tau, float(sigma), chance))


def _check(name: str, value: Any, low: float, high: float, allowed: str) -> None:
    if value is None:
        return
    if isinstance(value, str) or not low <= value <= high * (1 + 1e-12):
        raise RequestError(f"mechanism.{name} is {value}; {allowed}")


def _histogram_cost(sigma: float) -> float:
    return 2 / sigma if sigma > 0 else math.inf


def _sigma_for(cost: float) -> float:
    """The least sigma that costs at most ``cost``, rounded up."""
    if cost <= 0:
        return math.inf
    sigma = 2 / cost
    return sigma if 2 / sigma <= cost else math.nextafter(sigma, math.inf)


def _within(epsilon: float, label_count: int, found: Central) -> Central:
    """The last step of every solution: what is spent lies within what was asked for."""
    spent = spent_epsilon(found.sigma, found.tau, found.chance, label_count)
    # Parameters written down by hand are given the last digits.
    if not SPENT * epsilon <= spent <= epsilon * (1 + 1e-9):
        why = "a tau of 0 leaves the histogram as the only thing to spend on (share = 1)" if found.tau == 0 else ""
        raise RequestError(
            f"mechanism.epsilon is {epsilon:g}, but tau = {found.tau:g}, sigma = {found.sigma:g}, "
            f"lambda = {found.chance:g} spend {spent:.4g}" + (f": {why}" if why else "; leave one of them out")
        )
    return found


def _sigma_solved(epsilon: float, label_count: int, tau: float, chance: float) -> Central:
    cost = spent_epsilon(math.inf, tau, chance, label_count)
    if cost > epsilon:
        raise RequestError(
            f"mechanism.lambda is {chance:g}, which alone costs {cost:.4g} of epsilon {epsilon:g} at tau = {tau:g}; "
            f"at least {chance_for(epsilon, tau, label_count):.6g}"
        )
    sigma = _sigma_for(epsilon - cost)
    while spent_epsilon(sigma, tau, chance, label_count) > epsilon:
        sigma = math.nextafter(sigma, math.inf)
    return _within(epsilon, label_count, Central(tau, sigma, chance))


def _tau_solved(epsilon: float, label_count: int, sigma: float, chance: float) -> Central:
    """tau = (1 - lambda) / (lambda (e^rest - 1)), if there is one in [0, 1/K]."""
    rest = epsilon - _histogram_cost(sigma)
    tau = (1 - chance) / (chance * math.expm1(rest)) if rest > 0 and chance > 0 else math.inf
    if rest >= 0 and chance == 1:
        tau = 0.0
    tau += label_count * 2.0**-51  # the rounding of draws, see `centralized`
    if tau > 1 / label_count:
        raise RequestError(
            f"mechanism.epsilon is {epsilon:g}, which sigma = {sigma:g} and lambda = {chance:g} exceed for every tau "
            f"up to 1/K; at least {spent_epsilon(sigma, 1 / label_count, chance, label_count):.6g}"
        )
    return _within(epsilon, label_count, Central(tau, sigma, chance))


def prior_split(epsilon: float, share: Any) -> tuple[float, float]:
    """sigma of the histogram that estimates the priors, and the epsilon left for the labels."""
    if isinstance(share, str) or not 0 <= share < 1:
        raise RequestError(f"mechanism.share is {share}; at least 0 and less than 1")
    sigma = _sigma_for(epsilon * share)
    if sigma < SMALLEST_SCALE:
        raise RequestError(f"mechanism.share is {share:g}; less of epsilon {epsilon:g} is noise enough")
    rest = epsilon - _histogram_cost(sigma)
    while _histogram_cost(sigma) + rest > epsilon:
        rest = math.nextafter(rest, 0.0)
    return sigma, rest


@dataclass(frozen=True)
class Flips:
    """A flip probability, and what a view then costs over all cluster sizes."""

    alpha: float
    epsilon: float
    method: Method
    size: int | None = None
    """Of the cluster in which it costs so much."""


def given_flips(view: View, parameters: Parameters, sizes: Sequence[int], delta: float) -> Flips:
    """What a given alpha costs."""
    for name, value in (("alpha", parameters.alpha), ("theta", parameters.theta)):
        _check(name, value, 0, 1, "from 0 to 1")
    if view == View.SHUFFLE:
        sizes = [min(sizes)]
    found = account_clusters(view, parameters, sizes, delta)
    return Flips(parameters.alpha, found.worst.epsilon, found.worst.method, found.worst_size)


def flips(view: View, sought: Parameters, sizes: Sequence[int], epsilon: float, delta: float) -> Flips:
    """The least alpha, as far as the search can tell, that keeps every cluster to (epsilon, delta).

    ``sought`` has everything but alpha, which is ignored.
    """
    _check("theta", sought.theta, 0, 1, "from 0 to 1")
    sought = replace(sought, alpha=0.0, minimum_size=1)
    return _flips(_Target(view, sought, epsilon, delta), tuple(sorted(set(sizes))))


_STEPS = 12
_HALVINGS = 30


@dataclass(frozen=True)
class _Target:
    """(epsilon, delta) of a view, and the noise but for its alpha."""

    view: View
    sought: Parameters
    epsilon: float
    delta: float

    def account(self, size: int, alpha: float) -> Account:
        return account(self.view, replace(self.sought, alpha=alpha), cluster_size=size, thorough=False)

    def shuffled(self, size: int, alpha: float) -> Account:
        """Of the shuffled view, which sees no less than the learner and is the worst in the smallest cluster."""
        flips = replace(self.sought, alpha=alpha, theta=1.0)
        return account(View.SHUFFLE, flips, cluster_size=size, thorough=False)

    @property
    def enough(self) -> float:
        """Flips that meet the target by themselves, and so in every cluster: where a search ends at the latest."""
        labels = self.sought.labels
        share = self.epsilon / (self.sought.rounds if self.sought.fresh else 1)
        return min((labels - 1) / labels, (1 + 1e-12) * (labels - 1) / (labels - 1 + math.exp(share)))


@lru_cache(maxsize=256)
def _flips(target: _Target, sizes: tuple[int, ...]) -> Flips:
    """The smallest cluster's alpha, raised to that of any other that would spend more than it."""
    found = _one_size(target, sizes[0])
    if target.view == View.SHUFFLE:
        return found
    enough, low = target.enough, 0.0
    for _ in range(len(sizes) + _STEPS):
        spent, over = _spent_everywhere(target, sizes, found)
        if over is None:
            break
        low = max(low, found.alpha)
        # That more flips always spend less is only observed: where it fails, go on towards those that are enough.
        needed = _one_size(target, over)
        further = found.alpha + (enough - found.alpha) / 4
        found = needed if needed.alpha > found.alpha else Flips(further, 0.0, "upper_bound")
    else:
        spent = Flips(enough, target.epsilon, "upper_bound")
    # A step towards what is enough may have been too long a one: back to the least that some alpha beyond `low` needs.
    for _ in range(_HALVINGS):
        if low == 0 or spent.epsilon >= SPENT * target.epsilon:
            break
        tried, over = _spent_everywhere(target, sizes, Flips((low + spent.alpha) / 2, 0.0, "upper_bound"))
        if over is None:
            spent = tried
        else:
            low = tried.alpha
    return spent


def _spent_everywhere(target: _Target, sizes: tuple[int, ...], found: Flips) -> tuple[Flips, int | None]:
    """What ``found`` spends in its worst cluster, or the first size that spends more than epsilon."""
    worst = found
    for size in sizes:
        if target.shuffled(size, found.alpha).keeps_to(worst.epsilon, target.delta):
            break  # and so it is for all larger ones
        accountant = target.account(size, found.alpha)
        if not accountant.keeps_to(worst.epsilon, target.delta):
            spent = accountant.get_epsilon(target.delta)
            if spent.epsilon > target.epsilon:
                return found, size
            worst = Flips(found.alpha, max(worst.epsilon, spent.epsilon), spent.method, size)
    return worst, None


def _one_size(target: _Target, size: int) -> Flips:
    sought, epsilon, delta = target.sought, target.epsilon, target.delta
    try:
        met = calibrate(
            cluster_size=size, epsilon=epsilon, delta=delta, theta=sought.theta, labels=sought.labels,
            view=target.view, rounds=sought.rounds, noise=sought.noise,
        )  # fmt: skip
    except RequestError as refusal:
        raise RequestError(f"mechanism.{refusal}") from None
    if met.alpha == 0:
        raise RequestError(
            f"privacy.delta is {delta:g}, at which clusters of {size} with theta = {sought.theta:g} need no flip at "
            "all: ask for less"
        )
    # `calibrate` answers on a grid of 1e-6, which is coarse where alpha is small or flips leave little.
    best = Flips(met.alpha, met.guarantee.epsilon, met.guarantee.method, size)
    low, high = max(met.alpha - 2e-6, LEAST_ALPHA), met.alpha
    while best.epsilon < (1 + SPENT) / 2 * epsilon and high - low > 1e-12 * high:
        middle = math.sqrt(low * high) if high > 2 * low else (low + high) / 2
        spent = target.account(size, middle).get_epsilon(delta)
        if spent.epsilon <= epsilon:
            best, high = Flips(middle, spent.epsilon, spent.method, size), middle
        else:
            low = middle
    if best.epsilon < SPENT * epsilon:
        raise RequestError(
            f"mechanism.epsilon is {epsilon:g}; at most {best.epsilon:.4g} of it can be spent by flips of "
            f"at least {LEAST_ALPHA:g} in clusters of {size} at delta {delta:g}"
        )
    return best
