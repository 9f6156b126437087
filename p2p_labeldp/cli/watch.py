"""A run or a deployment before someone's eyes: a progress bar, with ``--watch`` a live page, then report and summary.

The page is there for as long as the run takes and, on a terminal, until Ctrl-C.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_labeldp.cli.output import progress_bar
from p2p_labeldp.cli.report import leave_report
from p2p_labeldp.cli.summary import finish
from p2p_labeldp.errors import RequestError

if TYPE_CHECKING:
    from p2p_labeldp.reporting.watching.watched import Watched
    from p2p_labeldp.runs.summary import Summary

Progress = Callable[[str, int, int], None]

Watch = Annotated[bool, typer.Option("--watch", help="Serve a live page; its address goes to standard error.")]
WatchPort = Annotated[
    int | None, typer.Option("--watch-port", metavar="N", help="The live page's port; a free one if not given.")
]
Paused = Annotated[
    bool, typer.Option("--paused", help="With --watch: wait at the first message until the page says play or step.")
]


def require_watch(watch: bool, port: int | None, paused: bool = False) -> None:
    """RequestError for what goes with ``--watch`` alone, and for a port that cannot be."""
    for option, given in (("--watch-port", port is not None), ("--paused", paused)):
        if given and not watch:
            raise RequestError(f"{option} is not allowed without --watch")
    if port is not None and not 1 <= port <= 65535:
        raise RequestError(f"--watch-port {port} is not allowed; it must be from 1 to 65535")


def carry_out(
    work: Callable[[Progress], Summary],
    place: Path,
    began: float,
    *,
    watched: Watched | None,
    port: int | None,
    report: bool,
    as_json: bool,
) -> None:
    """Do the work, which leaves a run folder at ``place``, and say what came of it."""
    with _live_page(watched, port):
        with progress_bar() as bar:
            progress = bar if watched is None else _telling(bar, watched)
            summary = work(progress)
            page = leave_report(place, progress) if report else None
        if watched is not None:
            watched.finished(summary, page)
        finish(summary, page, began, as_json=as_json)


def _telling(progress: Progress, watched: Watched) -> Progress:
    """What tells a progress bar and the page how far a run is."""

    def tell(stage: str, done: int, total: int) -> None:
        progress(stage, done, total)
        watched.told(stage, done, total)

    return tell


@contextmanager
def _live_page(watched: Watched | None, port: int | None) -> Iterator[None]:
    """Serve a page while the block runs; on a terminal also afterwards, until Ctrl-C."""
    if watched is None:
        yield
        return
    from p2p_labeldp.reporting.watching.server import WatchServer

    with WatchServer(watched, port or 0) as server:
        print(f"p2p-labeldp: watch it at {server.address}", file=sys.stderr, flush=True)
        try:
            yield
        except BaseException as error:
            if not watched.over:
                watched.broke("Interrupted." if isinstance(error, KeyboardInterrupt) else " ".join(str(error).split()))
            raise
        finally:
            if watched.over and sys.stderr.isatty() and sys.exc_info()[0] in (None, typer.Exit):
                _stay()


def _stay() -> None:
    print("p2p-labeldp: the page stays until Ctrl-C", file=sys.stderr, flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print(file=sys.stderr)
