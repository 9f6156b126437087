"""Softmax regression, the model of the paper's experiments: the only one that learns negative targets."""

from __future__ import annotations

import numpy as np

from p2p_labeldp.learning.model import Arrays, LearnerModel, Storage
from p2p_labeldp.learning.softmax import Doubles, Matrix, SoftmaxModel, fit_softmax
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.scenario import Learner as Settings


def fit(
    settings: Settings, features: Matrix, targets: Doubles, weights: Doubles | None, randomness: Randomness
) -> SoftmaxModel:
    return fit_softmax(features, targets, settings.l2, settings.max_iterations, weights)


def from_arrays(arrays: Arrays, labels: int, features: int) -> SoftmaxModel:
    weights, bias = arrays["weights"], arrays["bias"]
    if weights.dtype != np.float64 or weights.shape != (labels, features):
        raise ValueError(f"weights of shape {weights.shape} do not fit the schema")
    if bias.dtype != np.float64 or bias.shape != (labels,):
        raise ValueError(f"a bias of shape {bias.shape} does not fit the schema")
    if not np.isfinite(weights).all() or np.isnan(bias).any():
        raise ValueError("a weight is not a number")
    return SoftmaxModel(weights, bias)


MODEL = LearnerModel(
    "a softmax regression",
    fit,
    Storage(SoftmaxModel, lambda model: {"weights": model.weights, "bias": model.bias}, from_arrays),
)
