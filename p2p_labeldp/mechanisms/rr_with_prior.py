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
from dataclasses import dataclass

import numpy as np

from p2p_labeldp.arrays import Labels
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import solve
from p2p_labeldp.mechanisms.algorithm_1 import cluster_counts, noisy_shares
from p2p_labeldp.mechanisms.coins import Randomness
from p2p_labeldp.mechanisms.exact import Source, bernoulli
from p2p_labeldp.mechanisms.plan import (
    Holder,
    Mechanism,
    Plan,
    Request,
    Shares,
    Work,
    sees_true_labels,
    spends,
)
from p2p_labeldp.privacy import View

TRUST = "A curator is trusted with every true label, to estimate the clusters' priors; with a public prior nobody is."


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


def ranked(prior: Shares, epsilon: float) -> tuple[Labels, Labels, Labels]:
    """In each row the labels from likeliest to least, how many of them are kept, and each label's place."""
    order = likeliest(prior)[0]
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    return order, best_kept(prior, epsilon), rank


def replacing_chance(kept: int, epsilon: float) -> float:
    """The least chance of a uniform draw from ``kept`` labels that costs at most epsilon: k / (k - 1 + e^epsilon)."""
    chance = kept / (kept + math.expm1(epsilon))
    while chance < 1 and math.log1p(kept * (1 - chance) / chance) > epsilon:
        chance = math.nextafter(chance, 1.0)
    return chance


def respond(labels: Labels, clusters: Labels, prior: Shares, epsilon: float, source: Source) -> Labels:
    """Noisy labels, given one prior per cluster (C, K). Whole-number draws only: see ``exact``."""
    order, kept, rank = ranked(prior, epsilon)
    chances = np.array([replacing_chance(k, epsilon) for k in range(1, order.shape[1] + 1)])

    mine = kept[clusters]
    uniform = order[clusters, source(mine)]
    replaced = bernoulli(chances[mine - 1], source) | (rank[clusters, labels] >= mine)
    return np.where(replaced, uniform, labels)


@dataclass(frozen=True, eq=False)
class Responding:
    """The curator's work: priors from a noisy histogram, unless they are public, then responses."""

    label_count: int
    sigma: float
    labels_epsilon: float
    prior: Shares | None

    def __call__(self, users: Labels, labels: Labels, clusters: Labels, randomness: Randomness) -> Work:
        count = int(clusters.max(initial=-1)) + 1
        if self.prior is None:
            counts = cluster_counts(labels, clusters, self.label_count, count)
            prior = noisy_shares(counts, self.sigma, 0.0, randomness)
        elif len(self.prior) == 1 or len(self.prior) >= count:
            prior = np.broadcast_to(self.prior, (max(count, len(self.prior)), self.label_count))
        else:
            raise RequestError(f"mechanism.prior has {len(self.prior)} rows; there are {count} clusters")
        return Work(users, respond(labels, clusters, prior, self.labels_epsilon, randomness.integers))


def plan(request: Request) -> Plan:
    epsilon, options = request.needed_epsilon(), request.options
    prior = None
    if options.get("prior") is not None:
        if "share" in options:
            raise RequestError("mechanism.share is of no use with a public mechanism.prior: give one of them")
        prior = np.atleast_2d(np.asarray(options["prior"], dtype=np.float64))
        fits = prior.ndim == 2 and prior.shape[1] == request.labels
        if not fits or not (prior >= 0).all() or not np.isfinite(prior).all():
            raise RequestError(
                f"mechanism.prior must have {request.labels} columns, none negative, and one row or one per cluster"
            )
    sigma, labels_epsilon = solve.prior_split(epsilon, options.get("share", 0.5) if prior is None else 0.0)
    spent = 2 / sigma + labels_epsilon
    return Plan(
        request.kind,
        TRUST,
        Holder.CURATOR,
        request.with_flips(),
        {"sigma": sigma, "labels_epsilon": labels_epsilon},
        {View.LEARNER: spends(View.LEARNER, spent, 0.0)}
        | sees_true_labels((View.CURATOR, View.NETWORK, View.AUDITOR), 0.0),
        work=Responding(request.labels, sigma, labels_epsilon, prior),
    )


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.CURATOR,
    trusts="a curator",
    story="handed her true label to a curator, who randomised it with a prior of her cluster",
    learner_sees="the noisy labels that the curator releases",
    colour="#2ca02c",
    marker="^",
    options=("share", "prior"),
)
