"""Digests of the data files that a sweep reads: with other bytes its rows would be others."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from p2p_labeldp.data.sets import places, stamp
from p2p_labeldp.scenario import Data

Digests = dict[str, str | None]
"""By name; None where there is no such file."""


def digests(sets: Iterable[tuple[str, str]], data_dir: Path | None) -> Digests:
    """Of the files of several data sets, each given as (data.name, data.path)."""
    found: Digests = {}
    for name, path in sorted(set(sets)):
        found |= {file: _digest(place) for file, place in places(name, path, data_dir).items()}
    return found


def _digest(place: Path | None) -> str | None:
    try:
        return None if place is None else _digest_of(place)
    except OSError:
        return None


def _digest_of(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def difference(data: Data, data_dir: Path | None, expected: Digests) -> str:
    """What is wrong with the files that this process would read; empty where they are those expected."""
    for name, place in places(data.name, data.path, data_dir).items():
        if name not in expected:
            continue
        if place is None:
            if expected[name] is not None:
                return f"{name}: a worker has no such file"
        elif _known(place, *stamp(place)) != expected[name]:
            return f"{place}: a worker's file is another one than here; results might differ"
    return ""


@functools.cache
def _known(place: Path, changed: int, size: int) -> str:
    """A file's digest, found once in a process for as long as the file is left alone."""
    return _digest_of(place)
