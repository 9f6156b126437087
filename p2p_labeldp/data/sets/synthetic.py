"""Gaussian clusters with a known p(y|x), so that phi and excess risk are exact.

Centres are N(0, separation^2 I), a user's features N(her centre, spread^2 I), her label a draw from
softmax(weights x + bias). That hypothesis is linear, so it is the best one a softmax regression can find.

- Two labels: the log-odds of label 1 rise by ``sharpness`` per unit along a random direction, and the
  intercept is solved for so that the mean probability of label 1 over the users is ``rate``.
- More labels: each has a random direction of expected squared length ``sharpness``^2, and none is
  favoured at the users' mean.

Rows are made in blocks: temporaries stay small, and millions of users take seconds. Each kind of number has a
stream of its own, so the result does not depend on the block's size.
"""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Dataset, Floats, Probabilities, compact
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data
from p2p_labeldp.streams import Purpose, stream

USERS_UNLESS_TOLD = 1_000
MOST_TEST_EXAMPLES = 100_000
# Far beyond any use, and far from where float32 features or log-odds overflow.
LARGEST_SCALE = 1e6
_BLOCK_BYTES = 1 << 24


def make_synthetic(data: Data, seed: int) -> Dataset:
    check_keys(data)
    users = data.users or USERS_UNLESS_TOLD
    tests = math.ceil(data.test_fraction * users / (1 - data.test_fraction))
    world = stream(seed, Purpose.WORLD)
    centres = data.separation * world.standard_normal((data.groups, data.dimensions))
    directions = world.standard_normal((data.labels, data.dimensions))

    features, groups = _features(users, centres, data.spread, seed, Purpose.TRAIN)
    test_features, _ = _features(min(max(1, tests), MOST_TEST_EXAMPLES), centres, data.spread, seed, Purpose.TEST)
    weights, bias = hypothesis(data, features, directions)

    labels, conditional = _labels(features, weights, bias, stream(seed, Purpose.TRAIN, 2))
    test_labels, test_conditional = _labels(test_features, weights, bias, stream(seed, Purpose.TEST, 2))
    return Dataset(
        name="synthetic",
        features=features,
        labels=labels,
        test_features=test_features,
        test_labels=test_labels,
        classes=tuple(str(label) for label in range(data.labels)),
        given_clusters=groups,
        conditional=conditional,
        test_conditional=test_conditional,
    )


def check_keys(data: Data) -> None:
    for name, count, least in (
        ("groups", data.groups, 1),
        ("dimensions", data.dimensions, 1),
        ("labels", data.labels, 2),
    ):
        if count < least:
            raise RequestError(f"data.{name} is {count}; at least {least}")
    for name, size in (
        ("spread", data.spread),
        ("separation", data.separation),
        ("sharpness", data.sharpness),
    ):
        if not 0 <= size <= LARGEST_SCALE:
            raise RequestError(f"data.{name} is {size}; between 0 and {LARGEST_SCALE:g}")
    if data.labels == 2 and not 0 < data.rate < 1:
        raise RequestError(f"data.rate is {data.rate}; between 0 and 1, both excluded")


def _features(
    count: int, centres: NDArray[np.floating], spread: float, seed: int, purpose: Purpose
) -> tuple[Floats, Labels]:
    """Features, and the index of the Gaussian each came from; groups that nobody is in have no id."""
    centres = centres.astype(np.float32)
    groups = stream(seed, purpose, 0).integers(len(centres), size=count)
    noise = stream(seed, purpose, 1)
    features = np.empty((count, centres.shape[1]), dtype=np.float32)
    for block in _blocks(count, centres.shape[1]):
        part = features[block]
        noise.standard_normal(dtype=np.float32, out=part)
        part *= np.float32(spread)
        part += centres[groups[block]]
    if np.bincount(groups, minlength=len(centres)).all():
        return features, groups
    return features, compact(groups)


def hypothesis(data: Data, features: Floats, directions: NDArray[np.float64]) -> tuple[Probabilities, Probabilities]:
    """Weights and bias, given a direction for each label."""
    if data.labels > 2:
        weights = data.sharpness * directions / math.sqrt(data.dimensions)
        return weights, -weights @ features.mean(axis=0, dtype=np.float64)
    rate = data.rate
    slope = data.sharpness * directions[0] / np.linalg.norm(directions[0])
    rises = features @ slope
    middle = math.log(rate / (1 - rate))
    # With all rises alike the answer is at the edge; the margin keeps the signs apart despite rounding.
    low, high = middle - rises.max() - 1, middle - rises.min() + 1
    intercept = scipy.optimize.brentq(
        lambda shift: scipy.special.expit(rises + shift).mean() - rate, low, high, xtol=1e-12
    )
    return np.stack([np.zeros_like(slope), slope]), np.array([0.0, intercept])


def _labels(
    features: Floats, weights: Probabilities, bias: Probabilities, coins: np.random.Generator
) -> tuple[Labels, Probabilities]:
    count = len(features)
    labels = np.empty(count, dtype=np.int64)
    conditional = np.empty((count, len(bias)))
    for block in _blocks(count, max(len(bias), weights.shape[1])):
        conditional[block] = scipy.special.softmax(features[block] @ weights.T + bias, axis=1)
        below = np.cumsum(conditional[block][:, :-1], axis=1)
        labels[block] = (coins.random(len(below))[:, None] >= below).sum(axis=1)
    return labels, conditional


def _blocks(count: int, width: int) -> list[slice]:
    rows = max(1, _BLOCK_BYTES // (8 * width))
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]


DATA_SET = DataSet("synthetic data", lambda data, seed, _: make_synthetic(data, seed))
