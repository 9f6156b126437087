"""What a party receives is a function of the view that is accounted for: contents, order, batches, sizes and times.

Pairs of executions are run that have one view and differ in everything else: who asked whom, noisy and true labels,
delays of the exchange, the order in which items arrive, which nodes are killed. Every transcript of the pair is
compared, byte for byte. Times count from the close of a round: when a round is closed depends on its slowest exchange.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployment_model import Model
from journals import ENTRY, of_kind
from live_deployment import Live
from small import population_of, simulated
from transcripts import Execution, Received, alike, drawn, listen

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.deployment import making
from p2p_labeldp.deployment.items import Begin, Examples, Mail, Result, Wanted, decode_item
from p2p_labeldp.deployment.journal import FILE, TAKEN, Entry
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    LEARNER,
    Answer,
    Done,
    Goodbye,
    Message,
    Outgoing,
    Report,
    Round,
)
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Network, parse_scenario, replace

ALPHA, THETA, ROUNDS, SIZE = 0.3, 0.6, 2, 24
HOSTINGS = pytest.mark.parametrize("hosting", ["user", "cluster"])
NETWORKS = pytest.mark.parametrize(
    "network",
    [Network(), Network(latency=0.1), Network(latency=0.05, jitter=0.3)],
    ids=["at once", "latency", "jitter"],
)
# Where no time passes, when a message comes within the exchange is a matter of how tasks are run.
SLOWLY = pytest.mark.parametrize("network", [Network(latency=0.1), Network(latency=0.05, jitter=0.3)], ids=str)
HOLDUPS = [
    # Every one of them is over before the exchange is.
    {"rule": "delay", "seconds": 3.0, "probability": 0.5, "start": 0.06, "end": 0.9},
    {"rule": "loss", "probability": 0.7, "start": 0.06, "end": 2.0},
    {"rule": "partition", "users": [3, 4, 5, 6], "start": 0.06, "end": 4.0},
    {"rule": "duplicate", "probability": 0.5, "start": 0.06, "end": 0.9},
]


def simulation_of(
    execution: Execution, network: Network, hosting: str, holdups: list[dict[str, Any]] | None = None
) -> Simulation:
    size = len(execution.labels)
    text = "".join("\n[[faults]]\n" + "\n".join(f"{k} = {v!r}" for k, v in rule.items()) for rule in holdups or [])
    faults = Faults(parse_scenario(text).faults, size, 7, 1000.0) if holdups is not None else None
    population, coins = population_of(execution.labels, [0] * size), execution.coins(ALPHA, THETA)
    parameters = Parameters(ALPHA, THETA, rounds=len(execution.asked))
    return simulated(population, parameters, coins, network, hosting=hosting, seed=7, faults=faults)


def heard(simulation: Simulation, role: str, address: int) -> Received:
    received = listen(simulation, role, address)
    assert simulation.run().missing == []
    return received


# In memory


@HOSTINGS
@NETWORKS
@pytest.mark.parametrize("seed", range(4))
def test_a_learner_cannot_tell_who_asked_whom(hosting: str, network: Network, seed: int) -> None:
    pair = alike(np.random.default_rng(seed), SIZE, ROUNDS)
    one, other = (heard(simulation_of(each, network, hosting), "learner", LEARNER) for each in pair)
    assert len(one.messages) > ROUNDS
    assert one.since_each_close() == other.since_each_close()


@HOSTINGS
@pytest.mark.parametrize("rule", HOLDUPS, ids=lambda rule: str(rule["rule"]))
def test_a_learner_cannot_tell_whose_exchange_was_held_up(hosting: str, rule: dict[str, Any]) -> None:
    """The first round is held up in one of the two, and not in the other."""
    pair = alike(np.random.default_rng(11), SIZE, ROUNDS)
    network = Network(latency=0.05, jitter=0.01)
    one = heard(simulation_of(pair[0], network, hosting, []), "learner", LEARNER)
    simulation = simulation_of(pair[1], network, hosting, [rule])
    other = heard(simulation, "learner", LEARNER)
    assert simulation.outcome().faults[0]["fired"] > 0
    assert simulation.network.last_time > 1.0 or rule["rule"] == "duplicate", "the exchange did take longer"
    assert one.since_each_close() == other.since_each_close()


@HOSTINGS
@SLOWLY
def test_what_the_coordinator_receives_does_not_depend_on_labels(hosting: str, network: Network) -> None:
    one = drawn(np.random.default_rng(5), SIZE, ROUNDS)
    other = dataclasses.replace(one, noisy=1 - one.noisy, labels=np.roll(one.labels, 1))
    first, second = (heard(simulation_of(each, network, hosting), "coordinator", COORDINATOR) for each in (one, other))
    assert first.messages == second.messages


class Listening(User):
    """Notes what she receives."""

    __slots__ = ("received",)

    def receive(self, sender: int, message: Message) -> Any:
        self.received.note(sender, message)
        return super().receive(sender, message)


@HOSTINGS
@SLOWLY
def test_what_a_user_receives_depends_on_no_label_but_that_of_her_peer(hosting: str, network: Network) -> None:
    one = drawn(np.random.default_rng(6), SIZE, 1)
    for user in range(0, SIZE, 8):
        noisy = 1 - one.noisy
        noisy[one.asked[0][user]] ^= 1
        other = dataclasses.replace(one, noisy=noisy, labels=1 - one.labels)
        transcripts = []
        for each in (one, other):
            simulation = simulation_of(each, network, hosting)
            listener = Listening(user, int(each.labels[user]), simulation.host)
            listener.received = Received(user, simulation.network)
            simulation.users[user] = listener
            simulation.run()
            transcripts.append(sorted(listener.received.messages))
        assert transcripts[0] == transcripts[1]


class Hasty(User):
    """Reports as soon as she is answered, and not at the close."""

    __slots__ = ()

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        said = [pair for pair in super().receive(sender, message) if type(pair[1]) is not Report]
        if type(message) is Answer and self._keeps:
            said.append((LEARNER, Report(message.round, message.label)))
        return said


def test_reports_that_leave_with_the_answer_are_told_apart() -> None:
    """So these tests are able to fail."""
    found = []
    for each in alike(np.random.default_rng(0), SIZE, 1):
        simulation = simulation_of(each, Network(latency=0.05, jitter=0.3), "user")
        simulation.users = [Hasty(user.id, user.label, user.host) for user in simulation.users]
        found.append([(sender, frame) for _, sender, frame in heard(simulation, "learner", LEARNER).messages])
    assert sorted(found[0]) == sorted(found[1])
    assert found[0] != found[1]


# Deployments, in a model that delivers items in any order and kills whom it likes

SCENARIO = parse_scenario(f"""
[data]
name = "synthetic"
users = {SIZE}
[clusters]
count = 1
minimum_size = 2
[mechanism]
alpha = {ALPHA}
theta = {THETA}
rounds = {ROUNDS}
""")
HOSTS = pytest.mark.parametrize("hosts", [1, 2, 8])
Said = dict[tuple[str, str], list[tuple[int, bytes]]]


class Watched(Model):
    """Knows what a host took when it said something to the learner."""

    def __init__(self, *facts: Any, **settings: Any) -> None:
        self.causes: list[tuple[str, bytes]] = []
        super().__init__(*facts, **settings)

    def do(self, name: str, entry: Entry) -> None:
        before = len(self.streams[name, "learner"])
        super().do(name, entry)
        self.causes += [(name, entry.body)] * (len(self.streams[name, "learner"]) - before)


def dataset_of(execution: Execution) -> Dataset:
    return dataclasses.replace(load(SCENARIO.data, 0), labels=execution.labels, conditional=None)


def deployed(execution: Execution, hosts: int, seed: int, kills: int = 0) -> Watched:
    """A run to its end; ``seed`` draws the order of what arrives, and who is killed when."""
    scenario = replace(SCENARIO, mechanism__rounds=len(execution.asked))
    model = Watched(scenario, hosts, seed, dataset=dataset_of(execution), tossed=execution.coins(ALPHA, THETA))
    model.run_with(kills, seed)
    return model


def said_to(model: Model, name: str) -> Said:
    return {pair: said for pair, said in sorted(model.streams.items()) if pair[1] == name and said}


@HOSTS
@pytest.mark.parametrize("seed", range(3))
def test_over_links_a_learner_cannot_tell_who_asked_whom(hosts: int, seed: int) -> None:
    """Clocks, batches, their order and their bytes, and the journal, which has all of them."""
    pair = alike(np.random.default_rng(seed), SIZE, ROUNDS)
    one, other = deployed(pair[0], hosts, seed), deployed(pair[1], hosts, seed + 100, kills=8)
    assert said_to(one, "learner") == said_to(other, "learner")
    journals = [
        sorted((entry.peer, entry.name, entry.clock, entry.body) for entry in model.journals["learner"] if entry.body)
        for model in (one, other)
    ]
    assert journals[0] == journals[1]


@HOSTS
def test_a_host_speaks_to_the_learner_when_it_begins_and_when_all_its_users_are_told_of_the_close(hosts: int) -> None:
    model = deployed(drawn(np.random.default_rng(3), SIZE, ROUNDS), hosts, 3)
    causes = [body for name, body in model.causes if name not in ("coordinator", "auditor")]
    items = [decode_item(body) for body in causes]
    assert sum(type(item) is Begin for item in items) == hosts, "then it tells features"
    closes = [item for item in items if type(item) is not Begin]
    assert hosts <= len(closes) <= hosts * ROUNDS
    for item in closes:
        assert isinstance(item, Mail)
        (last,) = [envelope.message for envelope in item.envelopes if envelope.receiver == HOST]
        assert type(last) in (Round, Goodbye)


@HOSTS
def test_of_rows_the_learner_is_told_everyones_features_and_nothing_else(hosts: int) -> None:
    model = deployed(drawn(np.random.default_rng(4), SIZE, ROUNDS), hosts, 4)
    features = {}
    for name in model.names[3:]:
        first, *rest = (decode_item(body) for _, body in model.streams[name, "learner"])
        assert isinstance(first, Examples)
        assert all(type(item) is Mail for item in rest)
        features[first.first] = first.features
    assert b"".join(features[first] for first in sorted(features)) == model.dataset.features.tobytes()


def test_a_host_that_asks_is_told_the_learners_files_and_nothing_else() -> None:
    execution = drawn(np.random.default_rng(4), SIZE, ROUNDS)
    asks = f"{1:064x}"
    model = Model(SCENARIO, 2, dataset=dataset_of(execution), wants={asks: lambda files: None})
    model.run()
    told = [decode_item(body) for _, body in model.streams["learner", asks]]
    assert [(item.name, item.content) for item in told if isinstance(item, Result)] == [
        ("model.npz", model.left.model),
        ("model-card.md", model.left.card),
    ]
    assert len(told) == 2
    assert not model.streams["learner", f"{2:064x}"]


@HOSTS
def test_reports_leave_a_host_in_one_batch_in_the_order_of_users(hosts: int) -> None:
    model = deployed(drawn(np.random.default_rng(4), SIZE, ROUNDS), hosts, 4)
    for name in model.names[3:]:
        for _, body in model.streams[name, "learner"][1:]:  # behind the features
            item = decode_item(body)
            assert isinstance(item, Mail)
            senders = [envelope.sender for envelope in item.envelopes]
            assert senders == sorted(senders)


@HOSTS
def test_over_links_nothing_but_a_label_itself_depends_on_labels(hosts: int) -> None:
    """Of everything that anyone says to anyone: when, how many items, and how long each is."""
    one = drawn(np.random.default_rng(5), SIZE, ROUNDS)
    other = dataclasses.replace(one, noisy=1 - one.noisy, labels=np.roll(one.labels, 1))
    first, second = deployed(one, hosts, 5), deployed(other, hosts, 5)
    assert said_to(first, "coordinator") == said_to(second, "coordinator")
    sizes = [
        {pair: [(clock, len(body)) for clock, body in said] for pair, said in model.streams.items()}
        for model in (first, second)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("hosts", [2, 8])
def test_what_a_host_receives_depends_on_no_label_but_those_its_users_asked_for(hosts: int) -> None:
    one = drawn(np.random.default_rng(6), SIZE, 1)
    for place, first in enumerate(range(0, SIZE, SIZE // hosts)):
        own = slice(first, first + SIZE // hosts)
        hidden = np.ones(SIZE, dtype=np.bool_)
        hidden[one.asked[0][own]] = False
        hidden[own] = False
        assert hidden.any()
        other = dataclasses.replace(one, noisy=np.where(hidden, 1 - one.noisy, one.noisy))
        models = [deployed(each, hosts, 6) for each in (one, other)]
        shares = [model.parts["coordinator"].shares for model in models]
        assert shares[0] is not None
        assert shares[0].hosts == (shares[1] and shares[1].hosts)
        name = shares[0].hosts[place].key
        assert said_to(models[0], name) == said_to(models[1], name)


@HOSTS
def test_that_users_are_done_is_told_of_all_at_once(hosts: int) -> None:
    """So that when the coordinator hears of it does not tell who waited for whom at that host."""
    for each in alike(np.random.default_rng(7), SIZE, 1):
        model = deployed(each, hosts, 7)
        for name in model.names[3:]:
            mails = [decode_item(body) for _, body in model.streams[name, "coordinator"]]
            dones = [
                [envelope.sender for envelope in item.envelopes if type(envelope.message) is Done]
                for item in mails
                if isinstance(item, Mail)
            ]
            holder = model.parts["coordinator"].shares.by_key[name]  # type: ignore[union-attr]
            assert [users for users in dones if users] == [list(range(holder.first, holder.last))]


# Over TLS


async def over_tls(execution: Execution, folder: Path, hosts: int, patch: Callable[..., None]) -> dict[int, list[Any]]:
    """What the learner's journal has of the protocol's messages, by the first user of the host they came from."""
    dataset, coins = dataset_of(execution), execution.coins(ALPHA, THETA)
    patch(making, "make_coins", lambda *_: coins)
    live = Live(folder, SCENARIO, hosts=hosts, dataset=dataset)
    async with live.running():
        await live.start("coordinator", "learner", "auditor")
        for place in range(hosts):
            await live.start(f"users-{place + 1}")
            await live.saw("coordinator", "joined", place + 1)
        await live.finish()
        shares = live.nodes["learner"]._part.shares
        assert shares is not None
        firsts = {"coordinator": -1} | {holder.key: holder.first for holder in shares.hosts}
    found: dict[int, list[Any]] = {}
    for _, kind, peer, _, clock, body in of_kind(folder / "state" / "learner" / FILE, ENTRY):
        if kind == TAKEN and isinstance(decode_item(body), Mail | Examples | Wanted):
            found.setdefault(firsts[peer], []).append((clock, body))
    return found


@pytest.mark.parametrize("hosts", [1, 2, pytest.param(8, marks=pytest.mark.slow)])
async def test_over_tls_the_learners_journal_does_not_tell_who_asked_whom(
    hosts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = alike(np.random.default_rng(hosts), SIZE, ROUNDS)
    one, other = [
        await over_tls(each, tmp_path / f"{place}", hosts, monkeypatch.setattr) for place, each in enumerate(pair)
    ]
    assert len(one) == hosts + 1
    assert one == other
