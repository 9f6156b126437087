"""The exchange of one run by the engine that was asked for, with the scenario's adversaries and faults in place."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.install import assign, install, refuse_misbehaviour
from p2p_labeldp.adversaries.record import Assignment
from p2p_labeldp.data import Dataset
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.engines.split import DaskWorkers, Workers, run_split
from p2p_labeldp.engines.split import Record as WorkRecord
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import learned_prior, require_model
from p2p_labeldp.mechanisms import (
    Coins,
    Holder,
    Plan,
    PriorOf,
    Randomness,
    make_coins,
    randomness_of,
    require_installed,
)
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.protocol.auditor import BATCH, Record
from p2p_labeldp.protocol.coordinator import Target
from p2p_labeldp.runs.clusters import ClusterPlan
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.runs.guarantees import Table, circumstances, guarantees
from p2p_labeldp.runs.resolve import Resolved
from p2p_labeldp.scenario import ENGINES, EXCHANGES, MECHANISMS, Engine, Hosting, Scenario
from p2p_labeldp.streams import Purpose

Progress = Callable[[str, int, int], None]
"""Told the stage, how much of it is done and how much there is (0: unknown)."""

Prepare = Callable[[Simulation], None]
"""Puts other roles in place of honest ones before the actors start."""


OnArrays = Callable[[Population, Plan, Coins, Randomness, PriorOf], Outcome]
"""An engine without messages."""


class Observer(Protocol):
    """Whoever watches a simulation while it goes on. Nothing that it does changes an outcome, or what is traced."""

    def planned(self, run: Executed, expected: Table) -> None:
        """Before the first message; ``expected`` is guaranteed if everyone takes part, in the outcome's clusters."""
        ...

    def see(self, simulation: Simulation, batch: list[Record]) -> int:
        """As ``network.memory.OnBatch``."""
        ...


@dataclass(frozen=True, eq=False)
class Executed:
    """A run whose exchange is over."""

    resolved: Resolved
    dataset: Dataset
    population: Population
    coins: Coins
    outcome: Outcome
    assignments: tuple[Assignment, ...] = ()
    """Who the adversaries were."""
    silent: frozenset[int] = frozenset()
    """Victims who never flipped: nothing of theirs was ever said."""
    record: WorkRecord | None = None
    """Who did how much of a run that was split."""

    @property
    def scenario(self) -> Scenario:
        """As resolved."""
        return self.resolved.scenario

    @property
    def parameters(self) -> Parameters:
        return self.resolved.plan.parameters

    def cluster_of(self, user: int) -> NDArray[np.int64]:
        """The users of her cluster."""
        return np.flatnonzero(self.outcome.clusters == self.outcome.clusters[user])

    def again(self) -> Outcome:
        """The same run without any adversaries."""
        return run_vectorized(self.population, self.resolved.plan, self.coins, self.randomness(), self.prior_of)

    def prior_of(self, users: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """The learner's part of a mechanism with stages."""
        return learned_prior(self.resolved.plan, self.scenario.learner, self.dataset.features, users, labels)

    def randomness(self) -> Randomness:
        return randomness_of(self.scenario.coins, Purpose.CURATOR)


def refuse_split(scenario: Scenario, engine: str) -> None:
    """Raise RequestError where a run cannot be split over workers."""
    if not ENGINES[Engine(engine)].splits:
        can = " or ".join(each for each, record in ENGINES.items() if record.splits)
        raise RequestError(f"--dask is not allowed with --engine {engine}; it must be {can}")
    if scenario.adversaries:
        raise RequestError("--dask is not allowed with adversaries; run them in one process")
    if not MECHANISMS[scenario.mechanism.kind].exchanged:
        raise RequestError(f"--dask is not allowed with {scenario.mechanism.kind}; mechanism.kind must be peer_to_peer")
    if scenario.data.name == "crowd" and scenario.clusters.method != "given":
        raise RequestError('clusters.method = "kmeans" is not allowed for crowd with --dask; it must be "given"')


@contextlib.contextmanager
def workers_at(dask: str | None) -> Iterator[Workers | None]:
    """The workers of the Dask scheduler at an address; None without one."""
    if dask is None:
        yield None
        return
    from p2p_labeldp.engines.dask_cluster import connect

    with connect(dask) as client:
        yield DaskWorkers(client, dask)


@dataclass(frozen=True)
class Setting:
    """How an exchange is to be run, besides what the scenario says; not every engine reads all of it."""

    engine: Engine
    hosting: str
    tell: Progress
    folder: RunFolder | None = None
    """Where a trace is written, as it happens."""
    workers: Workers | None = None
    prepare: Prepare | None = None
    observer: Observer | None = None


ByEngine = Callable[[Executed, ClusterPlan, Setting], Executed]
"""How an engine runs an exchange that is all set up."""


def execute(resolved: Resolved, dataset: Dataset, clusters: ClusterPlan, setting: Setting) -> Executed:
    """Run the exchange."""
    coins = make_coins(resolved.scenario.coins.source, resolved.scenario.coins.seed)
    population = Population(dataset.features, dataset.labels, clusters)
    waiting = Executed(resolved, dataset, population, coins, Outcome(dataset.labels, []))
    return RUNS[setting.engine](waiting, clusters, setting)


def _by_actors(waiting: Executed, clusters: ClusterPlan, setting: Setting) -> Executed:
    resolved, dataset, scenario = waiting.resolved, waiting.dataset, waiting.scenario
    simulation = _simulation(waiting, setting)
    if scenario.defences.check_assignment:
        simulation.coordinator.centres = clusters.centres
    assignments = install(simulation, scenario)
    if setting.prepare is not None:
        setting.prepare(simulation)
    if setting.observer is not None:
        everyone = Outcome(np.asarray(clusters(np.arange(len(dataset.labels)), dataset.features)), [])
        planned = dataclasses.replace(waiting, outcome=everyone, assignments=assignments)
        expected = circumstances(
            everyone, resolved.plan.parameters, resolved.delta, assignments, replaced=setting.prepare is not None
        )
        setting.observer.planned(planned, guarantees(resolved.plan, expected))
    outcome = simulation.run()
    silent = frozenset(p.victim for p in assignments if p.victim is not None and not simulation.users[p.victim].flipped)
    return dataclasses.replace(waiting, outcome=outcome, assignments=assignments, silent=silent)


def _on_arrays(run: OnArrays) -> ByEngine:
    """By an engine that sends no messages."""

    def executed(waiting: Executed, clusters: ClusterPlan, setting: Setting) -> Executed:
        setting.tell("exchange", 0, 0)
        resolved, coins = waiting.resolved, waiting.coins
        faults = faults_of(resolved.scenario, len(waiting.dataset.labels))  # checked, though nothing can come of them
        record: WorkRecord | None = None
        if setting.workers is None:
            outcome = run(waiting.population, resolved.plan, coins, waiting.randomness(), waiting.prior_of)
        else:
            outcome, record = run_split(
                waiting.population, resolved.plan.parameters, coins, setting.workers, tell=setting.tell
            )
        if faults is not None:
            unused = f"the scenario's faults were left out: the {setting.engine} engine sends no messages"
            outcome = dataclasses.replace(outcome, warnings=[unused])
        assignments = assign(resolved.scenario, len(waiting.dataset.labels))
        return dataclasses.replace(waiting, outcome=outcome, assignments=assignments, record=record)

    return executed


RUNS: dict[Engine, ByEngine] = {
    Engine.ACTORS: _by_actors,
    Engine.VECTORIZED: _on_arrays(run_vectorized),
}


def check_engine(scenario: Scenario, engine: str, hosting: str, dask: str | None) -> None:
    """Raise RequestError where the scenario cannot be run so."""
    if engine not in tuple(Engine) or hosting not in tuple(Hosting):
        raise RequestError(f"engine must be one of {', '.join(Engine)} and hosting one of {', '.join(Hosting)}")
    require_installed(scenario.mechanism.kind)
    require_model(scenario.learner)
    exchange = scenario.mechanism.exchange
    if not EXCHANGES[exchange].splits and dask is not None:
        raise RequestError(f'--dask is not allowed with mechanism.exchange = "{exchange}"; run it in one process')
    if dask is not None:
        refuse_split(scenario, engine)
    if not ENGINES[Engine(engine)].sends_messages:
        refuse_misbehaviour(scenario)


def _simulation(waiting: Executed, setting: Setting) -> Simulation:
    resolved, folder, observer = waiting.resolved, setting.folder, setting.observer
    scenario, users = resolved.scenario, len(waiting.dataset.labels)
    total = expected_messages(users, resolved.plan.parameters)

    def on_batch(batch: list[Record]) -> int:
        sent = batch[-1][0] + 1
        setting.tell("messages", sent, total)
        if folder is not None:
            folder.messages = sent
        return BATCH if observer is None else observer.see(simulation, batch)

    simulation = Simulation(
        waiting.population,
        resolved.plan,
        waiting.coins,
        scenario.network,
        hosting=setting.hosting,
        seed=scenario.coins.seed,
        randomness=waiting.randomness(),
        prior_of=None if resolved.plan.stages is None else waiting.prior_of,
        target=target_of(resolved),
        faults=faults_of(scenario, users),
        write=folder.open_trace().write if folder is not None else lambda _: None,
        on_batch=on_batch,
    )
    simulation.host.defend(scenario.defences, scenario.clusters)
    return simulation


def target_of(resolved: Resolved) -> Target | None:
    """Whether a cluster of a size keeps to the epsilon that was asked for; None where none was.

    Clusters of the sizes that the flips were calibrated for do. Others come about where users never say hello.
    """
    plan, epsilon = resolved.plan, resolved.target
    if epsilon is None or plan.holder is not Holder.PEERS:
        return None

    def keeps(size: int) -> bool:
        answer = account(View.LEARNER, plan.parameters, cluster_size=size, thorough=False).get_epsilon(resolved.delta)
        return answer.epsilon <= epsilon * (1 + 1e-9)

    return keeps


def faults_of(scenario: Scenario, users: int) -> Faults | None:
    """The scenario's faults, checked against the users there are; None where it has none."""
    if not scenario.faults:
        return None
    network = scenario.network
    # The coordinator's limits, and the learner's on the last reports.
    over = network.hello_limit + (scenario.mechanism.rounds + 1) * network.round_limit
    return Faults(scenario.faults, users, scenario.coins.seed, over)


def expected_messages(users: int, parameters: Parameters) -> int:
    """About how many messages a run sends: hello, assignment, goodbye; those of each round, and the reports."""
    messages, for_each_relay = EXCHANGES[parameters.exchange].messages
    per_round = messages + for_each_relay * parameters.relays + parameters.theta
    return math.ceil(users * (3 + parameters.rounds * per_round + parameters.rounds - 1))
