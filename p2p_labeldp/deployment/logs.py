"""What operators read: one JSON object per line and event, on standard error.

Apart from the audit trace, and poorer by design: a fact is a number or a short text under one of a few
names, none of which is a place for a label. Details of a refused message stay out, since they may quote one.
Nobody who reads a log, or does not, can hold a node up: lines that find no room are left out, and counted.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from p2p_labeldp.stderr import standard_error

FACTS = frozenset(
    {
        "address", "attempt", "bytes", "clusters", "connected", "count", "done", "duplicates", "event", "fault",
        "features", "first", "for", "from", "health", "host", "hosts", "kind", "last", "listen", "missing", "name",
        "node", "nodes", "number", "pause", "peer", "phase", "reason", "role", "run", "seconds", "sender", "status",
        "total", "users", "version", "waiting", "warning",
    }
)  # fmt: skip
WARNINGS = ("refused", "limit", "away", "waiting", "broken", "warning", "duplicate", "failed", "slow", "shunned")
MAX_TEXT = 300  # characters of a fact; a peer may have chosen it
Log = Callable[..., None]
"""(event, facts): nothing in it may depend on a label."""


class Logger:
    """Call it with an event and its facts."""

    def __init__(self, node: str, stream: TextIO | None = None) -> None:
        self.node = node
        self.muted = False
        """While a journal is replayed: what is done again was logged the first time."""
        self._stream = stream
        self._told = 0  # lines left out of which a line has told

    def __call__(self, event: str, **facts: object) -> None:
        unknown = facts.keys() - FACTS
        if unknown:
            raise ValueError(f"a log line has no place for {', '.join(sorted(unknown))}")
        if self.muted:
            return
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        level = "warning" if event in WARNINGS else "info"
        line: dict[str, object] = {"time": now, "level": level, "node": self.node, "event": event}
        for name, value in facts.items():
            number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
            line[name] = value if number else str(value)[:MAX_TEXT]
        self._put(json.dumps(line, ensure_ascii=True) + "\n")

    @property
    def dropped(self) -> int:
        """Lines that were left out."""
        outlet = standard_error() if self._stream is None else None
        return 0 if outlet is None else outlet.dropped

    def drain(self) -> None:
        """Before the program ends: a moment for what has not been written yet."""
        if self._stream is None and (outlet := standard_error()) is not None:
            outlet.drain()

    def _put(self, text: str) -> None:
        outlet = standard_error() if self._stream is None else None
        if outlet is None:
            stream = self._stream or sys.stderr
            stream.write(text)
            stream.flush()
        elif outlet.write(text) and outlet.dropped > self._told:
            left_out, self._told = outlet.dropped - self._told, outlet.dropped
            self("warning", warning=f"{left_out} lines of this log were left out: whoever reads it was too slow")
