"""A run folder: written under a temporary name beside its place, moved there when the run is done.

An interrupted run leaves its trace in ``NAME.interrupted`` and no ``NAME``, so that half a run is never
taken for a whole one.

Where labels may be real people's, whatever tells of one of them, and the seed, which undoes every flip, goes to
``private/`` in it. The rest may be passed on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.folder import PRIVATE, SCENARIO, SEED, TRACE, find
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.scenario import Scenario


class RunFolder:
    """Context manager around a run; ``path`` is where things are written while it goes on."""

    def __init__(self, place: Path, *, private: bool = False) -> None:
        self.place = place if place.name else place.resolve()
        self.private = private
        """Whether some of its files are for its owner alone."""
        self.messages = 0
        """How many messages are in the trace so far."""
        self._trace: BinaryIO | None = None
        self._interrupted: Path | None = None

    def __enter__(self) -> RunFolder:
        try:
            if self.place.exists() and (not self.place.is_dir() or any(self.place.iterdir())):
                raise RequestError(f"--out {self.place}: exists already; name a folder that is new or empty")
            self._made = [parent for parent in self.place.parents if not parent.exists()]
            self.place.parent.mkdir(parents=True, exist_ok=True)
            # Readable by its owner alone: a trace holds every noisy label. mkdtemp sees to that.
            self.path = Path(tempfile.mkdtemp(prefix=f".{self.place.name}.", dir=self.place.parent))
        except OSError as error:
            raise RequestError(f"--out {self.place}: cannot be written: {error.strerror}") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._trace is not None:
            self._trace.close()
        if error is None:
            try:
                self.path.replace(self.place)
            except OSError as failure:
                kept = f"what was written is in {self.path}"
                raise RunError(f"--out {self.place}: cannot be put there: {failure.strerror}; {kept}") from None
        elif isinstance(error, KeyboardInterrupt) and self._trace is not None:
            self._interrupted = free_name(self.place.with_name(self.place.name + ".interrupted"))
            self.path.replace(self._interrupted)
        else:
            shutil.rmtree(self.path, ignore_errors=True)
            for parent in self._made:
                with contextlib.suppress(OSError):  # someone else may have begun to use it
                    parent.rmdir()

    def how_far(self) -> str:
        """After an interrupt: how far the run got, and where its trace is."""
        if self._interrupted is None:
            return "before any message was sent; nothing was written"
        return f"after {self.messages:,} messages; the trace so far is {find(self._interrupted, TRACE)}"

    def open_trace(self) -> BinaryIO:
        self._trace = self.kept(TRACE).open("wb")
        return self._trace

    def kept(self, name: str) -> Path:
        """Where a file goes that tells of single people."""
        if not self.private:
            return self.path / name
        (self.path / PRIVATE).mkdir(mode=0o700, exist_ok=True)
        return self.path / PRIVATE / name

    def write_scenario(self, scenario: Scenario) -> None:
        """As resolved; the seed goes where what it undoes goes."""
        (self.path / SCENARIO).write_text(scenario.to_toml(seed=not self.private), encoding="utf-8")
        if self.private:
            self.kept(SCENARIO).write_text(scenario.to_toml(), encoding="utf-8")
            self.write_json(SEED, {"seed": scenario.coins.seed, "coins": scenario.coins.source}, keep=True)

    def write_json(self, name: str, value: dict[str, Any], *, keep: bool = False) -> None:
        """``keep``: it tells of single people."""
        place = self.kept(name) if keep else self.path / name
        place.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")

    def write_arrays(self, name: str, *, keep: bool = False, **arrays: NDArray[Any]) -> None:
        with (self.kept(name) if keep else self.path / name).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)


def free_name(path: Path) -> Path:
    """``path``, or the first of ``path-2``, ``path-3``, ... that nothing has taken."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
