"""What a deployment leaves behind: the learner's folder and the auditor's trace.

The two are kept apart, since a learner who reads the trace learns what the auditor may and it may not. Both
are written under a temporary name and moved. A node that was killed between that and its journal does
the same again: what is there of the same run is left as it is.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.install import present
from p2p_labeldp.audit.folder import CARD, MANIFEST, SUMMARY
from p2p_labeldp.data.dataset import Dataset
from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.disk import Disk
from p2p_labeldp.deployment.items import Directory, Facts
from p2p_labeldp.deployment.learning import Known, Left, Write
from p2p_labeldp.deployment.misbehaving import assignments_of
from p2p_labeldp.deployment.outputs import named
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.learning import Model
from p2p_labeldp.learning.model_file import FILE as MODEL
from p2p_labeldp.mechanisms import Holder, mechanism_of
from p2p_labeldp.privacy import Guarantee, Parameters, View, account
from p2p_labeldp.privacy.views import ClosedForm, LocalNoise
from p2p_labeldp.runs.curves import curves
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.runs.guarantees import (
    Circumstances,
    Table,
    circumstances,
    guarantees,
    headline,
)
from p2p_labeldp.runs.persons import of_one_label, person_guarantees
from p2p_labeldp.runs.resolve import Resolved, resolve
from p2p_labeldp.runs.results import counted, learned, stated, write_results
from p2p_labeldp.runs.summary import Adversary, Summary
from p2p_labeldp.scenario import EXCHANGES, MECHANISMS, Scenario
from p2p_labeldp.scenario import replace as changed

NEARLY = 0.98
"""Of the auditor's epsilon: who has that much is not worth a finer account."""


def writer(out: Path, scenario: Scenario, test: Rows | None, disk: Disk) -> Write:
    """Fits the model and writes everything of the run folder but the trace.

    The learner knows public features and its own ``test`` examples. Users' labels it never has.
    """

    def write(outcome: Outcome, facts: Facts, directory: Directory, seconds: float, known: Known) -> Left:
        place = named(out, directory.run)
        if _run_of(place) != directory.run:
            resolved = _resolved(scenario, outcome, facts, directory)
            final = resolved.scenario
            dataset = _blind(scenario, known, test)
            summary, model = deployed_summary(resolved, dataset, known, outcome, facts, directory, seconds, str(place))
            if place.is_dir() and not any(place.iterdir()):
                shutil.rmtree(place, ignore_errors=True)
            with RunFolder(place, private=not final.ships) as folder:
                folder.write_scenario(final)
                write_results(folder, final, dataset, outcome, summary, model, run=directory.run)
                disk.settle(folder.path)  # or a loss of power could leave its name, and empty files in it
            disk.settle(place)
        return left_in(place)

    return write


def _resolved(scenario: Scenario, outcome: Outcome, facts: Facts, directory: Directory) -> Resolved:
    """The scenario resolved for those who took part; flips that follow from clusters are those that hosts were told."""
    given, reads = scenario, MECHANISMS[scenario.mechanism.kind]
    counted = outcome.clusters[outcome.clusters >= 0]
    if reads.by_cluster:
        given = changed(scenario, mechanism__alpha=facts.alpha, mechanism__epsilon=0.0, privacy__delta=facts.delta)
        if mechanism_of(scenario.mechanism.kind).holder is Holder.SHUFFLER:
            # A label hides among those that came, be it that others were lost on the way.
            counted = outcome.clusters[outcome.rounds[0][0]]
    sizes = np.bincount(counted[counted >= 0]).tolist()
    found = resolve(given, labels=directory.labels, users=directory.users, sizes=sizes)
    return replace(found, target=scenario.mechanism.epsilon or None)


def left_in(place: Path) -> Left:
    """What a learner's folder holds for others."""
    if not (place / MODEL).exists():
        return Left()
    return Left((place / MODEL).read_bytes(), (place / CARD).read_bytes())


def _blind(scenario: Scenario, known: Known, test: Rows | None) -> Dataset:
    """What the learner may look at: everyone's features, nobody's label, its own test examples."""
    schema, users = scenario.data.schema, len(known.features)
    examples = test or Rows(np.zeros((0, schema.features), dtype=np.float32), np.zeros(0, dtype=np.int64))
    assert examples.labels is not None
    return Dataset(
        name=scenario.data.name,
        features=known.features,
        labels=np.zeros(users, dtype=np.int64),
        test_features=examples.features,
        test_labels=examples.labels,
        classes=schema.classes,
        schema=schema,
    )


def _described(outcome: Outcome, known: Known) -> Outcome:
    """What is learned from: of users whose features were lost on the way nothing is."""
    if known.came[outcome.clusters >= 0].all():
        return outcome
    rounds = [(users[known.came[users]], labels[known.came[users]]) for users, labels in outcome.rounds]
    return replace(outcome, clusters=np.where(known.came, outcome.clusters, -1), rounds=rounds)


def _run_of(place: Path) -> str | None:
    try:
        found = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("run") if isinstance(found, dict) and (place / SUMMARY).exists() else None


def deployed_summary(
    resolved: Resolved,
    dataset: Dataset,
    known: Known,
    outcome: Outcome,
    facts: Facts,
    directory: Directory,
    seconds: float,
    out: str,
) -> tuple[Summary, Model | None]:
    """As of a simulated run; what needs everyone's true label is null."""
    fitted = learned(resolved, dataset, _described(outcome, known))
    parts = assignments_of(resolved.scenario, directory.users)
    found = circumstances(outcome, resolved.plan.parameters, resolved.delta, parts)
    table = _privacy(resolved, found, outcome, directory)
    summary = Summary(
        **stated(resolved, outcome.warnings),
        **counted(outcome, facts.merged) | {"virtual_seconds": None},
        labels=directory.labels,
        engine="deployment",
        hosts=len(directory.hosts),
        **fitted.stated(),
        privacy=table,
        person_rows=facts.person_rows,
        person_privacy=_persons(resolved, found, table, outcome, directory, facts.person_rows),
        headline=headline(table, present(parts)),
        adversaries=tuple(Adversary(part.entry.name, part.members, part.victim) for part in parts),
        curves=curves(resolved.plan, found, table),
        missing_hosts=tuple(facts.missing_hosts),
        unreached=tuple(facts.unreached),
        seconds=round(seconds, 3),
        out=out,
    )
    return summary, fitted.model


def _privacy(resolved: Resolved, found: Circumstances, outcome: Outcome, directory: Directory) -> Table:
    """As of a simulated run, and what a user host sees: the answers that all its users got, and the model."""
    table = guarantees(resolved.plan, found)
    return table | {View.USER_HOST: _user_host(resolved, found, outcome, directory)}


def _user_host(resolved: Resolved, found: Circumstances, outcome: Outcome, directory: Directory) -> Guarantee:
    if found.misbehaving:  # the flips alone
        left = guarantees(resolved.plan, replace(found, crooked={}))[View.AUDITOR]
        return msgspec.structs.replace(left, view=View.USER_HOST)
    if resolved.plan.holder not in (Holder.PEERS, Holder.SHUFFLER):
        # Of others' labels no more than the model, or the learner's priors, tells.
        return msgspec.structs.replace(resolved.plan.stated, view=View.USER_HOST, method="upper_bound", own_users=0)
    learner = guarantees(resolved.plan, found, (View.LEARNER,))[View.LEARNER]
    seen = _seen_by_a_host if resolved.plan.holder is Holder.PEERS else _seen_beside_a_shuffler
    return seen(outcome, resolved.plan.parameters, learner, directory)


def _persons(
    resolved: Resolved, found: Circumstances, table: Table, outcome: Outcome, directory: Directory, rows: int
) -> Table:
    """What protects all labels of a person together, in every view."""
    single = of_one_label(resolved.plan, found)

    def at(view: View, delta: float) -> Guarantee:
        if view == View.USER_HOST:
            return _user_host(resolved, replace(found, delta=delta), outcome, directory)
        return single(view, delta)

    return person_guarantees(table, at, rows)


def _seen_beside_a_shuffler(
    outcome: Outcome, parameters: Parameters, learner: Guarantee, directory: Directory
) -> Guarantee:
    """The model is made from shuffled labels, and a host knows its own users': others hide among the rest."""
    came = outcome.rounds[0][0]
    clusters = np.full_like(outcome.clusters, -1)
    clusters[came] = outcome.clusters[came]

    def among_the_rest(size: int, own: int, lost: bool) -> dict[str, Any]:
        found = account(View.SHUFFLE, parameters, cluster_size=size - own, thorough=False).get_epsilon(learner.delta)
        return {"epsilon": found.epsilon, "method": found.method, "reason": found.reason}

    without = msgspec.structs.replace(learner, view=View.USER_HOST, own_users=0)
    return _worst_host(without, clusters, [], directory, among_the_rest)


def _seen_by_a_host(outcome: Outcome, parameters: Parameters, learner: Guarantee, directory: Directory) -> Guarantee:
    """The worst cluster and host, with ``own`` of n users at one host; a host without any has the model alone.

    Those who went missing on the way may have asked all the same, so that everyone counts.
    """

    def answered(size: int, own: int, lost: bool) -> dict[str, Any]:
        if size < parameters.minimum_size:
            return {"epsilon": 0.0}
        return {"epsilon": _hosts_epsilon(parameters, size, own, lost, learner.delta), "reason": ""}

    without = Guarantee(
        epsilon=learner.epsilon,
        delta=learner.delta,
        view=View.USER_HOST,
        method="upper_bound",
        reason=learner.reason,
        own_users=0,
    )
    worst = _worst_host(without, outcome.clusters, outcome.missing, directory, answered)
    if worst.epsilon == math.inf:
        worst = msgspec.structs.replace(worst, reason=worst.reason or "alpha leaves labels unflipped")
    return worst


def _worst_host(
    without: Guarantee,
    clusters: NDArray[np.int64],
    missing: Sequence[int],
    directory: Directory,
    seen: Callable[[int, int, bool], dict[str, Any]],
) -> Guarantee:
    """The worst of ``without``, a host with none of a cluster's users, and of what hosts with some have ``seen``: given
    a cluster's size, how many of its users are the host's, and whether anyone in it is missing."""
    worst = without
    sizes = np.bincount(clusters[clusters >= 0])
    lost = np.bincount([c for c in clusters[missing] if c >= 0], minlength=len(sizes)) > 0
    for holder in directory.hosts:
        here = clusters[holder.first : holder.last]
        own = np.bincount(here[here >= 0], minlength=len(sizes))
        cases = zip(sizes.tolist(), own.tolist(), lost.tolist(), strict=True)
        for size, mine, gone in sorted({(n, a, away) for n, a, away in cases if 0 < a < n}):
            found = seen(size, mine, gone)
            if found["epsilon"] > worst.epsilon:
                worst = msgspec.structs.replace(worst, cluster_size=size, own_users=mine, **found)
    return worst


def _hosts_epsilon(parameters: Parameters, size: int, own: int, lost: bool, delta: float) -> float:
    """What a host sees that has ``own`` of a cluster's users and the model, which it may ask for.

    The model is made from what the learner sees, so that the host sees no more than the learner with so many colluders.
    It sees no more than the auditor either, who sees every message: that is stated where noise is fresh in every round,
    where somebody is ``lost``, and where the host's own answers come near it already.
    """
    if EXCHANGES[parameters.exchange].relayed:
        if lost:
            return account(View.AUDITOR, parameters.flips_alone, cluster_size=1).get_epsilon(delta).epsilon
        coalition = account(View.COALITION, parameters, cluster_size=size, colluders=own, thorough=False)
        return coalition.get_epsilon(delta).epsilon
    auditor = account(View.AUDITOR, parameters, cluster_size=size).get_epsilon(delta).epsilon
    if parameters.fresh or lost:
        return auditor
    local = LocalNoise.flip(parameters.alpha, parameters.labels)
    chance = -math.expm1(own * parameters.rounds * math.log1p(-1 / size)) if size > 1 else 1.0
    if ClosedForm(chance, local).epsilon(delta) >= NEARLY * auditor:
        return auditor
    pooled = account(View.COALITION, parameters, cluster_size=size, colluders=own, thorough=False)
    return min(auditor, pooled.get_epsilon(delta).epsilon)
