"""Auditing run folders: the invariants of each trace, and the coins pooled over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.folder import RecordedRun
from p2p_labeldp.audit.invariants import MAX_VIOLATIONS, Checker
from p2p_labeldp.audit.mixed import MixedChecker
from p2p_labeldp.audit.permuted import PermutedChecker
from p2p_labeldp.audit.refusals import refused_positions
from p2p_labeldp.audit.rules import INVARIANTS, Violation
from p2p_labeldp.audit.sample import FitTest, Sample, fit_tests
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import Coins, SeededCoins
from p2p_labeldp.mechanisms.exchange import noisy_sha256
from p2p_labeldp.privacy import Exchange
from p2p_labeldp.scenario import Network

FAMILY_WISE_ERROR = 1e-3
CHECKED: dict[Exchange, type[Checker]] = {kind.exchange: kind for kind in (Checker, MixedChecker, PermutedChecker)}
"""By exchange: who checks a trace."""
Suspects = Callable[[Mapping[str, Any]], Mapping[int, str]]


@dataclass(frozen=True)
class RunAudit:
    """What one trace shows."""

    path: Path
    messages: int
    refusals: int
    coins_recomputed: bool
    violations: list[Violation]
    """What no configured misbehaviour explains."""
    suspects: Mapping[int, str] = field(default_factory=dict)
    """Address to kind of adversary, of the parties that were set up to misbehave: what was expected."""
    explained: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By kind, how often its parties broke each invariant: what was found of it."""
    invariants: int = len(INVARIANTS)
    """How many were checked."""
    away: tuple[str, ...] = ()
    """Hosts of a deployment that stayed away: what they last said may have reached others, and not the trace."""
    lacking: list[Violation] = field(default_factory=list)
    """Effects of what those hosts said that is not on record; nothing else is wrong with them."""


@dataclass(frozen=True)
class Audit:
    """What one or more runs show together."""

    runs: list[RunAudit]
    tests: list[FitTest]
    family_wise_error: float

    @property
    def threshold(self) -> float:
        """A p-value below this fails its test (Bonferroni)."""
        return self.family_wise_error / max(1, len(self.tests))

    @property
    def failed_tests(self) -> list[FitTest]:
        return [test for test in self.tests if test.p_value < self.threshold]

    @property
    def passed(self) -> bool:
        return not self.failed_tests and not any(run.violations for run in self.runs)


def audit_runs(
    paths: list[Path], family_wise_error: float = FAMILY_WISE_ERROR, suspects: Suspects = lambda summary: {}
) -> Audit:
    """Audit every run folder, and test their coins together.

    ``suspects`` names the parties of a run, given its summary, that were set up to misbehave, each with its kind of
    adversary (``p2p_labeldp.adversaries.suspects``): what they break is counted for their kind, and is no violation.
    """
    if not 0 < family_wise_error < 1:
        raise RequestError(f"--family-wise-error {family_wise_error:g}: must lie between 0 and 1")
    runs = [RecordedRun.read(path) for path in paths]
    if not runs:
        raise RequestError("name at least one run folder")
    _require_poolable(runs)
    pooled = Sample()
    audits = []
    for run in runs:
        checked, sample = _audit_run(run, suspects(run.summary))
        audits.append(checked)
        pooled.pool(sample)
    return Audit(audits, fit_tests(pooled, runs[0].parameters), family_wise_error)


@dataclass(frozen=True)
class Truth:
    """What nobody knows of a deployment but who simulates it."""

    coins: Coins
    labels: NDArray[np.int64]
    packets: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)
    """Of the mixed exchange: packets of the last batches, each with the user who sealed it and her noisy label."""


def audit_trace(path: Path, suspects: Mapping[int, str], truth: Truth) -> RunAudit:
    """The invariants of one run's trace alone, where every coin and label is known."""
    return _audit_run(RecordedRun.read(path), suspects, truth)[0]


def _require_poolable(runs: list[RecordedRun]) -> None:
    """Pooling needs one distribution and independent coins."""
    seeds: dict[int, Path] = {}
    for run in runs:
        for name in ("alpha", "theta", "labels", "noise", "exchange"):
            mine, first = getattr(run.parameters, name), getattr(runs[0].parameters, name)
            if mine != first:
                raise RequestError(f"{run.path}: {name} = {mine}, but {runs[0].path} has {first}; audit them apart")
        if run.scenario.coins.source == "seeded":
            other = seeds.setdefault(run.scenario.coins.seed, run.path)
            if other != run.path or sum(r.path == run.path for r in runs) > 1:
                raise RequestError(
                    f"{run.path}: same seed as {other}; pooled tests need runs with different seeds (--seed)"
                )


def _audit_run(run: RecordedRun, suspects: Mapping[int, str], truth: Truth | None = None) -> tuple[RunAudit, Sample]:
    checker = _checked(run, {}, suspects, truth)
    if checker.kinds["refusal"]:
        # Rare: read again, leaving out what was refused.
        network = None if run.trace.wall_clock else _network(run)
        taken = {(round_, *report) for round_, reports in enumerate(_taken(run)) for report in reports.items()}
        refused, unmatched = refused_positions(run.trace, network, taken)
        checker = _checked(run, refused, suspects, truth)
        checker.add(unmatched)
    _compare_with_summary(run, checker)
    _compare_with_reports(run, checker)
    violations = sorted(checker.violations, key=lambda found: (found.position is None, found.position or 0))
    audit = RunAudit(
        path=run.path,
        messages=sum(checker.kinds.values()),
        refusals=checker.kinds["refusal"],
        coins_recomputed=run.scenario.coins.source == "seeded",
        invariants=len(checker.invariants),
        away=tuple(map(str, run.summary.get("missing_hosts") or ())),
        violations=violations[:MAX_VIOLATIONS],
        lacking=checker.lacking,
        suspects=suspects,
        explained={kind: dict(counts) for kind, counts in checker.explained.items()},
    )
    return audit, checker.sample


def _network(run: RecordedRun) -> Network:
    """How long messages take: with faults, any time from the latency up."""
    network = run.scenario.network
    return replace(network, jitter=math.inf) if run.trace.faults else network


def _checked(run: RecordedRun, refused: dict[int, str], suspects: Mapping[int, str], truth: Truth | None) -> Checker:
    coins: Coins | None = SeededCoins(run.scenario.coins.seed) if run.scenario.coins.source == "seeded" else None
    checker = CHECKED[Exchange(run.parameters.exchange)](
        run.users,
        run.features,
        run.parameters,
        _network(run),
        coins=coins if truth is None else truth.coins,
        clusters=run.clusters,
        true_labels=run.true_labels if truth is None else truth.labels,
        missing=run.summary["missing"],
        withheld=run.summary.get("withheld", ()),
        wall_clock=run.trace.wall_clock,
        away=_away(run),
    )
    checker.suspects = suspects
    if isinstance(checker, MixedChecker):
        checker.run_name = str(run.trace.header.get("run", ""))
        checker.packets = {} if truth is None else truth.packets
    for event in run.trace:
        checker.feed(event, refused.get(event.position, ""))
    checker.finish()
    return checker


def _away(run: RecordedRun) -> bool:
    """Whether hosts of a deployment stayed away, so that the trace may lack what they said last."""
    return run.trace.wall_clock and bool(run.summary.get("missing_hosts"))


def _taken(run: RecordedRun) -> list[dict[int, int]]:
    """What the learner took, per round: user to label."""
    return [dict(zip(users.tolist(), labels.tolist(), strict=True)) for users, labels in run.reports]


def _compare_with_summary(run: RecordedRun, checker: Checker) -> None:
    found = []
    for kind, count in run.summary["messages_by_kind"].items():
        if checker.kinds[kind] != count:
            found.append(f"{count} messages of kind {kind}, but the trace has {checker.kinds[kind]}")
    for kind in checker.kinds:
        if kind not in run.summary["messages_by_kind"]:
            found.append(f"no messages of kind {kind}, but the trace has {checker.kinds[kind]}")
    seconds = run.summary["virtual_seconds"]
    if seconds not in (None, checker.last_time):
        found.append(f"{seconds} virtual seconds, but the trace ends at {checker.last_time}")
    outcomes = run.summary["outcomes_by_round"]
    for round_, (counts, announced) in enumerate(zip(outcomes, checker.announced, strict=False)):
        if counts.get("reported") != announced:
            found.append(f"{counts} of round {round_}, but {announced} reports were announced")
    unheard = run.users - checker.present + sum(checker.present - sum(counts.values()) for counts in outcomes)
    # Someone is missing too who counts, and whose report came too late, or never.
    unheard += sum(checker.announced) - sum(len(users) for users, _ in run.reports)
    # Of a lost host all users are missing, though nobody knows whether anything of theirs is.
    if len(run.summary["missing"]) > unheard and not _away(run):
        found.append(f"{len(run.summary['missing'])} users are missing, but the others' words leave room for {unheard}")
    ascending = all((np.diff(users) > 0).all() for users, _ in run.reports)
    if not ascending or noisy_sha256(run.reports) != run.summary["noisy_sha256"]:
        found.append("noisy_sha256 is not that of reports.npz")
    checker.add(Violation("summary", None, f"the summary says {what}") for what in found)


def _compare_with_reports(run: RecordedRun, checker: Checker) -> None:
    """The learner took what was reported, except what a missing user may have sent too late."""
    missing = frozenset(run.summary["missing"])
    found = []

    def note(what: str, user: int, cause_of: int | None = None) -> None:
        found.append(Violation("summary", None, f"reports.npz has {what}", user, cause_of))

    for round_, (taken, sent) in enumerate(zip(_taken(run), checker.reports, strict=True)):
        for user, label in taken.items():
            if sent.get(user) != label:
                what = f"label {label} of user {user} in round {round_}, but the trace has {sent.get(user)}"
                note(what, user, None if user in sent else user)
        for user, label in sent.items():
            if not (user in taken or user in missing):
                note(f"no label of user {user} in round {round_}, but the trace has {label}", user)
    unexpected = [each for each in found if each.party not in checker.suspects]
    checker.add([*(each for each in found if each.party in checker.suspects), *unexpected[:MAX_VIOLATIONS]])
