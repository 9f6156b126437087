"""The paper's centralized mechanism with any tau, sigma, lambda and beta. ``algorithm_1`` has it on arrays."""

from __future__ import annotations

from dataclasses import dataclass

from p2p_labeldp.arrays import Labels
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import solve
from p2p_labeldp.mechanisms.algorithm_1 import cluster_counts, noisy_shares, resampled, spent_epsilon
from p2p_labeldp.mechanisms.coins import Randomness
from p2p_labeldp.mechanisms.plan import (
    POOLED_FROM,
    Holder,
    Mechanism,
    Plan,
    Request,
    Work,
    sees_true_labels,
    spends,
)
from p2p_labeldp.privacy import View
from p2p_labeldp.privacy.paper import centralized_epsilon_as_printed

TRUST = "A curator is trusted with every true label; the learner sees noisy labels and noisy histograms."


@dataclass(frozen=True)
class Curating:
    """The curator's work; shares are published where the learner undoes part of the drawing."""

    parameters: solve.Central
    label_count: int
    publishes: bool

    def __call__(self, users: Labels, labels: Labels, clusters: Labels, randomness: Randomness) -> Work:
        p = self.parameters
        counts = cluster_counts(labels, clusters, self.label_count, int(clusters.max(initial=-1)) + 1)
        q = noisy_shares(counts, p.sigma, p.tau, randomness)
        return Work(users, resampled(labels, clusters, q, p.chance, randomness), q if self.publishes else None)


def curated(request: Request, trust: str, found: solve.Central, beta: float) -> Plan:
    """A plan of Algorithm 1. What the learner receives, shares included, is covered by what is spent."""
    tau, sigma, chance = found.tau, found.sigma, found.chance
    spent = spent_epsilon(sigma, tau, chance, request.labels)
    privacy = {View.LEARNER: spends(View.LEARNER, spent, 0.0)}
    if spent == float("inf"):
        privacy[View.LEARNER] = spends(View.LEARNER, spent, 0.0, reason="sigma, lambda and tau leave labels certain")
    return Plan(
        request.kind,
        trust,
        Holder.CURATOR,
        request.with_flips(),
        {"tau": tau, "sigma": sigma, "lambda": chance, "beta": beta},
        privacy | sees_true_labels((View.CURATOR, View.NETWORK, View.AUDITOR), 0.0),
        exchangeable=chance >= POOLED_FROM and beta == 0,
        beta=beta,
        work=Curating(found, request.labels, publishes=beta > 0),
        paper_epsilon=centralized_epsilon_as_printed(sigma, tau, chance),
    )


def plan(request: Request) -> Plan:
    options = request.options
    given = {name: options.get(name) for name in ("tau", "sigma")}
    found = solve.central(
        request.epsilon, request.labels, chance=options.get("lambda_"), share=options.get("share", 0.5), **given
    )
    beta = float(options.get("beta", 0.0))
    if not 0 <= beta < 1:
        raise RequestError(f"mechanism.beta is {beta}; at least 0 and less than 1")
    return curated(request, TRUST, found, beta)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.CURATOR,
    trusts="a curator",
    story="handed her true label to a curator, who drew noisy labels from each cluster's noisy shares",
    learner_sees="the noisy labels that the curator releases",
    colour="#17becf",
    marker="P",
    options=("tau", "sigma", "lambda_", "beta", "share"),
)
