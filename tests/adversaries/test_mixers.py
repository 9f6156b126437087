"""Whoever misbehaves in the mixed exchange: nothing is opened, or what comes out is what the account is about."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import MIXED, population_of, unmeasured, with_adversaries

from p2p_labeldp.adversaries.install import install
from p2p_labeldp.adversaries.suspects import suspects
from p2p_labeldp.audit.runs import audit_runs
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.mechanisms.plan import Plan
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.protocol.messages import Batch, Drawn, Unlock
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Vault
from p2p_labeldp.scenario import Network, parse_scenario

SIZE = 10
CIPHERS = pytest.mark.parametrize("make", [Vault, Onions])
SCENARIO = parse_scenario(MIXED)
POPULATION = population_of(np.arange(SIZE) % 2, np.zeros(SIZE, dtype=np.int64))


def plan(rounds: int = 1) -> Plan:
    return exchange_of(Parameters(0.2, labels=2, rounds=rounds, minimum_size=4, exchange="mixed", relays=3))


@pytest.fixture(scope="module", autouse=True)
def no_curves() -> None:
    """There are some: one test here is about them."""


def disturbed(entry: dict[str, Any], make: type[Any] = Vault, rounds: int = 1, seed: int = 3) -> tuple[Outcome, Any]:
    """One cluster of ten in which an adversary is at work; the outcome, and who sent what."""
    simulation = Simulation(POPULATION, plan(rounds), SeededCoins(seed), Network(), seed=seed, cipher=make())
    install(simulation, with_adversaries(SCENARIO, entry))
    sent: list[tuple[int, int, Any]] = []
    send = simulation.network.send

    def noted(sender: int, receiver: int, message: Any) -> None:
        sent.append((sender, receiver, message))
        send(sender, receiver, message)

    simulation.network.send = noted
    return simulation.run(), sent


def opened(sent: Any) -> bool:
    return any(type(message) in (Unlock, Drawn) for _, _, message in sent)


EVERYONE = list(range(1, SIZE))


@CIPHERS
@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("drop", "the limit is over"),
        ("replace", "a packet that the relay's key does not open"),
        ("duplicate", "a packet occurs twice"),
        ("peel", "a packet that the relay's key does not open"),
        ("isolate", "says no-go|does not find her packet|has another deposit|did not pass on"),
    ],
)
def test_a_relay_that_tampers_with_its_batch_is_stopped_before_anything_is_opened(
    make: type[Any], way: str, said: str
) -> None:
    """Everyone but the victim is crooked, so that every attempt is spoiled; she, and nobody, is told a label."""
    outcome, sent = disturbed({"kind": "crooked_relays", "users": EVERYONE, "way": way, "victim": 0}, make)
    assert not opened(sent)
    assert outcome.reports == 0
    assert outcome.stopped == [0]
    assert outcome.outcomes[0]["abstained"] == SIZE
    assert any(part in " ".join(outcome.warnings) for part in said.split("|"))


@CIPHERS
def test_a_relay_that_tampers_once_in_a_while_costs_attempts_and_is_named(make: type[Any]) -> None:
    """Of ten users one is crooked: attempts without her as a relay come through, and their labels are as ever."""
    outcome, sent = disturbed({"kind": "crooked_relays", "users": [2], "way": "replace", "victim": 0}, make)
    assert outcome.reports == SIZE
    attempts = {message.attempt for _, _, message in sent if type(message) is Drawn}
    assert len(attempts) == 1


@CIPHERS
def test_a_packet_of_an_earlier_round_does_not_open(make: type[Any]) -> None:
    entry = {"kind": "crooked_relays", "users": EVERYONE, "way": "replay", "victim": 0}
    outcome, _ = disturbed(entry, make, rounds=2)
    assert "does not open" in " ".join(outcome.warnings) or "no-go" in " ".join(outcome.warnings)
    assert len(outcome.rounds[1][0]) == 0


@CIPHERS
def test_a_relay_that_keeps_the_order_leaves_the_hiding_to_the_others(make: type[Any]) -> None:
    """The batch of one honest relay is still in an order that nobody else knows; reports are as uniform as ever."""
    outcome, _ = disturbed({"kind": "crooked_relays", "users": [1, 2, 3], "way": "order"}, make)
    assert outcome.reports == SIZE
    assert outcome.warnings == []


@CIPHERS
def test_a_key_that_is_released_early_opens_nothing(make: type[Any]) -> None:
    outcome, sent = disturbed({"kind": "crooked_relays", "users": [1, 2, 3, 4, 5], "way": "early"}, make)
    honest = run_vectorized(POPULATION, plan(), SeededCoins(3))
    assert outcome.sha256() == honest.sha256(), "the run is none the worse for it"
    first = next(place for place, (_, _, message) in enumerate(sent) if type(message) is Drawn)
    relays = {receiver for _, receiver, message in sent if type(message).__name__ == "Go"}
    gos = [message for _, _, message in sent[:first] if type(message).__name__ == "Go"]
    assert len(gos) == len(relays) * SIZE


@CIPHERS
def test_a_last_relay_that_shows_two_batches_has_neither_opened(make: type[Any]) -> None:
    """Unless user 0 is the last relay in some attempt, who is honest."""
    stopped = 0
    for seed in range(4):
        outcome, sent = disturbed({"kind": "crooked_relays", "users": EVERYONE, "way": "equivocate"}, make, seed=seed)
        last = {sender for sender, _, message in sent if type(message) is Batch and message.step == 3}
        stopped += 0 not in last
        assert (outcome.stopped == [0]) == (0 not in last) != opened(sent)
        assert "the last relay signed two batches" in " ".join(outcome.warnings) or last == {0}
    assert stopped >= 1


@CIPHERS
@pytest.mark.parametrize("victim", [0, 7])
def test_a_user_who_says_no_go_for_ever_is_caught_and_nobody_is_excluded(make: type[Any], victim: int) -> None:
    outcome, sent = disturbed({"kind": "no_go", "users": [victim]}, make)
    assert not opened(sent)
    assert outcome.stopped == [0]
    assert outcome.outcomes[0]["abstained"] == SIZE
    caught = [line for line in outcome.warnings if "caught" in line]
    assert len(caught) == 3, "in every attempt"
    assert all(f"caught: user {victim})" in line for line in caught)


def test_kinds_of_the_other_exchange_are_refused_in_one_line() -> None:
    mixed, pull = {"kind": "no_go", "users": [1]}, {"kind": "silent", "users": [1]}
    with pytest.raises(RequestError, match=r'no_go\): mechanism.exchange = "pull" has none; it must be "mixed"$'):
        unmeasured(with_adversaries(SCENARIO, mixed, mechanism__exchange="pull", mechanism__relays=0))
    with pytest.raises(RequestError, match=r'silent\): mechanism.exchange = "mixed" has none; it must be "pull"$'):
        unmeasured(with_adversaries(SCENARIO, pull))


def test_beside_crooked_relays_the_others_are_seen_shuffled_or_local_if_all_relays_are_theirs(
    tmp_path: Path,
) -> None:
    """rho rr + (1 - rho) times the shuffled view of the honest, with three draws of the relays."""
    scenario = with_adversaries(
        SCENARIO,
        {"kind": "crooked_relays", "count": 5, "way": "order"},
        data__users=60,
        privacy__delta=1e-3,
        mechanism__alpha=0.2,
        mechanism__relays=4,
    )
    summary = unmeasured(scenario, out=tmp_path / "run").summary
    stated = summary.privacy[View.LEARNER]
    assert "seen shuffled if one relay is honest" in str(stated.reason)
    rho = 1 - (1 - math.comb(5, 4) / math.comb(60, 4)) ** 3
    shuffle = account("shuffle", Parameters(0.2), cluster_size=55)
    local = max(0.0, 0.8 - math.exp(stated.epsilon) * 0.2)
    assert rho * local + (1 - rho) * shuffle.get_delta(stated.epsilon).delta == pytest.approx(1e-3, rel=1e-3)
    assert summary.privacy[View.PEER].epsilon > stated.epsilon, "who knows something by herself"
    assert summary.curves["learner"].deltas[0] == pytest.approx(rho * 0.6 + (1 - rho) * shuffle.get_delta(0.0).delta)


BROKEN = {
    "drop": "whole_batches",
    "replace": "mixing",
    "duplicate": "whole_batches",
    "replay": "mixing",
    "peel": "whole_batches",
    "order": "mixing",
    "early": "nothing_opened_early",
    "isolate": "mixing",
    "equivocate": "agreement",
}


@pytest.mark.parametrize("way", BROKEN)
def test_an_audit_finds_what_crooked_relays_did_and_accuses_nobody_else(way: str, tmp_path: Path) -> None:
    entry = {"kind": "crooked_relays", "users": [0, *EVERYONE[1:]], "way": way, "victim": 1}
    scenario = with_adversaries(SCENARIO, entry)
    unmeasured(scenario, out=tmp_path / "run")
    (found,) = audit_runs([tmp_path / "run"], suspects=suspects).runs
    assert found.violations == []
    assert found.explained["crooked_relays"][BROKEN[way]] > 0


def test_an_audit_finds_a_no_go_without_a_reason(tmp_path: Path) -> None:
    scenario = with_adversaries(SCENARIO, {"kind": "no_go", "users": [4]})
    unmeasured(scenario, out=tmp_path / "run")
    (found,) = audit_runs([tmp_path / "run"], suspects=suspects).runs
    assert found.violations == []
    assert found.explained["no_go"]["agreement"] > 0
