"""A neural network with one hidden layer (scikit-learn's ``MLPClassifier``), fitted by Adam.

scikit-learn fits it; what is kept of it are its weights, and predictions are made from these alone, so that a model
from a file predicts what it predicted before it was written. ``learner.l2`` is its penalty, ``learner.max_iterations``
the most passes over the rows; it stops earlier where ten passes gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neural_network import MLPClassifier

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.learning.model import LearnerModel, Model, Probabilities, Storage
from p2p_labeldp.learning.softmax import as_chances
from p2p_labeldp.learning.weighted import certain, fit_weighted, seed_of
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.scenario import Learner as Settings
from p2p_labeldp.threads import one_thread

HIDDEN = 64
_NEVER = -np.inf  # the bias of a label that was never met


@dataclass(frozen=True, eq=False)
class MlpModel(Probabilities):
    """p(y|x) = softmax(output relu(hidden x + hidden_bias) + output_bias); hidden (d, h), output (h, K)."""

    hidden: Doubles
    hidden_bias: Doubles
    output: Doubles
    output_bias: Doubles

    def predict_proba(self, features: Matrix) -> Doubles:
        with one_thread():
            inside = np.maximum(features.astype(np.float64) @ self.hidden + self.hidden_bias, 0.0)
            return as_chances(inside @ self.output + self.output_bias)


def fit(
    settings: Settings, features: Matrix, targets: Doubles, weights: Doubles | None, randomness: Randomness
) -> Model:
    labels = targets.shape[1]
    classifier = MLPClassifier(
        (HIDDEN,), alpha=settings.l2, max_iter=settings.max_iterations, random_state=seed_of(randomness)
    )
    found = fit_weighted(classifier, features, targets, weights)
    if found is None:
        return certain(targets, features)
    output, bias = np.zeros((HIDDEN, labels)), np.full(labels, _NEVER)
    known = found.classes_
    hidden, last = (layer.astype(np.float64) for layer in found.coefs_)
    hidden_bias, last_bias = (layer.astype(np.float64) for layer in found.intercepts_)
    if len(known) == 2:  # one logistic unit: the logit of the second label
        output[:, known[1]], bias[known[0]], bias[known[1]] = last[:, 0], 0.0, last_bias[0]
    else:
        output[:, known], bias[known] = last, last_bias
    return MlpModel(hidden, hidden_bias, output, bias)


def check(model: MlpModel, features: int) -> None:
    finite = all(np.isfinite(weights).all() for weights in (model.hidden, model.hidden_bias, model.output))
    if not finite or not (model.output_bias < np.inf).all():
        raise ValueError("a weight is not a number")
    if not np.isfinite(model.output_bias).any():
        raise ValueError("no label is possible")


LAYOUT = {
    "hidden": ("float64", "features", "hidden"),
    "hidden_bias": ("float64", "hidden"),
    "output": ("float64", "hidden", "labels"),
    "output_bias": ("float64", "labels"),
}

MODEL = LearnerModel("a neural network", fit, Storage.of_fields(MlpModel, LAYOUT, check))
