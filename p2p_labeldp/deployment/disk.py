"""What a node needs of a disk: files that only grow, and folders that appear whole or not at all.

``sync`` returns when what was written survives a loss of power; before that a crash may take all of it, or leave the
beginning, or nothing but zeros in its place. ``RealDisk`` is the operating system's. A simulated disk has the same few
methods, and takes what it may.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from p2p_labeldp.network.credentials import require_private
from p2p_labeldp.systems import lock, make_last


def create(path: Path, parts: Iterable[bytes], lasting: bool = True) -> None:
    """A new file, its owner's alone from the moment it exists; one that is ``lasting`` survives a loss of power."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        for part in parts:
            file.write(part)
        if lasting:
            file.flush()
            os.fsync(file.fileno())


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Put a file that is there as a whole and lasts, or not at all, in the place of what was there before."""
    temporary = path.with_name(f".{path.name}")
    temporary.unlink(missing_ok=True)
    create(temporary, parts)
    temporary.replace(path)
    _sync(path.parent)


class LogFile(Protocol):
    """A file that only grows."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, count: int) -> bytes:
        """Fewer bytes at the end of the file."""
        ...

    def append(self, data: bytes) -> None:
        """OSError where not all of it was written."""
        ...

    def sync(self) -> None: ...

    def write_again(self, start: int) -> None:
        """Everything from there on, and sync: whatever became of an earlier sync, it lasts.

        Where one has failed, the operating system may take what it did not write for written.
        """
        ...

    def cut(self, size: int) -> None:
        """Drop what is behind the first ``size`` bytes."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    def open_log(self, path: Path) -> LogFile:
        """The file, its folder too where there is none; both are their owner's alone.

        BlockingIOError where another process has it open, any other OSError where it cannot be had.
        """
        ...

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        """A file that is there as a whole and lasts, or not at all; whatever was there before is replaced."""
        ...

    def erase(self, path: Path) -> None:
        """Overwrite a file, if there is one, and remove it: neither it nor its content comes back."""
        ...

    def settle(self, folder: Path) -> None:
        """What was written into a folder lasts, and so does its name."""
        ...


class RealDisk:
    """The operating system's."""

    def open_log(self, path: Path) -> LogFile:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = not path.exists()
        if path.is_file():
            require_private(path)  # it holds coins
        file = _RealLog(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if new:
            _sync(path.parent)
        return file

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, parts)

    def erase(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return
        try:
            os.write(descriptor, bytes(os.fstat(descriptor).st_size))
            make_last(descriptor)
        finally:
            os.close(descriptor)
        path.unlink()
        _sync(path.parent)

    def settle(self, folder: Path) -> None:
        for place, _, names in os.walk(folder):
            for name in names:
                _sync(Path(place) / name)
            _sync(Path(place))
        _sync(folder.parent)


class _RealLog:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        try:
            lock(descriptor)
            self.size = os.fstat(descriptor).st_size
        except OSError:
            os.close(descriptor)
            raise

    def read(self, start: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, start)

    def append(self, data: bytes) -> None:
        self.size = self._write(data, self.size)

    def sync(self) -> None:
        make_last(self._descriptor)

    def write_again(self, start: int) -> None:
        while start < self.size:
            start = self._write(self.read(start, 1 << 20), start)
        self.sync()

    def _write(self, data: bytes, place: int) -> int:
        """All of it, or as much as there is room for; where it ends."""
        rest = memoryview(data)
        while rest:
            try:
                written = os.pwrite(self._descriptor, rest, place)
            except OSError:
                self.size = max(self.size, place)
                raise
            place += written
            rest = rest[written:]
        return place

    def cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _sync(path: Path) -> None:
    with contextlib.suppress(PermissionError):  # a folder that may be written but not read
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
