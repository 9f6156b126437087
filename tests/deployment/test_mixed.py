"""The mixed exchange between nodes: any order of items, nodes killed anywhere, real packets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deployment_model import KeptCoins, Model

from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.items import Directory, Mail, Noise, decode_item
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Batch, Drawn, Unlock
from p2p_labeldp.protocol.parameters import parameters_of
from p2p_labeldp.runs.resolve import resolve
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

USERS = 18
SCENARIO = parse_scenario(f"""
[data]
name = "synthetic"
users = {USERS}
[clusters]
count = 1
minimum_size = 4
[mechanism]
alpha = 0.3
theta = 0.7
rounds = 2
exchange = "mixed"
relays = 3
[coins]
source = "seeded"
seed = 5
""")


def finished(hosts: int, seed: int, kills: int = 0, scenario: Scenario = SCENARIO) -> Model:
    return run_of(Model(scenario, hosts, seed), seed, kills)


def run_of(model: Model, seed: int = 0, kills: int = 0) -> Model:
    for name in model.names[3:]:
        model.deliver(name, "coordinator")
    chance = np.random.default_rng(seed)
    while model.step():
        if chance.random() < kills / 200:
            model.kill(model.names[int(chance.integers(len(model.names)))])
    assert all(part.over for part in model.parts.values())
    return model


def on_arrays(model: Model, parameters: Parameters | None = None) -> Any:
    parameters = parameters or parameters_of(SCENARIO, 2)
    data = model.dataset
    population = Population(data.features, data.labels, lambda ids, _: np.zeros_like(ids))
    return run_vectorized(population, exchange_of(parameters), KeptCoins(SeededCoins(5), {}))


@pytest.mark.parametrize(("hosts", "kills"), [(1, 0), (2, 0), (3, 6), (2, 12)])
def test_reports_are_those_of_the_arrays_in_any_order_and_whoever_is_killed(hosts: int, kills: int) -> None:
    """A relay that was killed resumes: its keys, order and nonces come from a root that its journal keeps."""
    model = finished(hosts, seed=hosts + kills, kills=kills)
    outcome = model.results[-1][0]
    assert outcome.missing == []
    assert outcome.sha256() == on_arrays(model).sha256()


def items_of(model: Model, kind: type[Any]) -> list[Any]:
    items = (decode_item(body) for said in model.streams.values() for _, body in said)
    return [item for item in items if type(item) is kind]


def mail_of(model: Model) -> list[Any]:
    return [envelope for mail in items_of(model, Mail) for envelope in mail.envelopes]


def test_keys_go_from_relay_to_relay_and_batches_to_hosts_of_the_cluster() -> None:
    model = finished(3, seed=1)
    mail = mail_of(model)
    assert any(type(each.message) is Batch for each in mail)
    for each in mail:
        if type(each.message) in (Unlock, Drawn, Batch):
            assert each.receiver not in (COORDINATOR, LEARNER)


WITHSTANDING = replace(SCENARIO, mechanism__relays=0, mechanism__withstand=1, mechanism__rounds=1)


def test_relays_follow_from_the_colluders_to_withstand() -> None:
    """The coordinator, who knows the clusters, works them out and tells the hosts; as ``run`` does, bit for bit."""
    model = finished(2, seed=4, scenario=WITHSTANDING)
    resolved = resolve(WITHSTANDING, labels=2, users=USERS, sizes=[USERS])
    assert model.results[-1][0].sha256() == on_arrays(model, resolved.plan.parameters).sha256()
    (said,) = {each.relays for each in items_of(model, Noise)}
    assert said == resolved.plan.parameters.relays == 2
    assert {message.step for each in mail_of(model) if isinstance(message := each.message, Batch)} == {1, 2}
    assert model.summary().privacy["coalition"].epsilon < 1


@pytest.mark.parametrize(("relays", "words"), [(1, "1 relays do not withstand 1 colluders"), (5, "1 to 4 are allowed")])
def test_a_host_does_not_believe_a_coordinator_that_asks_for_too_few_or_too_many(relays: int, words: str) -> None:
    model = Model(WITHSTANDING, 2)
    coordinator = model.parts["coordinator"]
    assert isinstance(coordinator, CoordinatorPart)
    noise_for = coordinator._noise_for
    coordinator._noise_for = lambda sizes: Noise(0.3, noise_for(sizes).delta, relays)  # type: ignore[method-assign]
    with pytest.raises(RunError, match=words):
        run_of(model)


def test_colluders_that_no_relays_withstand_end_the_run_with_the_reason() -> None:
    model = Model(replace(WITHSTANDING, mechanism__withstand=17, privacy__delta=1e-9), 2)
    with pytest.raises(RequestError, match=r"mechanism.withstand = 17 takes 18 relays"):
        run_of(model)


def test_what_a_large_attempt_takes_is_no_reason_to_shun_a_host() -> None:
    """Every relay at one host, six of them, and every attempt spoiled with all evidence shown."""
    relays, users = 6, 5000
    a_user = 3 * relays * (2 * (2 + 96 * relays + 3) + 300)
    scenario = replace(SCENARIO, mechanism__relays=4, mechanism__rounds=1)
    part = Model(scenario, 2).parts["learner"]
    part._scenario = replace(SCENARIO, clusters__minimum_size=8, mechanism__relays=relays)
    part.directory = Directory("", 0.0, users, 1, 2, [])
    assert part.allowance > a_user * users
