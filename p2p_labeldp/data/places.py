"""Where the files of a data set are, and whether they have changed: with other bytes, other results.

Names do not depend on the machine. What OpenML sends is not among them: scikit-learn checks that itself.
"""

from __future__ import annotations

from pathlib import Path

from p2p_labeldp.data.files import find, folders
from p2p_labeldp.data.images import CIFAR_ARCHIVES, IDX_FILES
from p2p_labeldp.data.tables import ADULT_FILES, DIABETES_ARCHIVE

_SETS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "mnist": ("mnist", (IDX_FILES,)),
    "fashion_mnist": ("fashion-mnist", (IDX_FILES,)),
    "cifar10": ("cifar-10", tuple((name,) for name in CIFAR_ARCHIVES)),
    "adult": ("adult", (tuple(ADULT_FILES),)),
    "diabetes130": ("diabetes-130", ((DIABETES_ARCHIVE,),)),
}
"""A data set's folder and its files; the first group that is there is read."""

Stamp = tuple[int, int]
"""When a file was changed, and its size."""


def places(name: str, path: str, data_dir: Path | None) -> dict[str, Path | None]:
    """Where each file of the data set ``name`` is; ``path`` is data.path, which csv alone reads."""
    if name == "csv":
        candidates = [Path(path), *(folder / path for folder in folders(data_dir))]
        return {path: next((candidate for candidate in candidates if candidate.is_file()), None)} if path else {}
    if name not in _SETS:
        return {}
    folder, groups = _SETS[name]
    for files in groups:
        place = find(folder, files, data_dir)
        if place is not None:
            return {f"{folder}/{file}": place / file for file in files}
    return {f"{folder}/{file}": None for file in groups[0]}


def stamp(place: Path) -> Stamp:
    status = place.stat()
    return status.st_mtime_ns, status.st_size
