"""Users put into clusters by their public features: k-means, then small clusters merged.

A cluster below the minimum size would leave its users badly hidden, so it joins the nearest one. The
result is a partition of the user ids with cluster ids 0..C-1, none empty.

k-means runs on one thread, since the order in which threads add up would otherwise decide ties. Equal seeds
give equal clusters wherever numpy's linear algebra rounds alike; ``assignment_sha256`` of the manifest shows whether it
did.
"""

import heapq
import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Floats, compact
from p2p_labeldp.errors import RequestError
from p2p_labeldp.streams import Purpose, stream
from p2p_labeldp.threads import one_thread

# Sums are in double; this bounds the copy that it takes.
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, eq=False)
class Clustering:
    """``assignment[i]`` is user i's cluster, ``centres[c]`` the mean of its users' features.

    ``merged`` counts the clusters that were too small and joined another. ``cells`` are the centres that k-means
    ended with, before any were merged, and ``home`` is each cell's cluster: everyone is in the home of the cell that
    is nearest to her, which need not be true of ``centres``. Given clusters have no cells.
    """

    assignment: Labels
    centres: NDArray[np.float64]
    merged: int = 0
    cells: NDArray[np.float32] | None = None
    home: Labels | None = None

    @property
    def count(self) -> int:
        return len(self.centres)

    @property
    def sizes(self) -> Labels:
        return np.bincount(self.assignment, minlength=self.count).astype(np.int64)


def kmeans_clusters(features: Floats, count: int, minimum_size: int, seed: int) -> Clustering:
    """At most ``count`` k-means clusters (fewer where points coincide), small ones merged."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if not 1 <= count <= len(features):
        raise RequestError(f"clusters.count is {count}; between 1 and the number of users, {len(features)}")
    state = int(stream(seed, Purpose.KMEANS).integers(2**31))
    kmeans = KMeans(n_clusters=count, init="k-means++", n_init=1, random_state=state)
    with one_thread(), warnings.catch_warnings():
        # Fewer distinct points than clusters: the empty ones disappear below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = kmeans.fit(features).labels_
    clustering = given_clusters(features, compact(found), minimum_size)
    used = np.unique(found)
    return replace(clustering, cells=kmeans.cluster_centers_[used].astype(np.float32))


def given_clusters(features: Floats, assignment: Labels, minimum_size: int) -> Clustering:
    """The given partition (ids 0..C-1, none empty), small clusters merged."""
    if minimum_size < 1:
        raise RequestError(f"clusters.minimum_size is {minimum_size}; at least 1")
    sizes = np.bincount(assignment)
    centres = weighted_sums(features, np.ones(len(features)), assignment, len(sizes)) / sizes[:, None]
    home, centres = _merge_small(centres, sizes.astype(np.int64), minimum_size)
    return Clustering(home[assignment], centres, merged=len(sizes) - len(centres), home=home)


def weighted_sums(
    rows: NDArray[np.floating], weights: NDArray[np.float64], cluster: NDArray[np.integer], count: int
) -> NDArray[np.float64]:
    """The weighted sum of each cluster's rows, a block at a time since a copy in double precision may be large."""
    sums = np.zeros((count, rows.shape[1]))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        here = cluster[part]
        belongs = scipy.sparse.csr_array((weights[part], here, np.arange(len(here) + 1)), shape=(len(here), count))
        sums += np.asarray(belongs.T @ rows[part], dtype=np.float64)
    return sums


def _merge_small(centres: NDArray[np.float64], sizes: Labels, minimum_size: int) -> tuple[Labels, NDArray[np.float64]]:
    """Merges the smallest cluster into the nearest until none is too small or one is left.

    Returns the new id of each old cluster, and the new centres. Ties go to the lower id.
    """
    centres, sizes = centres.copy(), sizes.copy()
    home = np.arange(len(sizes))
    alive = np.ones(len(sizes), dtype=bool)
    small = [(int(size), cluster) for cluster, size in enumerate(sizes) if size < minimum_size]
    heapq.heapify(small)
    while small and alive.sum() > 1:
        size, cluster = heapq.heappop(small)
        if not alive[cluster] or size != sizes[cluster]:
            continue  # it has grown or gone since it was put here
        distances = ((centres - centres[cluster]) ** 2).sum(axis=1)
        distances[~alive] = np.inf
        distances[cluster] = np.inf
        nearest = int(distances.argmin())
        joint = sizes[cluster] + sizes[nearest]
        centres[nearest] += (centres[cluster] - centres[nearest]) * (sizes[cluster] / joint)
        sizes[nearest] = joint
        alive[cluster] = False
        home[home == cluster] = nearest
        if joint < minimum_size:
            heapq.heappush(small, (int(joint), nearest))
    return compact(home), centres[alive]
