"""Randomized response with a prior: spend the flips on the labels that are likely to begin with.

The idea is that of Ghazi, Golowich, Kumar, Manurangsi and Zhang (2021); the code is our own. Given a prior over
the labels, keep only its k likeliest: a label among them goes through randomized response on those k, any other
is replaced by a uniform one of them. Whatever k is, a label comes out with probability between p and p
e^epsilon, so the cost is epsilon. The right label comes out with probability

    e^epsilon / (e^epsilon + k - 1) * (prior mass of the k likeliest)

and k is chosen to make that largest. The prior must be public, or have paid for itself; ties go to the lower
label.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.exact import Source, bernoulli

Labels = NDArray[np.int64]
Shares = NDArray[np.float64]


def likeliest(prior: Shares) -> tuple[Labels, Shares]:
    """The labels of each row from likeliest to least, and the mass of the first 1, 2, ... of them."""
    order = np.argsort(-prior, axis=1, kind="stable")
    return order, np.cumsum(np.take_along_axis(prior, order, axis=1), axis=1)


def best_kept(prior: Shares, epsilon: float) -> Labels:
    """How many labels to keep in each row; the fewest of equals."""
    others = np.arange(prior.shape[1])
    right = likeliest(prior)[1] / (1 + others * math.exp(-epsilon))
    best: Labels = right.argmax(axis=1).astype(np.int64) + 1
    return best


def replacing_chance(kept: int, epsilon: float) -> float:
    """The least chance of a uniform draw from ``kept`` labels that costs at most epsilon: k / (k - 1 + e^epsilon)."""
    chance = kept / (kept + math.expm1(epsilon))
    while chance < 1 and math.log1p(kept * (1 - chance) / chance) > epsilon:
        chance = math.nextafter(chance, 1.0)
    return chance


def respond(labels: Labels, clusters: Labels, prior: Shares, epsilon: float, source: Source) -> Labels:
    """Noisy labels, given one prior per cluster (C, K). Whole-number draws only: see ``exact``."""
    order, _ = likeliest(prior)
    kept = best_kept(prior, epsilon)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None, :], axis=1)
    chances = np.array([replacing_chance(k, epsilon) for k in range(1, order.shape[1] + 1)])

    mine = kept[clusters]
    uniform = order[clusters, source(mine)]
    replaced = bernoulli(chances[mine - 1], source) | (rank[clusters, labels] >= mine)
    return np.where(replaced, uniform, labels)
