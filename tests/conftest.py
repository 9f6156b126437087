"""What tests share: small scenarios that run in a blink."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.scenario import Scenario, parse_scenario

SMALL = """
[data]
name = "synthetic"
users = 60
groups = 3
labels = 3
[clusters]
method = "given"
minimum_size = 5
[mechanism]
alpha = 0.3
theta = 0.7
rounds = 2
"""


@pytest.fixture
def small_scenario() -> Callable[..., Scenario]:
    """Sixty users in three clusters, three labels, two rounds; settings may be overridden."""
    return lambda *settings, seed=None: parse_scenario(SMALL, "small", settings, seed)


@pytest.fixture
def make_population() -> Callable[..., Population]:
    """A population with given labels and clusters; features are of no interest."""

    def make(labels: list[int], clusters: list[int]) -> Population:
        assignment = np.array(clusters, dtype=np.int64)
        features = np.zeros((len(labels), 1), dtype=np.float32)
        return Population(features, np.array(labels, dtype=np.int64), lambda ids, _: assignment[ids])

    return make
