"""A scenario's threats: every view's guarantee for the clusters it makes, without running the exchange."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from p2p_labeldp.data import load
from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import RECORDS, VIEWS, Account, Guarantee, account, account_clusters
from p2p_labeldp.privacy.views import CLOSED_FORM
from p2p_labeldp.runs.clusters import ClusterPlan
from p2p_labeldp.runs.execute import Progress
from p2p_labeldp.runs.guarantees import cluster_sizes
from p2p_labeldp.runs.run import resolve_for
from p2p_labeldp.scenario import Scenario

MOST_SIZES = 3  # whose curves are drawn, of views that take long


@dataclass(frozen=True)
class Worst:
    """The largest delta of several clusters: whose epsilon is the largest at one delta may do better at another."""

    accounts: tuple[Account, ...]

    def get_epsilon(self, target_delta: float) -> Guarantee:
        return max((one.get_epsilon(target_delta) for one in self.accounts), key=lambda answer: answer.epsilon)

    def get_delta(self, target_epsilon: float) -> Guarantee:
        return max((one.get_delta(target_epsilon) for one in self.accounts), key=lambda answer: answer.delta)

    def curve(self, epsilons: npt.ArrayLike) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.max([one.curve(epsilons) for one in self.accounts], axis=0)
        return found


@dataclass(frozen=True)
class Threat:
    """One view: the guarantee that holds in every cluster, and the curve of those that it was drawn for."""

    view: str
    sees: str
    cluster_size: int
    """Of the worst cluster at the scenario's delta."""
    answer: Guarantee
    at_epsilon: Guarantee
    account: Worst
    drawn: tuple[int, ...]
    """The sizes of the clusters whose curves the drawn one is the largest of; all of them where that takes no time."""


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
    dataset = load(scenario.data, scenario.data_seed, data_dir)
    plan = ClusterPlan(scenario, len(dataset.labels), dataset.given_clusters)
    if scenario.mechanism.kind != "peer_to_peer":
        raise RequestError(f"mechanism.kind = {scenario.mechanism.kind}: threats are those of peer_to_peer")
    resolved = resolve_for(scenario, dataset, plan)
    parameters, delta = resolved.plan.parameters, resolved.delta
    sizes = cluster_sizes(plan(np.arange(len(dataset.labels)), dataset.features), parameters)
    if not sizes:
        raise RequestError(
            f"clusters.minimum_size = {parameters.minimum_size}: every cluster is smaller, so that everyone abstains"
        )
    found = []
    for done, view in enumerate(VIEWS):
        tell("views", done, len(VIEWS))
        many = colluders if view == "coalition" else 0
        worst = account_clusters(view, parameters, sizes, delta, colluders=many)
        size = worst.worst_size
        accounts = {
            n: account(view, parameters, cluster_size=n, colluders=min(many, n - 1), thorough=False)
            for n in sorted(sizes)
        }
        some = sorted({min(sizes), size, max(sizes)})
        drawn = tuple(accounts) if view in CLOSED_FORM or len(accounts) <= MOST_SIZES else tuple(some)
        sees = RECORDS[view].sees + (f" ({min(many, size - 1)} of them)" if view == "coalition" else "")
        at_epsilon = Worst(tuple(accounts.values())).get_delta(epsilon)
        curves = Worst(tuple(accounts[n] for n in drawn))
        found.append(Threat(view, sees, size, worst.worst, at_epsilon, curves, drawn))
    span = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    return Threats(found, span, parameters.alpha, parameters.theta, delta)
