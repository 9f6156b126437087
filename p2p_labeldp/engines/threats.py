"""A scenario's threats: every view's guarantee for the clusters it makes, without running the exchange."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.data import load
from p2p_labeldp.engines.guarantees import cluster_sizes, default_delta
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.engines.runner import ClusterPlan, Progress, resolve
from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import SEES, VIEWS, Account, Answer, account, account_clusters
from p2p_labeldp.scenario import Scenario


@dataclass(frozen=True)
class Threat:
    """One view of the worst cluster."""

    view: str
    sees: str
    cluster_size: int
    answer: Answer
    at_epsilon: Answer
    account: Account


@dataclass(frozen=True)
class Threats:
    threats: list[Threat]
    sizes: str
    alpha: float
    theta: float
    delta: float


def threats(
    scenario: Scenario, epsilon: float, colluders: int, data_dir: Path | None = None, progress: Progress | None = None
) -> Threats:
    """Load the data, cluster the users, and account for every view."""
    tell = progress or (lambda stage, done, total: None)
    tell("data", 0, 0)
    dataset = load(scenario.data, scenario.coins.seed, data_dir)
    plan = ClusterPlan(scenario, len(dataset.labels), dataset.given_clusters)
    if scenario.mechanism.kind != "peer_to_peer":
        raise RequestError(f"mechanism.kind = {scenario.mechanism.kind}: threats are those of peer_to_peer")
    scenario, parameters, _ = resolve(scenario, dataset, plan)
    clusters = plan(np.arange(len(dataset.labels)), dataset.features)
    sizes = cluster_sizes(Outcome(clusters, []), parameters)
    if not sizes:
        raise RequestError(
            f"clusters.minimum_size = {parameters.minimum_size}: every cluster is smaller, so that everyone abstains"
        )
    delta = scenario.privacy.delta or default_delta(sizes, len(dataset.labels))
    shared: dict[str, Any] = {
        "alpha": parameters.alpha,
        "theta": parameters.theta,
        "labels": parameters.labels,
        "rounds": parameters.rounds,
        "noise": parameters.noise,
    }
    found = []
    for done, view in enumerate(VIEWS):
        tell("views", done, len(VIEWS))
        many = colluders if view == "coalition" else 0
        worst = account_clusters(view, sizes, delta, colluders=many, **shared)
        size = worst.worst_size
        accountant = account(
            view,
            cluster_size=size,
            colluders=min(many, size - 1),
            thorough=False,
            **shared,
        )
        sees = SEES[view] + (f" ({min(many, size - 1)} of them)" if view == "coalition" else "")
        found.append(Threat(view, sees, size, worst.worst, accountant.get_delta(epsilon), accountant))
    span = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    return Threats(found, span, parameters.alpha, parameters.theta, delta)
