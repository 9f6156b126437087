"""Messages by kind: how many so far, and how many a second lately."""

from __future__ import annotations

import time
from collections import deque

from p2p_labeldp.protocol.messages import BY_KIND

INTERVAL = 0.2  # seconds between two samples
OVER = 2.0  # seconds over which messages a second are counted


class Rates:
    """One thread gives it counts, another asks for them."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._samples: deque[tuple[float, dict[str, int]]] = deque(maxlen=64)

    def put(self, counts: dict[str, int]) -> None:
        now, self._counts = time.monotonic(), counts
        if not self._samples or now - self._samples[-1][0] >= INTERVAL:
            self._samples.append((now, counts))

    @property
    def sent(self) -> int:
        return sum(self._counts.values())

    def rows(self, *, still: bool) -> list[tuple[str, str, int, float | None]]:
        """(kind, what it is for, how many so far, how many a second lately; None while they stand ``still``)."""
        now, counts = time.monotonic(), self._counts
        lately = [sample for sample in self._samples.copy() if now - sample[0] < OVER]
        since, before = lately[0] if lately else (now, counts)
        seconds = 0.0 if still else now - since
        return [
            (kind, message.purpose, counts[kind], (counts[kind] - before.get(kind, 0)) / seconds if seconds else None)
            for kind, message in BY_KIND.items()
            if kind in counts
        ]
