"""What every model offers, and the record of a model that ``learner.model`` can name.

Each module of ``learning.models`` has one record, ``MODEL``. It fits soft targets and, where the model is made of plain
arrays, turns it into arrays and back, so that a file of it holds nothing that is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Labels, Matrix
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.scenario import Learner as Settings

Arrays = Mapping[str, NDArray[Any]]
Axes = tuple[str, ...]
"""An array's type, then its axes: those of one name are as long as each other, be it in other arrays."""


class Model(Protocol):
    """What a fit gives."""

    def predict(self, features: Matrix) -> Labels: ...
    def predict_proba(self, features: Matrix) -> Doubles: ...


class Probabilities:
    """A model that says what is likely; the rest follows."""

    def predict_proba(self, features: Matrix) -> Doubles:
        raise NotImplementedError

    def predict(self, features: Matrix) -> Labels:
        """The most probable label, the lowest one of equals."""
        best: Labels = self.predict_proba(features).argmax(axis=1).astype(np.int64)
        return best


class Fit(Protocol):
    """Features (n, d), targets (n, K) whose rows sum to 1, weights of the rows: a model of all K labels."""

    def __call__(
        self, settings: Settings, features: Matrix, targets: Doubles, weights: Doubles | None, randomness: Randomness
    ) -> Model: ...


@dataclass(frozen=True)
class Storage:
    """How a model becomes arrays, and arrays a model."""

    of: type
    to_arrays: Callable[[Any], dict[str, NDArray[Any]]]
    from_arrays: Callable[[Arrays, int, int], Model]
    """Of arrays, the number of labels and of features; ValueError or KeyError where they do not fit each other."""

    @classmethod
    def of_fields(cls, model: type, layout: Mapping[str, Axes], check: Callable[[Any, int], None]) -> Storage:
        """Of a model whose fields are arrays. ``check`` gets it and the number of features, and raises
        ValueError where the values are none of a model."""

        def from_arrays(arrays: Arrays, labels: int, features: int) -> Model:
            lengths = {"labels": labels, "features": features}
            for name, (dtype, *axes) in layout.items():
                array = arrays[name]
                fits = array.dtype == dtype and array.ndim == len(axes)
                for axis, length in zip(axes, array.shape, strict=False):
                    fits = fits and lengths.setdefault(axis, length) == length
                if not fits:
                    raise ValueError(f"{name}, {array.dtype} of shape {array.shape}, does not fit the schema")
            found: Model = model(**{name: arrays[name] for name in layout})
            check(found, features)
            return found

        return cls(model, lambda found: {name: getattr(found, name) for name in layout}, from_arrays)


@dataclass(frozen=True)
class LearnerModel:
    """The record of a model."""

    words: str
    """With its article."""
    fit: Fit
    storage: Storage | None = None
    """None where no file of it is safe to load."""
