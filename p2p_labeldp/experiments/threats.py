"""A scenario's threats: every view's guarantee for the clusters it makes, without running the exchange."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import View
from p2p_labeldp.runs.curves import curves
from p2p_labeldp.runs.execute import Progress
from p2p_labeldp.runs.guarantees import Circumstances, Table, cluster_account, guarantees
from p2p_labeldp.runs.run import foreseen
from p2p_labeldp.runs.summary import Curve
from p2p_labeldp.scenario import Scenario

FINER = 2
"""So many times the points of a run's curves: nothing else is waited for."""


@dataclass(frozen=True)
class Threats:
    """Every view's guarantee, its delta at another epsilon, and its curve."""

    table: Table
    deltas: dict[View, float]
    curves: dict[str, Curve]
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
    if scenario.mechanism.kind != "peer_to_peer":
        raise RequestError(f"mechanism.kind = {scenario.mechanism.kind}: threats are those of peer_to_peer")
    resolved, sizes = foreseen(scenario, data_dir)
    parameters = resolved.plan.parameters
    if not sizes:
        raise RequestError(
            f"clusters.minimum_size = {parameters.minimum_size}: every cluster is smaller, so that everyone abstains"
        )
    found = Circumstances(sizes, resolved.delta, colluders=dict.fromkeys(sizes, colluders))
    tell("views", 0, 0)
    table = guarantees(resolved.plan, found)
    deltas = {
        view: max(cluster_account(view, size, parameters, found).get_delta(epsilon).delta for size in sizes)
        for view in table
    }
    tell("curves", 0, 0)
    drawn = curves(resolved.plan, found, table, FINER)
    span = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    return Threats(table, deltas, drawn, span, parameters.alpha, parameters.theta, resolved.delta)
