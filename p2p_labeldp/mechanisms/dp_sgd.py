"""DP-SGD as a mechanism: how often, how much and with how much noise, fixed before any example is looked at.

``learning.dp_sgd`` descends by this plan.

**The neighbouring relation is named.** Replacing an example (of which replacing its label, the other mechanisms'
relation, is a case) exchanges one clipped gradient g for another, g': it moves the sum by up to 2C, not C. Given the
rest of the batch, of all g, g' within C

    (1-q) N(0, s^2) + q N(g, s^2)   against   (1-q) N(0, s^2) + q N(g', s^2)

are furthest apart, at every epsilon, when g and g' are opposite and both of length C; that pair is dp-accounting's
REPLACE_ONE. Proof, for the hockey-stick divergence at a factor a >= 1 (a < 1 follows by exchanging the two): it is
attained on the set S where q e^(g.x - |g|^2/2) > (a-1)(1-q) + a q e^(g'.x - |g'|^2/2), in units of s, and by the
envelope theorem its derivative in g or g' is that of q P_g(S) - a q P_g'(S) with S held fixed. Along each line
parallel to t, perpendicular to g' and pointing away from g, S is a half-line towards -t, so turning g' away from g
lowers P_g'(S) until the two are opposite. Then S is a half-line x > c, and lengthening g raises P_g(S) while
lengthening g' lowers P_g'(S). Dominating pairs compose, also adaptively. Adding or removing an example is the weaker
relation that DP-SGD is usually quoted for; at equal noise its epsilon is about half.

**Defaults come from public numbers and synthetic data**, never from a data set that results are shown for. Stochastic
gradient descent towards a point at distance R, with gradients of variance V, balances the two at a rate of R / sqrt(V
steps). Here V is at most C^2 (1 / batch + p (noise_multiplier / batch)^2) for p weights: sampling, then noise, all of
it public; the rate is that with R = ``REACH``. The reach, the ten passes and the batch of a tenth of the examples are
the round numbers that did best, or within .005 of it, on average over synthetic worlds of several sizes, dimensions
and scales at epsilon .1, .5 and 2 (``benchmarks/dp_sgd.py``): seven worlds, one seed. At epsilon 2 alone a reach of
30 scored .848 there, thirty passes .853 and this .839; worlds of another seed gave .653, .788 and .849. An earlier
rule, with 1 in place of 1 / batch, scored .003 less on average and left the digits' training labels underfitted
without noise, which is why it was changed. C = 1 only sets the unit: features are of the order of 1, so nearly all
gradients are clipped, and the rate is in units of 1/C.

**Noise is calibrated by privacy loss distributions** (dp-accounting, the extra ``accounting``), which round up: the
epsilon spent is never above the target, and at least .999 of it unless a noise multiplier of 0.02 already spends less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, sees_true_labels, spends
from p2p_labeldp.privacy import Relation, View

RELATIONS = {"replace": Relation.REPLACE_EXAMPLE, "add_or_remove": Relation.ADD_OR_REMOVE}
TRUST = (
    "The learner sees every example and its true label; whoever sees the model (every iterate, even) learns little "
    "about any one example, features included."
)
# See the module's docstring for where these come from.
REACH = 10.0
EPOCHS = 10.0
BATCH_SHARE = 0.1
# At least this share of the epsilon that was asked for is spent.
SPENT = 0.999
# Privacy losses are rounded up to multiples of this share of the target: some thousand points, whatever the target.
_INTERVAL = 1 / 2000
# Noise multipliers beyond these bounds are of no use: gradients drown, or the distribution no longer fits into memory.
_LEAST_NOISE, _MOST_NOISE = 0.02, 1e6


@dataclass(frozen=True)
class Steps:
    """How the learner descends, and what it costs: ``epsilon`` at ``delta`` under ``relation``."""

    epsilon: float
    delta: float
    relation: Relation
    noise_multiplier: float
    sampling_rate: float
    steps: int
    clip: float = 1.0
    learning_rate: float | None = None
    """None: ``rate_for`` the model's size."""
    l2: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("clip", self.clip), ("learning_rate", self.learning_rate)):
            if value is not None and not 0 < value < math.inf:
                raise RequestError(f"mechanism.{name} is {value}; a positive number")
        if not 0 <= self.l2 < math.inf:
            raise RequestError(f"mechanism.l2 is {self.l2}; a finite number, at least 0")

    def rate_for(self, weights: int, batch: float) -> float:
        """The learning rate of a model with so many weights, at this expected batch size."""
        if self.learning_rate is not None:
            return self.learning_rate
        variance = 1 / batch + weights * (self.noise_multiplier / batch) ** 2
        return REACH / (self.clip * math.sqrt(self.steps * variance))


def plan_steps(
    examples: int,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: str = "replace",
    batch_size: int | None = None,
    epochs: float = EPOCHS,
    clip: float = 1.0,
    learning_rate: float | None = None,
    l2: float = 0.0,
) -> Steps:
    """The least noise with which so many passes over ``examples`` cost at most (epsilon, delta).

    ``batch_size`` is the expected one; a tenth of the examples unless given. An infinite ``epsilon`` is clipping
    without noise.
    """
    if batch_size is None:
        batch_size = max(1, round(BATCH_SHARE * examples))
    delta = 1 / examples if delta is None else delta
    if relation not in RELATIONS:
        raise RequestError(f"mechanism.relation is {relation!r}; allowed are {', '.join(RELATIONS)}")
    if not epsilon > 0:
        raise RequestError(f"mechanism.epsilon is {epsilon}; dp_sgd needs a positive one")
    if not 0 < delta < 1:
        raise RequestError(f"privacy.delta is {delta}; dp_sgd needs one between 0 and 1, both excluded")
    if batch_size < 1:
        raise RequestError(f"mechanism.batch_size is {batch_size}; at least 1")
    if not 0 < epochs < math.inf:
        raise RequestError(f"mechanism.epochs is {epochs}; a positive number")
    rate = min(1.0, batch_size / examples)
    steps = max(1, round(epochs / rate))
    named = RELATIONS[relation]
    noise, spent = 0.0, math.inf
    if epsilon < math.inf:
        noise, spent = _calibrated(float(epsilon), float(delta), named, rate, steps)
    return Steps(spent, delta, named, noise, rate, steps, clip, learning_rate, l2)


def spent_epsilon(
    noise_multiplier: float, delta: float, relation: Relation, sampling_rate: float, steps: int, interval: float = 1e-4
) -> float:
    """epsilon at ``delta`` of so many noisy steps, rounded up; ``interval`` is the grid of privacy losses."""
    try:
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
        from dp_accounting.privacy_accountant import NeighboringRelation
    except ImportError:
        raise RequestError("dp_sgd needs dp-accounting: pip install p2p-labeldp[accounting]") from None
    replaces = relation != Relation.ADD_OR_REMOVE
    # A unit of sensitivity is one clip: REPLACE_ONE knows that a replacement moves the sum by two.
    step = from_gaussian_mechanism(
        noise_multiplier,
        value_discretization_interval=interval,
        sampling_prob=sampling_rate,
        neighboring_relation=NeighboringRelation.REPLACE_ONE if replaces else NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return float(step.self_compose(steps).get_epsilon_for_delta(delta))


@lru_cache(maxsize=256)
def _calibrated(epsilon: float, delta: float, relation: Relation, rate: float, steps: int) -> tuple[float, float]:
    """(noise multiplier, epsilon spent): spent is within [SPENT, 1] of epsilon, or the noise at its least."""

    def spent(noise: float) -> float:
        return spent_epsilon(noise, delta, relation, rate, steps, interval=epsilon * _INTERVAL)

    # Up from a guess until the target is met; the distributions of large noise are narrow and cheap.
    low, over = 0.0, math.inf
    high = max(1.0, 2 * rate * math.sqrt(steps) / epsilon)
    best = spent(high)
    while best > epsilon:
        low, over = high, best
        high *= 2
        if high > _MOST_NOISE:
            raise RequestError(f"epsilon {epsilon:g} at delta {delta:g} is too small for {steps} steps of dp_sgd")
        best = spent(high)
    # Then down by the secant in logarithms, where epsilon against noise is nearly straight, inside the bracket.
    wanted = (1 + SPENT) / 2 * epsilon
    while best < SPENT * epsilon and high - low > 1e-7 * high:
        if low:
            slope = math.log(over / best) / math.log(high / low) if over < math.inf and best > 0 else 1.0
            share = math.log(wanted / best) / slope / math.log(high / low) if best > 0 else 0.5
            guess = high * (low / high) ** min(max(share, 0.01), 0.99)
        else:
            guess = high * max(best / wanted, 0.5)
        if guess < _LEAST_NOISE:
            break
        found = spent(guess)
        if found <= epsilon:
            high, best = guess, found
        else:
            low, over = guess, found
    return high, best


def plan(request: Request) -> Plan:
    found = plan_steps(
        max(1, request.users), epsilon=request.needed_epsilon(), delta=request.delta or None, **request.options
    )
    numbers = {
        "noise_multiplier": found.noise_multiplier,
        "sampling_rate": found.sampling_rate,
        "steps": float(found.steps),
        "clip": found.clip,
    }
    model = spends(View.MODEL, found.epsilon, found.delta, relation=found.relation)
    privacy = {View.MODEL: model} | sees_true_labels((View.LEARNER, View.NETWORK, View.AUDITOR), found.delta)
    return Plan(request.kind, TRUST, Holder.LEARNER, request.with_flips(), numbers, privacy, learner=found)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.LEARNER,
    learns=True,
    trusts="the learner",
    story="sent her true label to the learner, who fitted the model with noisy gradients (DP-SGD)",
    learner_sees="every true label, with its owner",
    colour="#9467bd",
    marker="X",
    options=("relation", "clip", "batch_size", "epochs", "learning_rate", "l2"),
    default_delta=lambda sizes, users: 1 / max(1, users),  # examples are not hidden in clusters
    needs="dp_accounting",
    extra="accounting",
)
