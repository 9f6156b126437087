"""Models from plugins, tried on a few rows before anything is run: what breaks its contract is refused in one line.

A plugin's model sees what every model sees, features and soft targets that the mechanism released, so that it changes
no guarantee.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.model import LearnerModel, Storage
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.scenario import SECTIONS
from p2p_labeldp.streams import Purpose, stream

FEATURES = np.array([[0.0, 1.0], [1.0, 0.0], [0.2, 0.9], [0.8, 0.1], [0.5, 0.5], [0.4, 0.7]], dtype=np.float32)
# Flips that were undone leave negative entries; weights are the reports that a row stands for.
TARGETS = np.array([[1.2, -0.1, -0.1], [-0.1, 1.2, -0.1], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5], [1, 0, 0]])
WEIGHTS = np.array([1.0, 2.0, 1.0, 1.0, 3.0, 1.0])


@cache
def tried(plugin: str, name: str, record: LearnerModel) -> LearnerModel:
    """The record, once its model was fitted to a few rows and said something of others. RequestError otherwise."""
    shown = f"plugin {Path(plugin).name}: model {name}"
    settings = SECTIONS["learner"](model=name)
    try:
        model = record.fit(settings, FEATURES, TARGETS, WEIGHTS, SeededRandomness(stream(0, Purpose.LEARNER)))
        chances, labels = model.predict_proba(FEATURES), model.predict(FEATURES)
        fault = _fault(np.asarray(chances), np.asarray(labels))
        if not fault and record.storage is not None:
            fault = _storage_fault(record.storage, model, np.asarray(chances))
    except Exception as error:
        raise RequestError(f"{shown}: failed on a few rows: {type(error).__name__}: {error}") from None
    if fault:
        raise RequestError(f"{shown}: {fault}")
    return record


def _fault(chances: Any, labels: Any) -> str:
    """What is wrong with its predictions; empty where nothing is."""
    shape = TARGETS.shape
    if chances.shape != shape:
        return f"predict_proba gives shape {chances.shape}, not {shape}: a column for each label"
    if not np.isfinite(chances).all() or (chances < 0).any() or not np.allclose(chances.sum(axis=1), 1, atol=1e-6):
        return "predict_proba gives rows that are no probabilities: they must be at least 0 and sum to 1"
    if labels.shape != shape[:1] or not np.isin(labels, np.arange(shape[1])).all():
        return "predict must give one label for each row, from 0 to the number of labels less 1"
    return ""


def _storage_fault(storage: Storage, model: Any, chances: Any) -> str:
    if not isinstance(model, storage.of):
        return f"its storage is of {storage.of.__name__}, but the model is a {type(model).__name__}"
    arrays = storage.to_arrays(model)
    if any(not isinstance(array, np.ndarray) or array.dtype.hasobject for array in arrays.values()):
        return "its storage must give arrays of numbers"
    again = storage.from_arrays(arrays, TARGETS.shape[1], FEATURES.shape[1])
    same = np.array_equal(np.asarray(again.predict_proba(FEATURES)), chances)
    return "" if same else "what its storage gives back predicts something else"
