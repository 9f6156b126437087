"""The vectorized engine: the same mechanism on arrays, for speed and as the actors' independent check."""

from __future__ import annotations

import numpy as np

from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.engines.treatments import Treatment
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.peer_to_peer import Parameters, Rosters, exchange, flip


def run_vectorized(
    population: Population, parameters: Parameters, coins: Coins, treatment: Treatment | None = None
) -> Outcome:
    """Cluster everyone and run every round; with a treatment other than peer-to-peer, hand labels over once."""
    ids = np.arange(len(population.labels))
    clusters = np.asarray(population.cluster(ids, population.features), dtype=np.int64)
    rosters = Rosters.of(clusters)
    abstained = int(rosters.sizes[rosters.sizes < parameters.minimum_size].sum())
    if treatment is not None and treatment.receiver is not None:
        return _handed_over(population, parameters, coins, treatment, rosters)
    rounds, outcomes = [], []
    for release in exchange(population.labels, rosters, parameters, coins):
        users = release.users
        rounds.append((users, release.labels))
        dropped = len(ids) - abstained - len(users)
        outcomes.append({"reported": len(users), "dropped": dropped, "abstained": abstained})
    return Outcome(clusters=clusters, rounds=rounds, outcomes=outcomes)


def _handed_over(
    population: Population, parameters: Parameters, coins: Coins, treatment: Treatment, rosters: Rosters
) -> Outcome:
    labels = population.labels
    if treatment.flips:
        drawn = coins.block(0, 0, len(labels))
        labels = flip(labels, drawn, parameters.alpha, parameters.labels).astype(np.int64)
    clusters = rosters.clusters.astype(np.int64)
    users = np.flatnonzero(rosters.sizes[clusters] >= parameters.minimum_size)
    handed = users, labels[users]
    shares = None
    if treatment.work is not None:
        released, noisy, shares = treatment.work(users, labels[users], clusters[users])
        handed = released, noisy
    counts = {"reported": len(users), "dropped": 0, "abstained": len(labels) - len(users)}
    return Outcome(clusters=clusters, rounds=[handed], outcomes=[counts], shares=shares)
