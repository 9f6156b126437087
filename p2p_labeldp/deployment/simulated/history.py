"""What happened in a simulated world, line by line in the order of virtual time, a digest of all of it, and what came
of it.

A fact is a number or a short text, and none is a label: two runs that differ in nothing but labels leave the same
history. What was sent is told by its size; its bytes go into ``content``, a digest of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import trio

from p2p_labeldp.deployment.simulated.plan import Plan


class Line(NamedTuple):
    time: float
    machine: str
    event: str
    facts: dict[str, object]

    def __str__(self) -> str:
        facts = " ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.time:10.4f}  {self.machine:<12} {self.event:<12} {facts}".rstrip()


class History:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._digest = hashlib.sha256()
        self._content = hashlib.sha256()

    def note(self, machine: str, event: str, **facts: object) -> None:
        line = Line(trio.current_time(), machine, event, facts)
        self.lines.append(line)
        self._digest.update(json.dumps(line, separators=(",", ":")).encode())

    def sent(self, data: bytes) -> None:
        self._content.update(data)

    @property
    def sha256(self) -> str:
        """Of every line."""
        return self._digest.hexdigest()

    @property
    def content_sha256(self) -> str:
        """Of every byte that was sent, in order."""
        return self._content.hexdigest()


@dataclass
class Outcome:
    """Of one plan."""

    plan: Plan
    history: History
    failures: list[str]
    """What did not hold; empty where all is well."""
    endings: dict[str, str]
    """How each program ended: "done", or its last words."""
    fired: Counter[tuple[str, str, str]]
    seconds: float
    """Virtual ones."""
    journals: dict[str, int]
    """Bytes of each machine's."""
    complete: bool = False
    """Whether the learner has every report."""
    lacking: int = 0
    """Effects in the trace of messages that never reached it, since their hosts were lost."""
