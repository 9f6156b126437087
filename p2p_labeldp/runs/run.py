"""One run from end to end: data, clusters, noise, the exchange by one of the engines, the learner, the run folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2p_labeldp.adversaries.install import present
from p2p_labeldp.adversaries.record import Assignment
from p2p_labeldp.audit import folder as files
from p2p_labeldp.data import Dataset, load
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.runs.clusters import ClusterPlan
from p2p_labeldp.runs.curves import curves
from p2p_labeldp.runs.execute import Executed, Setting, execute
from p2p_labeldp.runs.guarantees import circumstances, cluster_sizes, guarantees, headline
from p2p_labeldp.runs.persons import of_one_label, person_guarantees
from p2p_labeldp.runs.resolve import Resolved, resolve
from p2p_labeldp.runs.results import Learned, counted, learned, quality, stated, write_results
from p2p_labeldp.runs.shared import Shared, shared
from p2p_labeldp.runs.summary import Adversary, Attack, Summary, Worker
from p2p_labeldp.scenario import ENGINES, Hosting, Scenario

Measure = Callable[[Executed], tuple[Attack, ...]]
"""What the adversaries of a run achieved."""


@dataclass(frozen=True)
class Run:
    """A finished run."""

    scenario: Scenario
    dataset: Dataset | None
    """None, as is the outcome, where nobody held everyone: a crowd on a cluster."""
    outcome: Outcome | None
    summary: Summary
    assignments: tuple[Assignment, ...] = ()
    """Who the adversaries were."""


def run_once(scenario: Scenario, setting: Setting, data_dir: Path | None, measure: Measure) -> Run:
    """Run a scenario whose coins are settled; ``measure`` says what its adversaries achieved."""
    began = time.perf_counter()
    folder, tell = setting.folder, setting.tell
    if setting.workers is not None and scenario.data.name == "crowd":
        from p2p_labeldp.runs.crowd import run_crowd

        resolved, summary = run_crowd(scenario, setting.workers, folder, tell)
        return Run(resolved.scenario, None, None, summary)
    tell("data", 0, 0)
    known = shared(scenario, data_dir)
    dataset = known.dataset
    clusters = ClusterPlan(scenario, len(dataset.labels), dataset.given_clusters, known)
    resolved = resolve_for(scenario, dataset, clusters)
    if folder is not None:
        folder.write_scenario(resolved.scenario)
    executed = execute(resolved, dataset, clusters, setting)
    tell("learning", 0, 0)
    fitted = learned(resolved, dataset, executed.outcome)
    summary = _summary(executed, fitted, setting, known, clusters.merged, measure, began)
    if folder is not None:
        people = {"cluster": executed.outcome.clusters, "true_label": dataset.labels}
        folder.write_arrays(files.POPULATION, keep=True, **people)
        write_results(folder, resolved.scenario, dataset, executed.outcome, summary, fitted.model)
    return Run(resolved.scenario, dataset, executed.outcome, summary, executed.assignments)


def resolve_for(scenario: Scenario, dataset: Dataset, clusters: ClusterPlan) -> Resolved:
    """The scenario resolved for everyone of a data set."""
    users = len(dataset.labels)
    sizes = np.bincount(clusters(np.arange(users), dataset.features))
    return resolve(scenario, labels=len(dataset.classes), users=users, sizes=sizes.tolist())


def foreseen(scenario: Scenario, data_dir: Path | None) -> tuple[Resolved, dict[int, int]]:
    """The scenario resolved for everyone, and the sizes of clusters that would take part: without any exchange."""
    dataset = load(scenario.data, scenario.data_seed, data_dir)
    users = len(dataset.labels)
    clusters = ClusterPlan(scenario, users, dataset.given_clusters)
    resolved = resolve_for(scenario, dataset, clusters)
    everyone = clusters(np.arange(users), dataset.features)
    return resolved, cluster_sizes(everyone, resolved.plan.parameters)


def _summary(
    executed: Executed,
    fitted: Learned,
    setting: Setting,
    known: Shared,
    merged: int,
    measure: Measure,
    began: float,
) -> Summary:
    resolved, dataset, outcome, folder = executed.resolved, executed.dataset, executed.outcome, setting.folder
    replaced = setting.prepare is not None
    found = circumstances(outcome, executed.parameters, resolved.delta, executed.assignments, replaced=replaced)
    table = guarantees(resolved.plan, found)
    attacks: tuple[Attack, ...] = ()
    if executed.assignments:
        setting.tell("attacks", 0, 0)
        attacks = measure(executed)
    return Summary(
        **stated(resolved, outcome.warnings),
        **counted(outcome, merged),
        labels=len(dataset.classes),
        engine=setting.engine.value,
        hosting=Hosting(setting.hosting) if ENGINES[setting.engine].hosting else None,
        **fitted.stated(),
        **known.baselines(executed.scenario.learner),
        privacy=table,
        person_rows=dataset.person_rows,
        person_privacy=person_guarantees(table, of_one_label(resolved.plan, found), dataset.person_rows),
        headline=headline(table, present(executed.assignments)),
        curves={} if folder is None else curves(resolved.plan, found, table),
        **quality(dataset, outcome),
        adversaries=tuple(Adversary(part.entry.name, part.members, part.victim) for part in executed.assignments),
        attacks=attacks,
        workers=None if executed.record is None else tuple(Worker(**done) for done in executed.record.by_worker()),
        seconds=round(time.perf_counter() - began, 3),
        out=str(folder.place) if folder is not None else None,
    )
