"""The mixed exchange in both engines: the same noisy data set, whatever the hosting, the network and its faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small import population_of, simulated

from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.mechanisms.coins import SeededCoins, SystemCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.scenario import Network, parse_scenario

USERS, CLUSTERS = 60, 4
PARAMETERS = Parameters(0.2, 0.7, 3, "fresh", 2, 5, exchange="mixed", relays=3)
HOSTINGS = pytest.mark.parametrize("hosting", ["user", "cluster"])


POPULATION = population_of(np.random.default_rng(1).integers(0, 3, USERS), np.arange(USERS) % CLUSTERS)


def played(network: Network, hosting: str = "user", faults: str = "", **more: Any) -> Outcome:
    rules, parameters = parse_scenario(faults).faults, more.pop("parameters", PARAMETERS)
    horizon = network.hello_limit + (parameters.rounds + 1) * network.round_limit
    made = Faults(rules, USERS, 3, horizon) if rules else None
    return simulated(POPULATION, parameters, network=network, hosting=hosting, seed=3, faults=made, **more).run()


def on_arrays(parameters: Parameters = PARAMETERS) -> Outcome:
    return run_vectorized(POPULATION, exchange_of(parameters), SeededCoins(3))


@HOSTINGS
@pytest.mark.parametrize("network", [Network(), Network(latency=0.1), Network(latency=0.05, jitter=0.3)], ids=str)
def test_both_engines_give_the_same_noisy_data_set(hosting: str, network: Network) -> None:
    found = played(network, hosting)
    assert found.sha256() == on_arrays().sha256()
    assert (found.missing, found.stopped, found.warnings) == ([], [], [])


@pytest.mark.parametrize(("relays", "rounds", "noise"), [(1, 1, "sticky"), (2, 3, "sticky"), (5, 2, "fresh")])
def test_whatever_the_relays_rounds_and_noise(relays: int, rounds: int, noise: str) -> None:
    parameters = Parameters(0.3, 1.0, 3, noise, rounds, 5, exchange="mixed", relays=relays)
    assert played(Network(), parameters=parameters).sha256() == on_arrays(parameters).sha256()


def test_real_packets_carry_the_same_labels() -> None:
    assert played(Network(), cipher=Onions()).sha256() == on_arrays().sha256()


FAULTS = {
    "loss": 'rule = "loss"\nprobability = 0.3',
    "duplicate": 'rule = "duplicate"\nprobability = 0.5',
    "reorder": 'rule = "reorder"\nseconds = 0.4',
    "churn": 'rule = "churn"\ncount = 20\nseconds = 2\nend = 0.2',
    "slow": 'rule = "slow"\ncount = 10\nseconds = 0.2',
}


@HOSTINGS
@pytest.mark.parametrize("rule", FAULTS)
def test_faults_that_are_over_in_time_change_no_report(hosting: str, rule: str) -> None:
    found = played(Network(latency=0.01), hosting, f"[[faults]]\n{FAULTS[rule]}")
    assert found.faults[0]["fired"] > 0
    assert (found.missing, found.stopped) == ([], [])
    assert found.sha256() == on_arrays().sha256()


@HOSTINGS
def test_users_who_are_gone_for_good_are_left_out_and_named_and_the_others_go_on(hosting: str) -> None:
    found = played(Network(latency=0.01), hosting, '[[faults]]\nrule = "crash"\nusers = [0, 1]\nat = 0.015')
    assert found.missing == [0, 1], "nothing is heard of them to the end"
    assert any("did not commit" in warning for warning in found.warnings)
    assert {user for users, _ in found.rounds for user in users.tolist()} <= set(range(2, USERS))
    assert found.outcomes[0]["reported"] + found.outcomes[0]["dropped"] == USERS - 2


@pytest.mark.parametrize("at", np.arange(0.005, 0.2, 0.01).round(4).tolist())
def test_a_user_who_is_gone_at_any_moment_leaves_no_cluster_half_open(at: float) -> None:
    """Whoever she is, and whenever: a cluster reports as a whole but for those who are missing, or not at all."""
    found = played(Network(latency=0.01), "cluster", f'[[faults]]\nrule = "crash"\ncount = 3\nat = {at}')
    for users, _ in found.rounds:
        assert not set(users.tolist()) & set(found.missing) or at > 0.1
    assert sum(found.outcomes[0].values()) + len(found.missing) >= USERS


def test_the_systems_randomness_does_as_well() -> None:
    found = [played(Network(), coins=SystemCoins()) for _ in range(2)]
    assert found[0].sha256() != found[1].sha256()
    assert all(each.missing == [] for each in found)
