"""Where nodes write results, traces and models, and the model as it comes to a user host: files, in parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from p2p_labeldp.deployment.disk import Disk
from p2p_labeldp.deployment.items import Result
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.protocol.messages import Fault, Refused

RUN = "{run}"
"""In the name of a place it stands for the run's name, which a node learns once hosts have come."""

LARGEST = 1 << 30
"""Bytes of a file that the learner may hand over."""

FILES = ("model.npz", "model-card.md")

Keep = Callable[[dict[str, bytes]], None]
"""Puts the files that the learner has handed over where the host wants them."""


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


def files_writer(out: Path, run: Callable[[], str], disk: Disk) -> Keep:
    """Puts what the learner has handed over into ``out``."""

    def keep(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            disk.write(named(out, run()) / name, [content])

    return keep


class Delivery:
    """The files of the model, kept when all of them are whole.

    ``keep`` is None where the host does not ask for the model: nothing is due then.
    """

    def __init__(self, keep: Keep | None) -> None:
        self._keep = keep
        self._files: dict[str, bytearray] = {}
        self._sizes: dict[str, int] = {}

    @property
    def due(self) -> bool:
        """Whether the model is waited for."""
        return self._keep is not None

    @property
    def begun(self) -> int:
        """How many files have begun to come, of a delivery that is due."""
        return len(self._files)

    def take(self, part: Result) -> None:
        if self._keep is None or part.first != len(self._files.get(part.name, b"")) or part.size > LARGEST:
            raise Refused(Fault.OUT_OF_ORDER, "nobody asked for this part of a file")
        self._files.setdefault(part.name, bytearray()).extend(part.content)
        self._sizes[part.name] = part.size
        if len(self._files) == len(FILES) and all(len(self._files[name]) == self._sizes[name] for name in FILES):
            self._keep({name: bytes(content) for name, content in self._files.items() if content})
            self._keep = None
            self._files.clear()
