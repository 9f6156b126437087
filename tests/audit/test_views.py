"""A view holds what its adversary sees and nothing else, and both engines give the same one."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from array_views import said, within_exchange
from games import seen_by_actors
from numpy.typing import NDArray
from small import population_of, sixty

from p2p_labeldp.adversaries import ATTACKS
from p2p_labeldp.audit.array_views import views_of_exchange
from p2p_labeldp.audit.folder import RecordedRun
from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.audit.views import View, view_of
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.games import Game, seen_by_arrays
from p2p_labeldp.experiments.run import run
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import VIEWS, Parameters
from p2p_labeldp.scenario import Network

SEED = 11
# Clusters of 9, 7 and 4; the last one is below the minimum, so that its users abstain.
CLUSTERS = np.array([0, 1, 0, 2, 1, 0, 0, 1, 2, 0, 1, 1, 0, 2, 0, 1, 0, 2, 1, 0])
LABELS = np.arange(20) % 3
MEMBERS = {"peer": [5, 7], "coalition": [5, 6, 10]}
Record = list[Any]


def parameters_of(rounds: int = 1, noise: str = "sticky", exchange: str = "pull") -> Parameters:
    return Parameters(0.3, 0.7, labels=3, noise=noise, rounds=rounds, minimum_size=5, exchange=exchange)


def traced(path: Path, parameters: Parameters, hosting: str = "user", network: Network | None = None) -> Trace:
    """The trace of twenty actors."""
    with path.open("wb") as file:
        coins = SeededCoins(SEED)
        simulation = Simulation(
            population_of(LABELS, CLUSTERS),
            exchange_of(parameters),
            coins,
            network or Network(),
            hosting=hosting,
            seed=SEED,
            write=file.write,
        )
        simulation.run()
    return Trace.open(path)


def knowledge(adversary: str) -> dict[str, Any]:
    """What a view is asked for with: everyone's label but that of user 0 is known beforehand."""
    background = {user: int(label) for user, label in enumerate(LABELS) if user}
    return {"members": MEMBERS.get(adversary, ()), "background": background}


@pytest.mark.parametrize(
    ("rounds", "noise", "exchange"),
    [*product((1, 2), ("sticky", "fresh"), ("pull",)), (2, "fresh", "permutation")],
)
@pytest.mark.parametrize("adversary", VIEWS)
def test_a_trace_and_the_arrays_give_the_same_view(
    adversary: str, rounds: int, noise: str, exchange: str, tmp_path: Path
) -> None:
    parameters = parameters_of(rounds, noise, exchange)
    coins = SeededCoins(SEED)
    for hosting, network in (("user", Network(latency=0.5, jitter=3.0)), ("cluster", Network())):
        trace = traced(tmp_path / hosting, parameters, hosting, network)
        found = view_of(
            trace, adversary, parameters=parameters, coins=coins, true_labels=LABELS, **knowledge(adversary)
        )
        for cluster in found.clusters:
            expected = within_exchange(cluster, LABELS, CLUSTERS, parameters, coins, adversary, **knowledge(adversary))
            assert said(found.within(cluster)) == said(expected)


@pytest.mark.parametrize("adversary", VIEWS)
def test_each_trial_of_a_game_gives_the_same_view_through_actors_and_arrays(adversary: str) -> None:
    rounds = 1 if adversary == "shuffle" else 2  # a real shuffler is handed labels once
    game = Game(adversary, 6, Parameters(0.2, 0.7, rounds=rounds), 5, SEED, 2 if adversary == "coalition" else 0)
    by_actors, by_arrays = seen_by_actors(game, game.bounds()), seen_by_arrays(game, game.bounds())
    for trial in range(5):
        assert said(by_actors.within(trial)) == said(by_arrays, trial)


def test_a_member_knows_whom_everyone_of_her_cluster_asks_by_the_permutation(tmp_path: Path) -> None:
    parameters = parameters_of(exchange="permutation")
    trace = traced(tmp_path / "trace", parameters)
    for adversary in ("peer", "coalition"):
        seen = view_of(trace, adversary, members=[5], parameters=parameters, coins=SeededCoins(SEED))
        assert seen.asks is not None
        assert sorted(seen.asks[0]) == sorted(seen.asks[0].values()) == np.flatnonzero(CLUSTERS == 0).tolist()
    learner = view_of(trace, "learner", parameters=parameters)
    assert learner.asks is None


def test_a_recorded_run_brings_its_own_parameters_coins_and_reports(tmp_path: Path) -> None:
    made = run(sixty(), out=tmp_path / "run")
    recorded = RecordedRun.read(tmp_path / "run")
    coins = SeededCoins(made.scenario.coins.seed)
    for adversary in VIEWS:
        members = {"peer": [3], "coalition": [3, 4]}.get(adversary, [])
        expected = within_exchange(
            0, made.dataset.labels, made.outcome.clusters, recorded.parameters, coins, adversary, members=members
        )
        assert said(view_of(recorded, adversary, members=members).within(0)) == said(expected)


def test_self_asks_are_in_the_trace_and_not_on_the_wire(tmp_path: Path) -> None:
    parameters = parameters_of()
    trace = traced(tmp_path / "trace", parameters)
    seen = {adversary: view_of(trace, adversary, parameters=parameters) for adversary in ("auditor", "network")}
    asks = {adversary: view.asks[0] for adversary, view in seen.items() if view.asks}
    alone = {user for user, peer in asks["auditor"].items() if user == peer}
    assert alone
    assert set(asks["auditor"]) - set(asks["network"]) == alone
    assert all(answerer != asker for answerer, asker in (seen["network"].answers or [{}])[0])


# What may be seen, said once more and otherwise: by kind of message and the two users it goes between.


def is_seen(adversary: str, kind: str, sender: int, receiver: int) -> bool:
    if kind == "report":
        return adversary in ("learner", "metadata", "network", "auditor", "coalition")
    if adversary in ("peer", "coalition"):
        return bool({sender, receiver} & set(MEMBERS[adversary]))
    if sender == receiver:
        return adversary == "auditor"
    among_users = {
        "ask": ("metadata", "eavesdropper", "network", "auditor"),
        "answer": ("eavesdropper", "network", "auditor"),
    }
    return adversary in among_users[kind]


def altered(record: Record, generator: random.Random) -> Record:
    """Another label, another peer, another outcome: whatever the message says."""
    number, time, sender, receiver, (kind, *fields) = record
    if kind in ("answer", "report"):
        fields[1] = (fields[1] + generator.randrange(1, 3)) % 3
    elif kind == "ask" and sender != receiver:
        # A question that nobody sees stays so only between two others who are nobody's members.
        own = {user for members in MEMBERS.values() for user in members} | {sender}
        receiver = generator.choice([user for user in range(20) if user not in own])
    elif kind == "done":
        fields[1] = "dropped"
    elif kind == "hello":
        fields[1] += 1
    return [number, time + generator.random(), sender, receiver, [kind, *fields]]


def read(trace: Trace) -> tuple[Record, list[Record]]:
    with trace.path.open("rb") as file:
        header, *records = msgpack.Unpacker(file)
    return header, records


def rebuilt(header: Record, records: list[Record], path: Path, adversary: str, coins: Any) -> View:
    path.write_bytes(b"".join(map(msgpack.packb, [header, *records])))
    labels = LABELS if adversary == "shuffle" else None
    return view_of(
        Trace.open(path),
        adversary,
        parameters=parameters_of(2),
        coins=coins,
        true_labels=labels,
        **knowledge(adversary),
    )


class OthersCoins:
    """The coins of the members as they are, everyone else's drawn anew."""

    def __init__(self, members: set[int]) -> None:
        self.members = members

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        drawn, other = (SeededCoins(seed).block(round_, start, stop) for seed in (SEED, SEED + 1))
        rows = [user in self.members for user in range(start, stop)]
        return np.where(np.array(rows)[:, None], drawn, other)


def scores(view: View) -> list[float]:
    """What every attack says about every user of the two clusters that take part."""
    victims = [user for user in range(20) if CLUSTERS[user] < 2 and user not in view.members]
    return [attack(view, user, (0, label)) for attack in ATTACKS.values() for user in victims for label in (1, 2)]


@pytest.mark.parametrize("adversary", VIEWS)
def test_what_is_outside_a_view_changes_nothing(adversary: str, tmp_path: Path) -> None:
    header, records = read(traced(tmp_path / "trace", parameters_of(2)))
    before = rebuilt(header, records, tmp_path / "same", adversary, SeededCoins(SEED))
    coins = SeededCoins(SEED) if adversary == "shuffle" else OthersCoins(set(MEMBERS.get(adversary, ())))
    expected = scores(before)
    for seed in range(3):
        generator = random.Random(seed)
        changed = 0
        others = []
        for record in records:
            kind = record[4][0]
            outside = kind not in ("ask", "answer", "report") or not is_seen(adversary, kind, record[2], record[3])
            if kind != "roster" and outside and generator.random() < 0.7:
                record, changed = altered(record, generator), changed + 1
            others.append(record)
        assert changed > 50
        after = rebuilt(header, others, tmp_path / "other", adversary, coins)
        assert after == before
        assert scores(after) == expected


@pytest.mark.parametrize("adversary", [name for name in VIEWS if name != "shuffle"])
def test_what_is_inside_a_view_can_change_what_is_concluded(adversary: str, tmp_path: Path) -> None:
    header, records = read(traced(tmp_path / "trace", parameters_of(2)))
    before = rebuilt(header, records, tmp_path / "same", adversary, SeededCoins(SEED))
    expected = scores(before)
    # Other answers and reports, each in turn; what her own users answered an adversary knows anyway.
    kinds = ["report"] if adversary in ("learner", "metadata") else ["answer"]
    concluded = []
    for place, record in enumerate(records):
        kind, sender = record[4][0], record[2]
        if kind in kinds and is_seen(adversary, kind, sender, record[3]) and sender not in before.members:
            others = [*records[:place], altered(record, random.Random(1)), *records[place + 1 :]]
            after = rebuilt(header, others, tmp_path / "other", adversary, SeededCoins(SEED))
            assert after != before
            concluded.append(scores(after) != expected)
        if len(concluded) == 8:
            break
    assert concluded
    assert any(concluded)


def test_the_shuffled_view_does_not_tell_whose_a_label_is() -> None:
    """Users of one cluster who trade places, labels and flips alike, leave the view as it is."""
    trade = np.array([[0, 1, 2, 3], [3, 1, 0, 2]])
    labels = np.array([[0, 1, 1, 0], [0, 1, 1, 0]])
    coins = SeededCoins(SEED).block(0, 0, 4)
    drawn = np.concatenate([coins[trade[0]], coins[trade[1]]])

    class Fixed:
        def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
            return drawn[start:stop]

    labels[1] = labels[0][trade[1]]
    views = views_of_exchange(labels, Parameters(0.3, 1.0), Fixed(), "shuffle")
    assert said(views, 0) == said(views, 1)


def test_repeated_answers_are_kept_in_order_and_only_the_first_report_counts(tmp_path: Path) -> None:
    parameters = parameters_of(2)
    header, records = read(traced(tmp_path / "trace", parameters))
    answer = next(record for record in records if record[4][0] == "answer")
    report = next(record for record in records if record[4][0] == "report")
    more = [[*answer[:4], ["answer", answer[4][1], (answer[4][2] + 1) % 3]], altered(report, random.Random(0))]
    before, after = (
        rebuilt(header, each, tmp_path / "more", "auditor", SeededCoins(SEED)) for each in (records, records + more)
    )
    assert before.answers is not None
    assert after.answers is not None
    pair = (answer[2], answer[3])
    assert after.answers[0][pair] == (*before.answers[0][pair], (answer[4][2] + 1) % 3)
    assert after.reports == before.reports


def test_what_nobody_could_read_is_left_out(tmp_path: Path) -> None:
    header, records = read(traced(tmp_path / "trace", parameters_of(2)))
    strange = [
        [0, 0.0, 0, 1, ["answer", 9, 1]], [0, 0.0, 0, 1, ["answer", 0, -1]], [0, 0.0, 0, 1, ["answer", "x", 1]],
        [0, 0.0, 0, -2, ["report", 0, 7]], [0, 0.0, 77, 1, ["ask", 0]], [0, 0.0, 0, 1, ["song"]], "nothing",
    ]  # fmt: skip
    views = [
        rebuilt(header, each, tmp_path / "strange", "auditor", SeededCoins(SEED))
        for each in (records, [*records, *strange])  # type: ignore[list-item]
    ]
    assert views[0] == views[1]


def test_requests_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    parameters = parameters_of()
    trace = traced(tmp_path / "trace", parameters)
    with pytest.raises(RequestError, match="view must be one of"):
        view_of(trace, "oracle", parameters=parameters)
    with pytest.raises(RequestError, match="members needs"):
        view_of(trace, "learner", parameters=parameters, members=[1])
    with pytest.raises(RequestError, match="needs a member"):
        view_of(trace, "peer", parameters=parameters)
    with pytest.raises(RequestError, match="are a coalition"):
        view_of(trace, "peer", parameters=parameters, members=[5, 6])
    with pytest.raises(RequestError, match="parameters"):
        view_of(trace, "learner")
    with pytest.raises(RequestError, match="shuffled view needs"):
        view_of(trace, "shuffle", parameters=parameters)
    with pytest.raises(RequestError, match="no cluster"):
        view_of(trace, "learner", parameters=parameters).cluster_of(99)
