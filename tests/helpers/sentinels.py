"""Rows with values that nobody else's have, planted in one host's file and looked for everywhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
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

FEATURES = ("row", "wide row")
"""How a row looks to those who get its features, coordinator and learner."""


def planted(place: int) -> tuple[str, dict[str, bytes]]:
    """A host's own row, and how it would look: what stays there, and as features."""
    dose, pulse = 917.140625 + place, 201.28125 + place
    note = f"zq{PLACES[place]}{'0123456789'[place] * 17}qz"
    row = np.array([(dose - 500) / 100, (pulse - 70) / 10], dtype="<f4")
    marks = {
        "note": note.encode(),
        "text": str(dose).encode(),
        "number": np.array([dose], dtype="<f8").tobytes(),
        "packed number": np.array([dose], dtype=">f8").tobytes(),  # as MessagePack has it
        "packed features": row.astype(">f4").tobytes(),
        "row": row.tobytes(),
        "wide row": row.astype("<f8").tobytes(),
    }
    return f"{dose},{pulse},ill,{note}", marks


def labels_in(path: Path) -> dict[str, bytes]:
    """How the labels of a host's file would look, all of them in their order."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    labels = np.array([line.split(",")[2] == "ill" for line in lines])
    return {f"labels {width}": labels.astype(width).tobytes() for width in ("<i8", "<i4", "i1")}


def memory_of(pid: int) -> Iterator[bytes]:
    """Everything that a process could write to but empty pages, and the words it was started with."""
    yield Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, how, *_ = line.split()
            if not how.startswith("rw"):
                continue
            start, end = (int(edge, 16) for edge in where.split("-"))
            with contextlib.suppress(OSError):  # pages of the kernel's own
                memory.seek(start)
                pages = np.frombuffer(memory.read(end - start), dtype=np.uint8).reshape(-1, 4096)
                yield pages[pages.any(axis=1)].tobytes()


def found_in(parts: Iterable[bytes], more: Sequence[dict[str, bytes]] = ({}, {}, {})) -> set[tuple[str, str]]:
    """(place, how it looks) of all that was planted and is there; ``more`` of each place is looked for, too."""
    marks = [
        (name, kind, mark)
        for place, name in enumerate(PLACES)
        for kind, mark in (planted(place)[1] | more[place]).items()
    ]
    return {(name, kind) for content in parts for name, kind, mark in marks if mark in content}


def own(place: int) -> set[tuple[str, str]]:
    """All that was planted at one place."""
    return {(PLACES[place], kind) for kind in planted(place)[1]}


def files_below(*folders: Path) -> Iterator[bytes]:
    for folder in folders:
        yield from (path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
