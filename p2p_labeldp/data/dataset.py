"""What every loader hands over: labelled examples of the users, and a test set.

Row i of ``features`` and ``labels`` belongs to user i. Features are public, labels private. A
``Dataset`` checks itself when it is made, so that nothing behind it has to ask again whether lengths
agree or a feature is NaN. ``Source`` is what a loader read before the scenario's choices (target,
number of users) are applied; it keeps images as bytes, so that drawing a few users from CIFAR-10 does
not cost a float copy of all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.scenario.schema import NO_SCHEMA, Column, Schema

Floats = NDArray[np.float32]
Probabilities = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """The users' examples, and the test examples. ``conditional`` is p(y|x), known for synthetic only.

    ``schema`` says how features are made from a row; where there is none, they are numbers as they are.
    """

    name: str
    features: Floats
    labels: Labels
    test_features: Floats
    test_labels: Labels
    classes: tuple[str, ...]
    given_clusters: Labels | None = None
    conditional: Probabilities | None = None
    test_conditional: Probabilities | None = None
    schema: Schema = NO_SCHEMA
    persons: Labels | None = None
    """Whose row each user's is, numbered from 0; None where everyone has one."""
    rows: Labels | None = None
    """Which row of a CSV file each user's is, counted from 0, and each test example's."""
    test_rows: Labels | None = None

    def __post_init__(self) -> None:
        if not self.schema:
            plain = Schema.numbers("x", self.features.shape[1], self.classes)
            object.__setattr__(self, "schema", plain)
        _check_examples("features", self.features, self.labels, len(self.classes))
        _check_examples("test_features", self.test_features, self.test_labels, len(self.classes))
        if self.features.shape[1] != self.test_features.shape[1]:
            raise ValueError(
                f"features have {self.features.shape[1]} columns, test_features {self.test_features.shape[1]}"
            )
        for name, conditional, rows in (
            ("conditional", self.conditional, len(self.labels)),
            ("test_conditional", self.test_conditional, len(self.test_labels)),
        ):
            if conditional is not None and conditional.shape != (rows, len(self.classes)):
                raise ValueError(f"{name} has shape {conditional.shape}, not {(rows, len(self.classes))}")
        if self.given_clusters is not None:
            _check_clusters(self.given_clusters, len(self.labels))
        if self.persons is not None and self.persons.shape != self.labels.shape:
            raise ValueError(f"persons has shape {self.persons.shape}, not {self.labels.shape}")

    @property
    def person_rows(self) -> int:
        """The most rows of one person."""
        return 1 if self.persons is None else int(np.bincount(self.persons).max(initial=1))


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as read: all training examples and the test set, features in their own type.

    Features are divided by ``scale`` when they become a ``Dataset``. ``columns`` are the schema's, of a table.
    """

    features: NDArray[Any]
    labels: Labels
    test_features: NDArray[Any]
    test_labels: Labels
    classes: tuple[str, ...]
    given_clusters: NDArray[Any] | None = None
    scale: float = 1.0
    columns: tuple[Column, ...] = ()
    persons: NDArray[Any] | None = None
    """Whose training example each is, where a person may have several."""
    rows: Labels | None = None
    """Which row of a CSV file each training example is, and each test example."""
    test_rows: Labels | None = None
    cluster_names: tuple[str, ...] = ()


def parted(
    features: NDArray[Any], labels: Labels, classes: tuple[str, ...], train: Labels, test: Labels, **facts: Any
) -> Source:
    """Examples as users' and test examples, by their rows; ``facts`` are other fields."""
    return Source(features[train], labels[train], features[test], labels[test], classes, **facts)


def compact(ids: NDArray[Any]) -> Labels:
    """The same partition with ids 0, 1, ... in the order of the old ids."""
    return np.unique(ids, return_inverse=True)[1].reshape(-1).astype(np.int64)


def codes(values: Sequence[str], classes: tuple[str, ...]) -> Labels:
    """Each value's place among the classes; a value that is no class raises ``KeyError``."""
    place = {name: index for index, name in enumerate(classes)}
    return np.fromiter((place[value] for value in values), dtype=np.int64, count=len(values))


def _check_examples(name: str, features: Floats, labels: Labels, label_count: int) -> None:
    if features.dtype != np.float32 or features.ndim != 2 or not features.flags.c_contiguous:
        raise ValueError(f"{name} must be a C-contiguous float32 matrix")
    if labels.dtype != np.int64 or labels.shape != (len(features),):
        raise ValueError(f"{name} has {len(features)} rows; its labels are {labels.dtype} {labels.shape}")
    # A sum is NaN or infinite whenever an entry is, and needs no array of booleans.
    with np.errstate(invalid="ignore"):
        total = features.sum(dtype=np.float64)
    if not np.isfinite(total):
        raise ValueError(f"{name} holds a value that is not finite")
    if len(labels) and not (labels.min() >= 0 and labels.max() < label_count):
        raise ValueError(f"labels of {name} must lie in 0..{label_count - 1}")


def _check_clusters(clusters: Labels, users: int) -> None:
    if clusters.dtype != np.int64 or clusters.shape != (users,):
        raise ValueError(f"given_clusters must be int64 of length {users}")
    if users and (clusters.min() < 0 or not np.bincount(clusters).all()):
        raise ValueError("given_clusters must use every id from 0 on")
