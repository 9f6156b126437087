"""The vectorized engine: the same mechanism on arrays, for speed and as the actors' independent check."""

from __future__ import annotations

import numpy as np

from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.peer_to_peer import Parameters, Rosters, exchange


def run_vectorized(population: Population, parameters: Parameters, coins: Coins) -> Outcome:
    """Cluster everyone and run every round."""
    ids = np.arange(len(population.labels))
    clusters = np.asarray(population.cluster(ids, population.features), dtype=np.int64)
    rosters = Rosters.of(clusters)
    abstained = int(rosters.sizes[rosters.sizes < parameters.minimum_size].sum())
    rounds, outcomes = [], []
    for release in exchange(population.labels, rosters, parameters, coins):
        users = release.users
        rounds.append((users, release.labels))
        dropped = len(ids) - abstained - len(users)
        outcomes.append({"reported": len(users), "dropped": dropped, "abstained": abstained})
    return Outcome(clusters=clusters, rounds=rounds, outcomes=outcomes)
