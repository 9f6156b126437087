"""Softmax regression, the model of the paper's experiments: the only one that learns negative targets."""

from __future__ import annotations

import numpy as np

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.learning.model import LearnerModel, Storage
from p2p_labeldp.learning.softmax import SoftmaxModel, fit_softmax
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.scenario import Learner as Settings


def fit(
    settings: Settings, features: Matrix, targets: Doubles, weights: Doubles | None, randomness: Randomness
) -> SoftmaxModel:
    return fit_softmax(features, targets, settings.l2, settings.max_iterations, weights)


def check(model: SoftmaxModel, features: int) -> None:
    if not np.isfinite(model.weights).all() or np.isnan(model.bias).any():
        raise ValueError("a weight is not a number")


LAYOUT = {"weights": ("float64", "labels", "features"), "bias": ("float64", "labels")}

MODEL = LearnerModel("a softmax regression", fit, Storage.of_fields(SoftmaxModel, LAYOUT, check))
