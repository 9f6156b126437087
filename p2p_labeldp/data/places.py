"""The files that a data set is read from, under names that do not depend on the machine, and when they were changed.

What OpenML sends is not among them: scikit-learn checks that itself.
"""

from __future__ import annotations

from pathlib import Path

from p2p_labeldp.data.record import Places
from p2p_labeldp.data.sets import data_set_of
from p2p_labeldp.scenario import Data


def places(name: str, path: str, data_dir: Path | None) -> Places:
    """Where each file of the data set ``name`` is; ``path`` is data.path, which csv alone reads."""
    return data_set_of(name).places(Data(name=name, path=path), data_dir)


def stamp(place: Path) -> tuple[int, int]:
    """When a file was changed, and its size."""
    status = place.stat()
    return status.st_mtime_ns, status.st_size
