"""Two engines, one answer: the same seed gives the same noisy data set, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Case, cases
from small import population_of, simulated, sixty

from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import MAX_SEED, Network, load_scenario


@given(
    cases(("pull", "permutation")),
    st.integers(0, MAX_SEED),
    st.sampled_from(["user", "cluster"]),
    st.sampled_from([Network(), Network(latency=1.0), Network(latency=0.5, jitter=3.0), Network(jitter=1.0)]),
)
@settings(max_examples=30, deadline=None)
def test_engines_agree_whatever_the_problem_the_hosting_and_the_order_of_messages(
    case: Case, seed: int, hosting: str, network: Network
) -> None:
    labels, clusters, parameters = case
    population = population_of(labels, clusters)
    actors = simulated(population, parameters, network=network, hosting=hosting, seed=seed).run()
    vectorized = run_vectorized(population, exchange_of(parameters), SeededCoins(seed))
    assert actors.sha256() == vectorized.sha256()
    assert actors.outcomes == vectorized.outcomes
    assert actors.missing == []
    assert "refusal" not in actors.messages


@pytest.mark.parametrize("hosting", ["user", "cluster"])
@pytest.mark.parametrize(
    ("labels", "clusters", "parameters"),
    [
        pytest.param([1], [0], Parameters(0.5, 1.0), id="a network of one"),
        pytest.param([0, 1, 1], [0, 1, 2], Parameters(0.2, 1.0), id="clusters of one"),
        pytest.param([0, 1] * 30, [0] * 60, Parameters(0.2, 0.5), id="a cluster of everyone"),
        pytest.param(list(range(10)) * 5, [0, 1] * 25, Parameters(0.3, 1.0, labels=10), id="ten labels"),
        pytest.param([0, 1] * 10, [0, 1] * 10, Parameters(0.0, 1.0), id="alpha 0"),
        pytest.param([0, 1] * 10, [0, 1] * 10, Parameters(1.0, 1.0), id="alpha 1"),
        pytest.param([0, 1] * 10, [0, 1] * 10, Parameters(0.1, 0.0), id="theta 0"),
        pytest.param([0, 1] * 10, [0, 0, 1, 1, 1] * 4, Parameters(0.1, 1.0, minimum_size=10), id="some abstain"),
        pytest.param([0, 1] * 10, [0, 1] * 10, Parameters(0.1, 1.0, minimum_size=11), id="everyone abstains"),
        pytest.param([0, 1], [0, 1], Parameters(0.2, 1.0, exchange="permutation"), id="permutations of one"),
    ],
)
def test_engines_agree_at_the_edges(
    labels: list[int], clusters: list[int], parameters: Parameters, hosting: str
) -> None:
    population = population_of(labels, clusters)
    actors = simulated(population, parameters, hosting=hosting, seed=7).run()
    assert actors.sha256() == run_vectorized(population, exchange_of(parameters), SeededCoins(7)).sha256()


def test_whole_runs_agree_in_everything_but_their_messages() -> None:
    scenario = sixty()
    runs = [
        run(scenario, engine=engine, hosting=hosting).summary
        for engine, hosting in (("actors", "user"), ("actors", "cluster"), ("vectorized", "user"))
    ]
    for key in ("noisy_sha256", "accuracy", "nonprivate_accuracy", "reports", "clusters", "phi", "psi"):
        assert len({getattr(summary, key) for summary in runs}) == 1, key


def test_the_data_set_does_not_depend_on_the_hash_seed() -> None:
    """Scheduling and set order differ between processes; the answer may not."""
    program = (
        "from p2p_labeldp import load_scenario, run; import sys;"
        "s = load_scenario(sys.argv[1], ['data.users=300', 'clusters.minimum_size=2', 'network.jitter=1.0']);"
        "print(run(s).summary.noisy_sha256)"
    )
    path = Path(__file__).parents[2] / "scenarios" / "hospital.toml"
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    elsewhere = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env=os.environ | {"PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = load_scenario(path, ["data.users=300", "clusters.minimum_size=2", "network.jitter=1.0"])
    assert elsewhere.strip() == run(here).summary.noisy_sha256
