"""A learner who doubts a cluster that stands out: its reports are reweighed towards what the others suggest.

Reports of one cluster are draws from its users' labels, whoever sends them, so that all the learner has to
judge is one share of each label per cluster. Clusters differ, and that is what there is to learn. What liars
in one cluster cannot help is that its share no longer follows from its features as the others' shares do.

Each cluster's shares are predicted from the centres and shares of the *other* clusters, by ridge regression
with the strength that predicts best (the mean of the others, where features tell nothing). What is left over is
compared across clusters, label by label: the ``robust`` largest and smallest leftovers are cut back to the next
one, and the cluster's reports get weights that give it that share.

It bounds what liars in few clusters can do, by how well clusters predict each other. It does nothing against liars
spread over all clusters, who shift every share alike, and little where labels change abruptly between
neighbours. When nobody lies, clusters that rightly stand out are cut back too: that is its price.
``benchmarks/poisoning.py`` measures all of this.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.learning.targets import Targets

Doubles = NDArray[np.float64]

_STRENGTHS = 10.0 ** np.arange(-5, 3)  # of the ridge, times the features' largest variance


def trimmed_reports(
    targets: Targets, weights: Doubles, clusters: NDArray[np.integer], features: NDArray[np.floating], robust: float
) -> tuple[Targets, Doubles]:
    """The same reports with outlying clusters reweighed: targets whose rows sum to 1, and sample weights.

    ``targets`` are shares of labels (none negative: flips are undone afterwards). Every cluster keeps its weight.
    """
    ids, place = np.unique(clusters, return_inverse=True)
    cut = min(math.ceil(robust * len(ids)), len(ids) - 1)
    if cut == 0:
        return targets, weights
    mass = np.bincount(place, weights)
    shares = _sums(place, targets * weights[:, None]) / mass[:, None]
    centres = _sums(place, features * weights[:, None]) / mass[:, None]
    allowed = _within(shares, leftovers(shares, centres, mass), cut)
    ratios = np.divide(allowed, shares, out=np.ones_like(shares), where=shares > 0)
    moved = targets * ratios[place]
    factors = moved.sum(axis=1)
    # A label that nobody reported has no weight to give, so that the rest must carry the cluster's.
    kept = np.bincount(place, weights * factors)
    rescaled: Doubles = weights * factors * np.divide(mass, kept, out=np.ones_like(mass), where=kept > 0)[place]
    return np.divide(moved, factors[:, None], out=targets.copy(), where=factors[:, None] > 0), rescaled


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
    allowed: Doubles = np.clip(shares - excess * left, 0.0, None)
    return allowed / allowed.sum(axis=1, keepdims=True)


def _sums(place: NDArray[np.intp], rows: NDArray[np.floating]) -> Doubles:
    sums = np.zeros((int(place.max()) + 1, rows.shape[1]))
    np.add.at(sums, place, rows)
    return sums
