"""What hosts tell of their users before a run begins: the clusters that they name, and whose rows are one person's."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.items import Column, decode_column
from p2p_labeldp.deployment.shares import Shares
from p2p_labeldp.protocol.messages import Fault, Refused


class Columns:
    """Of all users; -1 where a host stayed away."""

    def __init__(self, users: int, shares: Shares) -> None:
        self._shares = shares
        self._values: dict[str, NDArray[np.int64]] = defaultdict(lambda: np.full(users, -1, dtype=np.int64))
        self._told: Counter[tuple[str, str]] = Counter()  # how many places of which column each host has told

    def take(self, key: str, part: Column) -> None:
        """A host's part, each once and in order."""
        holder = self._shares.by_key.get(key)
        values = decode_column(part)
        fits = holder is not None and holder.first + part.first + len(values) <= holder.last
        if holder is None or not fits or part.name not in ("clusters", "people"):
            raise Refused(Fault.MISDIRECTED, f"{part.name} are told of one's own users")
        if part.first != self._told[key, part.name] or len(values) == 0:
            raise Refused(Fault.OUT_OF_ORDER, f"{part.name} are told once, in order")
        self._told[key, part.name] += len(values)
        start = holder.first + part.first
        self._values[part.name][start : start + len(values)] = values

    @property
    def clusters(self) -> NDArray[np.int64]:
        return self._values["clusters"]

    def shared_people(self) -> str:
        """Which hosts have rows of one person; empty where none have. Her digest is in nobody's log."""
        seen: dict[int, str] = {}
        for holder in self._shares.hosts:
            if self._told[holder.key, "people"] < holder.last - holder.first:
                continue  # it stayed away, and nobody is told of its users; or persons have one row each
            for person in np.unique(self._values["people"][holder.first : holder.last]).tolist():
                other = seen.setdefault(person, holder.name)
                if other != holder.name:
                    return f"{other} and {holder.name} have rows of one person; she may take part at one host"
        return ""
