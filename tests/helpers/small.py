"""What several rooms' tests run: scenarios, populations and simulations of given clusters, done in a blink.

Scenarios are texts, to which tests add settings, entries or sections of their own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import compact
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import Coins, SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.runs import Run
from p2p_labeldp.scenario import Network, Scenario, make_entry, parse_scenario, replace

SIXTY = """
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
TWO_LABELS = SIXTY.replace("labels = 3", "labels = 2").replace("alpha = 0.3", "alpha = 0.2").replace("rounds = 2", "")
"""The same users, where every account is exact."""

TWENTY_FOUR = """
[data]
name = "synthetic"
users = 24
groups = 2
[clusters]
method = "given"
minimum_size = 3
"""

ONE_CLUSTER = """
[coins]
seed = 0
[data]
name = "synthetic"
users = 80
groups = 1
[clusters]
method = "given"
minimum_size = 5
[mechanism]
alpha = 0.2
theta = 0.7
"""
"""For processes: whoever is cut off or killed is asked by someone on another host."""

THREE_CLUSTERS = """
[coins]
seed = 0
[data]
name = "synthetic"
users = 40
[clusters]
count = 3
minimum_size = 5
[mechanism]
alpha = 0.2
theta = 0.7
"""

MIXED = """
[data]
name = "synthetic"
users = 10
[clusters]
count = 1
minimum_size = 4
[mechanism]
exchange = "mixed"
relays = 3
"""

PEOPLE = """
[clusters]
count = 2
minimum_size = 5
[data]
name = "csv"
path = "people.csv"
"""
"""Of a table whose last column is the label; what is added begins with more keys of its data."""
SECRETS = [f"{number % 7},{'secretly-ill' if number % 3 else 'secretly-well'}" for number in range(60)]
"""Rows of people whose labels must be told nowhere."""


def study(folder: Path, rows: Iterable[str], text: str = PEOPLE) -> Path:
    """A scenario's file, and beside it the rows that it reads, the header first."""
    (folder / "people.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def sixty(*settings: str, text: str = SIXTY, seed: int | None = None) -> Scenario:
    """Sixty users in three clusters, three labels, two rounds; settings may be overridden."""
    return parse_scenario(text, "small", settings, seed)


def with_adversaries(scenario: Scenario, *tables: dict[str, Any], **changes: Any) -> Scenario:
    """A scenario with these entries of ``[[adversaries]]``; keys may be changed besides."""
    return replace(scenario, adversaries=[make_entry("adversaries", table) for table in tables], **changes)


def population_of(labels: Sequence[int] | Labels, clusters: Sequence[int] | Labels) -> Population:
    """Given labels and clusters, which are numbered anew among those who are present; features are of no interest."""
    given = np.array(clusters)
    features = np.zeros((len(labels), 1), dtype=np.float32)
    return Population(features, np.array(labels, dtype=np.int64), lambda ids, _: compact(given[ids]))


def simulated(
    population: Population,
    parameters: Parameters,
    coins: Coins | None = None,
    network: Network | None = None,
    *,
    seed: int = 1,
    **more: Any,
) -> Simulation:
    """An exchange that has not begun; coins are those of the seed unless given, and messages arrive at once."""
    return Simulation(
        population, exchange_of(parameters), coins or SeededCoins(seed), network or Network(), seed=seed, **more
    )


def unmeasured(scenario: Scenario, **options: Any) -> Run:
    """Run a scenario whose adversaries only act: to measure what they achieve takes longer than a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("p2p_labeldp.experiments.run"), "measure_attacks", lambda _: ())
        return run(scenario, **options)
