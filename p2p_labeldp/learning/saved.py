"""A saved model as an estimator of scikit-learn."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.data.rows import Named, read_rows
from p2p_labeldp.data.tabular import Outside, encode
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.model_file import FILE, StoredModel, read_model

_MANIFEST, _CARD = "manifest.json", "model-card.md"


class SavedModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that a study has left. It is fitted: ``fit`` leaves it as it is, a clone is the same model.

    ``X`` is either a matrix of features as the schema makes them, or rows by the names of their columns: a data frame,
    a mapping of names to columns, or a list of mappings. A value that the schema does not allow raises RequestError.

    Attributes
    ----------
    classes_, n_features_in_ : as everywhere in scikit-learn.
    schema : how features are made from a row.
    """

    def __init__(self, stored: StoredModel) -> None:
        self.stored = stored

    @property
    def schema(self) -> Any:
        return self.stored.schema

    @property
    def classes_(self) -> NDArray[Any]:
        return np.array(self.stored.schema.classes)

    @property
    def n_features_in_(self) -> int:
        return self.stored.schema.features

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> SavedModel:
        return self

    def fit(self, X: Any, y: Any = None) -> SavedModel:
        return self

    def features(self, X: Any) -> Matrix:
        """Rows as features; a matrix is taken for features already."""
        columns = _columns(X, self.schema.names)
        if columns is None:
            found: Matrix = np.asarray(X)
            if found.ndim != 2 or found.shape[1] != self.n_features_in_ or found.dtype.kind not in "fiu":
                raise RequestError(
                    f"X must be rows by column name, or a matrix with {self.n_features_in_} features; "
                    f"it is {found.dtype} of shape {found.shape}"
                )
            if not np.isfinite(found).all():
                raise RequestError("X holds a number that is not finite")
            return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)
        try:
            return encode(self.schema, columns)
        except Outside as found_outside:
            raise RequestError(f"row {found_outside.row}, column {found_outside.column}: {found_outside.why}") from None

    def predict(self, X: ArrayLike | Any) -> NDArray[Any]:
        best: NDArray[Any] = self.classes_[self.stored.model.predict(self.features(X))]
        return best

    def predict_proba(self, X: ArrayLike | Any) -> Doubles:
        return self.stored.model.predict_proba(self.features(X))


def _columns(X: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """The schema's columns of a table in any of the usual forms; None where X has no names."""
    if isinstance(X, Mapping) or hasattr(X, "columns"):
        table = X
    elif isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        table = {name: [row.get(name, "") for row in X] for name in {key for row in X for key in row}}
    else:
        return None
    missing = next((name for name in names if name not in table), None)
    if missing is not None:
        raise RequestError(f"X has no column {missing}, which the model's schema names")
    return {name: _values(table[name]) for name in names}


def _values(column: Any) -> Any:
    found = np.asarray(column)
    return found.astype(np.float64) if found.dtype.kind in "fiu" else [str(value) for value in found.tolist()]


def find_model(path: Path) -> Path:
    """The model file of a run folder, or the file itself."""
    if not path.is_dir():
        return path
    found = path / FILE
    if not found.exists():
        raise RequestError(f"{path}: there is no {FILE} in it; nothing was learned there, or it is no run folder")
    return found


def load_model(path: Path | str) -> SavedModel:
    """The model in a file, to which a manifest or a card beside it must belong; nothing in it is executed."""
    found = find_model(Path(path))
    stored = read_model(found)
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    for name in (_MANIFEST, _CARD):
        beside = found.with_name(name)
        try:
            told = beside.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            raise RequestError(f"{beside}: cannot be read, so that nobody can tell whether {FILE} is its") from None
        if digest not in told:
            raise RequestError(f"{found}: the model was altered: {name} beside it names another one")
    return SavedModel(stored)


def predicted(model: SavedModel, path: Path) -> tuple[NDArray[Any], Doubles, float | None]:
    """Labels and probabilities of a CSV file's rows; where it has the labels too, how many are right."""
    rows = read_rows(path, model.schema, Named(model.stored.label_column), use="new")
    chances = model.stored.model.predict_proba(rows.features)
    best = model.stored.model.predict(rows.features)
    accuracy = None if rows.labels is None else float((best == rows.labels).mean())
    return model.classes_[best], chances, accuracy


def write_predictions(file: Any, classes: Sequence[str], labels: NDArray[Any], chances: Doubles) -> None:
    """CSV: the label of each row, then the probability of each class."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["label", *(f"p({name})" for name in classes)])
    for label, row in zip(labels.tolist(), chances.tolist(), strict=True):
        writer.writerow([label, *(f"{chance:.6g}" for chance in row)])
