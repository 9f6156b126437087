"""``--watch``: a live page of a run, for as long as that takes and, on a terminal, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from p2p_labeldp.errors import RequestError

if TYPE_CHECKING:
    from p2p_labeldp.reporting.watching.watched import Watched

AnyWatched = TypeVar("AnyWatched", bound="Watched")
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


def telling(progress: Progress, watched: Watched | None) -> Progress:
    """What tells a progress bar and the page how far a run is."""
    if watched is None:
        return progress

    def tell(stage: str, done: int, total: int) -> None:
        progress(stage, done, total)
        watched.told(stage, done, total)

    return tell


@contextmanager
def live_page(watched: AnyWatched, port: int | None) -> Iterator[AnyWatched]:
    """Serve a page while the block runs; on a terminal also afterwards, until Ctrl-C."""
    from p2p_labeldp.reporting.watching.server import WatchServer

    with WatchServer(watched, port or 0) as server:
        print(f"p2p-labeldp: watch it at {server.address}", file=sys.stderr, flush=True)
        try:
            yield watched
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
