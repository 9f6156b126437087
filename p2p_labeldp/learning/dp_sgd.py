"""DP-SGD for softmax regression: the baseline that trusts the learner with the true labels.

**What is private.** The guarantee covers whole examples, features and label alike, not labels alone: more than the
other mechanisms promise, and part of why it costs more accuracy at the same epsilon. It holds for someone who sees
every iterate. The learner herself sees everything.

**Clipping is exact and needs no per-example gradients.** With z = [x, 1] and r = softmax(W z) - onehot(y), the
gradient of one example is the outer product r z^T, whose norm is ||r|| ||z||. So clipping it to C is scaling r by
min(1, C / (||r|| ||z||)), and the sum over a batch is one matrix product.

**Batches are Poisson samples**: every example joins each step with probability q, independently. The sum of the
clipped gradients gets Gaussian noise of standard deviation ``noise_multiplier`` * C per entry, and is divided by the
expected batch size, which is public, never by the actual one.

**The neighbouring relation is named.** ``replace`` (the other mechanisms' relation, of which replacing a label is a
case) exchanges one clipped gradient g for another, g': it moves the sum by up to 2C, not C. Given the rest of
the batch, of all g, g' within C

    (1-q) N(0, s^2) + q N(g, s^2)   against   (1-q) N(0, s^2) + q N(g', s^2)

are furthest apart, at every epsilon, when g and g' are opposite and both of length C; that pair is dp-accounting's
REPLACE_ONE. Proof, for the hockey-stick divergence at a factor a >= 1 (a < 1 follows by exchanging the two): it is
attained on the set S where q e^(g.x - |g|^2/2) > (a-1)(1-q) + a q e^(g'.x - |g'|^2/2), in units of s, and by the
envelope theorem its derivative in g or g' is that of q P_g(S) - a q P_g'(S) with S held fixed. Along each line
parallel to t, perpendicular to g' and pointing away from g, S is a half-line towards -t, so turning g' away from g
lowers P_g'(S) until the two are opposite. Then S is a half-line x > c, and lengthening g raises P_g(S) while
lengthening g' lowers P_g'(S). Dominating pairs compose, also adaptively. ``add_or_remove`` is the weaker relation
that DP-SGD is usually quoted for; at equal noise its epsilon is about half.

**Noise is calibrated by privacy loss distributions** (dp-accounting, the extra ``accounting``), which round up: the
epsilon spent is never above the target, and at least .999 of it unless a noise multiplier of 0.02 already spends less.
The noise is numpy's double-precision normal variate; the guarantee is that of real arithmetic.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.softmax import Doubles, Matrix, SoftmaxModel

RELATIONS = ("replace", "add_or_remove")
OPTIONS = ("relation", "clip", "batch_size", "epochs", "learning_rate", "l2")
"""What may be set besides epsilon and delta."""
TRUST = (
    "The learner sees every example and its true label; whoever sees the model (every iterate, even) learns little "
    "about any one example, features included."
)
# At least this share of the epsilon that was asked for is spent.
SPENT = 0.999
# Privacy losses are rounded up to multiples of this share of the target: some thousand points, whatever the target.
_INTERVAL = 1 / 2000
# Noise multipliers beyond these bounds are of no use: gradients drown, or the distribution no longer fits into memory.
_LEAST_NOISE, _MOST_NOISE = 0.02, 1e6
# Examples' gradients are computed in blocks of about 6 MB of doubles, so that memory does not grow with the batch.
_BLOCK_ENTRIES = 800_000


@dataclass(frozen=True)
class Plan:
    """How often, how much and with how much noise; fixed before any example is looked at.

    ``epsilon`` at ``delta`` is what it spends, under ``relation``.
    """

    epsilon: float
    delta: float
    relation: str
    noise_multiplier: float
    sampling_rate: float
    steps: int

    @property
    def method(self) -> str:
        return "upper_bound"


@dataclass(frozen=True, eq=False)
class PrivateFit:
    """The model, and the plan that says what it cost."""

    model: SoftmaxModel
    plan: Plan


def fit_dp_sgd(
    features: Matrix,
    labels: NDArray[np.integer],
    label_count: int,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: str = "replace",
    clip: float = 1.0,
    batch_size: int | None = None,
    epochs: float = 10.0,
    learning_rate: float = 4.0,
    l2: float = 0.0,
    generator: np.random.Generator,
) -> PrivateFit:
    """A model that keeps every example to (epsilon, delta); delta is 1/n unless given.

    ``epsilon`` may be infinite: clipping without noise. The model is the mean of the second half of the iterates,
    which costs no privacy and averages noise out.
    """
    if features.ndim != 2 or len(features) != len(labels) or not len(features):
        raise ValueError(f"features {features.shape} and labels {labels.shape} must have as many rows, not none")
    if not (labels.min() >= 0 and labels.max() < label_count):
        raise ValueError(f"labels must lie in 0..{label_count - 1}")
    for name, value in (("clip", clip), ("learning_rate", learning_rate)):
        if not 0 < value < math.inf:
            raise RequestError(f"{name} is {value}; a positive number")
    if not 0 <= l2 < math.inf:
        raise RequestError(f"learner.l2 is {l2}; a finite number, at least 0")
    plan = plan_dp_sgd(
        len(features), epsilon=epsilon, delta=delta, relation=relation, batch_size=batch_size, epochs=epochs
    )
    with threadpool_limits(limits=1, user_api="blas"):
        model = _descend(features, labels, label_count, plan, clip, learning_rate, l2, generator)
    return PrivateFit(model, plan)


def plan_dp_sgd(
    examples: int,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: str = "replace",
    batch_size: int | None = None,
    epochs: float = 10.0,
) -> Plan:
    """The least noise with which so many passes over ``examples`` cost at most (epsilon, delta).

    ``batch_size`` is the expected one; a tenth of the examples, at most 2,000 and at least 50, unless given.
    """
    if batch_size is None:
        batch_size = min(max(examples // 10, 50), 2000)
    delta = 1 / examples if delta is None else delta
    if relation not in RELATIONS:
        raise RequestError(f"relation is {relation!r}; allowed are {', '.join(RELATIONS)}")
    if not epsilon > 0:
        raise RequestError(f"epsilon is {epsilon}; dp_sgd needs a positive one")
    if not 0 < delta < 1:
        raise RequestError(f"delta is {delta}; dp_sgd needs one between 0 and 1, both excluded")
    if batch_size < 1:
        raise RequestError(f"batch_size is {batch_size}; at least 1")
    if not 0 < epochs < math.inf:
        raise RequestError(f"epochs is {epochs}; a positive number")
    rate = min(1.0, batch_size / examples)
    steps = max(1, round(epochs / rate))
    if epsilon == math.inf:
        return Plan(math.inf, delta, relation, 0.0, rate, steps)
    noise, spent = _calibrated(float(epsilon), float(delta), relation, rate, steps)
    return Plan(spent, delta, relation, noise, rate, steps)


def spent_epsilon(
    noise_multiplier: float, delta: float, relation: str, sampling_rate: float, steps: int, interval: float = 1e-4
) -> float:
    """epsilon at ``delta`` of so many noisy steps, rounded up; ``interval`` is the grid of privacy losses."""
    try:
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
        from dp_accounting.privacy_accountant import NeighboringRelation
    except ImportError:
        raise RequestError("dp_sgd needs dp-accounting: pip install p2p-labeldp[accounting]") from None
    replace = relation == "replace"
    # A unit of sensitivity is one clip: REPLACE_ONE knows that a replacement moves the sum by two.
    step = from_gaussian_mechanism(
        noise_multiplier,
        value_discretization_interval=interval,
        sampling_prob=sampling_rate,
        neighboring_relation=NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return float(step.self_compose(steps).get_epsilon_for_delta(delta))


@lru_cache(maxsize=256)
def _calibrated(epsilon: float, delta: float, relation: str, rate: float, steps: int) -> tuple[float, float]:
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


def _descend(
    features: Matrix,
    labels: NDArray[np.integer],
    label_count: int,
    plan: Plan,
    clip: float,
    learning_rate: float,
    l2: float,
    generator: np.random.Generator,
) -> SoftmaxModel:
    count, width = features.shape
    weights = np.zeros((width + 1, label_count))  # the bias is the last row
    mean = np.zeros_like(weights)
    expected = plan.sampling_rate * count
    deviation = plan.noise_multiplier * clip
    tail = plan.steps // 2
    for step in range(plan.steps):
        batch = np.flatnonzero(generator.random(count) < plan.sampling_rate)
        total = clipped_sum(features, labels, batch, weights, clip)
        if deviation:
            total += generator.normal(0.0, deviation, size=total.shape)
        slope = total / expected
        slope[:-1] += l2 * weights[:-1]
        weights -= learning_rate * slope
        if step >= tail:
            mean += (weights - mean) / (step - tail + 1)
    return SoftmaxModel(mean[:-1].T.copy(), mean[-1].copy(), iterations=plan.steps)


def clipped_sum(
    features: Matrix, labels: NDArray[np.integer], batch: NDArray[np.integer], weights: Doubles, clip: float
) -> Doubles:
    """The sum over ``batch`` of the examples' gradients, each clipped to norm ``clip``; bias in the last row."""
    total = np.zeros_like(weights)
    rows = max(1, _BLOCK_ENTRIES // max(weights.shape))
    for start in range(0, len(batch), rows):
        part = batch[start : start + rows]
        examples = features[part].astype(np.float64)
        residual = examples @ weights[:-1]
        residual += weights[-1]
        residual -= residual.max(axis=1, keepdims=True)
        np.exp(residual, out=residual)
        residual /= residual.sum(axis=1, keepdims=True)
        residual[np.arange(len(part)), labels[part]] -= 1.0
        squares = np.einsum("ij,ij->i", residual, residual) * (np.einsum("ij,ij->i", examples, examples) + 1.0)
        # An example whose gradient is 0 needs no clipping, and must not be divided by.
        residual *= (clip / np.maximum(np.sqrt(squares), clip))[:, None]
        total[:-1] += examples.T @ residual
        total[-1] += residual.sum(axis=0)
    return total
