"""The vectorized engine: the same mechanism on arrays, for speed and as the actors' independent check."""

from __future__ import annotations

import numpy as np

from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.mechanisms import Coins, Plan, PriorOf, Randomness, release


def run_vectorized(
    population: Population,
    plan: Plan,
    coins: Coins,
    randomness: Randomness | None = None,
    prior_of: PriorOf | None = None,
) -> Outcome:
    """Cluster everyone and run every round; ``randomness`` is for those who work on everyone's labels.

    ``prior_of`` is the learner's part of a mechanism with stages.
    """
    users = len(population.labels)
    clusters = np.asarray(population.cluster(np.arange(users), population.features), dtype=np.int64)
    found = release(plan, population.labels, clusters, coins, randomness, prior_of)
    outcomes = [
        {"reported": len(ids), "dropped": users - found.abstained - len(ids), "abstained": found.abstained}
        for ids, _ in found.rounds
    ]
    return Outcome(clusters=clusters, rounds=found.rounds, outcomes=outcomes, shares=found.shares, prior=found.prior)
