"""Mechanisms a user can name: ask for a total epsilon, get something that turns labels into noisy ones.

    mechanism = make_mechanism("cluster_rr", epsilon=0.5, label_count=10, cluster_sizes=np.bincount(clusters), tau=0.05)
    noisy = mechanism.release(labels, clusters, generator)

A mechanism that is asked for (epsilon, delta) spends at most that and at least .999 of the epsilon, in total,
for all it releases and for neighbours that differ in one label. Where that cannot be, the request is refused
with what can. ``epsilon`` and ``delta`` of the mechanism say what is really spent; pure mechanisms spend no
delta.

How each parameter is found is in ``solve``. DP-SGD is a learner, not noise on labels: see ``learning``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import solve
from p2p_labeldp.mechanisms.centralized import (
    Labels,
    Shares,
    cluster_counts,
    corrected_targets,
    noisy_shares,
    resampled,
    spent_epsilon,
)
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.exact import seeded_source
from p2p_labeldp.mechanisms.peer_to_peer import Parameters, Rosters, exchange, flip
from p2p_labeldp.mechanisms.prior import respond
from p2p_labeldp.mechanisms.shuffle import permuted_within
from p2p_labeldp.privacy.paper import centralized_epsilon_as_printed

KINDS = ("uniform_rr", "cluster_rr", "centralized", "peer_to_peer", "shuffle", "rr_with_prior", "none")
LEARNERS = ("dp_sgd",)

TRUST = {
    "uniform_rr": "Nobody need be trusted: each user can replace her own label before it leaves her.",
    "cluster_rr": "A curator is trusted with every true label; the learner sees noisy labels only.",
    "centralized": "A curator is trusted with every true label; the learner sees noisy labels and noisy histograms.",
    "peer_to_peer": "Peers are trusted to follow the protocol and not to pool what they saw with the learner; "
    "each sees one noisy label a round. Against those who pool, the flips alone protect.",
    "shuffle": "A shuffler is trusted not to tell the learner whose noisy label is whose; it sees every noisy label.",
    "rr_with_prior": "A curator is trusted with every true label, to estimate the clusters' priors; "
    "with a public prior nobody is.",
    "none": "The learner is trusted with every true label.",
}

OPTIONS = {
    "uniform_rr": ("correct",),
    "cluster_rr": ("tau", "share", "tau_from_labels"),
    "centralized": ("tau", "sigma", "lambda_", "beta", "share", "correct", "tau_from_labels", "continuous"),
    "peer_to_peer": ("theta", "alpha", "correct_flips", "minimum_size"),
    "shuffle": ("alpha", "correct_flips", "minimum_size"),
    "rr_with_prior": ("share", "prior"),
    "none": (),
}
"""Which options each kind takes; anything else is refused."""


class PrivacyWarning(UserWarning):
    """Something was asked for that the stated epsilon does not cover."""


def warn_private_tau() -> None:
    """Say that a tau (or a phi that becomes one) was computed from the labels it is to protect."""
    warnings.warn(
        "mechanism.tau was computed from the private labels, so choosing it already tells something about them that "
        "the stated epsilon does not cover: fix tau beforehand, or compute it from public labels",
        PrivacyWarning,
        stacklevel=3,
    )


@dataclass(frozen=True)
class Budget:
    """What is asked for, in total."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not solve.LEAST_EPSILON <= self.epsilon <= solve.MOST_EPSILON:
            raise RequestError(
                f"mechanism.epsilon is {self.epsilon}; a number from {solve.LEAST_EPSILON:g} to {solve.MOST_EPSILON:g}"
            )
        if not 0 <= self.delta < 1:
            raise RequestError(f"privacy.delta is {self.delta}; at least 0 and less than 1")


@dataclass(frozen=True, eq=False)
class Noisy:
    """What the learner receives."""

    users: Labels
    """Ids of the users who reported, ascending."""
    labels: Labels
    """Their noisy labels."""
    targets: Shares | None = None
    """Soft targets (m, K) that sum to 1 and undo known noise; None where the one-hot labels are meant."""
    shares: Shares | None = None
    """The clusters' noisy label distributions (C, K), where a curator publishes them beside the labels."""


Release = Callable[[Labels, Labels, np.random.Generator], Noisy]


@dataclass(frozen=True, eq=False)
class LabelMechanism:
    """A mechanism with its parameters fixed. Made by `make_mechanism`."""

    kind: str
    trust: str
    """Whom one must trust with what."""
    epsilon: float
    """Really spent, in total, by the corrected account; infinite where there is no privacy."""
    delta: float
    method: str
    """Either exact, or upper_bound where what is spent may be less than ``epsilon``."""
    parameters: dict[str, float]
    label_count: int
    run: Release
    paper_epsilon: float | None = None
    """What the paper's theorem would say (Algorithm 1 only). Too small: for comparison."""

    def release(self, labels: Labels, clusters: Labels, generator: np.random.Generator) -> Noisy:
        """Noisy labels of users 0..n-1, given everyone's label and cluster."""
        labels, clusters = np.asarray(labels, dtype=np.int64), np.asarray(clusters, dtype=np.int64)
        if labels.ndim != 1 or labels.shape != clusters.shape or not len(labels):
            raise ValueError(f"labels {labels.shape} and clusters {clusters.shape} must be one of each per user")
        if labels.min() < 0 or labels.max() >= self.label_count or clusters.min() < 0:
            raise ValueError(f"labels must lie in 0..{self.label_count - 1}, clusters from 0 on")
        return self.run(labels, clusters, generator)


def make_mechanism(
    kind: str,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    label_count: int,
    cluster_sizes: npt.ArrayLike,
    **options: Any,
) -> LabelMechanism:
    """The mechanism called ``kind`` that spends (epsilon, delta) on clusters of these sizes.

    Without an epsilon (None or 0) every parameter must be given (centralized: tau, sigma, lambda_; peer_to_peer and
    shuffle: alpha), and what they spend is reported.
    """
    if kind in LEARNERS:
        raise RequestError(f"mechanism.kind {kind} is a learner with its own noise, not noise on labels")
    if kind not in KINDS:
        raise RequestError(f"mechanism.kind is {kind!r}; one of {', '.join((*KINDS, *LEARNERS))}")
    for name in options:
        if name not in OPTIONS[kind]:
            allowed = ", ".join(OPTIONS[kind]) or "none"
            raise RequestError(f"mechanism.{name} is no option of {kind}; allowed are: {allowed}")
    if label_count < 2:
        raise RequestError(f"data has {label_count} label; a mechanism needs at least 2")
    sizes = np.unique(np.asarray(cluster_sizes, dtype=np.int64).ravel())
    if not len(sizes) or sizes[0] < 0 or sizes[-1] == 0:
        raise RequestError("cluster sizes must include a cluster with at least one user, and none below 0")
    budget = None if kind == "none" or epsilon is None or epsilon == 0 else Budget(float(epsilon), float(delta))
    if options.pop("tau_from_labels", False):
        warn_private_tau()
    return _MAKERS[kind](kind, budget, float(delta), int(label_count), sizes[sizes > 0], options)


def _asked(kind: str, budget: Budget | None, instead: str = "") -> Budget:
    if budget is None:
        raise RequestError(f"mechanism.epsilon is needed for {kind}{instead}; a number above 0")
    return budget


# Each maker takes: kind, budget, delta, label_count, distinct cluster sizes, options.
Sizes = NDArray[np.int64]


def _uniform_rr(
    kind: str, budget: Budget | None, delta: float, label_count: int, sizes: Sizes, options: dict[str, Any]
) -> LabelMechanism:
    tau = 1 / label_count
    chance = solve.chance_for(_asked(kind, budget).epsilon, tau, label_count)
    beta = chance if options.get("correct", True) else 0.0
    return _algorithm_1(kind, solve.Central(tau, math.inf, chance), beta, label_count, method="exact")


def _cluster_rr(
    kind: str, budget: Budget | None, delta: float, label_count: int, sizes: Sizes, options: dict[str, Any]
) -> LabelMechanism:
    found = solve.central(
        _asked(kind, budget).epsilon, label_count, tau=options.get("tau"), share=options.get("share", 0.5)
    )
    return _algorithm_1(kind, found, 0.0, label_count)


def _centralized(
    kind: str, budget: Budget | None, delta: float, label_count: int, sizes: Sizes, options: dict[str, Any]
) -> LabelMechanism:
    found = solve.central(
        None if budget is None else budget.epsilon,
        label_count,
        tau=options.get("tau"),
        sigma=options.get("sigma"),
        chance=options.get("lambda_"),
        share=options.get("share", 0.5),
    )
    beta = found.chance if options.get("correct", False) else options.get("beta", 0.0)
    if not 0 <= beta < 1:
        raise RequestError(f"mechanism.beta is {beta}; at least 0 and less than 1")
    continuous = bool(options.get("continuous", False))
    if continuous:
        warnings.warn(
            "mechanism.continuous noise is drawn in floating point, which can give counts away: the stated epsilon is "
            "that of the formula, not of the program",
            PrivacyWarning,
            stacklevel=3,
        )
    return _algorithm_1(kind, found, float(beta), label_count, continuous=continuous)


def _algorithm_1(
    kind: str,
    found: solve.Central,
    beta: float,
    label_count: int,
    *,
    method: str = "upper_bound",
    continuous: bool = False,
) -> LabelMechanism:
    tau, sigma, chance = found.tau, found.sigma, found.chance
    return LabelMechanism(
        kind,
        TRUST[kind],
        spent_epsilon(sigma, tau, chance, label_count),
        0.0,
        method,
        {"tau": tau, "sigma": sigma, "lambda": chance, "beta": beta},
        label_count,
        _Centralized(found, beta, label_count, continuous),
        centralized_epsilon_as_printed(sigma, tau, chance),
    )


@dataclass(frozen=True)
class _Centralized:
    parameters: solve.Central
    beta: float
    label_count: int
    continuous: bool = False

    def __call__(self, labels: Labels, clusters: Labels, generator: np.random.Generator) -> Noisy:
        p = self.parameters
        counts = cluster_counts(labels, clusters, self.label_count, _cluster_count(clusters))
        q = noisy_shares(counts, p.sigma, p.tau, generator, continuous=self.continuous)
        noisy = resampled(labels, clusters, q, p.chance, generator)
        targets = corrected_targets(noisy, q[clusters], self.beta) if self.beta > 0 else None
        return Noisy(np.arange(len(labels)), noisy, targets, q if self.beta > 0 else None)


def _cluster_count(clusters: Labels) -> int:
    return int(clusters.max()) + 1


def _flipped(
    kind: str, budget: Budget | None, delta: float, label_count: int, sizes: Sizes, options: dict[str, Any]
) -> LabelMechanism:
    """peer_to_peer and shuffle: what the flips must be for the learner who sees the exchange's result."""
    view = "learner" if kind == "peer_to_peer" else "shuffle"
    theta = float(options.get("theta", 1.0))
    minimum_size = int(options.get("minimum_size", 1))
    taking_part = sizes[sizes >= minimum_size]
    if not len(taking_part):
        raise RequestError(f"mechanism.minimum_size is {minimum_size}; the largest cluster has {sizes[-1]} users")
    if budget is None:
        if "alpha" not in options:
            _asked(kind, budget, " unless mechanism.alpha is given")
        found = solve.reported_flips(view, taking_part.tolist(), delta, float(options["alpha"]), theta, label_count)
    elif "alpha" in options:
        raise RequestError("mechanism.alpha is solved for when mechanism.epsilon is asked for: give one of them")
    else:
        found = solve.flips(view, taking_part.tolist(), budget.epsilon, budget.delta, theta, label_count)
    beta = found.alpha * label_count / (label_count - 1) if options.get("correct_flips", True) else 0.0
    if abs(1 - beta) < 1e-9:
        raise RequestError(
            f"mechanism.correct_flips cannot undo alpha = {found.alpha:g}: with {label_count} labels such a flip "
            f"leaves nothing of the label"
        )
    parameters = Parameters(found.alpha, theta, label_count, minimum_size=minimum_size)
    run = _Flipped(parameters, beta, frozenset(sizes.tolist()), shuffled=kind == "shuffle")
    listed = {"alpha": found.alpha, "theta": theta, "beta": beta}
    return LabelMechanism(kind, TRUST[kind], found.epsilon, delta, found.method, listed, label_count, run)


@dataclass(frozen=True)
class _Flipped:
    parameters: Parameters
    beta: float
    sizes: frozenset[int]
    shuffled: bool

    def __call__(self, labels: Labels, clusters: Labels, generator: np.random.Generator) -> Noisy:
        rosters = Rosters.of(clusters)
        for size in rosters.sizes.tolist():
            if size and size not in self.sizes:
                raise RequestError(f"a cluster of {size} users is not among the sizes that were accounted for")
        coins = SeededCoins(int(generator.integers(2**63)))
        if self.shuffled:
            users, reported = self._shuffle(labels, rosters, coins, generator)
        else:
            release = next(exchange(labels, rosters, self.parameters, coins))
            users, reported = release.users, release.labels.astype(np.int64)
        uniform = np.full(self.parameters.labels, 1 / self.parameters.labels)
        targets = corrected_targets(reported, uniform, self.beta) if self.beta > 0 else None
        return Noisy(users, reported, targets)

    def _shuffle(
        self, labels: Labels, rosters: Rosters, coins: SeededCoins, generator: np.random.Generator
    ) -> tuple[Labels, Labels]:
        p = self.parameters
        noisy = flip(labels, coins.block(0, 0, len(labels)), p.alpha, p.labels).astype(np.int64)
        users = np.flatnonzero((rosters.sizes >= p.minimum_size)[rosters.clusters])
        return users, permuted_within(noisy, rosters, generator)[users]


def _rr_with_prior(
    kind: str, budget: Budget | None, delta: float, label_count: int, sizes: Sizes, options: dict[str, Any]
) -> LabelMechanism:
    epsilon = _asked(kind, budget).epsilon
    prior = None
    if options.get("prior") is not None:
        if "share" in options:
            raise RequestError("mechanism.share is of no use with a public mechanism.prior: give one of them")
        prior = np.atleast_2d(np.asarray(options["prior"], dtype=np.float64))
        if prior.ndim != 2 or prior.shape[1] != label_count or not (prior >= 0).all() or not np.isfinite(prior).all():
            raise RequestError(
                f"mechanism.prior must have {label_count} columns, none negative, and one row or one per cluster"
            )
    sigma, labels_epsilon = solve.prior_split(epsilon, options.get("share", 0.5) if prior is None else 0.0)
    spent = 2 / sigma + labels_epsilon
    listed = {"sigma": sigma, "labels_epsilon": labels_epsilon}
    run = _WithPrior(label_count, sigma, labels_epsilon, prior)
    return LabelMechanism(kind, TRUST[kind], spent, 0.0, "upper_bound", listed, label_count, run)


@dataclass(frozen=True, eq=False)
class _WithPrior:
    label_count: int
    sigma: float
    labels_epsilon: float
    prior: Shares | None

    def __call__(self, labels: Labels, clusters: Labels, generator: np.random.Generator) -> Noisy:
        count = _cluster_count(clusters)
        if self.prior is None:
            counts = cluster_counts(labels, clusters, self.label_count, count)
            prior = noisy_shares(counts, self.sigma, 0.0, generator)
        elif len(self.prior) == 1 or len(self.prior) >= count:
            prior = np.broadcast_to(self.prior, (max(count, len(self.prior)), self.label_count))
        else:
            raise RequestError(f"mechanism.prior has {len(self.prior)} rows; there are {count} clusters")
        noisy = respond(labels, clusters, prior, self.labels_epsilon, seeded_source(generator))
        return Noisy(np.arange(len(labels)), noisy)


def _none(
    kind: str, budget: Budget | None, delta: float, label_count: int, sizes: Sizes, options: dict[str, Any]
) -> LabelMechanism:
    return LabelMechanism(kind, TRUST[kind], math.inf, 0.0, "exact", {}, label_count, _untouched)


def _untouched(labels: Labels, clusters: Labels, generator: np.random.Generator) -> Noisy:
    return Noisy(np.arange(len(labels)), labels.copy())


_MAKERS = {
    "uniform_rr": _uniform_rr,
    "cluster_rr": _cluster_rr,
    "centralized": _centralized,
    "peer_to_peer": _flipped,
    "shuffle": _flipped,
    "rr_with_prior": _rr_with_prior,
    "none": _none,
}
