"""``p2p-labeldp audit``: check the invariants of traces, and test their coins together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from p2p_labeldp.cli.output import Json, console, print_json

if TYPE_CHECKING:
    from p2p_labeldp.audit import Audit


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; their coins are pooled.")],
    family_wise_error: Annotated[
        float, typer.Option(help="How rarely an honest set of runs may fail any of the tests of the coins.")
    ] = 1e-3,
    as_json: Json = False,
) -> None:
    """Check what must hold in a run's trace. Exit status 1 if something does not."""
    from p2p_labeldp.audit import audit_runs

    audit = audit_runs(runs, family_wise_error)
    if as_json:
        print_json(audit_json(audit))
    else:
        _show(audit)
    if not audit.passed:
        raise typer.Exit(1)


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


def _show(audit: Audit) -> None:
    from p2p_labeldp.audit.rules import INVARIANTS

    for run in audit.runs:
        coins = "every coin recomputed" if run.coins_recomputed else "the system's coins cannot be recomputed"
        refused = f", {run.refusals:,} refused" if run.refusals else ""
        verdict = f"{len(INVARIANTS)} invariants hold" if not run.violations else "BROKEN"
        console.print(f"{run.path}: {run.messages:,} messages{refused}; {coins}; {verdict}", soft_wrap=True)
        for found in run.violations:
            console.print(f"  {found}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    for name in ("test of the coins", "seen", "expected", "p-value", ""):
        table.add_column(name)
    for test in audit.tests:
        verdict = "FAILED" if test in audit.failed_tests else "ok"
        table.add_row(test.name, test.seen, test.expected, f"{test.p_value:.3g}", verdict)
    console.print(table)
    console.print(f"A test fails below p = {audit.threshold:.2g}: family-wise error {audit.family_wise_error:g}.")
