"""A disk that keeps what was synced, and of the rest what a crash leaves of it.

Written bytes are in the kernel's memory: a program that is killed finds them again. A loss of power takes them, or
all but their beginning, or leaves zeros in some sectors. While syncs are slow the step is that makes them
(``Process.work``), and what they sync lasts when they are done.

Result folders are real files in a temporary place, so that the shipped code writes them; a loss of power empties
those of a folder that was not settled, and may take one that was settled under another name.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Protocol

SECTOR = 512


class Program(Protocol):
    """Whoever uses a disk: it may be killed in the middle, and a slow disk makes it slow."""

    alive: bool
    delay: float

    def strike(self, what: str) -> None: ...

    def after_work(self, seconds: float, action: Callable[[], None]) -> None: ...


class StoredFile:
    """A file: its content as programs see it, and how much of that lasts."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.lasting = 0
        self.stuck: int | None = None
        """From where on a sync has failed: what is there will not last, whatever later ones say."""
        self.holder: Program | None = None

    def lose_power(self, chance: random.Random) -> str:
        """Take what was not synced, or leave some of it; says which."""
        late = bytes(self.content[self.lasting :])
        if not late:
            return "nothing"
        start = self.lasting
        if self.stuck is not None:
            del self.content[start:]
            self.stuck = None
            return "lost"
        how = chance.choice(("lost", "torn", "zeros", "kept"))
        if how == "lost":
            del self.content[start:]
        elif how == "torn":
            del self.content[start + chance.randrange(len(late)) :]
        elif how == "zeros":
            edges = [start, *range(SECTOR * (start // SECTOR + 1), len(self.content), SECTOR), len(self.content)]
            for low, high in pairwise(edges):
                if chance.random() < 0.5:
                    self.content[low:high] = bytes(high - low)
        self.lasting, self.stuck = len(self.content), None
        return how


class Disk:
    """One machine's."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root = root
        """Where its result folders really are."""
        self.files: dict[Path, StoredFile] = {}
        self.settled: set[int] = set()
        """Folders whose content lasts, by inode: whatever they are called."""
        self.unsettled: set[Path] = set()
        self.room: int | None = None
        """Bytes that may still be written; None where there is no end to it."""
        self.delays: list[float] = []
        """Seconds that make a sync slower."""
        self.failing = False
        """Whether syncs fail."""
        self.on_lasting: Callable[[], object] = lambda: None
        """Called when more of some file has come to last."""
        self._chance = chance

    @property
    def slowness(self) -> float:
        """Seconds that a sync takes."""
        return sum(self.delays)

    def lose_power(self) -> list[str]:
        said = [file.lose_power(self._chance) for file in self.files.values()]
        for folder in sorted(self.unsettled):
            if folder.stat().st_ino in self.settled:
                if self._chance.random() < 0.5:
                    shutil.rmtree(folder)
                continue
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    path.write_bytes(b"")
        self.unsettled.clear()
        return said

    def erase(self) -> None:
        self.files.clear()
        self.settled.clear()
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()


class MountedDisk:
    """A disk as one program reaches it (``deployment.disk.Disk``)."""

    def __init__(self, disk: Disk, process: Program) -> None:
        self._disk, self._process = disk, process

    def open_log(self, path: Path) -> OpenFile:
        file = self._disk.files.setdefault(path, StoredFile())
        if file.holder is not None and file.holder.alive and file.holder is not self._process:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        file.holder = self._process
        return OpenFile(self._disk, self._process, file)

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        content = b"".join(parts)
        self._process.strike("write")
        self._spend(len(content))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}")
        temporary.write_bytes(content)
        temporary.replace(path)
        self._process.strike("write")

    def erase(self, path: Path) -> None:
        self._process.strike("erase")
        self._disk.files.pop(path, None)

    def settle(self, folder: Path) -> None:
        self._disk.unsettled.add(folder)
        self._process.strike("settle")
        self._disk.unsettled.discard(folder)
        self._disk.settled.add(folder.stat().st_ino)
        self._process.delay += self._disk.slowness

    def _spend(self, size: int) -> None:
        if self._disk.room is not None and size > self._disk.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class OpenFile:
    """``deployment.disk.LogFile``."""

    def __init__(self, disk: Disk, process: Program, file: StoredFile) -> None:
        self._disk, self._process, self._file = disk, process, file

    @property
    def size(self) -> int:
        return len(self._file.content)

    def read(self, start: int, count: int) -> bytes:
        return bytes(self._file.content[start : start + count])

    def append(self, data: bytes) -> None:
        self._process.strike("append")
        room = self._disk.room
        if room is not None:
            self._disk.room = max(0, room - len(data))
            if len(data) > room:
                self._file.content += data[:room]
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._file.content += data

    def sync(self) -> None:
        self._process.strike("sync")
        if self._disk.failing:
            self._file.stuck = self._file.lasting if self._file.stuck is None else self._file.stuck
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._process.after_work(self._disk.slowness, partial(self._lasts, self.size))

    def write_again(self, start: int) -> None:
        self._process.strike("append")
        if self._file.stuck is not None and start <= self._file.stuck:
            self._file.stuck = None
        self.sync()

    def cut(self, size: int) -> None:
        del self._file.content[size:]
        self._file.lasting = min(self._file.lasting, size)
        if self._file.stuck is not None and size <= self._file.stuck:
            self._file.stuck = None

    def close(self) -> None:
        if self._file.holder is self._process:
            self._file.holder = None

    def _lasts(self, size: int) -> None:
        size = size if self._file.stuck is None else min(size, self._file.stuck)
        if size > self._file.lasting:
            self._file.lasting = size
            self._disk.on_lasting()
