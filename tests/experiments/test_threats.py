"""What is said of a scenario's threats holds in every one of its clusters."""

from __future__ import annotations

import pytest

from p2p_labeldp.experiments.threats import threats
from p2p_labeldp.privacy import VIEWS, Parameters, View, account
from p2p_labeldp.scenario import parse_scenario

# Clusters of 20 and 60 users: with ten labels their curves cross.
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
PARAMETERS = Parameters(alpha=0.05, labels=10)


@pytest.mark.slow
def test_every_size_counts_for_the_guarantee_and_for_the_delta_at_an_epsilon() -> None:
    found = threats(parse_scenario(CROSSING), 0.1, 1)
    assert tuple(found.table) == VIEWS
    sizes = {size for guarantee in found.table.values() for size in [guarantee.cluster_size] if size is not None}
    for view, guarantee in found.table.items():
        for size in sizes:
            colluders = int(view == View.COALITION)
            mine = account(view, PARAMETERS, cluster_size=size, colluders=colluders, thorough=False)
            assert guarantee.epsilon >= mine.get_epsilon(found.delta).epsilon
            assert found.deltas[view] >= mine.get_delta(0.1).delta
