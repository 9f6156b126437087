"""Robust learning: part of the reports of outlying clusters is moved to what the others suggest.

Reports of one cluster are draws from its users' labels, whoever sends them, so that all the learner has to
judge is one share of each label per cluster. Clusters differ, and that is what there is to learn. What liars
in one cluster cannot help is that its share no longer follows from its features as the others' shares do.

Each cluster's shares are predicted from the centres and shares of the *other* clusters, by ridge regression
with the strength that predicts best (the mean of the others, where features tell nothing). The ``robust`` share
of clusters with most left over, summed over labels, may stand out no more than the next one does: of labels they
report too often, the surplus becomes those they report too seldom. Cutting label by label instead would cut
almost every cluster where there are many labels, each common in few of them.

So liars in few clusters move these no further from the prediction than honest clusters are. That is much where
clusters predict each other, and nothing where labels change abruptly between neighbours (a dozen clusters of
digits). Of few clusters, a large one that lies can make honest ones stand out instead, which helps the liars.
Liars spread over all clusters shift every share alike, and nothing stands out. When nobody lies, clusters that
rightly stand out are cut back too: that is its price, the highest where few clusters hold what there is to
learn, such as a rare disease. ``benchmarks/poisoning.py`` measures all of this.

One thread, so that the result does not depend on the machine's number of cores.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.data.clusters import weighted_sums
from p2p_labeldp.threads import one_thread

_STRENGTHS = 10.0 ** np.arange(-5, 3)  # of the ridge, times the features' largest variance


def trimmed_reports(
    targets: Doubles, weights: Doubles, clusters: NDArray[np.integer], features: Matrix, robust: float
) -> Doubles:
    """The same reports with the shares of outlying clusters cut back; rows still sum to 1.

    ``targets`` are shares of labels, none negative: flips are undone afterwards. ``weights`` are what each row counts.
    """
    ids, place = np.unique(clusters, return_inverse=True)
    cut = min(math.ceil(robust * len(ids)), len(ids) - 1)
    if cut == 0:
        return targets
    mass: Doubles = np.bincount(place, weights).astype(np.float64)
    shares, centres = (weighted_sums(rows, weights, place, len(ids)) / mass[:, None] for rows in (targets, features))
    with one_thread():
        allowed = _within(shares, leftovers(shares, centres, mass), cut)
    kept = np.divide(np.minimum(shares, allowed), shares, out=np.ones_like(shares), where=shares > 0)
    wanted = np.clip(allowed - shares, 0.0, None)
    rows = np.flatnonzero((wanted.sum(axis=1) > 0)[place])
    here = place[rows]
    stays = targets[rows] * kept[here]
    moves = wanted[here] / wanted[here].sum(axis=1, keepdims=True)
    found = targets.copy()
    found[rows] = stays + np.clip(1 - stays.sum(axis=1, keepdims=True), 0.0, None) * moves  # rounding may leave -1e-16
    return found


def leftovers(shares: Doubles, centres: Doubles, mass: Doubles) -> Doubles:
    """What of each cluster's shares the other clusters do not predict.

    Ridge regression is linear in what it fits, so that leaving a point out divides its residual by one minus
    its leverage. The intercept is free; its leverage is the cluster's part of all weight.
    """
    part = mass / mass.sum()
    root = np.sqrt(part)[:, None]
    scaled, fitted = root * (centres - part @ centres), root * (shares - part @ shares)
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    values = np.clip(values, 0.0, None)
    best, least = fitted / (1 - part)[:, None], math.inf
    for strength in [math.inf, *(_STRENGTHS[::-1] * values[-1])]:
        shrink = np.zeros_like(values) if values[-1] == 0 or math.isinf(strength) else values / (values + strength)
        fit = vectors @ (shrink[:, None] * (vectors.T @ fitted))
        leverage = part + (vectors**2) @ shrink
        left = (fitted - fit) / (1 - leverage)[:, None]
        error = float((root * np.abs(left)).sum())  # absolute, lest one lying cluster decides
        if error < least:
            best, least = left, error
    found: Doubles = best / root
    return found


def _within(shares: Doubles, left: Doubles, cut: int) -> Doubles:
    """The shares, where those of the ``cut`` clusters with most left over stand out no more than the next one's."""
    sizes = np.abs(left).sum(axis=1)
    most = np.sort(sizes)[-1 - cut]
    excess = np.clip(1 - most / np.maximum(sizes, 1e-300), 0.0, None)[:, None]
    allowed = np.clip(shares - excess * left, 0.0, None)
    found: Doubles = np.where(excess > 0, allowed / allowed.sum(axis=1, keepdims=True), shares)
    return found
