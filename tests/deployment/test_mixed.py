"""The mixed exchange between nodes: any order of items, nodes killed anywhere, real packets."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployment_model import KeptCoins, Model
from small import MIXED

from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.costs import Costs
from p2p_labeldp.deployment.items import Directory, Mail, Noise, decode_item
from p2p_labeldp.deployment.local import deploy
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters, View
from p2p_labeldp.protocol.beforehand import parameters_of
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Assignment, Batch, Drawn, Go, Unlock
from p2p_labeldp.runs.resolve import resolve
from p2p_labeldp.scenario import Scenario, make_entry, parse_scenario, replace

USERS = 18
SCENARIO = parse_scenario(
    MIXED,
    overrides=[
        f"data.users={USERS}",
        "mechanism.alpha=0.3",
        "mechanism.theta=0.7",
        "mechanism.rounds=2",
        "coins.seed=5",
    ],
)


def finished(hosts: int, seed: int, kills: int = 0, scenario: Scenario = SCENARIO) -> Model:
    model = Model(scenario, hosts, seed)
    model.run_with(kills, seed)
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
        model.run_with()


def test_colluders_that_no_relays_withstand_end_the_run_with_the_reason() -> None:
    model = Model(replace(WITHSTANDING, mechanism__withstand=17, privacy__delta=1e-9), 2)
    with pytest.raises(RequestError, match=r"mechanism.withstand = 17 takes 18 relays"):
        model.run_with()


@pytest.mark.slow
def test_processes_end_with_that_reason_as_a_wrong_request_and_leave_nothing(tmp_path: Path) -> None:
    scenario = replace(WITHSTANDING, mechanism__withstand=17, privacy__delta=1e-9)
    with pytest.raises(RequestError, match=r"^mechanism.withstand = 17 takes 18 relays") as refused:
        deploy(scenario, hosts=2, out=tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_what_a_large_attempt_takes_is_no_reason_to_shun_a_host() -> None:
    """Every relay at one host, six of them, and every attempt spoiled with all evidence shown."""
    relays, users = 6, 5000
    a_user = 3 * relays * (2 * (2 + 96 * relays + 3) + 300)
    scenario = replace(SCENARIO, clusters__minimum_size=8, mechanism__relays=relays, mechanism__rounds=1)
    costs = Costs(scenario, lambda event, **facts: None)
    costs.directory = Directory("", 0.0, users, 1, 2, [])
    assert costs.most_bytes > a_user * users


# Whoever is gone


@pytest.mark.parametrize(
    ("host", "every"), [(2, 18), pytest.param(2, 6, marks=pytest.mark.slow), pytest.param(0, 6, marks=pytest.mark.slow)]
)
def test_a_host_that_is_lost_at_any_moment_leaves_no_cluster_half_open(host: int, every: int) -> None:
    """The others go on without its users, or the cluster stops. No label is opened twice, and where somebody was there
    for a while the flips alone are stated."""
    scenario = replace(SCENARIO, mechanism__rounds=1)
    flips, ways = math.log(0.7 / 0.3), Counter[str]()
    for steps in itertools.count(0, every):
        model = Model(scenario, 3, 1)
        for name in model.hosts:
            model.deliver(name, "coordinator")
        if not all(model.step() for _ in range(steps)):
            break
        model.away.add(model.hosts[host])
        model.run()
        there = [part for name, part in model.parts.items() if name not in model.away]
        while not all(part.over for part in there):
            model.expire_round()
            model.run()
        outcome, mail = model.results[-1][0], mail_of(model)
        opened = {each.message.attempt for each in mail if type(each.message) in (Unlock, Drawn)}
        assert len(opened) <= 1
        counts = outcome.outcomes[0]
        assert counts["reported"] + counts["dropped"] + counts["abstained"] >= USERS - len(outcome.missing)
        assigned = any(type(each.message) is Assignment and each.receiver in outcome.missing for each in mail)
        stated = model.summary().privacy[View.LEARNER].epsilon
        assert (stated > 0.99 * flips) == assigned
        ways["stopped" if outcome.stopped else "smaller" if outcome.missing else "whole"] += 1
    assert set(ways) == {"stopped", "smaller", "whole"}


# Whoever misbehaves


def misbehaved(kind: str, hosts: type[UsersPart] = UsersPart, **keys: Any) -> Model:
    """Three hosts that carry adversaries; waits are over as often as it takes."""
    entry = make_entry("adversaries", {"kind": kind, "users": EVERYONE} | keys)
    parts = {f"{place:064x}": lambda name, log, model: model.make_users(name, log, hosts) for place in (1, 2, 3)}
    model = Model(replace(SCENARIO, mechanism__rounds=1, adversaries=[entry]), 3, 1, parts)
    model.run()
    for _ in range(8):
        if not all(part.over for part in model.parts.values()):
            model.expire_round()
            model.run()
    assert all(part.over for part in model.parts.values())
    return model


def opened(model: Model) -> bool:
    return any(type(each.message) in (Unlock, Drawn) for each in mail_of(model))


EVERYONE = list(range(1, USERS))
STOPPED = {
    "drop": "the limit is over; waited for: user",
    "replace": "a packet that the relay's key does not open; may be to blame: user",
    "isolate": "did not pass on a packet that she took (caught: user",
    "equivocate": "the last relay signed two batches; caught, signed by her: user",
}


@pytest.mark.parametrize("way", STOPPED)
def test_relays_that_tamper_with_packets_have_nothing_opened_and_are_named(way: str) -> None:
    """Everyone but the victim would, so that every attempt is spoiled. All ways are tried in ``adversaries/``."""
    model = misbehaved("crooked_relays", way=way, victim=0)
    outcome = model.results[-1][0]
    assert not opened(model)
    assert [len(users) for users, _ in outcome.rounds] == [0]
    assert (outcome.outcomes[0]["abstained"], outcome.stopped) == (USERS, [0])
    assert any(STOPPED[way] in warning for warning in outcome.warnings)
    assert model.summary().warnings[: len(outcome.warnings)] == tuple(outcome.warnings)


@pytest.mark.parametrize("way", ["order", "early"])
def test_relays_that_keep_the_order_or_release_at_once_gain_nothing(way: str) -> None:
    """The draws are as ever; one honest relay hides whose label is whose, and keeps its key until everyone said go."""
    model = misbehaved("crooked_relays", way=way, victim=0)
    outcome = model.results[-1][0]
    assert outcome.outcomes[0]["reported"] + outcome.outcomes[0]["dropped"] == USERS
    assert outcome.missing == []
    if way == "early":  # what each of them was dealt is what it would have been dealt
        assert outcome.sha256() == on_arrays(model, dataclasses.replace(parameters_of(SCENARIO, 2), rounds=1)).sha256()


class WithoutGo(UsersPart):
    """Loses what user 1 says of the batch."""

    def send(self, sender: int, receiver: int, message: Any) -> None:
        if type(message) is not Go or sender != 1:
            super().send(sender, receiver, message)


def test_early_keys_open_nothing_while_one_relay_waits_for_a_go() -> None:
    """Every relay but an honest one releases at once; one go never comes, and no label is told."""
    relays = {each.receiver for each in mail_of(finished(3, seed=1)) if type(each.message) is Go}
    crooked = sorted(relays - {min(relays), 1})
    model = misbehaved("crooked_relays", way="early", victim=1, users=crooked, hosts=WithoutGo)
    assert any(type(each.message) is Unlock for each in mail_of(model))
    assert not any(type(each.message) is Drawn for each in mail_of(model))
    assert [len(users) for users, _ in model.results[-1][0].rounds] == [0]


def test_whoever_says_no_go_for_ever_is_caught_and_excluded_by_nobody() -> None:
    """What she is judged by may come before her no-go does."""
    model = misbehaved("no_go", users=[3])
    outcome = model.results[-1][0]
    assert not opened(model)
    caught = [
        each for each in outcome.warnings if "says no-go, and her packet is in the batch (caught: user 3)" in each
    ]
    assert len(caught) == 3
    assert outcome.outcomes[0]["abstained"] == USERS
