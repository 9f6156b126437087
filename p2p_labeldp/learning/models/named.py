"""Any classifier of scikit-learn by the name of its class, with its defaults: for a comparison, not for a file."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.model import LearnerModel, Model, Probabilities
from p2p_labeldp.learning.weighted import all_labels, certain, fit_weighted, require_weights, seed_of
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.scenario import MODELS
from p2p_labeldp.scenario import Learner as Settings


@dataclass(frozen=True, eq=False)
class NamedModel(Probabilities):
    """A fitted classifier, which may not have met every label."""

    classifier: Any
    labels: int

    def predict_proba(self, features: Matrix) -> Doubles:
        known: NDArray[np.integer] = self.classifier.classes_
        return all_labels(np.asarray(self.classifier.predict_proba(features), dtype=np.float64), known, self.labels)


@lru_cache(maxsize=1)
def _classes() -> dict[str, Any]:
    from sklearn.utils import all_estimators

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(all_estimators(type_filter="classifier"))


def named_model(name: str) -> LearnerModel:
    """The record of scikit-learn's class of that name, or RequestError that says what is wrong with it."""
    found = _classes().get(name)
    if found is None:
        near = difflib.get_close_matches(name, [*MODELS, *_classes()], 1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise RequestError(
            f'learner.model = "{name}" is not allowed; it must be {", ".join(MODELS)} or the name of a classifier of '
            f"scikit-learn{hint}"
        )
    try:
        classifier = found()
    except TypeError:
        raise RequestError(f"learner.model = {name} is not allowed: it needs arguments, and gets none") from None
    require_weights(classifier, "learner.model")
    if not hasattr(classifier, "predict_proba"):
        raise RequestError(f"learner.model = {name} is not allowed: it tells no probabilities (predict_proba)")

    def fit(
        settings: Settings, features: Matrix, targets: Doubles, weights: Doubles | None, randomness: Randomness
    ) -> Model:
        fresh = found()
        if "random_state" in fresh.get_params():
            fresh.set_params(random_state=seed_of(randomness))
        fitted = fit_weighted(fresh, features, targets, weights)
        return certain(targets, features) if fitted is None else NamedModel(fitted, targets.shape[1])

    return LearnerModel(f"scikit-learn's {name}", fit)
