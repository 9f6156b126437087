"""One module for each data set, named as ``data.name`` names it, with its record ``DATA_SET``."""

from __future__ import annotations

import importlib

from p2p_labeldp.data.record import DataSet
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import DATA_SETS
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
