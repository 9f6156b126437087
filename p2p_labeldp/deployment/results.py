"""What a deployment leaves behind: the learner's folder and the auditor's trace.

The two are kept apart, since a learner who reads the trace learns what the auditor may and it may not. Both
are written under a temporary name and moved. A node that was killed between that and its journal does
the same again: what is there of the same run is left as it is.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from p2p_labeldp.audit.folder import MANIFEST, SUMMARY, TRACE
from p2p_labeldp.data import Dataset
from p2p_labeldp.deployment.disk import Disk
from p2p_labeldp.deployment.items import Directory, Facts
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.learning import Model
from p2p_labeldp.privacy import Guarantee, Parameters, View, account
from p2p_labeldp.privacy.views import ClosedForm, LocalNoise
from p2p_labeldp.runs.curves import curves
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.runs.guarantees import Circumstances, Table, guarantees, headline
from p2p_labeldp.runs.resolve import Resolved, resolve
from p2p_labeldp.runs.results import counted, learned, stated, write_results
from p2p_labeldp.runs.summary import Summary
from p2p_labeldp.scenario import Scenario
from p2p_labeldp.scenario import replace as changed

RUN = "{run}"
"""In the name of a place it stands for the run's name, which a node learns once hosts have come."""


def prepare_place(place: Path, resuming: bool) -> Path:
    """Where results go, looked at before the run begins: a folder that is new or empty, or that this run has filled."""
    if RUN in str(place):  # nobody else's
        return place
    if place.exists() and not place.is_dir():
        raise RequestError(f"--out {place}: exists already and is no folder")
    if place.exists() and any(place.iterdir()) and not resuming:
        raise RequestError(f"--out {place}: exists already; name a folder that is new or empty")
    return place


def _named(place: Path, run: str) -> Path:
    if RUN not in str(place):
        return place
    if not re.fullmatch("[0-9a-f]{1,64}", run):  # the coordinator's word, and none of its business where files go
        raise RunError(f"--out {place}: the coordinator's name for the run cannot be that of a folder")
    return Path(str(place).replace(RUN, run))


def trace_writer(out: Path, run: Callable[[], str], disk: Disk) -> Callable[[Iterator[bytes]], None]:
    """Writes the trace of ``run`` into ``out``, readable by its owner alone."""
    return lambda parts: disk.write(_named(out, run()) / TRACE, parts)


def writer(
    out: Path, scenario: Scenario, dataset: Dataset, disk: Disk
) -> Callable[[Outcome, Facts, Directory, float], None]:
    """Fits the model and writes everything of the run folder but the trace.

    The learner knows public features and its own test examples. The users' labels it must not use are
    taken away from it here, so that nothing below can.
    """
    blind = replace(dataset, labels=np.zeros_like(dataset.labels), conditional=None)

    def write(outcome: Outcome, facts: Facts, directory: Directory, seconds: float) -> None:
        place = _named(out, directory.run)
        if _run_of(place) == directory.run:
            return
        final = changed(scenario, mechanism__alpha=facts.alpha, mechanism__epsilon=0.0, privacy__delta=facts.delta)
        sizes = np.bincount(outcome.clusters[outcome.clusters >= 0]).tolist()
        resolved = resolve(final, labels=directory.labels, users=directory.users, sizes=sizes)
        resolved = replace(resolved, target=scenario.mechanism.epsilon or None)
        summary, model = deployed_summary(resolved, blind, outcome, facts, directory, seconds, str(place))
        if place.is_dir() and not any(place.iterdir()):
            shutil.rmtree(place, ignore_errors=True)
        with RunFolder(place, private=not final.ships) as folder:
            folder.write_scenario(final)
            write_results(folder, final, blind, outcome, summary, model, run=directory.run)
        disk.settle(place)

    return write


def _run_of(place: Path) -> str | None:
    try:
        found = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("run") if isinstance(found, dict) and (place / SUMMARY).exists() else None


def deployed_summary(
    resolved: Resolved,
    dataset: Dataset,
    outcome: Outcome,
    facts: Facts,
    directory: Directory,
    seconds: float,
    out: str,
) -> tuple[Summary, Model | None]:
    """As of a simulated run; what needs everyone's true label is null."""
    fitted = learned(resolved, dataset, outcome)
    found = Circumstances.of(outcome, resolved.plan.parameters, resolved.delta)
    table = _privacy(resolved, found, outcome, directory)
    summary = Summary(
        **stated(resolved, outcome.warnings),
        **counted(outcome, facts.merged) | {"virtual_seconds": None},
        labels=directory.labels,
        engine="deployment",
        hosts=len(directory.hosts),
        **fitted.stated(),
        privacy=table,
        headline=headline(table),
        curves=curves(resolved.plan, found, table),
        missing_hosts=tuple(facts.missing_hosts),
        seconds=round(seconds, 3),
        out=out,
    )
    return summary, fitted.model


def _privacy(resolved: Resolved, found: Circumstances, outcome: Outcome, directory: Directory) -> Table:
    """As of a simulated run, and what a user host sees: the answers that all its users got."""
    host = _seen_by_a_host(outcome, resolved.plan.parameters, resolved.delta, directory)
    return guarantees(resolved.plan, found) | {View.USER_HOST: host}


def _seen_by_a_host(outcome: Outcome, parameters: Parameters, delta: float, directory: Directory) -> Guarantee:
    """The worst cluster and host: with ``own`` of n users at one host, the chance that one of them asks a given other.

    Those who went missing on the way may have asked all the same, so that everyone counts.
    """
    worst = Guarantee(
        epsilon=0.0,
        delta=delta,
        view=View.USER_HOST,
        method="upper_bound" if parameters.fresh else "exact",
        own_users=0,
    )
    sizes = np.bincount(outcome.clusters[outcome.clusters >= 0])
    for holder in directory.hosts:
        here = outcome.clusters[holder.first : holder.last]
        own = np.bincount(here[here >= 0], minlength=len(sizes))
        for size, mine in sorted({(int(n), int(a)) for n, a in zip(sizes, own, strict=True) if 0 < a < n}):
            if size < parameters.minimum_size:
                continue
            epsilon = _answered_epsilon(parameters, size, mine, delta)
            if epsilon > worst.epsilon:
                worst = msgspec.structs.replace(worst, epsilon=epsilon, cluster_size=size, own_users=mine)
    if worst.epsilon == math.inf:
        worst = msgspec.structs.replace(worst, reason="alpha leaves labels unflipped")
    return worst


def _answered_epsilon(parameters: Parameters, size: int, own: int, delta: float) -> float:
    """epsilon of p rr(epsilon) = delta, rounded up; with fresh noise in every round, of the auditor, who sees more."""
    if parameters.fresh:
        return account(View.AUDITOR, parameters, cluster_size=size).get_epsilon(delta).epsilon
    chance = -math.expm1(own * parameters.rounds * math.log1p(-1 / size)) if size > 1 else 1.0
    return ClosedForm(chance, LocalNoise.flip(parameters.alpha, parameters.labels)).epsilon(delta)
