"""Parts of a deployment in a model of it: the same result whatever the order, whoever is killed, whenever."""

from __future__ import annotations

import dataclasses
import io
from functools import cache
from typing import Any

import msgpack
import numpy as np
import pytest
from deployment_model import Model
from small import THREE_CLUSTERS

from p2p_labeldp.data import load
from p2p_labeldp.deployment import parts
from p2p_labeldp.deployment.items import Item, Wanted
from p2p_labeldp.deployment.learning import Left
from p2p_labeldp.deployment.results import _described
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments import run
from p2p_labeldp.privacy import View
from p2p_labeldp.runs.resolve import Resolved, resolve
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

SMALL = parse_scenario(THREE_CLUSTERS, overrides=["data.users=60", "clusters.count=4"])


@cache
def vectorized(scenario: Scenario) -> str:
    return str(run(scenario, engine="vectorized").summary.noisy_sha256)


@pytest.mark.parametrize("hosts", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_items_gives_the_data_set_of_the_vectorized_engine(hosts: int, seed: int) -> None:
    model = Model(SMALL, hosts, seed)
    model.run()
    assert all(part.over for part in model.parts.values())
    assert model.digest == vectorized(SMALL)


def test_a_broadcast_that_is_encoded_in_pieces_is_the_same_broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a million users are told need not exist as a million objects at once."""
    rounds = replace(SMALL, mechanism__rounds=2)
    traces = []
    for longest in (parts.LONGEST_QUEUE, 7):
        monkeypatch.setattr(parts, "LONGEST_QUEUE", longest)
        model = Model(rounds, 3)
        model.run()
        assert model.digest == vectorized(rounds)
        _, *records = msgpack.Unpacker(io.BytesIO(model.trace))
        traces.append(sorted(repr(record[2:]) for record in records))
    assert traces[0] == traces[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism__rounds": 3, "mechanism__noise": "fresh"},
        {"mechanism__rounds": 2},
        {"clusters__method": "given"},
        {"mechanism__epsilon": 1.0},
        {"clusters__minimum_size": 50, "clusters__method": "given"},
        {"mechanism__theta": 0.0},
        {"data__labels": 5, "mechanism__alpha": 0.4},
        {"data__users": 7, "clusters__count": 1, "clusters__minimum_size": 1},
        {"defences__check_assignment": True, "clusters__minimum_size": 12},
        {"defences__abstain": False, "clusters__minimum_size": 50, "clusters__method": "given"},
    ],
    ids=str,
)
def test_every_kind_of_scenario_agrees_with_the_vectorized_engine(changes: dict[str, Any]) -> None:
    scenario = replace(SMALL, **changes)
    model = Model(scenario, 3)
    model.run()
    assert model.digest == vectorized(scenario)
    here, there = model.summary(), run(scenario, engine="actors").summary
    host = here.privacy.pop(View.USER_HOST)
    for name in ("users", "clusters", "reports", "messages_by_kind", "alpha", "accuracy", "privacy"):
        assert getattr(here, name) == getattr(there, name), name
    # A host sees at least what one of its users does, and no more than the auditor.
    assert host.epsilon <= here.privacy[View.AUDITOR].epsilon + 1e-9
    if host.own_users:
        assert host.epsilon >= here.privacy[View.PEER].epsilon - 1e-9


def test_killed_after_every_single_entry_every_node_says_the_same_again() -> None:
    model = Model(replace(SMALL, mechanism__rounds=2), 3, seed=1)
    kills = 0
    while model.step():
        for name in model.names:
            model.kill(name)
            kills += 1
    assert kills > 500
    assert model.digest == vectorized(model.scenario)


def test_flips_are_made_once_though_the_coins_are_the_systems() -> None:
    """A node that comes back answers as before: its coins are in the journal, which ``kill`` checks word by word."""
    model = Model(replace(SMALL, coins__source="system"), 2, seed=2)
    while model.step():
        for name in model.names[3:]:
            model.kill(name)
    assert len(model.results[-1][0].rounds[0][0]) > 0


def test_a_host_that_stays_away_is_named_and_the_others_finish() -> None:
    model = Model(SMALL, 3, seed=3)
    away = model.names[4]
    model.until("begun")
    model.away.add(away)
    model.run()
    model.expire("coordinator")  # hellos
    model.run()
    summary = model.summary()
    holder = model.parts["coordinator"].shares.by_key[away]  # type: ignore[union-attr]
    assert summary.missing_hosts == (holder.name,)
    assert summary.missing == tuple(range(holder.first, holder.last))
    assert summary.reports > 0
    assert all(part.over for name, part in model.parts.items() if name != away)


def test_a_host_lost_in_the_middle_of_a_round_takes_only_its_askers_with_it() -> None:
    model = Model(SMALL, 3, seed=4)
    away = model.names[3]
    model.until("clustered")
    model.away.add(away)
    model.run()
    model.expire_round()
    model.run()
    summary = model.summary()
    holder = model.parts["coordinator"].shares.by_key[away]  # type: ignore[union-attr]
    assert set(range(holder.first, holder.last)) <= set(summary.missing)
    assert summary.missing_hosts == (holder.name,)
    assert summary.privacy[View.LEARNER].method == "upper_bound"
    # What arrived is a part of what would have: nobody chose anew.
    users, labels = model.results[-1][0].rounds[0]
    whole = run(SMALL, engine="vectorized").outcome.rounds[0]
    expected = dict(zip(whole[0].tolist(), whole[1].tolist(), strict=True))
    assert all(expected[user] == label for user, label in zip(users.tolist(), labels.tolist(), strict=True))


def test_too_few_flips_of_the_coordinator_are_noticed_by_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(scenario: Scenario, **facts: Any) -> Resolved:
        return resolve(replace(scenario, mechanism__alpha=0.01, mechanism__epsilon=0.0), **facts)

    monkeypatch.setattr("p2p_labeldp.deployment.coordinating.resolve", careless)
    model = Model(replace(SMALL, mechanism__epsilon=0.5), 2)
    with pytest.raises(RunError, match=r"coordinator's alpha 0\.01 would spend epsilon"):
        model.run()


def test_ids_go_by_arrival_or_by_name() -> None:
    for order, first in (("arrival", 1), ("name", 0)):
        model = Model(SMALL, 3)
        model.scenario = replace(model.scenario, deployment__order=order)
        model.parts["coordinator"] = model.make("coordinator")
        for name in (model.names[4], model.names[3], model.names[5]):
            model.deliver(name, "coordinator")
        shares = model.parts["coordinator"].shares
        assert shares is not None
        assert shares.hosts[0].key == model.names[3 + first]
        assert [holder.first for holder in shares.hosts] == [0, 20, 40]
        model.run()
        assert (model.digest == vectorized(SMALL)) == (order == "name")


def test_the_model_is_handed_to_hosts_that_ask_and_to_nobody_else() -> None:
    kept: list[dict[str, bytes]] = []
    asks = f"{2:064x}"
    model = Model(SMALL, 3, seed=4, wants={asks: kept.append})
    model.left = Left(b"m" * 700_000, b"its card")
    while model.step():
        if model.generator.random() < 0.02:
            model.kill(asks)
            model.kill("learner")
    assert kept[-1] == {"model.npz": b"m" * 700_000, "model-card.md": b"its card"}
    assert all(part.over for part in model.parts.values())
    told = {pair[1] for pair, said in model.streams.items() if pair[0] == "learner" and said}
    assert told & {*model.names[3:]} == {asks}


class Unheard(UsersPart):
    """Asks for the model, and the learner never hears it."""

    def say(self, key: str, item: Item) -> None:
        if not isinstance(item, Wanted):
            super().say(key, item)


def test_a_host_that_asked_waits_for_the_model_and_says_so_where_it_never_comes() -> None:
    asks = f"{1:064x}"
    unheard = {asks: lambda name, log, model: model.make_users(name, log, Unheard)}
    model = Model(SMALL, 2, parts=unheard, wants={asks: lambda files: None})
    model.run()
    assert not model.parts[asks].over
    assert model.parts[asks].waits_for == "the learner to hand over the model"
    with pytest.raises(RunError, match="the learner did not hand over the model within 60 seconds"):
        model.expire(asks)


def with_persons(persons: list[int]) -> Model:
    """Two hosts, and a person for every row."""
    data = load(SMALL.data, SMALL.coins.seed)
    return Model(SMALL, 2, dataset=dataclasses.replace(data, persons=np.array(persons)))


def test_one_person_at_two_hosts_ends_the_run_before_anyone_begins() -> None:
    model = with_persons([4711 if row in (29, 30) else row for row in range(60)])
    with pytest.raises(RequestError, match="users-01 and users-02 have rows of one person; she may take part at one"):
        model.run()
    assert not any(event == "begun" for _, event, _ in model.logged)
    assert "4711" not in str(model.logged)


def test_rows_of_one_person_at_one_host_are_counted() -> None:
    model = with_persons([row // 3 for row in range(60)])
    model.run()
    assert model.results[-1][1].person_rows == 3
    assert model.digest == vectorized(SMALL)


def test_of_users_whose_features_were_lost_nothing_is_learned() -> None:
    """A host that stays away for good, before the learner has its features: its users report nothing and count not."""
    model = Model(SMALL, 3)
    model.run()
    outcome, _, _, _, known = model.results[-1]
    assert known.came.all()
    assert known.features.tolist() == model.dataset.features.tolist()
    seen = _described(outcome, dataclasses.replace(known, came=np.arange(60) < 40))
    assert (seen.clusters[40:] == -1).all()
    assert all((users < 40).all() for users, _ in seen.rounds)
    assert seen.clusters[:40].tolist() == outcome.clusters[:40].tolist()


def test_no_label_reaches_the_coordinator() -> None:
    """With other labels, the same coins and the same order, it takes byte for byte the same."""
    inputs, data = [], load(SMALL.data, SMALL.coins.seed)
    for turn in (0, 1):
        model = Model(SMALL, 2, seed=5, dataset=dataclasses.replace(data, labels=(data.labels + turn) % 2))
        model.run()
        inputs.append([entry.body for entry in model.journals["coordinator"]])
    assert inputs[0] == inputs[1]


def test_the_trace_shows_no_effect_before_its_cause() -> None:
    model = Model(SMALL, 4, seed=6)
    model.run()
    header, *records = msgpack.Unpacker(io.BytesIO(model.trace), raw=False)
    assert header["clock"] == "wall"
    assert [record[0] for record in records] == list(range(len(records)))
    assert np.all(np.diff([record[1] for record in records]) >= 0)
    seen: set[tuple[Any, ...]] = set()
    for _, _, sender, receiver, message in records:
        kind = message[0]
        if kind == "answer":
            assert ("ask", receiver, sender) in seen
        if kind in ("report", "done") and message[-1] != "abstained":
            assert ("answered", sender) in seen
        seen.add((kind, sender, receiver))
        if kind == "answer":
            seen.add(("answered", receiver))
