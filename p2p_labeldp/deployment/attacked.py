"""What adversaries achieve in a deployment: the rows of a simulation's table, measured on what happened.

Games are those of ``experiments.attacked``, for the clusters that came about. What colluders pooled stands in a file of
theirs; the best attack is played on it too, every other user being the victim once, and a note says how it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.game import reconstruct
from p2p_labeldp.adversaries.install import view_of_entry
from p2p_labeldp.audit.folder import TRACE, find, read_reports
from p2p_labeldp.audit.trace import Trace
from p2p_labeldp.data import Dataset, load
from p2p_labeldp.deployment.misbehaving import Pool, assignments_of
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.attacked import measure_attacks
from p2p_labeldp.mechanisms import make_coins
from p2p_labeldp.privacy import View as Views
from p2p_labeldp.protocol.messages import HOST
from p2p_labeldp.runs.execute import Executed
from p2p_labeldp.runs.resolve import resolve
from p2p_labeldp.runs.summary import Summary
from p2p_labeldp.scenario import Scenario, replace


def attacked(
    summary: Summary, folder: Path, scenario: Scenario, pooled: Iterable[bytes], data_dir: Path | None
) -> Summary:
    """The summary with what every adversary achieved."""
    executed = executed_in(summary, folder, scenario, data_dir)
    attacks = measure_attacks(executed)
    contents = [*pooled]
    if contents:
        note = _of_the_pool(executed, Pool.merged(contents))
        attacks = tuple(
            msgspec.structs.replace(attack, note=f"{attack.note}; {note}" if attack.note else note)
            if view_of_entry(part.entry) == Views.COALITION
            else attack
            for attack, part in zip(attacks, executed.assignments, strict=True)
        )
    return msgspec.structs.replace(summary, attacks=attacks)


def executed_in(summary: Summary, folder: Path, scenario: Scenario, data_dir: Path | None) -> Executed:
    """A deployment as an engine would have left it, from its folder and the data that it was divided from."""
    dataset: Dataset = load(scenario.data, scenario.data_seed, data_dir)
    trace = Trace.open(find(folder, TRACE))
    if trace.header["users"] != len(dataset.labels):
        raise RequestError(
            f"{folder}: a run of {trace.header['users']} users, but {scenario.data.name} has {len(dataset.labels)}; "
            "it takes the scenario and the data that were divided"
        )
    clusters, silent = _told(trace, len(dataset.labels))
    final = scenario
    if scenario.mechanism.epsilon and summary.alpha is not None:
        delta = summary.privacy[Views.LEARNER].delta
        final = replace(scenario, mechanism__alpha=summary.alpha, mechanism__epsilon=0.0, privacy__delta=delta)
    sizes = np.bincount(clusters[clusters >= 0]).tolist()
    resolved = resolve(final, labels=len(dataset.classes), users=len(dataset.labels), sizes=sizes)
    outcome = Outcome(
        clusters=clusters,
        rounds=read_reports(folder, resolved.plan.parameters.rounds),
        messages=dict(summary.messages_by_kind),
        outcomes=[{str(kind): count for kind, count in counts.items()} for counts in summary.outcomes_by_round],
        missing=list(summary.missing),
    )
    coins = scenario.coins
    parts = assignments_of(scenario, len(dataset.labels))
    victims = {part.victim for part in parts if part.victim is not None}
    return Executed(
        resolved,
        dataset,
        Population(dataset.features, dataset.labels, lambda ids, _: clusters[ids]),
        make_coins(coins.source, coins.seed),
        outcome,
        parts,
        frozenset(victims & silent),
    )


def _told(trace: Trace, users: int) -> tuple[NDArray[np.int64], set[int]]:
    """Clusters as hosts were told them, and who abstained."""
    clusters, silent = np.full(users, -1, dtype=np.int64), set[int]()
    for event in trace:
        if event.kind == "roster" and event.receiver == HOST:
            cluster, _, members = event.fields
            clusters[np.frombuffer(members, dtype="<i8")] = cluster
        elif event.kind == "done" and event.fields[1] == "abstained":
            silent.add(event.sender)
    return clusters, silent


def _of_the_pool(executed: Executed, pool: Pool) -> str:
    """How the best attack does on what the colluders of this very run wrote down."""
    labels, outcome = executed.dataset.labels, executed.outcome
    background = dict(enumerate(labels.tolist()))
    view = pool.view(executed.resolved.plan.parameters, outcome.clusters, outcome.rounds, background)
    found = reconstruct(view, labels)
    return (
        f"from what they pooled in this run {found.rate:.3f} of {found.users} others' labels are named right, "
        f"{found.best_guess:.3f} by guessing"
    )
