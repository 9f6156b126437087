"""The models that ``learner.model`` can name: a module each, a plugin's, a classifier of scikit-learn by class name."""

from __future__ import annotations

import importlib

from p2p_labeldp.learning.model import LearnerModel
from p2p_labeldp.learning.models.plugged import tried
from p2p_labeldp.scenario import MODELS, Learner
from p2p_labeldp.scenario.extensions import added


def model_of(name: str) -> LearnerModel:
    """The record of the model that ``learner.model`` calls so, or RequestError."""
    outside = added("model", name)
    if outside is not None:
        return tried(outside.plugin, name, outside.record)
    if name in MODELS:
        found: LearnerModel = importlib.import_module(f"p2p_labeldp.learning.models.{name}").MODEL
        return found
    from p2p_labeldp.learning.models.named import named_model

    return named_model(name)


def require_model(settings: Learner) -> None:
    """Raise RequestError where ``learner.model`` names none that can be fitted: before anything is computed."""
    model_of(settings.model)
