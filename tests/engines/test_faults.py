"""Whole runs with faults: what arrives is what would have arrived anyway, or the summary says who is missing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import by_the_book, cases
from small import SIXTY, population_of, simulated, sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.cli import main
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters, View
from p2p_labeldp.protocol.messages import Done, Hello, Message, Outgoing, Report
from p2p_labeldp.runs.execute import faults_of
from p2p_labeldp.runs.results import SEEDED
from p2p_labeldp.scenario import MAX_SEED, Entry, Scenario, load_scenario, make_entry, replace

SCENARIOS = Path(__file__).parents[2] / "scenarios"
HOSTINGS = pytest.mark.parametrize("hosting", ["user", "cluster"])


def entries(tables: Iterable[dict[str, Any]]) -> list[Entry]:
    return [make_entry("faults", table) for table in tables]


def with_faults(scenario: Scenario, *tables: dict[str, Any]) -> Scenario:
    return replace(scenario, faults=entries(tables))


@st.composite
def selections(draw: st.DrawFn, users: int, everyone: bool) -> dict[str, Any]:
    way = draw(st.sampled_from(["users", "count", "fraction", *(["everyone"] if everyone else [])]))
    if way == "users":
        return {"users": draw(st.lists(st.integers(0, users - 1), min_size=1, max_size=users, unique=True))}
    if way == "count":
        return {"count": draw(st.integers(1, users))}
    return {"fraction": draw(st.sampled_from([0.2, 0.5, 1.0]))} if way == "fraction" else {}


@st.composite
def fault_tables(draw: st.DrawFn, users: int, harsh: bool) -> dict[str, Any]:
    """One fault; unless it is harsh it passes soon, or leaves every other attempt alone."""
    rule = draw(st.sampled_from(["delay", "loss", "duplicate", "reorder", "partition", "crash", "churn", "slow"]))
    moment = st.sampled_from([0.0, 0.05, 0.2, 1.0]) | st.floats(0, 8)
    length = st.sampled_from([0.1, 1.0, 5.0] + ([20.0, 60.0] if harsh else [])) | st.floats(0.01, 15)
    table = {"rule": rule, **draw(selections(users, rule in ("delay", "loss", "duplicate", "reorder")))}
    if rule in ("delay", "reorder", "slow", "churn"):
        table["seconds"] = draw(length)
    lasting = [0.1, 0.5] + ([0.95, 1.0] if harsh else [])
    if rule in ("delay", "duplicate", "reorder"):
        table["probability"] = draw(st.sampled_from([0.1, 0.5, 1.0]))
    if rule == "crash":
        table["at"] = draw(moment)
        table["restart"] = draw(length | st.just(0.0)) if harsh else draw(length)
    elif rule in ("partition", "churn") or (rule != "slow" and draw(st.booleans())):
        table["start"] = draw(moment)
        table["end"] = table["start"] + draw(length)
        lasting = [0.1, 0.5, 1.0]
    if rule == "loss":
        table["probability"] = draw(st.sampled_from(lasting))
    if rule == "partition":
        table["one_way"] = draw(st.booleans())
    return table


@st.composite
def problems(draw: st.DrawFn, harsh: bool) -> tuple[Population, Parameters, int, Scenario]:
    labels, clusters, parameters = draw(cases())
    limit = 12.0 if harsh else 20_000.0
    scenario = replace(
        Scenario(),
        network__latency=draw(st.sampled_from([0.0, 0.1])),
        network__jitter=draw(st.sampled_from([0.0, 0.5])),
        network__hello_limit=limit,
        network__round_limit=limit,
        mechanism__rounds=parameters.rounds,
        coins__seed=draw(st.integers(0, MAX_SEED)),
        faults=entries(draw(st.lists(fault_tables(len(labels), harsh), min_size=1, max_size=4))),
    )
    return population_of(labels, clusters), parameters, scenario.coins.seed, scenario


def simulation_of(
    population: Population, parameters: Parameters, seed: int, scenario: Scenario, hosting: str, **more: Any
) -> Simulation:
    faults = faults_of(scenario, len(population.labels))
    return simulated(
        population, parameters, network=scenario.network, hosting=hosting, seed=seed, faults=faults, **more
    )


# Everyone is reachable in the end


@given(problems(harsh=False), st.sampled_from(["user", "cluster"]))
@settings(max_examples=10, deadline=None)
def test_faults_that_pass_change_nothing_that_the_learner_gets(
    problem: tuple[Population, Parameters, int, Scenario], hosting: str
) -> None:
    population, parameters, seed, scenario = problem
    outcome = simulation_of(population, parameters, seed, scenario, hosting).run()
    expected = run_vectorized(population, exchange_of(parameters), SeededCoins(seed))
    assert outcome.missing == []
    assert outcome.sha256() == expected.sha256()
    assert outcome.outcomes == expected.outcomes
    assert "refusal" not in outcome.messages
    assert [fault["rule"] for fault in outcome.faults] == [entry.name for entry in scenario.faults]


@HOSTINGS
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_deliveries_does_not_matter(hosting: str, seed: int) -> None:
    """Every message is held back for up to five seconds, so that nearly all of them overtake others."""
    shuffled = with_faults(sixty(seed=seed), {"rule": "reorder", "probability": 1.0, "seconds": 5.0})
    found = run(shuffled, hosting=hosting).summary
    assert found.noisy_sha256 == run(sixty(seed=seed), engine="vectorized").summary.noisy_sha256
    assert found.faults[0].fired > 500


@HOSTINGS
def test_a_user_who_was_down_goes_on_as_she_was(hosting: str, tmp_path: Path) -> None:
    """Everyone crashes between two rounds and again within one: the audit finds one flip, one choice, one answer."""
    scenario = with_faults(
        sixty("network.latency=0.1", "mechanism.rounds=3"),
        {"rule": "crash", "fraction": 1.0, "at": 0.25, "restart": 2.0},
        {"rule": "crash", "fraction": 0.5, "at": 4.0, "restart": 5.0},
    )
    found = run(scenario, hosting=hosting, out=tmp_path / "run").summary
    assert found.missing == ()
    assert found.noisy_sha256 == run(scenario, engine="vectorized").summary.noisy_sha256
    assert all(fault.fired > 0 for fault in found.faults)
    assert audit_runs([tmp_path / "run"]).passed


# Someone is not


class Notes:
    """What the coordinator and the learner took, and what users sent, noted beside the run."""

    def __init__(self, simulation: Simulation) -> None:
        self.taken: set[tuple[type[Message], int, int]] = set()  # (kind, round, user)
        self.reported: set[tuple[int, int]] = set()  # (round, user)
        for role in (simulation.coordinator, simulation.learner):
            self._watch(role)
        send = simulation.network.send

        def noting(sender: int, receiver: int, message: Message) -> None:
            if isinstance(message, Report):
                self.reported.add((message.round, sender))
            send(sender, receiver, message)

        simulation.network.send = noting

    def _watch(self, role: Any) -> None:
        receive = role.receive

        def noting(sender: int, message: Message) -> Iterable[Outgoing]:
            out: Iterable[Outgoing] = receive(sender, message)  # which may raise Refused
            if isinstance(message, Hello | Done | Report):
                self.taken.add((type(message), getattr(message, "round", 0), sender))
            return out

        role.receive = noting

    def complete(self, user: int, rounds: int) -> bool:
        """Whether everything that she had to say was heard."""
        return (Hello, 0, user) in self.taken and all(
            (Done, round_, user) in self.taken
            and ((round_, user) not in self.reported or (Report, round_, user) in self.taken)
            for round_ in range(rounds)
        )


@given(problems(harsh=True), st.sampled_from(["user", "cluster"]))
@settings(max_examples=10, deadline=None)
def test_exactly_those_who_missed_something_are_missing_and_the_others_finish(
    problem: tuple[Population, Parameters, int, Scenario], hosting: str
) -> None:
    population, parameters, seed, scenario = problem
    simulation = simulation_of(population, parameters, seed, scenario, hosting)
    notes = Notes(simulation)
    outcome = simulation.run()
    everyone = range(len(population.labels))
    assert outcome.missing == [user for user in everyone if not notes.complete(user, parameters.rounds)]
    expected = by_the_book(population.labels.tolist(), outcome.clusters.tolist(), parameters, seed)
    present = {each for each in expected if outcome.clusters[each[1]] >= 0}
    found = {
        (round_, user, label)
        for round_, (users, labels) in enumerate(outcome.rounds)
        for user, label in zip(users.tolist(), labels.tolist(), strict=True)
    }
    # Those who are missing may have got something through; then it is right as well.
    assert found <= present
    assert {user for _, user, _ in present - found} <= {*outcome.missing}


@given(
    st.lists(fault_tables(60, harsh=True), min_size=1, max_size=4),
    st.sampled_from([[], ["network.latency=0.1"], ["network.jitter=0.5", "mechanism.noise=fresh"]]),
    st.sampled_from(["user", "cluster"]),
    st.integers(0, 1000),
)
@settings(max_examples=10, deadline=None)
def test_whatever_goes_wrong_the_run_ends_passes_its_audit_and_can_be_repeated(
    tmp_path_factory: pytest.TempPathFactory, tables: list[dict[str, Any]], changes: list[str], hosting: str, seed: int
) -> None:
    out = tmp_path_factory.mktemp("faults") / "run"
    limits = ["network.hello_limit=12", "network.round_limit=12"]
    scenario = with_faults(sixty(*changes, *limits, seed=seed), *tables)
    summary = run(scenario, hosting=hosting, out=out).summary
    audit = audit_runs([out], 1e-9)
    assert audit.passed, audit.runs[0].violations
    again = run(scenario, hosting=hosting).summary
    alike = [msgspec.structs.replace(each, seconds=0.0, out=None, curves={}) for each in (again, summary)]
    assert alike[0] == alike[1]


@HOSTINGS
def test_the_guarantee_of_a_run_with_missing_users_counts_on_the_flips_alone(hosting: str) -> None:
    scenario = with_faults(sixty("network.latency=0.1"), {"rule": "crash", "fraction": 0.3, "at": 0.25})
    whole, torn = run(sixty(), hosting=hosting).summary, run(scenario, hosting=hosting).summary
    assert len(torn.missing) >= 18
    learner = torn.privacy[View.LEARNER]
    assert learner.epsilon > whole.privacy[View.LEARNER].epsilon
    assert (learner.method, "went missing" in learner.reason) == ("upper_bound", True)


def test_absent_users_are_in_no_cluster_and_the_guarantee_is_that_of_smaller_ones() -> None:
    scenario = with_faults(sixty(), {"rule": "crash", "users": list(range(0, 60, 4)), "at": 0.0})
    finished = run(scenario)
    assert finished.outcome.missing == list(range(0, 60, 4))
    assert set(np.flatnonzero(finished.outcome.clusters < 0)) == set(finished.outcome.missing)
    learner = finished.summary.privacy[View.LEARNER]
    assert "went missing" not in (learner.reason or "")  # those who were never there have given nothing away
    assert learner.cluster_size < min(np.bincount(run(sixty()).outcome.clusters))


def test_a_report_that_never_arrives_makes_its_sender_missing(tmp_path: Path) -> None:
    """Her word that she is done gets through before she goes down, or the coordinator would name her anyway."""
    plain = sixty("mechanism.rounds=1", "mechanism.theta=1", "network.latency=0.1")
    for seed in range(40):
        scenario = with_faults(replace(plain, coins__seed=seed), {"rule": "loss", "start": 0.35, "probability": 0.4})
        scenario = replace(scenario, network__round_limit=1.0)
        finished = run(scenario, out=tmp_path / str(seed))
        unheard = 60 - finished.summary.outcomes_by_round[0]["reported"]
        assert audit_runs([tmp_path / str(seed)]).passed
        assert {*finished.outcome.missing, *finished.outcome.rounds[0][0].tolist()} == set(range(60))
        if len(finished.outcome.missing) > unheard:
            return
    raise AssertionError("no seed lost a report alone")


@HOSTINGS
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_network_that_carries_nothing_ends_the_run_at_its_limits(hosting: str, rounds: int) -> None:
    scenario = with_faults(replace(Scenario(), mechanism__rounds=rounds), {"rule": "loss", "probability": 1.0})
    population = population_of([0, 1, 0, 1], [0] * 4)
    outcome = simulation_of(population, Parameters(0.1, 1.0, rounds=rounds), 1, scenario, hosting).run()
    assert (outcome.missing, outcome.reports) == ([0, 1, 2, 3], 0)
    assert outcome.delivery["lost_for_good"] >= 4


@HOSTINGS
def test_limits_of_years_cost_no_attempts(hosting: str) -> None:
    scenario = sixty("network.hello_limit=1e9", "network.round_limit=1e9")
    summary = run(with_faults(scenario, {"rule": "crash", "count": 5, "at": 0.0}), hosting=hosting).summary
    assert len(summary.missing) == 5


# Repeatable


DISTURBED = [
    {"rule": "loss", "probability": 0.3},
    {"rule": "churn", "fraction": 0.5, "end": 5.0},
    {"rule": "duplicate", "probability": 0.5},
]


@pytest.mark.parametrize("tables", [[], DISTURBED], ids=["no faults", "faults"])
def test_every_message_leaves_at_the_same_time_in_every_repetition(tables: list[dict[str, Any]]) -> None:
    """With jitter, whatever the order in which tasks ran."""
    scenario = with_faults(sixty("network.jitter=0.2"), *tables)
    traces = set()
    for hosting in ("user", "cluster", "user"):
        trace = bytearray()
        population = population_of([0, 1, 1] * 20, [0, 1, 2, 0] * 15)
        simulation_of(population, Parameters(0.2, 0.5), 3, scenario, hosting, write=trace.extend).run()
        header, *records = msgpack.Unpacker(io.BytesIO(bytes(trace)))
        assert header.get("faults", False) is bool(tables)
        traces.add(json.dumps(sorted([record[1:4], repr(record[4])] for record in records)))
    assert len(traces) == 1


# The audit of such runs


def rewrite(folder: Path, change: Callable[[dict[str, Any], list[list[Any]]], None]) -> None:
    path = folder / "trace.msgpack"
    header, *records = msgpack.Unpacker(io.BytesIO(path.read_bytes()))
    change(header, records)
    path.write_bytes(b"".join(map(msgpack.packb, [header, *records])))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run(with_faults(sixty("network.latency=0.1"), {"rule": "loss"}), out=tmp_path / "run")
    return tmp_path / "run"


def test_with_faults_a_message_may_be_late_but_not_early(folder: Path) -> None:
    def early(header: dict[str, Any], records: list[list[Any]]) -> None:
        first = next(record for record in records if record[4][0] == "ask")
        first[1] -= 0.05  # half way between the assignment and its arrival

    assert audit_runs([folder]).passed
    rewrite(folder, early)
    assert audit_runs([folder]).runs[0].violations[0].invariant == "timing"


def test_without_the_headers_word_messages_must_be_on_time(folder: Path) -> None:
    rewrite(folder, lambda header, records: header.pop("faults"))
    assert {found.invariant for found in audit_runs([folder]).runs[0].violations} >= {"timing"}


def test_a_header_that_says_neither_is_refused(folder: Path) -> None:
    rewrite(folder, lambda header, records: header.update(faults="some"))
    with pytest.raises(RequestError, match="the header's faults must be true or false"):
        audit_runs([folder])


# What is said of it


def test_a_run_without_faults_says_so() -> None:
    for engine in ("actors", "vectorized"):
        summary = run(sixty(), engine=engine).summary
        assert (summary.faults, summary.warnings) == ((), (SEEDED,))


def test_the_vectorized_engine_says_that_it_knows_no_faults() -> None:
    summary = run(with_faults(sixty(), {"rule": "loss"}), engine="vectorized").summary
    assert summary.faults == ()
    assert "vectorized engine sends no messages" in summary.warnings[0]


@pytest.mark.parametrize("engine", ["actors", "vectorized"])
def test_users_who_do_not_exist_are_refused_before_anything_is_written(engine: str, tmp_path: Path) -> None:
    scenario = with_faults(sixty(), {"rule": "loss"}, {"rule": "slow", "users": [60]})
    with pytest.raises(RequestError, match=r"^faults\[2\] \(slow\): there is no user 60; users are 0 to 59$"):
        run(scenario, engine=engine, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# The lessons of the scenarios that ship


def test_the_lesson_of_churn() -> None:
    scenario = load_scenario(SCENARIOS / "churn.toml")
    summary = run(scenario).summary
    calm = run(replace(scenario, faults=[])).summary
    assert (summary.missing, summary.warnings) == ((), (SEEDED,))
    assert summary.noisy_sha256 == calm.noisy_sha256
    assert summary.virtual_seconds > calm.virtual_seconds


def test_the_lesson_of_partition() -> None:
    scenario = load_scenario(SCENARIOS / "partition.toml")
    summary = run(scenario).summary
    calm = run(replace(scenario, faults=[])).summary
    assert summary.missing == ()
    assert summary.noisy_sha256 == calm.noisy_sha256
    assert summary.virtual_seconds == pytest.approx(22, abs=1)
    assert calm.virtual_seconds == pytest.approx(1.2)
    hasty = run(replace(scenario, network__round_limit=10.0)).summary
    assert len(hasty.missing) > summary.users / 2
    assert hasty.privacy[View.LEARNER].epsilon > summary.privacy[View.LEARNER].epsilon


def test_the_table_shows_faults_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(f'{SIXTY}\n[[faults]]\nrule = "loss"\n[[faults]]\nrule = "crash"\nusers = [3]\nat = 50\n')
    assert main(["run", str(path), "--no-report", "--out", str(tmp_path / "run")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "crash 0 times" in shown
    assert "messages sent again" in shown
    assert "faults[2] (crash) never fired" in shown
