"""How well clusters stand in for their users' labels: phi, psi and purity.

phi, the heterogeneity, is E_x sum_y |p(y|x) - p(y|c_x)|: what is lost when a user's label distribution is
replaced by her cluster's. It needs p(y|x), so it is known for synthetic data only. psi, the distortion of a
released q, is max_c sum_y |q(y|c) - p_hat(y|c)| against the labels the cluster really holds.
"""

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Probabilities


def phi(conditional: Probabilities, clusters: Labels) -> float:
    """The cluster heterogeneity, between 0 (alike inside every cluster) and 2."""
    sizes = np.bincount(clusters)
    distance = np.zeros(len(clusters))
    for column in conditional.T:
        sums = np.bincount(clusters, weights=column)
        mean = np.divide(sums, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        distance += np.abs(column - mean[clusters])
    return float(distance.mean())


def cluster_shares(labels: Labels, clusters: Labels, label_count: int) -> Probabilities:
    """p_hat(y|c) as a (C, K) matrix; a cluster with nobody in it gets uniform shares."""
    counts = _counts(labels, clusters, label_count)
    sizes = counts.sum(axis=1, keepdims=True)
    return np.where(sizes > 0, counts / np.maximum(sizes, 1), 1 / label_count)


def psi(q: Probabilities, labels: Labels, clusters: Labels, label_count: int) -> float:
    """The cluster distortion of ``q`` (C, K), over the clusters that somebody is in."""
    shares = cluster_shares(labels, clusters, label_count)
    if q.shape[1:] != (label_count,) or len(q) < len(shares):
        raise ValueError(f"q has shape {q.shape}, not {shares.shape}")
    occupied = np.bincount(clusters) > 0
    return float(np.abs(q[: len(shares)] - shares).sum(axis=1)[occupied].max())


def purity(labels: Labels, clusters: Labels, label_count: int) -> float:
    """The share of users who hold the most frequent label of their cluster."""
    return float(_counts(labels, clusters, label_count).max(axis=1).sum() / len(labels))


def _counts(labels: Labels, clusters: Labels, label_count: int) -> NDArray[np.int64]:
    if not len(labels):
        raise ValueError("no user, no cluster")
    pairs = clusters * label_count + labels
    cells = (int(clusters.max()) + 1) * label_count
    return np.bincount(pairs, minlength=cells).reshape(-1, label_count).astype(np.int64)
