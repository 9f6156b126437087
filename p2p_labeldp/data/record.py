"""What is true of a data set: how it is loaded, which files it is made of, which questions it offers.

Each data set is a module of ``data.sets`` with one record, ``DATA_SET``; every other room asks the record. Which keys
of ``[data]`` it reads, and whether it ships with the package, stands beside its name in the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from p2p_labeldp.data.dataset import Dataset, Source
from p2p_labeldp.data.files import Places
from p2p_labeldp.scenario import Data


@dataclass(frozen=True)
class Target:
    """A question with fewer answers: ``answer[y]`` is the new label of the data set's label y."""

    classes: tuple[str, ...]
    answer: tuple[int, ...]


PARITY = Target(("even", "odd"), (0, 1) * 5)


@dataclass(frozen=True)
class DataSet:
    """The record of a data set."""

    words: str
    """What its examples are, for reports."""
    load: Callable[[Data, int, Path | None], Source | Dataset]
    """From the section, the seed and ``--data-dir``. A Source is cut down to the users and the target asked for."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    places: Callable[[Data, Path | None], Places] = lambda data, data_dir: {}
    """The files that it reads."""
    title: str = ""
    """Its name in figures, where that is not ``data.name``."""
