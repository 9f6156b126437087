"""Algorithm 1 on arrays: a trusted curator's noisy cluster distributions, and labels redrawn from them.

    q = clip(p_hat + noise of scale sigma / n_c, tau, 1), renormalised so that no entry leaves [tau, 1]
    each label is replaced, with probability lambda, by a draw from its cluster's q
    the learner fits the soft target (onehot(y) - beta q) / (1 - beta)

**Privacy** covers q and the noisy labels together. Replacing a label moves one of the cluster's counts down and
another up, by 2 in total, so noise of scale sigma on counts costs 2/sigma (the paper says 1/sigma, which is
wrong). Given q, a label comes out with probability at least lambda tau whatever it was, and at most 1 - lambda
more if it was that label: log(1 + (1-lambda)/(lambda tau)).

**The soft target** needs no matrix inverse. The redrawing's matrix is (1-beta) I + beta q 1^T, and since 1^T q
= 1 its inverse is (I - beta q 1^T) / (1 - beta). Its entries sum to 1, their absolute values to
(1+beta)/(1-beta) at most. Some are negative, so the learner needs l2 > 0.

``lambda`` is called ``chance`` in code. Noise is discrete: see ``exact``. tau must be a public choice: one computed
from the labels already tells something about them that no epsilon here covers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.mechanisms.coins import Randomness
from p2p_labeldp.mechanisms.exact import bernoulli, discrete_laplace
from p2p_labeldp.privacy.paper import centralized_epsilon

Shares = NDArray[np.float64]


def cluster_counts(labels: Labels, clusters: Labels, label_count: int, cluster_count: int) -> NDArray[np.int64]:
    """How many users of each cluster hold each label, (C, K)."""
    cells = np.bincount(clusters * label_count + labels, minlength=cluster_count * label_count)
    return cells.reshape(cluster_count, label_count).astype(np.int64)


def noisy_shares(counts: NDArray[np.int64], sigma: float, tau: float, randomness: Randomness) -> Shares:
    """q(y|c) of every cluster from its counts (C, K).

    With sigma = inf the counts are not looked at and q is uniform: as private as infinite noise, and steadier.
    So is the q of a cluster with nobody in it.
    """
    clusters, label_count = counts.shape
    if sigma == math.inf:
        return np.full((clusters, label_count), 1 / label_count)
    sizes = counts.sum(axis=1, keepdims=True)
    noise = discrete_laplace(sigma, counts.size, randomness.integers)
    q = renormalised((counts + noise.reshape(counts.shape)) / np.maximum(sizes, 1), tau)
    q[sizes[:, 0] == 0] = 1 / label_count
    return q


def renormalised(raw: Shares, tau: float) -> Shares:
    """Rows clipped to [tau, 1], then moved to sum to 1 in proportion to the room each entry has."""
    q = np.clip(raw, tau, 1.0)
    gap = 1.0 - q.sum(axis=1, keepdims=True)
    slack = np.where(gap < 0, q - tau, 1.0 - q)
    room = slack.sum(axis=1, keepdims=True)
    q += np.divide(slack, room, out=np.zeros_like(slack), where=room > 0) * gap
    # Rounding alone can have left the interval.
    return np.clip(q, tau, 1.0, out=q)


def resampled(labels: Labels, clusters: Labels, q: Shares, chance: float, randomness: Randomness) -> Labels:
    """Each label, replaced with probability ``chance`` by a draw from its cluster's q."""
    replaced = np.flatnonzero(bernoulli(np.full(len(labels), chance), randomness.integers))
    noisy = labels.copy()
    noisy[replaced] = drawn_labels(q, clusters[replaced], randomness)
    return noisy


def drawn_labels(q: Shares, clusters: Labels, randomness: Randomness) -> Labels:
    """One draw from q for each cluster named; column by column, so that memory does not grow with K."""
    uniform = randomness.uniform(len(clusters))
    below = np.cumsum(q, axis=1)
    drawn = np.zeros(len(clusters), dtype=np.int64)
    for column in range(q.shape[1] - 1):
        drawn += uniform >= below[clusters, column]
    return drawn


def _least_share(tau: float, label_count: int) -> float:
    """The least probability of a label in `drawn_labels`: tau, less the rounding of sums and of 53-bit draws."""
    return tau - label_count * 2.0**-52


def spent_epsilon(sigma: float, tau: float, chance: float, label_count: int) -> float:
    """What the release of q and the noisy labels costs, corrected, with the rounding of draws from q included."""
    return centralized_epsilon(sigma, _least_share(tau, label_count), chance)


def chance_for(cost: float, tau: float, label_count: int) -> float:
    """The least lambda whose redrawing costs at most ``cost``: 1 / (1 + tau (e^cost - 1)), rounded up."""
    least = max(_least_share(tau, label_count), 0.0)
    chance = 1 / (1 + least * math.expm1(cost))
    while chance < 1 and spent_epsilon(math.inf, tau, chance, label_count) > cost:
        chance = math.nextafter(chance, 1.0)
    return chance
