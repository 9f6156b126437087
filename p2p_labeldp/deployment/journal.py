"""A node's journal: every item it took, in order, on disk before anything that follows from it is sent.

A node's part is a function of its journal: to resume after kill -9 it takes everything again. One file that only
grows, readable by its owner alone, holds the inputs, the system's coins (a flip is made once and never again) and what
the journal belongs to. ``commit`` returns when the operating system says that it is on the disk.

    head     one line: what this is, and whose
    frame    length (4 bytes), guard (8), records (MessagePack), seal (16)      one for each commit
    seal     the first bytes of HMAC(key, the seal before, records); the guard is the same of the length

The key comes from the node's private one, so that nobody without it can change, add, drop or exchange records: a
journal whose seals do not fit is refused. What a crash leaves of the last commit, which nobody was told of, is not
taken for an edit: the file ends within it, or whole sectors of it are zeros; it is dropped. Whoever cuts off the end
of a journal goes back in time all the same. No file can tell that by itself: peers can, who have heard more.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.disk import Disk, LogFile, RealDisk
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.mixing import Secrets

FILE = "journal.log"
TAKEN, EXPIRED, SETTLED, JOINED = "taken", "expired", "settled", "joined"
SEALED = "sealed"
"""Taken, and not to be read when its round is over (``deployment.erasure``)."""

_HEAD = b"p2p-labeldp journal 1, of "
_LENGTH, _GUARD, _SEAL = 4, 8, 16
BEFORE, AFTER = _LENGTH + _GUARD, _SEAL
"""Bytes around the records of a commit."""
_SECTOR = 512  # bytes that a disk writes at once, or not
_BLOCK = 1 << 20  # bytes read at once
FACT, COINS, ENTRY = 0, 1, 2
"""What a record begins with."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[list[Any]]).decode


class Entry(NamedTuple):
    """One input. ``peer``, ``name``, ``clock`` and ``body`` are those of an item that was taken."""

    time: float
    kind: str
    peer: str = ""
    name: str = ""
    clock: int = 0
    body: bytes = b""


class Journal:
    """``owner`` is the fingerprint of the certificate it belongs to; ``secret`` is what only its node knows."""

    def __init__(self, folder: Path, *, owner: str, secret: bytes, disk: Disk | None = None) -> None:
        self.path = folder / FILE
        self.dropped = 0
        """Bytes of a last commit that a crash left unfinished."""
        try:
            self._log: LogFile = (disk or RealDisk()).open_log(self.path)
        except BlockingIOError:
            raise RequestError(f"--state {folder}: another process uses it; one node, one state folder") from None
        except OSError as error:
            raise RequestError(f"--state {folder}: cannot be written: {error.strerror}") from None
        self._key = hmac.new(secret, b"p2p-labeldp journal", "sha256").digest()
        self._facts: dict[str, str] = {}
        self._coins: dict[tuple[int, int, int], bytes | int] = {}  # a block that is not committed, or its frame's place
        self._pending: list[bytes] = []
        self._drawn: list[tuple[int, int, int]] = []  # coins that are pending
        self._used = False
        try:
            self._open(_HEAD + owner.encode() + b"\n")
        except OSError as error:
            self.close()
            raise RunError(f"{self.path}: cannot be written: {error.strerror}") from None
        except BaseException:
            self.close()
            raise

    def fact(self, name: str, value: str) -> str:
        """What the journal says of ``name``; where it says nothing yet, it says ``value`` from now on."""
        if name not in self._facts:
            self.replace_fact(name, value)
        return self._facts[name]

    def replace_fact(self, name: str, value: str) -> None:
        if self._facts.get(name) != value:
            self._facts[name] = value
            self._pending.append(_encode((FACT, name, value)))

    @property
    def used(self) -> bool:
        """Whether anything was taken yet."""
        return self._used

    def entries(self) -> Iterator[Entry]:
        """All that was committed."""
        for _, _, records in self._frames():
            for kind, *values in records:
                if kind == ENTRY:
                    yield Entry(*values)

    def append(self, entry: Entry) -> None:
        self._used = True
        self._pending.append(_encode((ENTRY, *entry)))

    def commit(self) -> None:
        if not self._pending:
            return
        records = _array_head(len(self._pending)) + b"".join(self._pending)
        place = self._log.size
        try:
            self._log.append(self._frame(records))
            self._log.sync()
        except OSError as error:
            # What is on the disk now nobody knows, and a second sync may succeed without having written it: this node
            # must not go on from here, and whoever starts it again must not find what nobody was told of.
            with contextlib.suppress(OSError):
                self._log.cut(place)
            raise RunError(f"{self.path}: cannot be written: {error.strerror}") from None
        self._coins.update(dict.fromkeys(self._drawn, place))
        self._pending, self._drawn = [], []

    def block(self, round_: int, first: int, last: int) -> NDArray[np.float64] | None:
        key = (round_, first, last)
        found = self._coins.get(key)
        if isinstance(found, int):
            records = self._records(found)
            found = next(values[3] for kind, *values in records if kind == COINS and tuple(values[:3]) == key)
        return None if found is None else np.frombuffer(found, dtype="<f8").reshape(last - first, 4)

    def keep_block(self, round_: int, first: int, last: int, block: NDArray[np.float64]) -> None:
        content = block.astype("<f8").tobytes()
        self._coins[round_, first, last] = content
        self._drawn.append((round_, first, last))
        self._pending.append(_encode((COINS, round_, first, last, content)))

    def close(self) -> None:
        self._log.close()

    # Opening: every seal is looked at.

    def _open(self, head: bytes) -> None:
        found = self._log.read(0, len(head))
        if self._log.size <= len(head) and (head.startswith(found) or not any(found)):
            if found != head:  # new, or made by a node that was killed before it had said whose it is
                self._log.cut(0)
                self._log.append(head)
                self._log.sync()
        elif not found.startswith(_HEAD):
            raise self._refusal("is not a journal")
        elif found != head:
            folder = self.path.parent
            raise RequestError(f"--state {folder}: the journal is of a run with another certificate; name a new folder")
        self._start = len(head)
        self._seal = hmac.digest(self._key, head, hashlib.sha256)[:_SEAL]
        end, last = self._start, 0
        for place, end, records in self._frames(check=True):  # noqa: B007 - the last one's
            last = place
            for kind, *values in records:
                if kind == FACT:
                    self._facts[values[0]] = values[1]
                elif kind == COINS:
                    self._coins[tuple(values[:3])] = place
                else:
                    self._used = True
        if end < self._log.size:
            self.dropped = self._log.size - end
            self._log.cut(end)
        # A node that was killed between writing and syncing, or whose sync failed, has left what can be read, and need
        # not last.
        self._log.write_again(last)

    def _frames(self, check: bool = False) -> Iterator[tuple[int, int, list[list[Any]]]]:
        """(place, end, records) of every commit; ``check`` follows the seals, up to what a crash left unfinished."""
        place, window = self._start, _Window(self._log)
        while place < self._log.size:
            start = window.read(place, BEFORE)
            if check and not self._begins(start, place):
                return
            end = place + BEFORE + int.from_bytes(start[:_LENGTH], "big") + _SEAL
            frame = window.read(place, end - place)
            if check and not self._fits(frame, place, end):
                return
            yield place, end, _decode(frame[BEFORE:-_SEAL])
            place = end

    def _begins(self, start: bytes, place: int) -> bool:
        """Whether a frame begins here; not where a crash left less than that."""
        if len(start) < BEFORE or not any(start):
            return False
        if hmac.compare_digest(start[_LENGTH:], self._guard(start[:_LENGTH])):
            return True
        if self._half_written(start, place):
            return False
        raise self._refusal("was changed, or damaged")

    def _half_written(self, start: bytes, place: int) -> bool:
        """Whether a frame that takes the rest of the file begins here, in two sectors of which one is zeros."""
        edge = -place % _SECTOR
        length = self._log.size - place - _LENGTH - _GUARD - _SEAL
        if not 0 < edge < len(start) or length < 0:
            return False
        whole = length.to_bytes(_LENGTH, "big")
        whole += self._guard(whole)
        parts = (start[:edge], whole[:edge]), (start[edge:], whole[edge:])
        return all(found == expected or not any(found) for found, expected in parts)

    def _fits(self, frame: bytes, place: int, end: int) -> bool:
        if len(frame) < end - place:
            return False
        seal = self._sealed(frame[BEFORE:-_SEAL])
        if hmac.compare_digest(frame[-_SEAL:], seal):
            self._seal = seal
            return True
        if end == self._log.size and _has_empty_sector(frame, place):
            return False
        raise self._refusal("was changed, or damaged")

    def _refusal(self, what: str) -> RequestError:
        return RequestError(f"--state {self.path.parent}: {FILE} {what}; name a new folder, or restore what was there")

    def _records(self, place: int) -> list[list[Any]]:
        length = int.from_bytes(self._log.read(place, _LENGTH), "big")
        return _decode(self._log.read(place + BEFORE, length))

    # Sealing.

    def _frame(self, records: bytes) -> bytes:
        length = len(records).to_bytes(_LENGTH, "big")
        guard = self._guard(length)
        self._seal = self._sealed(records)
        return length + guard + records + self._seal

    def _guard(self, length: bytes) -> bytes:
        return hmac.digest(self._key, b"length" + self._seal + length, hashlib.sha256)[:_GUARD]

    def _sealed(self, records: bytes) -> bytes:
        return hmac.digest(self._key, b"records" + self._seal + records, hashlib.sha256)[:_SEAL]


class _Window:
    """Reads a file from its beginning to its end, much at a time."""

    def __init__(self, log: LogFile) -> None:
        self._log, self._start, self._content = log, 0, b""

    def read(self, place: int, count: int) -> bytes:
        if not self._start <= place <= place + count <= self._start + len(self._content):
            self._start, self._content = place, self._log.read(place, max(count, _BLOCK))
        return self._content[place - self._start : place - self._start + count]


def _array_head(count: int) -> bytes:
    """MessagePack's for so many elements."""
    return b"\xdd" + count.to_bytes(4, "big")


def _has_empty_sector(frame: bytes, place: int) -> bool:
    """Whether all that lies in one sector of the disk is zeros: it was never written."""
    edges = [*range(-(place % _SECTOR), len(frame), _SECTOR), len(frame)]
    parts = (frame[max(low, 0) : high] for low, high in pairwise(edges))
    return any(part and not any(part) for part in parts)


MIXING = "mixing"
"""The fact that holds the coordinator's root of nonces for the mixed exchange, in hexadecimal digits."""

PASSING = "passing"
"""The fact that holds the root of a curator's or a shuffler's randomness, in hexadecimal digits."""


class JournaledCoins:
    """The operating system's coins, drawn once: a node that is restarted finds those it had.

    ``secrets`` are those of the mixed exchange; None where there are none.
    """

    def __init__(self, coins: Coins, journal: Journal, secrets: Secrets | None = None) -> None:
        self._coins, self._journal = coins, journal
        self.secrets = secrets

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        found = self._journal.block(round_, start, stop)
        if found is None:
            found = self._coins.block(round_, start, stop)
            self._journal.keep_block(round_, start, stop, found)
        return found
