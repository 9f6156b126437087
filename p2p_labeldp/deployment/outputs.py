"""Where nodes write results, traces and models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from p2p_labeldp.deployment.disk import Disk
from p2p_labeldp.errors import RequestError, RunError

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


def named(place: Path, run: str) -> Path:
    if RUN not in str(place):
        return place
    if not re.fullmatch("[0-9a-f]{1,64}", run):  # the coordinator's word, and none of its business where files go
        raise RunError(f"--out {place}: the coordinator's name for the run cannot be that of a folder")
    return Path(str(place).replace(RUN, run))


def trace_writer(out: Path, run: Callable[[], str], disk: Disk) -> Callable[[Iterator[bytes]], None]:
    """Writes the trace of ``run`` into ``out``, readable by its owner alone."""
    from p2p_labeldp.audit.folder import TRACE  # here, since user hosts need nothing of that room

    return lambda parts: disk.write(named(out, run()) / TRACE, parts)


def files_writer(out: Path, run: Callable[[], str], disk: Disk) -> Callable[[dict[str, bytes]], None]:
    """Puts what the learner has handed over into ``out``."""

    def keep(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            disk.write(named(out, run()) / name, [content])

    return keep
