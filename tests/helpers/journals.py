"""A node's journal as anyone can read it who has the file, by its documented form and no code of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

FACT, COINS, ENTRY = range(3)


def records(path: Path) -> Iterator[list[Any]]:
    """Every record of a journal, in order; its seals are not looked at."""
    content = path.read_bytes()
    place = content.index(b"\n") + 1
    while place < len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        yield from msgpack.unpackb(content[place + 12 : place + 12 + length], raw=False)
        place += 12 + length + 16


def of_kind(path: Path, wanted: int) -> Iterator[list[Any]]:
    return (values for kind, *values in records(path) if kind == wanted)


def facts_of(path: Path) -> dict[str, str]:
    return dict(map(tuple, of_kind(path, FACT)))
