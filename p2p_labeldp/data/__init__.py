"""Data sets, clusters of users by their public features, and the quality of such clusters.

``load`` is the way in: a scenario's ``[data]`` section and a seed give a ``Dataset``. The same section,
seed and files give the same bytes. Standardised tables and pixels in [0, 1] are what k-means and the
learner expect.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.clusters import Clustering, given_clusters, kmeans_clusters
from p2p_labeldp.data.dataset import Dataset, Floats, Source, compact
from p2p_labeldp.data.record import DataSet, Target
from p2p_labeldp.data.rows import by_person
from p2p_labeldp.data.sets import data_set_of
from p2p_labeldp.data.sets.crowd import Crowd
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data, Schema
from p2p_labeldp.streams import Purpose, stream

__all__ = ["Clustering", "Crowd", "Dataset", "data_set_of", "given_clusters", "kmeans_clusters", "load", "load_crowd"]


def load(data: Data, seed: int, data_dir: Path | None = None) -> Dataset:
    """The data set a scenario asks for; see ``files`` for where its files are looked for."""
    record = data_set_of(data.name)
    _check(data, record)
    found = record.load(data, seed, data_dir)
    if isinstance(found, Dataset):
        return found
    chosen = _choose_users(data, _by_person(data, found), seed)
    return _dataset(data.name, found, chosen, record.targets.get(data.target), data.schema)


def load_crowd(data: Data, seed: int) -> Crowd:
    """The recipe of the crowd a scenario asks for, from which any part of it can be made."""
    _check(data, data_set_of(data.name))
    return Crowd.of(data, seed)


def _check(data: Data, record: DataSet) -> None:
    offered = record.targets
    if data.target != "class" and data.target not in offered:
        raise RequestError(f"data.target is {data.target!r}; {data.name} offers {', '.join(['class', *offered])}")
    if not 0 < data.test_fraction < 1:
        raise RequestError(f"data.test_fraction is {data.test_fraction}; between 0 and 1, both excluded")
    if data.users < 0:
        raise RequestError(f"data.users is {data.users}; at least 0 (0 takes all)")


def _by_person(data: Data, source: Source) -> NDArray[np.int64]:
    """The rows that may become users: in the data's order, those of one person together, or her first alone."""
    if source.persons is None:
        return np.arange(len(source.labels))
    return by_person(source.persons, data.person_rows)


def _choose_users(data: Data, rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The rows that become users, in the order of ``rows``."""
    available = len(rows)
    if data.users > available:
        raise RequestError(
            f"data.users is {data.users}, but {data.name} has {available} training examples: "
            f"at most {available}, or 0 for all"
        )
    if data.users in (0, available):
        return rows
    return rows[np.sort(stream(seed, Purpose.USERS).permutation(available)[: data.users])]


def _dataset(name: str, source: Source, chosen: NDArray[np.int64], target: Target | None, given: Schema) -> Dataset:
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
        schema=_schema(name, source, classes, given),
        persons=None if source.persons is None else compact(source.persons[chosen]),
        rows=None if source.rows is None else source.rows[chosen],
        test_rows=source.test_rows,
    )


def _schema(name: str, source: Source, classes: tuple[str, ...], given: Schema) -> Schema:
    """The scenario's, or the one that was found when the source was read."""
    if given and name == "csv":
        return given
    if source.columns:
        found = Schema(columns=source.columns, classes=classes, clusters=source.cluster_names)
    else:
        found = Schema.numbers("pixel", source.features.shape[1], classes, high=source.scale)
    if given and (given.columns, given.classes) != (found.columns, found.classes):
        raise RequestError(f"data.schema is not that of {name} with these users; leave it out, it is known")
    return found


def _floats(features: NDArray[Any], scale: float) -> Floats:
    floats = np.ascontiguousarray(features, dtype=np.float32)
    return floats if scale == 1.0 else floats / np.float32(scale)
