"""Data sets, clusters of users by their public features, and the quality of such clusters.

``load`` is the way in: a scenario's ``[data]`` section and a seed give a ``Dataset``. The same section,
seed and files give the same bytes. Standardised tables and pixels in [0, 1] are what k-means and the
learner expect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.bundled import load_breast_cancer, load_digits
from p2p_labeldp.data.clusters import Clustering, given_clusters, kmeans_clusters
from p2p_labeldp.data.crowd import Crowd
from p2p_labeldp.data.csvfile import load_csv
from p2p_labeldp.data.dataset import Dataset, Floats, Source, compact
from p2p_labeldp.data.images import load_cifar10, load_fashion_mnist, load_mnist
from p2p_labeldp.data.synthetic import make_synthetic
from p2p_labeldp.data.tables import load_adult, load_diabetes130
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data
from p2p_labeldp.streams import Purpose, stream

__all__ = ["Clustering", "Crowd", "Dataset", "given_clusters", "kmeans_clusters", "load", "load_crowd"]


@dataclass(frozen=True)
class Target:
    """A question with fewer answers: ``answer[y]`` is the new label of the data set's label y."""

    classes: tuple[str, ...]
    answer: tuple[int, ...]


_PARITY = Target(("even", "odd"), (0, 1) * 5)
TARGETS: dict[str, dict[str, Target]] = {
    "digits": {"parity": _PARITY},
    "mnist": {"parity": _PARITY},
    "diabetes130": {
        "early": Target(("not within 30 days", "within 30 days"), (0, 0, 1)),
        "any": Target(("not readmitted", "readmitted"), (0, 1, 1)),
    },
}

_SOURCES: dict[str, Callable[[Data, int, Path | None], Source]] = {
    "digits": lambda data, seed, data_dir: load_digits(seed, data.test_fraction),
    "breast_cancer": lambda data, seed, data_dir: load_breast_cancer(seed, data.test_fraction),
    "mnist": lambda data, seed, data_dir: load_mnist(data_dir),
    "fashion_mnist": lambda data, seed, data_dir: load_fashion_mnist(data_dir),
    "cifar10": lambda data, seed, data_dir: load_cifar10(data_dir),
    "adult": lambda data, seed, data_dir: load_adult(data_dir),
    "diabetes130": lambda data, seed, data_dir: load_diabetes130(data_dir, seed, data.test_fraction),
    "csv": lambda data, seed, data_dir: load_csv(
        data.path, data.label_column, data.cluster_column, data_dir, seed, data.test_fraction
    ),
}


def load(data: Data, seed: int, data_dir: Path | None = None) -> Dataset:
    """The data set a scenario asks for; see ``files`` for where its files are looked for."""
    if data.name == "crowd":
        return load_crowd(data, seed).dataset(data.test_fraction)
    _check(data)
    if data.name == "synthetic":
        return make_synthetic(data, seed)
    source = _SOURCES[data.name](data, seed, data_dir)
    chosen = _choose_users(data, len(source.labels), seed)
    return _dataset(data.name, source, chosen, TARGETS.get(data.name, {}).get(data.target))


def load_crowd(data: Data, seed: int) -> Crowd:
    """The recipe of the crowd a scenario asks for, from which any part of it can be made."""
    _check(data)
    return Crowd.of(data, seed)


def _check(data: Data) -> None:
    if data.name not in ("synthetic", "crowd") and data.name not in _SOURCES:
        raise RequestError(f"data.name is {data.name!r}; allowed are {', '.join([*_SOURCES, 'synthetic', 'crowd'])}")
    offered = TARGETS.get(data.name, {})
    if data.target != "class" and data.target not in offered:
        raise RequestError(f"data.target is {data.target!r}; {data.name} offers {', '.join(['class', *offered])}")
    if not 0 < data.test_fraction < 1:
        raise RequestError(f"data.test_fraction is {data.test_fraction}; between 0 and 1, both excluded")
    if data.users < 0:
        raise RequestError(f"data.users is {data.users}; at least 0 (0 takes all)")


def _choose_users(data: Data, available: int, seed: int) -> NDArray[np.int64]:
    """The rows that become users, in the data's order."""
    if data.users > available:
        raise RequestError(
            f"data.users is {data.users}, but {data.name} has {available} training examples: "
            f"at most {available}, or 0 for all"
        )
    if data.users in (0, available):
        return np.arange(available)
    return np.sort(stream(seed, Purpose.USERS).permutation(available)[: data.users])


def _dataset(name: str, source: Source, chosen: NDArray[np.int64], target: Target | None) -> Dataset:
    labels, test_labels, classes = source.labels[chosen], source.test_labels, source.classes
    if target is not None:
        answer = np.array(target.answer, dtype=np.int64)
        labels, test_labels, classes = answer[labels], answer[test_labels], target.classes
    return Dataset(
        name=name,
        features=_floats(source.features[chosen], source.scale),
        labels=labels,
        test_features=_floats(source.test_features, source.scale),
        test_labels=test_labels,
        classes=classes,
        given_clusters=None if source.given_clusters is None else compact(source.given_clusters[chosen]),
    )


def _floats(features: NDArray[Any], scale: float) -> Floats:
    floats = np.ascontiguousarray(features, dtype=np.float32)
    return floats if scale == 1.0 else floats / np.float32(scale)
