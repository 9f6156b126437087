"""What a page is told of a run, simulated or deployed: plain values under a version number that grows.

Of data that do not ship there is no label among them, no flip and nobody who asked anybody, as in the part of a run
folder that may be shared: counts by kind of message and by cluster, and what nodes say of themselves to anyone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Guarantee, View
from p2p_labeldp.protocol.messages import BY_KIND
from p2p_labeldp.reporting.watching.gate import Gate
from p2p_labeldp.runs.stated import rows
from p2p_labeldp.runs.summary import Summary
from p2p_labeldp.scenario import Scenario

Values = dict[str, Any]
INTERVAL = 0.2  # seconds between two samples
OVER = 2.0  # seconds over which messages a second are counted


class Rates:
    """Messages by kind: one thread gives it counts, another asks how many there are, and how many a second lately."""

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
            (
                kind,
                message.record.purpose,
                counts[kind],
                (counts[kind] - before.get(kind, 0)) / seconds if seconds else None,
            )
            for kind, message in BY_KIND.items()
            if kind in counts
        ]


class Watched:
    """One run. Its thread tells it things; the server's takes what is to be shown."""

    kind: ClassVar[str]
    stages: ClassVar[tuple[tuple[str, str], ...]]
    """(name, words) in the order in which they come."""

    def __init__(self, scenario: Scenario, title: str, gate: Gate) -> None:
        self.scenario = scenario
        self.title = title
        self.gate = gate
        self.shown = scenario.ships
        """Whether single users may be shown: they are not real."""
        self.version = 0
        self.report: Path | None = None
        """The finished run's page, to be handed to whoever has this one open."""
        self._began = time.monotonic()
        self._stage = self.stages[0][0]
        self._guarantees: Values | None = None
        self._ended: Values | None = None
        self._lock = threading.Lock()
        self._rates = Rates()

    # The run's side.

    def told(self, stage: str, done: int, total: int) -> None:
        """As a progress bar is."""
        raise NotImplementedError

    def finished(self, summary: Summary, report: Path | None) -> None:
        """The run has finished."""
        self._look_again()
        summary = summary if self.shown else summary.shareable()
        self.report = report
        self.guarantee("Of this run, for those who took part", summary.privacy, summary.mechanism)
        facts = {
            "accuracy": summary.accuracy,
            "nonprivate": summary.nonprivate_accuracy,
            "reports": summary.reports,
            "digest": summary.noisy_sha256,
            "folder": summary.out or "",
            "report": "" if report is None else str(report),
            "warnings": list(summary.warnings),
        }
        self._stage = "finished"
        self._end("finished", "The run is finished.", facts)

    def broke(self, words: str) -> None:
        """The run has ended without a result."""
        self._look_again()
        self._end("broken", words, {})

    def _look_again(self) -> None:
        """At the end: what has not been looked at so far."""

    def _end(self, how: str, words: str, facts: Values) -> None:
        self._ended = {"how": how, "words": words, "seconds": time.monotonic() - self._began, **facts}
        self.change()

    def guarantee(self, title: str, privacy: Mapping[View, Guarantee], mechanism: str) -> None:
        self._guarantees = {
            "title": title,
            "rows": [[row.who, row.epsilon, row.delta, row.method] for row in rows(privacy, mechanism)],
        }

    def change(self) -> None:
        with self._lock:
            self.version += 1

    # The server's side.

    @property
    def over(self) -> bool:
        return self._ended is not None

    def state(self) -> Values:
        """Everything but the diagram."""
        names = [name for name, _ in self.stages]
        return {
            "version": self.version,
            "stage": names.index(self._stage) if self._stage in names else len(names),
            "seconds": time.monotonic() - self._began,
            "guarantees": self._guarantees,
            "ended": self._ended,
            "kinds": self._rates.rows(still=self.over or self.gate.paused),
        }

    def diagram(self, cluster: int | None) -> Values | None:
        """The space-time diagram of a cluster so far; None where there is none to be shown."""
        return None

    def order(self, command: Values) -> None:
        """What a person who watches wants; RequestError where that makes no sense."""
        raise RequestError("there is nothing to be ordered")

    async def look(self) -> None:
        """Look after what nobody tells; runs in the server's loop until it is cancelled."""
