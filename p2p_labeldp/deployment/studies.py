"""Several studies one after another by the same nodes: which are over, and who may begin the next.

Each study has a journal and results of its own, ``study-1``, ``study-2``, ... below the folders that a node is given.
The coordinator begins the first by itself and each other when a person says so (``p2p-labeldp next``), by a file in its
state folder; the others wait for it. A study that is over is marked, so that a node which is started again resumes the
one it was in.

Every study of the same users is a release of its own: what they cost adds up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from p2p_labeldp.deployment.disk import replace_file
from p2p_labeldp.deployment.outputs import RUN
from p2p_labeldp.errors import RequestError

OVER = "over"
LOOK = 0.5  # seconds between looks for a person's word


def to_come(state: Path, count: int) -> Iterator[tuple[int, Path]]:
    """The numbers and folders of studies that are not over."""
    for number in range(1, count + 1):
        folder = state / f"study-{number}"
        if not (folder / OVER).exists():
            yield number, folder


def place_of(place: Path | None, number: int) -> Path | None:
    """Where the results of a study go; a place that is named after the run is one for each by itself."""
    if place is None or RUN in str(place):
        return place
    return place / f"study-{number}"


def note_over(state: Path) -> None:
    replace_file(state / OVER, [b""])


def start_next(state: Path) -> int:
    """Let the coordinator with that state folder begin the next study; its number."""
    begun = [number for number, folder in to_come(state, 10_000) if folder.exists()]
    over = list(state.glob(f"study-*/{OVER}"))
    if not begun and not over:
        raise RequestError(f"{state}: not the state folder of a coordinator with deployment.studies above 1")
    number = len(over) + 1
    if begun:
        raise RequestError(f"{state}: study {begun[0]} is not over yet")
    try:
        replace_file(state / _start(number), [b""])
    except OSError as error:
        raise RequestError(f"{state}: cannot be written: {error.strerror}") from None
    return number


def wait_for_start(state: Path, number: int) -> None:
    while not (state / _start(number)).exists() and not (state / f"study-{number}").exists():
        time.sleep(LOOK)


def _start(number: int) -> str:
    return f"start-{number}"
