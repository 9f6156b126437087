"""A second node that lives by the first one's journal alone, and by as much of it as lasts.

What a node may say is what follows from what its disk would still hold if the power failed now. The shadow takes
every entry when it has come to last, and keeps what follows: whatever the node writes to a connection must be there.
The shadow has no randomness: a coin that the journal does not hold is one that could be drawn again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.journal import AFTER, BEFORE, COINS, ENTRY, FACT, FILE, TAKEN, Entry
from p2p_labeldp.deployment.learning import Left
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.deployment.simulated.papers import credentials
from p2p_labeldp.deployment.world import World
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.scenario import Scenario

Beside = Callable[[str], bytes]
"""What lasts of another file in the node's state folder: a round's key."""


class NotHeld(Exception):
    """Something that the journal does not hold."""


class Silent(Logger):
    def __call__(self, event: str, **facts: object) -> None: ...


class _Copy:
    """``deployment.disk.LogFile`` of what lasts; whatever else is written to it is of no interest."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def size(self) -> int:
        return len(self._content)

    def read(self, start: int, count: int) -> bytes:
        return self._content[start : start + count]

    def append(self, data: bytes) -> None: ...

    def sync(self) -> None: ...

    def write_again(self, start: int) -> None: ...

    def cut(self, size: int) -> None:
        raise NotHeld("the journal does not read as it was written")

    def close(self) -> None: ...


class _CopyDisk:
    def __init__(self, content: bytes, beside: Beside) -> None:
        self._content, self._beside = content, beside

    def open_log(self, path: Path) -> _Copy:
        return _Copy(self._content if path.name == FILE else self._beside(path.name))

    def erase(self, path: Path) -> None: ...

    def write(self, path: Path, parts: Iterable[bytes]) -> None:
        for _ in parts:
            pass

    def settle(self, folder: Path) -> None: ...


class Shadow:
    """Follows one journal from its beginning. ``said`` are (clock, body) of each peer's stream, by the peer's key."""

    def __init__(
        self,
        role: str,
        scenario: Scenario,
        certificates: Path,
        place: Path,
        rows: Rows | None,
        beside: Beside,
        packets: dict[bytes, tuple[int, int]],
    ) -> None:
        """``packets`` is told what the innermost packets of the mixed exchange hold, and whose they are."""
        self._beside, self._packets = beside, packets
        self.said: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self.taken: Counter[str] = Counter()
        self.facts: dict[str, str] = {}
        self.coins: dict[tuple[int, int, int], bytes] = {}
        self.node: Node | None = None
        self.failure = ""
        """Why it can follow no further: what the node itself died of."""
        self.offset = 0
        self._make: Callable[[World], Node] = lambda world: Node(
            role,
            scenario,
            certificates=certificates,
            state=Path("/shadow"),
            place=place if role in ("learner", "auditor") else None,
            rows=rows,
            logger=Silent(role),
            world=world,
        )

    def follow(self, content: bytes) -> list[Entry]:
        """Take all commits that have come to last; the entries that were new."""
        taken: list[Entry] = []
        if self.offset == 0:
            self.offset = content.find(b"\n") + 1
        while self.offset and self.offset + BEFORE <= len(content):
            length = int.from_bytes(content[self.offset : self.offset + 4], "big")
            end = self.offset + BEFORE + length + AFTER
            if end > len(content):
                break
            records = msgspec.msgpack.decode(content[self.offset + BEFORE : end - AFTER])
            self.offset = end
            self._note(records)
            if self.node is None:
                self.node = self._make(self._world(content[:end]))
                self.node._part._write = lambda *_: Left()  # type: ignore[attr-defined]
            else:
                for kind, *values in records:
                    if kind == COINS:
                        block = np.frombuffer(values[3], dtype="<f8").reshape(-1, 4)
                        self.node.journal.keep_block(values[0], values[1], values[2], block)
            taken += self._take(records)
        return taken

    def _world(self, content: bytes) -> World:
        return World(disk=_CopyDisk(content, self._beside), entropy=self._entropy, credentials=credentials)

    def _entropy(self, size: int) -> bytes:
        if self.node is not None:
            raise NotHeld(f"{size} bytes of chance that the journal does not hold")
        return bytes(size)  # for the name of a run, which the journal holds

    def _note(self, records: list[list[Any]]) -> None:
        for kind, *values in records:
            if kind == FACT:
                self.facts[values[0]] = values[1]
            elif kind == COINS:
                key = (values[0], values[1], values[2])
                if key in self.coins:
                    raise NotHeld(f"coins of round {key[0]}, users {key[1]} to {key[2] - 1} were drawn twice")
                self.coins[key] = values[3]

    def _take(self, records: list[list[Any]]) -> list[Entry]:
        assert self.node is not None
        found = (self.node._unsealed(Entry(*values)) for kind, *values in records if kind == ENTRY)
        entries = [entry for entry in found if entry is not None]
        for entry in entries:
            if entry.kind == TAKEN:
                self.taken[entry.peer] += 1
            if self.failure:
                continue
            try:
                self.node._apply(entry)
            except Exception as error:
                if isinstance(error, NotHeld):
                    raise
                self.failure = str(error)
            for key, clock, body in self.node._part.said():
                self.said[key].append((clock, body))
            host = getattr(self.node._part, "host", None)
            if isinstance(host, MixingHost) and not isinstance(host.member, _Overheard):
                host.member = _Overheard(host.member, self._packets)
        return entries


class _Overheard:
    """Finds a host's users, and notes what they seal."""

    def __init__(self, found: Callable[[int], Any], packets: dict[bytes, tuple[int, int]]) -> None:
        self._found, self._packets = found, packets

    def __call__(self, user: int) -> Any:
        return _Sealing(self._found(user), self._packets)


class _Sealing:
    def __init__(self, user: Any, packets: dict[bytes, tuple[int, int]]) -> None:
        self._user, self._packets = user, packets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._user, name)

    def deposits(self, session: Session) -> Any:
        said = self._user.deposits(session)
        share = self._user._share
        if share is not None and share.sealed is not None:
            self._packets[share.sealed.layers[-1]] = self._user.id, self._user.noisy
        return said
