"""Where data files are found, and how they are fetched when they are not there.

Looked for in this order: the folder of ``--data-dir``, the folder in ``P2P_LABELDP_DATA``, the cache
folder. A data set counts as present where all its files are; otherwise OpenML is asked, and if that
fails one line says which files to put where. Nothing is downloaded that was found.
"""

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data
from p2p_labeldp.scenario.schema import MISSING

ENVIRONMENT = "P2P_LABELDP_DATA"

Places = dict[str, Path | None]
"""Files by a name that does not depend on the machine; None where there is no such file."""

# scikit-learn opens OpenML's addresses without a limit of its own; a dead network must not hang a run.
_SECONDS_WITHOUT_AN_ANSWER = 60.0


def cache_folder() -> Path:
    """``p2p_labeldp`` under ``XDG_CACHE_HOME``, or under ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "p2p_labeldp"


def folders(data_dir: Path | None) -> list[Path]:
    """The folders to look in, first one first."""
    if data_dir is not None and not data_dir.is_dir():
        raise RequestError(f"data folder {data_dir} is not a folder")
    given = [] if data_dir is None else [data_dir]
    named = os.environ.get(ENVIRONMENT, "")
    return [*given, *([Path(named)] if named else []), cache_folder()]


@dataclass(frozen=True)
class Files:
    """The files of a data set, in a folder of its own, and the number of the same data set on OpenML."""

    folder: str
    names: tuple[str, ...]
    openml: int
    or_else: tuple[str, ...] = ()
    """Files that are read where those are not there."""

    def find(self, data_dir: Path | None) -> tuple[Path, ...] | None:
        """In the first place that holds every one of them."""
        for names in filter(None, (self.names, self.or_else)):
            for place in folders(data_dir):
                found = tuple(place / self.folder / name for name in names)
                if all(path.is_file() for path in found):
                    return found
        return None

    def places(self, data: Data, data_dir: Path | None) -> Places:
        """Those that are read; what OpenML sends is not among them, since scikit-learn checks that itself."""
        found = self.find(data_dir)
        if found is None:
            return {f"{self.folder}/{name}": None for name in self.names}
        return {f"{self.folder}/{path.name}": path for path in found}

    def fetch(self, data_dir: Path | None) -> Any:
        """What OpenML has, as a scikit-learn bunch of numpy arrays, kept in the cache folder.

        Nominal columns come as codes into ``bunch.categories``, missing values as NaN.
        """
        from sklearn.datasets import fetch_openml

        try:
            with _limited_wait(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # liac-arff because the other parser needs pandas.
                return fetch_openml(
                    data_id=self.openml,
                    as_frame=False,
                    parser="liac-arff",
                    data_home=str(cache_folder() / "openml"),
                    n_retries=1,
                )
        except Exception as error:  # sockets, HTTP, disks, ARFF: whatever stops it, the remedy is the same.
            places = ", ".join(str(place / self.folder) for place in folders(data_dir))
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise RequestError(
                f"data files not found: put {', '.join(self.names)} into one of {places}; "
                f"fetching OpenML data set {self.openml} failed ({reason})"
            ) from error


def strings_of_openml(bunch: Any, needed: tuple[str, ...]) -> dict[str, list[str]]:
    """OpenML's matrix of codes and numbers as the strings the original files hold."""
    names = list(bunch.feature_names)
    missing = [name for name in needed if name not in names]
    if missing:
        raise RequestError(f"OpenML's answer lacks the column {missing[0]}; put the original files in place instead")
    columns = {}
    for name in needed:
        values = np.asarray(bunch.data)[:, names.index(name)]
        categories = (bunch.categories or {}).get(name)
        columns[name] = [
            MISSING if np.isnan(value)
            else str(categories[int(value)]) if categories is not None
            else str(int(value))
            for value in values.tolist()
        ]  # fmt: skip
    return columns


@contextmanager
def _limited_wait() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SECONDS_WITHOUT_AN_ANSWER)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
