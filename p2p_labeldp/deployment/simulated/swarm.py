"""Many seeds: which failed, and what fired in which state of which role, so that gaps show.

What came of each seed is one line of a file, where one is named: whoever is interrupted resumes where the file ends.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from p2p_labeldp.deployment.simulated.history import Outcome
from p2p_labeldp.deployment.simulated.plan import KINDS
from p2p_labeldp.deployment.simulated.run import simulate

ENOUGH = 1000  # seeds in which every kind of disaster should have fired


@dataclass(frozen=True)
class Record:
    """What a swarm keeps of one seed."""

    seed: int
    ending: str
    failure: str
    """The first; empty where all is well."""
    cost: float
    """Seconds of CPU."""
    fired: tuple[tuple[str, str, str, int], ...]
    """(kind, role, its state, how often)."""

    @classmethod
    def of(cls, outcome: Outcome, cost: float) -> Record:
        fired = [(*key, count) for key, count in sorted(outcome.fired.items())]
        if outcome.plan.skews:
            fired.append(("clock_skew", "everyone", "from the beginning", 1))
        failure = outcome.failures[0] if outcome.failures else ""
        return cls(outcome.plan.seed, _ending(outcome), failure, round(cost, 4), tuple(fired))

    @classmethod
    def from_json(cls, line: str) -> Record:
        found: dict[str, Any] = json.loads(line)
        return cls(**{**found, "fired": tuple(tuple(each) for each in found["fired"])})


@dataclass
class Swarm:
    seeds: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    fired: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    """How many runs were complete, went on without some, or broke."""
    costs: list[float] = field(default_factory=list)
    """Seconds of CPU."""

    def add(self, record: Record) -> None:
        self.seeds += 1
        self.costs.append(record.cost)
        for kind, role, state, count in record.fired:
            self.fired[kind, role, state] += count
        self.endings[record.ending] += 1
        if record.failure:
            self.failed[record.seed] = record.failure

    @property
    def median(self) -> float:
        return sorted(self.costs)[len(self.costs) // 2] if self.costs else 0.0

    @property
    def silent(self) -> list[str]:
        """Kinds that never fired, where they should have."""
        seen = {kind for kind, _, _ in self.fired}
        return [kind for kind in KINDS if kind not in seen] if self.seeds >= ENOUGH else []

    def table(self) -> str:
        """Kinds down, roles and their states across groups of lines."""
        lines = [
            f"{self.seeds} seeds, {len(self.failed)} failed; "
            f"median {self.median:.2f} s of CPU, {sum(self.costs):.0f} s in all"
        ]
        lines += [f"  {count:6}  {ending}" for ending, count in self.endings.most_common()]
        roles = sorted({role for _, role, _ in self.fired})
        for role in roles:
            states = sorted({state for _, its, state in self.fired if its == role})
            lines.append(f"\n{role}")
            for state in states:
                counts = [(kind, self.fired[kind, role, state]) for kind in KINDS]
                said = ", ".join(f"{kind} {count}" for kind, count in counts if count)
                lines.append(f"  {state or 'at work'}: {said}")
        for kind in self.silent:
            lines.append(f"warning: {kind} never fired")
        return "\n".join(lines)


def _ending(outcome: Outcome) -> str:
    if outcome.failures:
        return "failed"
    if outcome.complete:
        return "complete"
    if outcome.endings.get("learner") == "done":
        return "went on without some"
    return "broken off"


def swarm(seeds: Iterable[int], told: Callable[[Record], None] | None = None, results: Path | None = None) -> Swarm:
    """Try every seed that ``results`` does not know yet, and add what came of it there."""
    found = Swarm()
    known = _known(results) if results is not None and results.exists() else {}
    for seed in seeds:
        record = known.get(seed)
        if record is None:
            record = _tried(seed)
            if results is not None:
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(record)) + "\n")
            if told is not None:
                told(record)
        found.add(record)
    return found


def _tried(seed: int) -> Record:
    before = time.process_time()
    try:
        outcome = simulate(seed)
    except Exception as error:  # a fault of the simulator, which must not keep the other seeds from being tried
        return Record(seed, "failed", f"the simulation itself broke: {error!r}", time.process_time() - before, ())
    return Record.of(outcome, time.process_time() - before)


def _known(results: Path) -> dict[int, Record]:
    """A last line without its end was cut off by whatever ended the program: it goes."""
    whole, _, rest = results.read_text(encoding="utf-8").rpartition("\n")
    if rest:
        results.write_text(whole + "\n" if whole else "", encoding="utf-8")
    records = (Record.from_json(line) for line in whole.splitlines())
    return {record.seed: record for record in records}
