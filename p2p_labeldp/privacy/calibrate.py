"""The noise that meets a target: the least alpha, or the (alpha, theta) with the least variance.

The variance is that of a cluster's share of ones, estimated from the reports and corrected for the flips,

    (alpha (1 - alpha) / n + 1 / (4 theta n)) / (1 - alpha K/(K-1))^2.

That epsilon falls as alpha grows to (K-1)/K is observed, not proved. So nothing rests on it: alphas are
tried from small to large until one meets the target, the gap before it is narrowed (with n1 = 0 alone, which is
cheap and can only ask for too little), and what is returned has itself been accounted for in full. The alpha whose
flips alone meet the target always does, which ends the search.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy.account import Account, account
from p2p_labeldp.privacy.guarantee import Guarantee
from p2p_labeldp.privacy.pairs import interpolated
from p2p_labeldp.privacy.parameters import Parameters
from p2p_labeldp.scenario import Exchange

# Returned alphas are multiples of this, and so are thetas of the coarser one: numbers one can write in a scenario.
_ALPHA_GRID = 1e-6
_THETA_GRID = 1e-3
# Up to here the answer is accounted for with all its work, so that the attained epsilon stands beside it.
_THOROUGH_SIZE = 20_000
# Of the alpha whose flips alone are enough: tried first, from small to large.
_FIRST_SHARES = (0.1, 0.4)
_NONE = 1e-300  # an epsilon of nothing, where its logarithm is taken
_STEEP = 60.0  # a logit beyond is that of no alpha
_FIRST_THETAS = (1.0, 0.75, 0.5, 0.35, 0.22, 0.14, 0.08, 0.04, 0.02, 0.01)


@dataclass(frozen=True)
class Calibration:
    """The chosen noise, and what it guarantees at the target's delta."""

    alpha: float
    theta: float
    variance: float
    guarantee: Guarantee


def variance(cluster_size: int, alpha: float, theta: float, labels: int = 2) -> float:
    """Of the corrected share of one label in a cluster; infinite where nothing can be corrected."""
    left = 1 - alpha * labels / (labels - 1)
    if theta <= 0 or left <= 0:
        return math.inf
    return (alpha * (1 - alpha) / cluster_size + 1 / (4 * theta * cluster_size)) / left**2


def calibrate(
    *,
    cluster_size: int,
    epsilon: float,
    delta: float,
    theta: float | None = None,
    labels: int = 2,
    view: str = "learner",
    rounds: int = 1,
    noise: str = "sticky",
    colluders: int = 0,
    exchange: str = Exchange.PULL,
    relays: int = 0,
) -> Calibration:
    """The least alpha that keeps ``view`` to (epsilon, delta); without ``theta``, both with the least variance.

    >>> found = calibrate(cluster_size=500, epsilon=0.5, delta=4e-6, theta=1)
    >>> round(found.alpha, 4), found.guarantee.epsilon <= 0.5
    (0.0618, True)
    """
    if not 0 <= epsilon < math.inf:
        raise RequestError(f"epsilon must be 0 or more and finite, not {epsilon}")
    if not 0 <= delta <= 1:
        raise RequestError(f"delta must be within 0..1, not {delta}")
    theta_known = 1.0 if theta is None else theta
    # All but alpha, and theta where it is chosen too.
    sought = Parameters(0.0, theta_known, labels, noise, rounds, exchange=exchange, relays=relays)
    target = _Target(view, sought, cluster_size, colluders, epsilon, delta)
    target.check(theta_known, least_theta=theta is None)  # every value, and that the target can be met at all
    if theta is None:
        theta = _best_theta(target, cluster_size, labels)
    alpha = target.met_alpha(theta)
    return Calibration(alpha, theta, variance(cluster_size, alpha, theta, labels), target.stated(alpha, theta))


class _Target:
    """epsilon at delta, and the search for alphas that meet it."""

    def __init__(
        self, view: str, sought: Parameters, cluster_size: int, colluders: int, epsilon: float, delta: float
    ) -> None:
        sought.check()
        self._view, self._sought, self._size, self._colluders = view, sought, cluster_size, colluders
        self.epsilon, self.delta = epsilon, delta
        labels = sought.labels
        self._useless = (labels - 1) / labels
        # The flips alone meet the target from here on (all of them, where every round has its own).
        grown = math.exp(min(epsilon / (sought.rounds if sought.fresh else 1), 700.0))
        self._enough = min((labels - 1) / (labels - 1 + grown), self._largest)

    def _account(self, alpha: float, theta: float, *, thorough: bool = False) -> Account:
        noise = replace(self._sought, alpha=alpha, theta=theta)
        return account(self._view, noise, cluster_size=self._size, colluders=self._colluders, thorough=thorough)

    @property
    def _largest(self) -> float:
        return math.floor(self._useless / _ALPHA_GRID - 0.5) * _ALPHA_GRID

    def answer(self, alpha: float, theta: float) -> Guarantee:
        return self._account(alpha, theta).get_epsilon(self.delta)

    def stated(self, alpha: float, theta: float) -> Guarantee:
        """The answer that is returned: the quick one has met the target, the thorough one says how tight it is."""
        quick = self.answer(alpha, theta)
        if self._size > _THOROUGH_SIZE:
            return quick
        thorough = self._account(alpha, theta, thorough=True).get_epsilon(self.delta)
        return thorough if thorough.epsilon <= quick.epsilon else quick

    def met(self, alpha: float, theta: float) -> bool:
        return self.answer(alpha, theta).epsilon <= self.epsilon

    def check(self, theta: float, *, least_theta: bool) -> None:
        least = self.answer(self._largest, _THETA_GRID if least_theta else theta).epsilon
        if least > self.epsilon:
            raise RequestError(
                f"epsilon {self.epsilon:g} at delta {self.delta:g} cannot be met with clusters of {self._size}: "
                f"the least reachable is {least:.4g}"
            )

    def least_alpha(self, theta: float, grid: float, look: Callable[[float, float], float] | None = None) -> float:
        """The least multiple of ``grid`` that meets the target, as far as the tries can tell."""
        epsilon_at = look or (lambda alpha, theta: self.answer(alpha, theta).epsilon)
        if epsilon_at(0.0, theta) <= self.epsilon:
            return 0.0
        low, high = 0, round(self._up(self._enough, grid) / grid)  # multiples of the grid
        known: list[tuple[float, float]] = []

        def narrow(tried: int) -> None:
            nonlocal low, high
            alpha = self._up(tried * grid, grid)
            found = epsilon_at(alpha, theta)
            # Over the logit of alpha the logarithm of epsilon is nearly a straight line.
            known.append((math.log(max(found, _NONE) / max(self.epsilon, _NONE)), math.log(alpha / (1 - alpha))))
            low, high = (low, tried) if found <= self.epsilon else (tried, high)

        for share in _FIRST_SHARES:
            tried = round(high * share)
            if low < tried < high:
                narrow(tried)
            if high == tried:
                break
        last = float(low)
        while high - low > 1:
            logit = interpolated(known) if len(known) > 1 else sum(known[0]) if known else 0.0
            place = low + (high - low) / 2
            if len(known) % 9 and abs(logit) < _STEEP:  # halved now and then, should the line be none
                place = min(max(1 / (1 + math.exp(-logit)) / grid, low), high)
            # Beyond the estimate, on the side where more is open, by as much as it still moves.
            reach = min(max(0.5, 0.01 * abs(place - last)), 0.5 * max(high - place, place - low))
            last = place
            tried = math.ceil(place + reach) if high - place > place - low else math.floor(place - reach)
            narrow(min(max(tried, low + 1), high - 1))
        return self._up(high * grid, grid)

    def met_alpha(self, theta: float) -> float:
        """The least alpha for ``theta``, which has been accounted for and meets the target."""
        alpha = self.least_alpha(theta, _ALPHA_GRID, self.glance)
        if self.met(alpha, theta):
            return alpha
        alpha = self.least_alpha(theta, _ALPHA_GRID)
        step = _ALPHA_GRID
        while not self.met(alpha, theta) and alpha < self._largest:
            alpha, step = self._up(alpha + step, _ALPHA_GRID), 2 * step
        return alpha

    def glance(self, alpha: float, theta: float) -> float:
        return self._account(alpha, theta).glance(self.delta)

    def _up(self, alpha: float, grid: float) -> float:
        digits = max(0, round(-math.log10(grid)))
        return min(self._largest, round(math.ceil(alpha / grid - 1e-9) * grid, digits))


def _best_theta(target: _Target, cluster_size: int, labels: int) -> float:
    """The theta, on its grid, whose least alpha has the least variance: a coarse look, then a finer one around it."""
    costs: dict[float, float] = {}

    def cost(theta: float) -> float:
        if theta not in costs:
            alpha = target.least_alpha(theta, 1e-4, target.glance)
            costs[theta] = variance(cluster_size, alpha, theta, labels)
        return costs[theta]

    for theta in _FIRST_THETAS:
        # Fewer reports alone would already cost more than the best so far.
        if costs and variance(cluster_size, 0.0, theta, labels) >= min(costs.values()):
            break
        cost(theta)
    best = min(costs, key=cost)
    for _ in range(4):
        known = sorted({*costs, _THETA_GRID})
        place = known.index(best)
        near = [known[i] for i in (place - 1, place + 1) if 0 <= i < len(known)]
        for neighbour in near:
            cost(round(round((best + neighbour) / 2 / _THETA_GRID) * _THETA_GRID, 3))
        best = min(costs, key=cost)
    return best
