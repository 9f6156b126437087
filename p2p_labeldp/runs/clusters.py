"""Clusters of the users present, as a scenario asks for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.clusters import kmeans_clusters
from p2p_labeldp.errors import RequestError
from p2p_labeldp.runs.shared import Shared, digest_of
from p2p_labeldp.scenario import Scenario


class ClusterPlan:
    """What the scenario makes of public features; remembers how it went for the summary.

    Clusters of the features that ``shared`` holds are looked for there first.
    """

    def __init__(
        self, scenario: Scenario, users: int, given: NDArray[np.int64] | None, shared: Shared | None = None
    ) -> None:
        self.merged = 0
        self._find, self._digest = (
            (kmeans_clusters, digest_of) if shared is None else (shared.clustering, shared.digest)
        )
        self._users = users
        self._known: NDArray[np.int64] | None = None
        self._claimed = b""  # a digest of the features that they were found from
        self._cells: list[tuple[int, NDArray[np.float32]]] = []
        self._settings = scenario.clusters
        self._seed = scenario.data_seed
        self._given = given
        if self._settings.method == "given" and self._given is None:
            name = scenario.data.name
            raise RequestError(
                f'clusters.method = "given" is not allowed: data set "{name}" names no clusters; use "kmeans"'
            )
        count = self._settings.count
        if self._settings.method == "kmeans" and count > users:
            raise RequestError(f"clusters.count = {count} is not allowed; it must be at most the users, {users}")

    def __call__(self, ids: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.int64]:
        """Clusters of the users present; those of everyone are found once, unless someone claims other features."""
        if len(ids) < self._users:
            return self._cluster(ids, features)
        claimed = b"" if self._settings.method == "given" else self._digest(features)
        if self._known is None or claimed != self._claimed:
            self._known, self._claimed = self._cluster(ids, features), claimed
        return self._known

    def centres(self) -> list[tuple[int, NDArray[np.float32]]]:
        """The cells of the newest clustering, each with its cluster; none where clusters are given."""
        return self._cells

    def _cluster(self, ids: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.int64]:
        if self._settings.method == "given":
            assert self._given is not None
            return np.unique(self._given[ids], return_inverse=True)[1].astype(np.int64)
        count = min(self._settings.count, len(ids))
        found = self._find(features, count, self._settings.minimum_size, self._seed)
        self.merged = found.merged
        assert found.home is not None
        assert found.cells is not None
        self._cells = list(zip(found.home.tolist(), found.cells, strict=True))
        return found.assignment
