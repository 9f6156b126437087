"""Rows with values that nobody else's have, planted in one host's file and looked for everywhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

PLACES = ("north", "south", "east")
STUDY = """
[data]
name = "csv"
path = "people.csv"
label_column = "state"
test_fraction = 0.2
[data.schema]
classes = ["healthy", "ill"]
ignore = ["note"]
[data.schema.columns]
dose = {range = [0, 1000], centre = 500, scale = 100}
pulse = {range = [0, 300], centre = 70, scale = 10}
[clusters]
count = 2
minimum_size = 5
[mechanism]
alpha = 0.2
[coins]
seed = 7
"""


def planted(place: int) -> tuple[str, dict[str, bytes]]:
    """A host's own row, and how it would look: what stays there, and ``row``, as coordinator and learner get it."""
    dose, pulse = 917.140625 + place, 201.28125 + place
    note = f"zq{PLACES[place]}{'0123456789'[place] * 17}qz"
    marks = {
        "note": note.encode(),
        "text": f"{dose},{pulse}".encode(),
        "numbers": np.array([dose, pulse]).tobytes(),
        "row": np.array([(dose - 500) / 100, (pulse - 70) / 10], dtype="<f4").tobytes(),
    }
    return f"{dose},{pulse},ill,{note}", marks


def memory_of(pid: int) -> Iterator[bytes]:
    """Everything that a process could write to, and the words it was started with."""
    yield Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, how, *_ = line.split()
            if not how.startswith("rw"):
                continue
            start, end = (int(edge, 16) for edge in where.split("-"))
            with contextlib.suppress(OSError):  # pages of the kernel's own
                memory.seek(start)
                yield memory.read(end - start)


def found_in(parts: Iterable[bytes]) -> set[tuple[str, str]]:
    """(place, how it looks) of all that was planted and is there."""
    marks = [(name, kind, mark) for place, name in enumerate(PLACES) for kind, mark in planted(place)[1].items()]
    return {(name, kind) for content in parts for name, kind, mark in marks if mark in content}


def own(place: int) -> set[tuple[str, str]]:
    """All that was planted at one place."""
    return {(PLACES[place], kind) for kind in planted(place)[1]}


def files_below(*folders: Path) -> Iterator[bytes]:
    for folder in folders:
        yield from (path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
