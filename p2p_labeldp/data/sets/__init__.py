"""One module for each data set, named as ``data.name`` names it, with its record ``DATA_SET``."""

from __future__ import annotations

import importlib
from pathlib import Path

from p2p_labeldp.data.files import Places
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import DATA_SETS, Data
from p2p_labeldp.scenario.extensions import added


def data_set_of(name: str) -> DataSet:
    """The record of the data set that ``data.name`` calls so."""
    if name not in DATA_SETS:
        raise RequestError(f"data.name is {name!r}; allowed are {', '.join(DATA_SETS)}")
    outside = added("data_set", name)
    found: DataSet = (
        importlib.import_module(f"p2p_labeldp.data.sets.{name}").DATA_SET if outside is None else outside.record
    )
    return found


def places(name: str, path: str, data_dir: Path | None) -> Places:
    """Where each file of the data set ``name`` is; ``path`` is data.path, which csv alone reads."""
    return data_set_of(name).places(Data(name=name, path=path), data_dir)


def stamp(place: Path) -> tuple[int, int]:
    """When a file was changed, and its size."""
    status = place.stat()
    return status.st_mtime_ns, status.st_size
