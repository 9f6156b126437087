"""Scenario in, run out: data, clusters, the exchange by one of the engines, the learner, the run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.cast import Part, cast, kinds_of, parts_of, refuse_players
from p2p_labeldp.audit import folder as files
from p2p_labeldp.data import Dataset, load
from p2p_labeldp.data.clusters import kmeans_clusters
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.campaign import Affair, campaign
from p2p_labeldp.engines.folder import RunFolder
from p2p_labeldp.engines.guarantees import cluster_sizes, default_delta, guarantees
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.engines.results import baselines, learned, quality, sizes_of_clusters, write_results
from p2p_labeldp.engines.split import DaskWorkers, Record, Workers, run_split
from p2p_labeldp.engines.treatments import Treatment, treatment_of
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import make_coins
from p2p_labeldp.mechanisms.peer_to_peer import Parameters
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.privacy import account, account_clusters, calibrate
from p2p_labeldp.protocol.coordinator import Target
from p2p_labeldp.scenario import Mechanism, Scenario, replace

ENGINES = ("actors", "vectorized")
HOSTINGS = ("user", "cluster")

Progress = Callable[[str, int, int], None]
"""Told the stage, how much of it is done and how much there is (0: unknown)."""


@dataclass(frozen=True)
class Run:
    """A finished run."""

    scenario: Scenario
    dataset: Dataset | None
    """None, as is the outcome, where nobody held everyone: a crowd on a cluster."""
    outcome: Outcome | None
    summary: dict[str, Any]
    parts: tuple[Part, ...] = ()
    """Who the adversaries were."""


class ClusterPlan:
    """What the scenario makes of public features; remembers how it went for the summary."""

    def __init__(self, scenario: Scenario, users: int, given: NDArray[np.int64] | None) -> None:
        self.merged = 0
        self._users = users
        self._known: NDArray[np.int64] | None = None
        self._claimed = b""  # a digest of the features that they were found from
        self._cells: list[tuple[int, NDArray[np.float32]]] = []
        self._settings = scenario.clusters
        self._seed = scenario.coins.seed
        self._given = given
        if self._settings.method == "given" and self._given is None:
            name = scenario.data.name
            raise RequestError(
                f'clusters.method = "given" is not allowed: data set "{name}" names no clusters; use "kmeans"'
            )
        count = self._settings.count
        if self._settings.method == "kmeans" and count > users:
            raise RequestError(f"clusters.count = {count} is not allowed; it must be at most the users, {users}")

    def __call__(self, ids: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.int64]:
        """Clusters of the users present; those of everyone are found once, unless someone claims other features."""
        if len(ids) < self._users:
            return self._cluster(ids, features)
        claimed = (
            b"" if self._settings.method == "given" else hashlib.blake2b(np.ascontiguousarray(features).data).digest()
        )
        if self._known is None or claimed != self._claimed:
            self._known, self._claimed = self._cluster(ids, features), claimed
        return self._known

    def centres(self) -> list[tuple[int, NDArray[np.float32]]]:
        """The cells of the newest clustering, each with its cluster; none where clusters are given."""
        return self._cells

    def _cluster(self, ids: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.int64]:
        if self._settings.method == "given":
            assert self._given is not None
            return np.unique(self._given[ids], return_inverse=True)[1].astype(np.int64)
        count = min(self._settings.count, len(ids))
        found = kmeans_clusters(features, count, self._settings.minimum_size, self._seed)
        self.merged = found.merged
        assert found.home is not None
        assert found.cells is not None
        self._cells = list(zip(found.home.tolist(), found.cells, strict=True))
        return found.assignment


def run(
    scenario: Scenario,
    *,
    engine: str = "actors",
    hosting: str = "user",
    data_dir: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    prepare: Callable[[Simulation], None] | None = None,
    dask: str | None = None,
) -> Run:
    """Run a scenario. With ``out``, leave a run folder there.

    ``prepare`` may put other roles in place of honest ones before the actors start. ``dask``: the address of a
    scheduler over whose workers the vectorized engine's exchange is split, by clusters.
    """
    if engine not in ENGINES or hosting not in HOSTINGS:
        raise RequestError(f"engine must be one of {', '.join(ENGINES)} and hosting one of {', '.join(HOSTINGS)}")
    if dask is not None:
        refuse_split(scenario, engine)
    if out is None:
        with _workers(dask) as workers:
            return _run(scenario, engine, hosting, data_dir, None, progress, prepare, workers)
    folder = RunFolder(out)
    try:
        with folder, _workers(dask) as workers:
            return _run(scenario, engine, hosting, data_dir, folder, progress, prepare, workers)
    except KeyboardInterrupt:
        raise RunError(f"interrupted {folder.how_far()}") from None
    except OSError as error:
        raise RunError(f"--out {out}: cannot be written: {error.strerror or error}; nothing was kept") from None


def refuse_split(scenario: Scenario, engine: str) -> None:
    """Raise RequestError where a run cannot be split over workers."""
    if engine != "vectorized":
        raise RequestError(f"--dask is not allowed with --engine {engine}; it must be vectorized")
    if scenario.adversaries:
        raise RequestError("--dask is not allowed with adversaries; run them in one process")
    if scenario.mechanism.kind != "peer_to_peer":
        raise RequestError(f"--dask is not allowed with {scenario.mechanism.kind}; mechanism.kind must be peer_to_peer")
    if scenario.data.name == "crowd" and scenario.clusters.method != "given":
        raise RequestError('clusters.method = "kmeans" is not allowed for crowd with --dask; it must be "given"')


@contextlib.contextmanager
def _workers(dask: str | None) -> Iterator[Workers | None]:
    if dask is None:
        yield None
        return
    from p2p_labeldp.engines.dask_cluster import connect

    with connect(dask) as client:
        yield DaskWorkers(client, dask)


def _run(
    scenario: Scenario,
    engine: str,
    hosting: str,
    data_dir: Path | None,
    folder: RunFolder | None,
    progress: Progress | None,
    prepare: Callable[[Simulation], None] | None,
    workers: Workers | None,
) -> Run:
    began = time.perf_counter()
    if engine == "vectorized":
        refuse_players(scenario)
    tell = progress or (lambda stage, done, total: None)
    if workers is not None and scenario.data.name == "crowd":
        from p2p_labeldp.engines.large import run_large  # which asks this module for the mechanism's parameters

        scenario, summary = run_large(scenario, workers, folder, tell)
        return Run(scenario, None, None, summary)
    tell("data", 0, 0)
    dataset = load(scenario.data, scenario.coins.seed, data_dir)
    plan = ClusterPlan(scenario, len(dataset.labels), dataset.given_clusters)
    target = scenario.mechanism.epsilon
    scenario, parameters, treatment = resolve(scenario, dataset, plan)
    population = Population(dataset.features, dataset.labels, plan)
    coins = make_coins(scenario.coins.source, scenario.coins.seed)
    if folder is not None:
        folder.write_text(files.SCENARIO, scenario.to_toml())
    faults = faults_of(scenario, len(dataset.labels))
    record: Record | None = None
    if engine == "actors":
        total = expected_messages(len(dataset.labels), parameters)

        def on_batch(sent: int) -> None:
            tell("messages", sent, total)
            if folder is not None:
                folder.messages = sent

        simulation = Simulation(
            population,
            parameters,
            coins,
            scenario.network,
            hosting=hosting,
            seed=scenario.coins.seed,
            treatment=treatment,
            target=target_of(target, scenario, parameters, dataset, plan) if treatment.receiver is None else None,
            faults=faults,
            write=folder.open_trace().write if folder is not None else lambda _: None,
            on_batch=on_batch,
        )
        simulation.host.defend(scenario.defences, scenario.clusters)
        if scenario.defences.check_assignment:
            simulation.coordinator.centres = plan.centres
        parts = cast(simulation, scenario)
        if prepare is not None:
            prepare(simulation)
        outcome = simulation.run()
        abstained = frozenset(
            p.victim for p in parts if p.victim is not None and not simulation.users[p.victim].flipped
        )
    else:
        abstained = frozenset()
        tell("exchange", 0, 0)
        parts = parts_of(scenario, len(dataset.labels))
        if workers is None:
            outcome = run_vectorized(population, parameters, coins, treatment)
        else:
            outcome, record = run_split(population, parameters, coins, workers, tell=tell)
        if faults is not None:
            unused = "the scenario's faults were left out: the vectorized engine sends no messages"
            outcome = dataclasses.replace(outcome, warnings=[unused])
    tell("learning", 0, 0)
    summary = {
        "users": len(dataset.labels),
        "labels": len(dataset.classes),
        "clusters": int(outcome.clusters.max(initial=-1)) + 1,
        "reports": outcome.reports,
        "messages": sum(outcome.messages.values()),
        "seed": scenario.coins.seed,
        "coins": scenario.coins.source,
        "engine": engine,
        "hosting": hosting if engine == "actors" else None,
        "noisy_sha256": outcome.sha256(),
        "alpha": parameters.alpha,
        "mechanism": treatment.kind,
        "trust": treatment.trust,
        "target_epsilon": target or None,
        **learned(scenario, dataset, outcome, treatment),
        **baselines(scenario, dataset),
        "privacy": treatment.privacy or guarantees(outcome, parameters, scenario.privacy.delta, kinds_of(parts)),
        **sizes_of_clusters(outcome, plan.merged),
        **quality(dataset, outcome),
        "messages_by_kind": outcome.messages,
        "outcomes_by_round": outcome.outcomes,
        "missing": outcome.missing,
        "withheld": outcome.withheld,
        "adversaries": [part.as_json() for part in parts],
        "attacks": [],
        "faults": outcome.faults,
        "delivery": outcome.delivery,
        "warnings": outcome.warnings,
        "virtual_seconds": outcome.virtual_seconds,
        **({"workers": record.as_json()} if record is not None else {}),
        "seconds": round(time.perf_counter() - began, 3),
        "out": str(folder.place) if folder is not None else None,
    }
    if parts:
        tell("attacks", 0, 0)
        affair = Affair(scenario, parameters, outcome, dataset.labels, parts, abstained)
        summary["attacks"] = campaign(
            affair,
            lambda: run_vectorized(population, parameters, coins, treatment),
            lambda found: learned(scenario, dataset, found, treatment)["accuracy"],
        )
    if folder is not None:
        folder.write_arrays(files.POPULATION, cluster=outcome.clusters, true_label=dataset.labels)
        write_results(folder, scenario, dataset, outcome, summary)
    return Run(scenario, dataset, outcome, summary, parts)


def faults_of(scenario: Scenario, users: int) -> Faults | None:
    """The scenario's faults, checked against the users there are; None where it has none."""
    if not scenario.faults:
        return None
    network = scenario.network
    # The coordinator's limits, and the learner's on the last reports.
    over = network.hello_limit + (scenario.mechanism.rounds + 1) * network.round_limit
    return Faults(scenario.faults, users, scenario.coins.seed, over)


def resolve(scenario: Scenario, dataset: Dataset, plan: ClusterPlan) -> tuple[Scenario, Parameters, Treatment]:
    """The scenario with ``mechanism.epsilon`` turned into noise, the mechanism's parameters and its treatment."""
    mechanism, labels = scenario.mechanism, len(dataset.classes)
    if mechanism.kind == "peer_to_peer" and mechanism.epsilon == 0:
        return scenario, parameters_of(scenario, labels), treatment_of(scenario, labels, [], 0.0)
    clusters = plan(np.arange(len(dataset.labels)), dataset.features)
    sizes = cluster_sizes(Outcome(clusters, []), parameters_of(scenario, labels))
    delta = scenario.privacy.delta or default_delta(sizes, len(dataset.labels))
    if mechanism.kind == "peer_to_peer":
        alpha = calibrated_alpha(mechanism, labels, sizes, delta)
        scenario = replace(scenario, mechanism__alpha=alpha, mechanism__epsilon=0.0)
        return scenario, parameters_of(scenario, labels), treatment_of(scenario, labels, [], 0.0)
    if mechanism.kind == "dp_sgd":
        delta = scenario.privacy.delta or 1 / len(dataset.labels)  # its examples are not hidden in clusters
    treatment = treatment_of(scenario, labels, list(sizes) or [1], delta)
    parameters = dataclasses.replace(parameters_of(scenario, labels), alpha=treatment.alpha, theta=1.0)
    return scenario, parameters, treatment


def target_of(
    epsilon: float, scenario: Scenario, parameters: Parameters, dataset: Dataset, plan: ClusterPlan
) -> Target | None:
    """Whether a cluster keeps to epsilon, by its size; None where no epsilon was asked for.

    Clusters of the sizes that the flips were worked out for do. Others come about where users never say hello.
    """
    if epsilon == 0:
        return None
    users = len(dataset.labels)
    planned = cluster_sizes(Outcome(plan(np.arange(users), dataset.features), []), parameters)
    delta = scenario.privacy.delta or default_delta(planned, users)

    def keeps(size: int) -> bool:
        if size in planned:
            return True
        accountant = account(
            "learner", cluster_size=size, alpha=parameters.alpha, theta=parameters.theta, labels=parameters.labels,
            rounds=parameters.rounds, noise=parameters.noise, thorough=False,
        )  # fmt: skip
        return accountant.get_epsilon(delta).epsilon <= epsilon * (1 + 1e-9)

    return keeps


def calibrated_alpha(mechanism: Mechanism, labels: int, sizes: dict[int, int], delta: float) -> float:
    """The alpha that keeps the learner to epsilon in every cluster: the smallest one's, checked in the others."""
    if not sizes:
        return mechanism.alpha  # everyone abstains
    settings: dict[str, Any] = {
        "theta": mechanism.theta, "labels": labels, "rounds": mechanism.rounds, "noise": mechanism.noise,
    }  # fmt: skip
    for size in sorted(sizes):
        found = calibrate(cluster_size=size, epsilon=mechanism.epsilon, delta=delta, **settings)
        worst = account_clusters("learner", sizes, delta, alpha=found.alpha, **settings).worst
        if worst.epsilon <= mechanism.epsilon:
            return found.alpha
    # Flips that keep to it by themselves do so in every cluster (one share of it a round, where each has its own).
    flips = mechanism.rounds if mechanism.noise == "fresh" else 1
    return (1 + 1e-12) * (labels - 1) / (labels - 1 + math.exp(mechanism.epsilon / flips))


def parameters_of(scenario: Scenario, labels: int) -> Parameters:
    """The mechanism's parameters, checked against the number of labels, which only the data knows."""
    mechanism = scenario.mechanism
    if labels < 2:
        where = f"{scenario.data.label_column} of {scenario.data.path}" if scenario.data.path else scenario.data.name
        raise RequestError(f"data: {where} has one label only; at least two are needed")
    if scenario.learner.correct_flips and mechanism.alpha == (labels - 1) / labels:
        raise RequestError(
            f"learner.correct_flips is not possible at mechanism.alpha = {mechanism.alpha:g}: "
            f"with {labels} labels the noise is uniform; choose another alpha"
        )
    return Parameters(
        alpha=mechanism.alpha,
        theta=mechanism.theta,
        labels=labels,
        noise=mechanism.noise,
        rounds=mechanism.rounds,
        minimum_size=scenario.clusters.minimum_size if scenario.defences.abstain else 1,
    )


def expected_messages(users: int, parameters: Parameters) -> int:
    """About how many messages a run sends: hello, assignment, goodbye; then ask, answer, report, done, round."""
    per_round = 3 + parameters.theta
    return math.ceil(users * (3 + parameters.rounds * per_round + parameters.rounds - 1))
