"""What all runs of one data set have in common, found once in a process: examples, clusters, the non-private model.

None of it depends on a mechanism or on its coins, and most of the time of a comparison would be spent on it. It is
known by its content: the scenario's ``[data]`` section, its seed, and when its files were changed; clusters and models
by what they were computed from. One data set is kept, the newest, so that memory is that of a single run; its arrays
are read-only, since several runs look at them.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data import Clustering, Dataset, kmeans_clusters, load
from p2p_labeldp.data.sets import places, stamp
from p2p_labeldp.learning import Metrics, baseline, measured, model_of, one_hot
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.scenario import Learner, Scenario
from p2p_labeldp.streams import Purpose, stream


class Shared:
    """A data set, and what has been found of it so far."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._clusterings: dict[tuple[int, int, int], Clustering] = {}
        self._nonprivate: dict[Learner, Metrics] = {}
        for array in (dataset.features, dataset.labels, dataset.test_features, dataset.test_labels):
            array.flags.writeable = False

    @cached_property
    def _own(self) -> bytes:
        return digest_of(self.dataset.features)

    def digest(self, features: NDArray[np.float32]) -> bytes:
        """As ``digest_of``; that of the data set's own features is found once."""
        return self._own if features is self.dataset.features else digest_of(features)

    def clustering(self, features: NDArray[np.float32], count: int, minimum_size: int, seed: int) -> Clustering:
        """k-means of features, found once for those of the data set; labels have no part in it."""
        if self.digest(features) != self._own:
            return kmeans_clusters(features, count, minimum_size, seed)
        key = count, minimum_size, seed
        if key not in self._clusterings:
            self._clusterings[key] = kmeans_clusters(features, count, minimum_size, seed)
        return self._clusterings[key]

    def nonprivate(self, learner: Learner) -> Metrics:
        """Of the model that is fitted to everyone's true label; a model's own randomness is the same in all runs."""
        key = replace(learner, correct_flips=True, robust=0.0)  # of which true labels have no use
        if key not in self._nonprivate:
            data = self.dataset
            targets = one_hot(data.labels, len(data.classes))
            randomness = SeededRandomness(stream(0, Purpose.LEARNER))
            model = model_of(learner.model).fit(learner, data.features, targets, None, randomness)
            self._nonprivate[key] = measured(model, data.test_features, data.test_labels)
        return self._nonprivate[key]

    @cached_property
    def majority(self) -> Metrics:
        """Of always guessing the commonest label."""
        return baseline(self.dataset.labels, self.dataset.test_labels, len(self.dataset.classes))

    def baselines(self, learner: Learner) -> dict[str, Any]:
        """The fields of a summary that a run's metrics are compared with."""
        nonprivate, majority = self.nonprivate(learner), self.majority
        return {
            "nonprivate_accuracy": nonprivate.accuracy,
            "nonprivate_metrics": nonprivate,
            "majority_accuracy": majority.accuracy,
            "majority_metrics": majority,
        }


_newest: dict[object, Shared] = {}


def shared(scenario: Scenario, data_dir: Path | None = None) -> Shared:
    """The scenario's data set with what earlier runs in this process found of it."""
    data, folder = scenario.data, None if data_dir is None else data_dir.resolve()
    files = places(data.name, data.path, data_dir).values()
    key = data, scenario.data_seed, folder, tuple((place, stamp(place)) for place in files if place is not None)
    if key not in _newest:
        _newest.clear()  # before the next one is loaded: there is memory for one
        _newest[key] = Shared(load(data, scenario.data_seed, data_dir))
    return _newest[key]


def digest_of(features: NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(features).data).digest()
