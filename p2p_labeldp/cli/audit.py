"""``p2p-labeldp audit``: check the invariants of traces, and test their coins together; or a stated epsilon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.account import number
from p2p_labeldp.cli.output import DataDir, Json, console, find_scenario, print_json
from p2p_labeldp.cli.tables import print_facts, print_table
from p2p_labeldp.errors import RequestError

if TYPE_CHECKING:
    from p2p_labeldp.audit import Audit
    from p2p_labeldp.audit.runs import RunAudit
    from p2p_labeldp.experiments.epsilon import EpsilonAudit, Setting

MOST_TRIALS = 100_000_000


def command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN...]", help="Run folders; their coins are pooled. With --epsilon also a scenario, or nothing."
        ),
    ] = None,
    family_wise_error: Annotated[
        float, typer.Option(help="Probability that an honest run fails any test of the coins, or the bound on epsilon.")
    ] = 1e-3,
    epsilon: Annotated[
        bool, typer.Option("--epsilon", help="Bound epsilon from below by trials, and compare with the exact value.")
    ] = False,
    view: Annotated[
        str | None,
        typer.Option(help="Who observes, e.g. coalition; the learner if not given. `threats` lists every view."),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="How many trials; 100,000 if not given, half per label.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the trials; 0 if not given.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="The delta that epsilon is stated at; the run's if not given.")
    ] = None,
    colluders: Annotated[int | None, typer.Option(help="Users of the cluster who collude, for coalition.")] = None,
    cluster_size: Annotated[int | None, typer.Option(help="Users in the cluster, where no run is named.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Probability of a flip, where no run is named.")] = None,
    theta: Annotated[float | None, typer.Option(help="Probability of a report, where no run is named.")] = None,
    labels: Annotated[int | None, typer.Option(help="How many labels there are, where no run is named; 2.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How often the exchange is repeated, likewise; 1.")] = None,
    noise: Annotated[str | None, typer.Option(help="sticky or fresh, likewise; sticky.")] = None,
    data_dir: DataDir = None,
    out: Annotated[Path | None, typer.Option(help="A plot of the trials (.png, .svg or .pdf).")] = None,
    as_json: Json = False,
) -> None:
    """Check the invariants of a run's trace, or with --epsilon a stated epsilon. Exit status 1 if a check fails."""
    numbers = {
        "cluster_size": cluster_size, "alpha": alpha, "theta": theta, "labels": labels, "rounds": rounds,
        "noise": noise,
    }  # fmt: skip
    numbers = {name: value for name, value in numbers.items() if value is not None}
    if epsilon:
        if out is not None:
            from p2p_labeldp.reporting.files import checked_plot

            checked_plot(out)
        setting = _setting(runs or [], view or "learner", delta, colluders, numbers, data_dir)
        passed = _audit_epsilon(setting, trials, seed or 0, family_wise_error, out, as_json)
    else:
        others = {"view": view, "trials": trials, "seed": seed, "delta": delta, "colluders": colluders, "out": out}
        for name, value in {**others, **numbers}.items():
            if value is not None:
                raise RequestError(f"--{name.replace('_', '-')} needs --epsilon: without it, traces are checked")
        passed = _audit_traces([Path(run) for run in runs or []], family_wise_error, as_json)
    if not passed:
        raise typer.Exit(1)


def _audit_traces(runs: list[Path], family_wise_error: float, as_json: bool) -> bool:
    from p2p_labeldp.adversaries.suspects import suspects
    from p2p_labeldp.audit import audit_runs

    audit = audit_runs(runs, family_wise_error, suspects)
    if as_json:
        print_json(audit_json(audit))
    else:
        _show(audit)
    return audit.passed


def _setting(
    named: list[str],
    view: str,
    delta: float | None,
    colluders: int | None,
    numbers: dict[str, Any],
    data_dir: Path | None,
) -> Setting:
    """What to audit: of run folders, of a scenario, or of numbers."""
    from p2p_labeldp.experiments.epsilon import setting_of_numbers, setting_of_runs, setting_of_scenario
    from p2p_labeldp.privacy import Parameters

    if not named:
        missing = [name for name in ("cluster_size", "alpha", "theta") if name not in numbers]
        if missing:
            wanted = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
            raise RequestError(f"name a run folder or a scenario, or give the numbers: {wanted}")
        size = numbers.pop("cluster_size")
        return setting_of_numbers(view, size, Parameters(**numbers), delta, colluders)
    if numbers:
        name = next(iter(numbers)).replace("_", "-")
        raise RequestError(f"--{name} is not allowed beside {named[0]}, which says it")
    folders = [Path(name) for name in named]
    if all(folder.is_dir() for folder in folders):
        return setting_of_runs(folders, view, delta, colluders)
    if len(named) > 1:
        wrong = next(folder for folder in folders if not folder.is_dir())
        raise RequestError(f"{wrong}: not a run folder; name run folders, or one scenario")
    return setting_of_scenario(find_scenario(named[0], None, None), view, delta, colluders, data_dir)


def _audit_epsilon(
    setting: Setting, trials: int | None, seed: int, error: float, out: Path | None, as_json: bool
) -> bool:
    from p2p_labeldp.experiments.epsilon import TRIALS, audit_epsilon
    from p2p_labeldp.reporting.curves import epsilon_plots
    from p2p_labeldp.reporting.files import save

    if not 0 < error < 1:
        raise RequestError(f"--family-wise-error {error:g}: must lie between 0 and 1")
    if trials is not None and trials > MOST_TRIALS:
        raise RequestError(f"--trials {trials} is not allowed; it must be at most {MOST_TRIALS}")
    if not 0 <= seed < 1 << 64:
        raise RequestError(f"--seed {seed} is not allowed; it must be 0 or more and below 2^64")
    audit = audit_epsilon(setting, TRIALS if trials is None else trials, seed, 1 - error)
    if out is not None:
        save(epsilon_plots(audit, f"{setting.view}: {_cluster(setting)}, delta {setting.delta:.3g}"), out)
    if as_json:
        print_json(audit.as_json() | {"plot": None if out is None else str(out)})
    else:
        _print_epsilon(audit)
        if out is not None:
            console.print(f"The plot is in {out}", soft_wrap=True)
    return audit.passed


def _cluster(setting: Setting) -> str:
    parameters = setting.parameters
    words = [f"{setting.cluster_size} users", f"alpha {parameters.alpha:g}", f"theta {parameters.theta:g}"]
    if parameters.labels > 2:
        words.append(f"{parameters.labels} labels")
    if parameters.rounds > 1:
        words.append(f"{parameters.rounds} rounds of {parameters.noise} noise")
    if setting.colluders:
        words.append(f"{setting.colluders} colluding")
    return ", ".join(words)


def _print_epsilon(audit: EpsilonAudit) -> None:
    from p2p_labeldp.privacy import RECORDS, View
    from p2p_labeldp.privacy.numbers import rounded_down, rounded_up
    from p2p_labeldp.runs.stated import METHODS

    setting, bound = audit.setting, audit.bound
    side = "at least" if bound.label else "at most"
    true, false = bound.true_rate, bound.false_rate
    verdict = "not above the stated epsilon" if audit.passed else "FAILED: above the stated epsilon"
    method = METHODS[setting.answer.method]
    rows = [
        ("view", f"{setting.view}: {RECORDS[View(setting.view)].sees}"),
        ("cluster", f"{_cluster(setting)}; ones among the others: {setting.game.ones}"),
        ("stated", f"epsilon {number(audit.epsilon)} at delta {rounded_up(setting.delta, 6)}, {method}"),
        (
            "shown",
            f"epsilon at least {rounded_down(bound.epsilon, 6)}, at confidence {bound.confidence:.10g}: {verdict}",
        ),
        ("by", f"{bound.trials:,} trials, seed {audit.seed}; half of them chose the event, the other half measured it"),
        ("event", f"{bound.attack} scores {side} {bound.threshold:.4g}: the label must be {bound.label}"),
        ("seen", f"in {true.value:.4g} of the trials where it was (at least {true.limit:.4g}),"),
        ("", f"in {false.value:.4g} of those where it was not (at most {false.limit:.4g})"),
    ]
    print_facts(rows)


def audit_json(audit: Audit) -> dict[str, Any]:
    return {
        "passed": audit.passed,
        "family_wise_error": audit.family_wise_error,
        "threshold": audit.threshold,
        "runs": [
            {
                "run": str(run.path),
                "messages": run.messages,
                "refusals": run.refusals,
                "coins_recomputed": run.coins_recomputed,
                "away": list(run.away),
                "lacking": len(run.lacking),
                "expected": dict(Counter(run.suspects.values())),
                "explained": {kind: dict(counts) for kind, counts in run.explained.items()},
                "violations": [
                    {"invariant": found.invariant, "position": found.position, "detail": found.detail}
                    for found in run.violations
                ],
            }
            for run in audit.runs
        ],
        "tests": [
            {"test": test.name, "seen": test.seen, "expected": test.expected, "p_value": test.p_value}
            for test in audit.tests
        ],
    }


def _misbehaviour(run: RunAudit) -> Iterator[str]:
    """What was expected of a run's adversaries, and what was found of it."""
    for kind, parties in Counter(run.suspects.values()).items():
        broken = run.explained.get(kind, {})
        found = ", ".join(f"{invariant} {count:,} time{'s' * (count > 1)}" for invariant, count in broken.items())
        who = "1 party" if parties == 1 else f"{parties:,} parties"
        yield f"expected: {kind}, {who} that may break the rules; found: {found or 'no rule of theirs broken'}"


def _show(audit: Audit) -> None:

    for run in audit.runs:
        coins = "every coin recomputed" if run.coins_recomputed else "the system's coins cannot be recomputed"
        refused = f", {run.refusals:,} refused" if run.refusals else ""
        verdict = f"{run.invariants} invariants hold" if not run.violations else "BROKEN"
        if run.explained and not run.violations:
            verdict = "nothing is unexplained"
        console.print(f"{run.path}: {run.messages:,} messages{refused}; {coins}; {verdict}", soft_wrap=True)
        for line in _misbehaviour(run):
            console.print(f"  {line}", soft_wrap=True)
        for found in run.violations:
            console.print(f"  {'unexplained: ' if run.suspects else ''}{found}", soft_wrap=True)
        if run.lacking:
            away, count = ", ".join(run.away), len(run.lacking)
            what = f"{count:,} effect{'s' * (count > 1)} of messages that never reached the trace"
            console.print(f"  {away} stayed away: {what}, which is no violation", soft_wrap=True)
    rows = [
        (test.name, test.seen, test.expected, f"{test.p_value:.3g}", "FAILED" if test in audit.failed_tests else "ok")
        for test in audit.tests
    ]
    print_table(("test of the coins", "seen", "expected", "p-value", ""), rows)
    console.print(f"A test fails below p = {audit.threshold:.2g}: family-wise error {audit.family_wise_error:g}.")
