"""DP-SGD for softmax regression: the baseline that trusts the learner with the true labels.

**What is private.** The guarantee covers whole examples, features and label alike, not labels alone: more than the
other mechanisms guarantee, and part of why it costs more accuracy at the same epsilon. It holds for someone who sees
every iterate. The learner herself sees everything.

**Clipping is exact and needs no per-example gradients.** With z = [x, 1] and r = softmax(W z) - onehot(y), the
gradient of one example is the outer product r z^T, whose norm is ||r|| ||z||. So clipping it to C is scaling r by
min(1, C / (||r|| ||z||)), and the sum over a batch is one matrix product.

**Batches are Poisson samples**: every example joins each step with probability q, independently. The sum of the
clipped gradients gets Gaussian noise of standard deviation ``noise_multiplier`` * C per entry, and is divided by the
expected batch size, which is public, never by the actual one.

**Steps shrink.** They are of full length for the first half and then fall in a straight line to 0. Each noisy
gradient so has the weight in the model that it had in the mean of the second half's iterates, which averages noise
out as well; but gradients are taken at a point that settles. With steps of one length the iterates themselves stay
far off: where labels are noisy and features many, logits grow so large that the loss is a perceptron's, and accuracy
falls as epsilon grows. The lengths are fixed beforehand, so that the guarantee is untouched.

What it costs, and under which neighbouring relation, is in ``mechanisms.dp_sgd``. The noise is a double-precision
normal variate; the guarantee is that of real arithmetic.
"""

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.learning.softmax import SoftmaxModel, as_chances
from p2p_labeldp.mechanisms.coins import Randomness
from p2p_labeldp.mechanisms.dp_sgd import Steps
from p2p_labeldp.threads import one_thread

# Examples' gradients are computed in blocks of about 6 MB of doubles, so that memory does not grow with the batch.
_BLOCK_ENTRIES = 800_000


def fit_dp_sgd(
    features: Matrix, labels: NDArray[np.integer], label_count: int, plan: Steps, randomness: Randomness
) -> SoftmaxModel:
    """A model that keeps every example to the plan's (epsilon, delta): where steps that shrink to none end."""
    if features.ndim != 2 or len(features) != len(labels) or not len(features):
        raise ValueError(f"features {features.shape} and labels {labels.shape} must have as many rows, not none")
    if not (labels.min() >= 0 and labels.max() < label_count):
        raise ValueError(f"labels must lie in 0..{label_count - 1}")
    with one_thread():
        return _descend(features, labels, label_count, plan, randomness)


def _descend(
    features: Matrix, labels: NDArray[np.integer], label_count: int, plan: Steps, randomness: Randomness
) -> SoftmaxModel:
    count, width = features.shape
    weights = np.zeros((width + 1, label_count))  # the bias is the last row
    expected = plan.sampling_rate * count
    deviation = plan.noise_multiplier * plan.clip
    rate = plan.rate_for(weights.size, expected)
    for step in range(plan.steps):
        batch = np.flatnonzero(randomness.uniform(count) < plan.sampling_rate)
        total = clipped_sum(features, labels, batch, weights, plan.clip)
        if deviation:
            total += randomness.normal(deviation, total.shape)
        slope = total / expected
        slope[:-1] += plan.l2 * weights[:-1]
        weights -= rate * pace(step, plan.steps) * slope
    return SoftmaxModel(weights[:-1].T.copy(), weights[-1].copy(), iterations=plan.steps)


def pace(step: int, steps: int) -> float:
    """The share of the rate that a step takes: all of it for the first half, then less, in a straight line to 0."""
    return min(1.0, 2 * (1 - step / steps))


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
        as_chances(residual)
        residual[np.arange(len(part)), labels[part]] -= 1.0
        squares = np.einsum("ij,ij->i", residual, residual) * (np.einsum("ij,ij->i", examples, examples) + 1.0)
        # An example whose gradient is 0 needs no clipping, and must not be divided by.
        residual *= (clip / np.maximum(np.sqrt(squares), clip))[:, None]
        total[:-1] += examples.T @ residual
        total[-1] += residual.sum(axis=0)
    return total
