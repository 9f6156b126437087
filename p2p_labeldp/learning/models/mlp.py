"""A neural network with one hidden layer (scikit-learn's ``MLPClassifier``), fitted by Adam.

scikit-learn fits it; what is kept of it are its weights, and predictions are made from these alone, so that a model
from a file predicts what it predicted before it was written. ``learner.l2`` is its penalty, ``learner.max_iterations``
the most passes over the rows; it stops earlier where ten passes gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neural_network import MLPClassifier

from p2p_labeldp.learning.model import Arrays, LearnerModel, Probabilities, Storage
from p2p_labeldp.learning.softmax import Doubles, Matrix, as_chances
from p2p_labeldp.learning.weighted import fit_weighted, only_label
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
) -> MlpModel:
    labels = targets.shape[1]
    seed = int(randomness.integers(np.array([2**31]))[0])
    classifier = MLPClassifier((HIDDEN,), alpha=settings.l2, max_iter=settings.max_iterations, random_state=seed)
    found = fit_weighted(classifier, features, targets, weights)
    output, bias = np.zeros((HIDDEN, labels)), np.full(labels, _NEVER)
    if found is None:
        bias[only_label(targets)] = 0.0
        return MlpModel(np.zeros((features.shape[1], HIDDEN)), np.zeros(HIDDEN), output, bias)
    known = found.classes_
    hidden, last = (layer.astype(np.float64) for layer in found.coefs_)
    hidden_bias, last_bias = (layer.astype(np.float64) for layer in found.intercepts_)
    if len(known) == 2:  # one logistic unit: the logit of the second label
        output[:, known[1]], bias[known[0]], bias[known[1]] = last[:, 0], 0.0, last_bias[0]
    else:
        output[:, known], bias[known] = last, last_bias
    return MlpModel(hidden, hidden_bias, output, bias)


def from_arrays(arrays: Arrays, labels: int, features: int) -> MlpModel:
    names = ("hidden", "hidden_bias", "output", "output_bias")
    hidden, hidden_bias, output, bias = (arrays[name] for name in names)
    width = hidden.shape[1] if hidden.ndim == 2 else 0
    shapes = ((features, width), (width,), (width, labels), (labels,))
    for name, shape in zip(names, shapes, strict=True):
        if arrays[name].dtype != np.float64 or arrays[name].shape != shape:
            raise ValueError(f"{name} of shape {arrays[name].shape} does not fit the schema")
    if not all(np.isfinite(arrays[name]).all() for name in names[:3]) or not (bias < np.inf).all():
        raise ValueError("a weight is not a number")
    if not np.isfinite(bias).any():
        raise ValueError("no label is possible")
    return MlpModel(hidden, hidden_bias, output, bias)


def to_arrays(model: MlpModel) -> dict[str, Doubles]:
    return {name: getattr(model, name) for name in ("hidden", "hidden_bias", "output", "output_bias")}


MODEL = LearnerModel("a neural network", fit, Storage(MlpModel, to_arrays, from_arrays))
