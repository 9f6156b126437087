"""What is said of a scenario's threats holds in every one of its clusters."""

from __future__ import annotations

import numpy as np
import pytest

from p2p_labeldp.engines.threats import Worst, threats
from p2p_labeldp.privacy import account
from p2p_labeldp.scenario import parse_scenario

# Clusters of 20 and 60 users: with ten labels their curves cross, and at this delta the larger one is the worse.
CROSSING = """
[data]
name = "synthetic"
users = 80
groups = 2
labels = 10
dimensions = 1
spread = 0.01
[clusters]
method = "kmeans"
count = 2
minimum_size = 1
[mechanism]
alpha = 0.05
"""
SHARED = {"alpha": 0.05, "theta": 1.0, "labels": 10}
CURVES_CROSS = {"alpha": 0.01, "theta": 1.0, "rounds": 2}


@pytest.mark.parametrize("view", ["learner", "coalition", "eavesdropper"])
def test_the_worst_of_several_clusters_is_the_worst_at_every_epsilon(view: str) -> None:
    colluders = 1 if view == "coalition" else 0
    accounts = tuple(account(view, cluster_size=n, colluders=colluders, thorough=False, **CURVES_CROSS) for n in (3, 4))
    worst = Worst(accounts)
    epsilons = np.array([0.0, 0.1, 1.0, 3.0])
    for one in accounts:
        assert (worst.curve(epsilons) >= one.curve(epsilons)).all()
        assert worst.get_epsilon(1e-3).epsilon >= one.get_epsilon(1e-3).epsilon
        assert worst.get_delta(0.1).delta >= one.get_delta(0.1).delta
    if view == "learner":  # they do cross, so that no single one would do
        below, above = (one.curve([0.0, 3.85]) for one in accounts)
        assert (below[0] > above[0]) != (below[1] > above[1])


def test_every_size_counts_for_the_stated_delta_and_the_curves() -> None:
    found = threats(parse_scenario(CROSSING), 0.1, 1)
    for threat in found.threats:
        assert threat.cluster_size in threat.drawn
        for size in threat.drawn:
            colluders = 1 if threat.view == "coalition" else 0
            mine = account(threat.view, cluster_size=size, colluders=colluders, thorough=False, **SHARED)
            assert threat.at_epsilon.delta >= mine.get_delta(0.1).delta
            assert threat.account.curve([0.5])[0] >= mine.curve([0.5])[0]
