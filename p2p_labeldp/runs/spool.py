"""Reports spooled to disk: they come in any order, the digest and ``reports.npz`` need them sorted.

Nothing here is ever in memory whole: shares are written as they come, then read back piece by piece in the order of
rounds and user ids. Shares must hold users whose ids follow each other, and follow each other's.
"""

from __future__ import annotations

import contextlib
import hashlib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.engines.shares import ShareResult
from p2p_labeldp.privacy import Parameters

PIECE = 1 << 20  # users, or labels, in memory at a time
NAME = "reports.spool"


@dataclass(frozen=True, eq=False)
class _Entry:
    """Where a share's reports are in the file, by round."""

    users: int
    kept: NDArray[np.int64]
    labels: NDArray[np.int64]
    reported: NDArray[np.int64]


class Spool:
    """Context manager around a file in ``folder`` that is gone in the end."""

    def __init__(self, folder: Path, rounds: int, labels: int) -> None:
        self._path = folder / NAME
        self._rounds = rounds
        self._packed = labels == 2
        self._type = np.dtype(np.uint8) if self._packed else np.dtype(np.min_scalar_type(labels - 1))
        self._entries: dict[int, _Entry] = {}
        self.reported = [0] * rounds
        """How many reports there are of each round."""

    def __enter__(self) -> Spool:
        self._file = self._path.open("w+b")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def put(self, number: int, result: ShareResult) -> None:
        """The result of share ``number``, counted from 0 in the order of user ids."""
        places = [[self._write(part[r]) for part in (result.kept, result.labels)] for r in range(self._rounds)]
        kept, labels = np.array(places, dtype=np.int64).T
        self._entries[number] = _Entry(result.users, kept, labels, np.array(result.reported, dtype=np.int64))
        self.reported = [have + more for have, more in zip(self.reported, result.reported, strict=True)]

    def _write(self, array: NDArray[np.unsignedinteger]) -> int:
        place = self._file.tell()
        self._file.write(np.ascontiguousarray(array).data)
        return place

    def users(self) -> Iterator[NDArray[np.int64]]:
        """The ids of those who reported, by round and id."""
        for round_ in range(self._rounds):
            first = 0
            for entry in self._in_order():
                for start in range(0, entry.users, PIECE):
                    count = min(PIECE, entry.users - start)
                    bits = self._read(int(entry.kept[round_]) + start // 8, -(-count // 8))
                    yield np.flatnonzero(np.unpackbits(bits, count=count).view(np.bool_)) + (first + start)
                first += entry.users

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """What they reported, in the same order."""
        for round_ in range(self._rounds):
            for entry in self._in_order():
                place, reported = int(entry.labels[round_]), int(entry.reported[round_])
                for start in range(0, reported, PIECE):
                    count = min(PIECE, reported - start)
                    if self._packed:
                        bits = self._read(place + start // 8, -(-count // 8))
                        yield np.unpackbits(bits, count=count).astype(np.int64)
                    else:
                        size = self._type.itemsize
                        yield self._read(place + start * size, count * size).view(self._type).astype(np.int64)

    def _in_order(self) -> Iterator[_Entry]:
        return (self._entries[number] for number in range(len(self._entries)))

    def rounds(self) -> Iterator[NDArray[np.int64]]:
        """Which round each is of."""
        for round_, reported in enumerate(self.reported):
            for start in range(0, reported, PIECE):
                yield np.full(min(PIECE, reported - start), round_, dtype=np.int64)

    def _read(self, place: int, count: int) -> NDArray[np.uint8]:
        self._file.seek(place)
        return np.frombuffer(self._file.read(count), dtype=np.uint8)

    def finish(self, path: Path | None, tell: Callable[[int, int], None] = lambda done, total: None) -> str:
        """The digest of the noisy data set; with a path, the reports are written there too, as ``np.load`` reads them.

        ``tell`` hears how many numbers of how many have been dealt with.
        """
        digest = hashlib.sha256()
        reports, done = sum(self.reported), 0
        with contextlib.ExitStack() as stack:
            file = None if path is None else stack.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_STORED))
            for name in ("user", "label") if file is None else ("user", "label", "round"):
                with _member(file, name, reports) as member:
                    for piece in self._column(name):
                        data = piece.astype("<i8", copy=False).view(np.uint8).data
                        if name != "round":
                            digest.update(data)
                        if member is not None:
                            member.write(data)
                        done += len(piece)
                        tell(done, (2 if file is None else 3) * reports)
        return digest.hexdigest()

    def _column(self, name: str) -> Iterator[NDArray[np.int64]]:
        return {"user": self.users, "label": self.labels, "round": self.rounds}[name]()


@contextlib.contextmanager
def _member(file: zipfile.ZipFile | None, name: str, length: int) -> Iterator[IO[bytes] | None]:
    """An array of an .npz file, to be filled with int64; None where there is no file."""
    if file is None:
        yield None
        return
    with file.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<i8", "fortran_order": False, "shape": (length,)})
        yield member


def spool_bytes(users: int, parameters: Parameters) -> float:
    """About how much a spool takes on disk."""
    packed = 1 / 8 if parameters.labels == 2 else np.dtype(np.min_scalar_type(parameters.labels - 1)).itemsize
    return users * parameters.rounds * (1 / 8 + parameters.theta * packed)
