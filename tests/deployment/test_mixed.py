"""The mixed exchange between nodes: any order of items, nodes killed anywhere, real packets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deployment_model import KeptCoins, Model

from p2p_labeldp.deployment.items import Mail, decode_item
from p2p_labeldp.deployment.parts import require_deployable
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Batch, Drawn, Unlock
from p2p_labeldp.protocol.parameters import parameters_of
from p2p_labeldp.scenario import parse_scenario, replace

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


def finished(hosts: int, seed: int, kills: int = 0) -> Model:
    model = Model(SCENARIO, hosts, seed)
    for name in model.names[3:]:
        model.deliver(name, "coordinator")
    chance = np.random.default_rng(seed)
    while model.step():
        if chance.random() < kills / 200:
            model.kill(model.names[int(chance.integers(len(model.names)))])
    assert all(part.over for part in model.parts.values())
    return model


def on_arrays(model: Model) -> Any:
    parameters = parameters_of(SCENARIO, 2)
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


def mail_of(model: Model) -> list[Any]:
    found = []
    for said in model.streams.values():
        for _, body in said:
            item = decode_item(body)
            found += item.envelopes if isinstance(item, Mail) else []
    return found


def test_keys_go_from_relay_to_relay_and_batches_to_hosts_of_the_cluster() -> None:
    model = finished(3, seed=1)
    mail = mail_of(model)
    assert any(type(each.message) is Batch for each in mail)
    for each in mail:
        if type(each.message) in (Unlock, Drawn, Batch):
            assert each.receiver not in (COORDINATOR, LEARNER)


def test_withstand_and_adversaries_are_refused_in_one_line() -> None:
    with pytest.raises(RequestError, match=r"^mechanism.withstand cannot be deployed; give mechanism.relays$"):
        require_deployable(replace(SCENARIO, mechanism__relays=0, mechanism__withstand=2))
