"""``p2p-labeldp report``: the HTML report of a run or a sweep, from its folder alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from p2p_labeldp.cli.output import Json, print_json, progress_bar
from p2p_labeldp.errors import RequestError, RunError

Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")]


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run, or of a sweep.")],
    out: Annotated[Path | None, typer.Option(help="The page (.html); report.html in the folder if not given.")] = None,
    show_true_labels: Annotated[
        bool,
        typer.Option(
            "--show-true-labels", help="Show labels, flips and who asked whom even where the data do not ship."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the report: one self-contained HTML page for screens, phones and print."""
    if out is not None and out.suffix not in (".html", ".htm"):
        raise RequestError(f"--out {out}: the page's name must end in .html")
    from p2p_labeldp.reporting.page import is_sweep, write_report

    with progress_bar() as progress:
        progress("report", 0, 0)
        written = write_report(run, out, show_true_labels=show_true_labels)
    if as_json:
        kind = "sweep" if is_sweep(run) else "run"
        print_json({"report": str(written), "kind": kind, "bytes": written.stat().st_size})
    else:
        print(written)


def leave_report(folder: Path, progress: Callable[[str, int, int], None]) -> Path | None:
    """After a run: its report. If that fails the run stands, and one line says how to get the report."""
    from p2p_labeldp.reporting.page import write_report

    progress("report", 0, 0)
    later = f"everything else is in {folder}, and `p2p-labeldp report {folder}` makes it"
    try:
        return write_report(folder)
    except KeyboardInterrupt:
        raise RunError(f"interrupted while the report was made; {later}") from None
    except Exception as error:
        why = " ".join(f"{error or type(error).__name__}".split())
        print(f"p2p-labeldp: the report was not written: {why}; {later}", file=sys.stderr)
        return None
