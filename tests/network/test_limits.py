"""Limits in virtual time: every wait of a run has one, and each begins with what it limits."""

from __future__ import annotations

import io
from typing import Any

import msgpack
import numpy as np
import pytest

from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.mechanisms import Rosters, SeededCoins, exchange, noisy_sha256
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import Network

USERS = 12
CLUSTERS = np.arange(USERS) % 2
LABELS = np.arange(USERS) // 3 % 2
HOSTINGS = pytest.mark.parametrize("hosting", ["user", "cluster"])


def simulate(rounds: int, hosting: str, **settings: float) -> tuple[Outcome, list[list[Any]]]:
    population = Population(np.zeros((USERS, 1), dtype=np.float32), LABELS, lambda ids, _: CLUSTERS[ids])
    trace = bytearray()
    parameters = Parameters(0.3, 0.8, rounds=rounds)
    network = Network(**settings)
    outcome = Simulation(
        population, exchange_of(parameters), SeededCoins(3), network, hosting=hosting, seed=3, write=trace.extend
    ).run()
    _, *records = msgpack.Unpacker(io.BytesIO(bytes(trace)), strict_map_key=False)
    return outcome, records


def expected_digest(rounds: int) -> str:
    releases = exchange(LABELS, Rosters.of(CLUSTERS), Parameters(0.3, 0.8, rounds=rounds), SeededCoins(3))
    return noisy_sha256([(release.users, release.labels) for release in releases])


@HOSTINGS
def test_the_limit_of_a_round_begins_with_the_round(hosting: str) -> None:
    """A round takes four seconds here, one per message: far from its limit, however many rounds there are."""
    outcome, _ = simulate(8, hosting, latency=1.0, round_limit=6.0)
    assert outcome.missing == []
    assert outcome.sha256() == expected_digest(8)


@HOSTINGS
def test_the_time_that_hellos_took_is_not_taken_from_the_first_round(hosting: str) -> None:
    outcome, _ = simulate(1, hosting, latency=4.0, hello_limit=5.0, round_limit=17.0)
    assert (outcome.missing, outcome.sha256()) == ([], expected_digest(1))


@HOSTINGS
def test_when_messages_outlast_their_rounds_the_run_still_ends_well(hosting: str) -> None:
    outcome, _ = simulate(3, hosting, jitter=10.0, round_limit=1.0)
    assert outcome.missing


@HOSTINGS
def test_when_every_hello_is_too_late_the_run_ends_with_nothing(hosting: str) -> None:
    outcome, _ = simulate(2, hosting, latency=10.0, hello_limit=1.0)
    assert (outcome.reports, outcome.missing) == (0, list(range(USERS)))


@HOSTINGS
def test_when_some_hellos_are_too_late_the_others_go_on(hosting: str) -> None:
    outcome, _ = simulate(1, hosting, jitter=10.0, hello_limit=5.0)
    assert 0 < len(outcome.missing) < USERS
    assert outcome.reports <= USERS - len(outcome.missing)


@HOSTINGS
@pytest.mark.parametrize(
    "settings", [{"jitter": 3.0}, {"latency": 2.0, "hello_limit": 1.0}, {"jitter": 10.0, "hello_limit": 5.0}]
)
def test_numbers_and_times_in_a_trace_never_go_back(hosting: str, settings: dict[str, float]) -> None:
    _, records = simulate(2, hosting, **settings)
    assert [record[0] for record in records] == list(range(len(records)))
    times = [record[1] for record in records]
    assert times == sorted(times)
