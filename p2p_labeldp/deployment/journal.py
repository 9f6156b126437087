"""What a node took, in order, on disk before anyone sees what follows from it.

A node's part is a function of its journal: to resume after kill -9 it takes everything again. One SQLite file,
readable by its owner alone, holds the inputs, the system's coins (a flip is made once and never again) and what
the journal belongs to. ``commit`` returns when the operating system says that it is on the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import Coins

FILE = "journal.sqlite"
TAKEN, EXPIRED, SETTLED, JOINED = "taken", "expired", "settled", "joined"

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS coins (
    round INTEGER, first INTEGER, last INTEGER, block BLOB NOT NULL, PRIMARY KEY (round, first, last)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    position INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL,
    peer TEXT NOT NULL, name TEXT NOT NULL, clock INTEGER NOT NULL, body BLOB NOT NULL
);
"""


class Entry(NamedTuple):
    """One input. ``peer``, ``name``, ``clock`` and ``body`` are those of an item that was taken."""

    time: float
    kind: str
    peer: str = ""
    name: str = ""
    clock: int = 0
    body: bytes = b""


class Journal:
    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise RequestError(f"--state {folder}: cannot be written: {error.strerror}") from None
        try:
            # Used from one thread at a time, not always from the same one.
            self._database = sqlite3.connect(self.path, isolation_level=None, timeout=0.0, check_same_thread=False)
        except sqlite3.Error as error:
            raise RequestError(f"--state {folder}: {FILE} cannot be opened: {error}") from None
        try:
            # One process at a time; the log beside the file survives a crash, FULL a loss of power.
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_TABLES)
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            self._database.close()
            busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            why = "another process uses it; one node, one state folder" if busy else str(error)
            raise RequestError(f"--state {folder}: {why}") from None
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise RequestError(f"--state {folder}: {FILE} is damaged: {error}") from None

    def fact(self, name: str, value: str) -> str:
        """What the journal says of ``name``; where it says nothing yet, it says ``value`` from now on."""
        self._execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, value))
        ((found,),) = self._read("SELECT value FROM facts WHERE name = ?", (name,))
        return str(found)

    def replace_fact(self, name: str, value: str) -> None:
        self._execute("UPDATE facts SET value = ? WHERE name = ?", (value, name))

    @property
    def used(self) -> bool:
        """Whether anything was taken yet."""
        return any(self._read("SELECT 1 FROM log LIMIT 1"))

    def entries(self) -> Iterator[Entry]:
        rows = self._read("SELECT time, kind, peer, name, clock, body FROM log ORDER BY position")
        yield from map(Entry._make, rows)

    def append(self, entry: Entry) -> None:
        self._execute("INSERT INTO log (time, kind, peer, name, clock, body) VALUES (?, ?, ?, ?, ?, ?)", entry)

    def commit(self) -> None:
        self._execute("COMMIT")
        self._execute("BEGIN IMMEDIATE")

    def block(self, round_: int, first: int, last: int) -> NDArray[np.float64] | None:
        select = "SELECT block FROM coins WHERE round = ? AND first = ? AND last = ?"
        for (block,) in self._read(select, (round_, first, last)):
            return np.frombuffer(block, dtype="<f8").reshape(last - first, 4)
        return None

    def keep_block(self, round_: int, first: int, last: int, block: NDArray[np.float64]) -> None:
        values = (round_, first, last, block.astype("<f8").tobytes())
        self._execute("INSERT INTO coins VALUES (?, ?, ?, ?)", values)

    def close(self) -> None:
        self._database.close()

    def _read(self, statement: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise RequestError(f"--state {self.path.parent}: {FILE} is damaged: {error}") from None

    def _execute(self, statement: str, values: tuple[object, ...] = ()) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise RunError(f"{self.path}: cannot be written: {error}") from None


class JournaledCoins:
    """The operating system's coins, drawn once: a node that is restarted finds those it had."""

    def __init__(self, coins: Coins, journal: Journal) -> None:
        self._coins, self._journal = coins, journal

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        found = self._journal.block(round_, start, stop)
        if found is None:
            found = self._coins.block(round_, start, stop)
            self._journal.keep_block(round_, start, stop, found)
        return found
