"""Many seeds: which failed, and what fired in which state of which role, so that gaps show.

What came of each seed is one line of a file, where one is named: whoever is interrupted resumes where the file ends.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
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


@dataclass(frozen=True)
class Swarm:
    records: list[Record]

    @property
    def failed(self) -> dict[int, str]:
        """Seeds, and what did not hold."""
        return {record.seed: record.failure for record in self.records if record.failure}

    def table(self) -> str:
        """Kinds down, roles and their states across groups of lines."""
        costs = [record.cost for record in self.records]
        lines = [
            f"{len(costs)} seeds, {len(self.failed)} failed; "
            f"median {median(costs or [0]):.2f} s of CPU, {sum(costs):.0f} s in all"
        ]
        endings = Counter(record.ending for record in self.records)
        lines += [f"  {count:6}  {ending}" for ending, count in endings.most_common()]
        fired: Counter[tuple[str, str, str]] = Counter()
        for record in self.records:
            for kind, role, state, count in record.fired:
                fired[kind, role, state] += count
        for role in sorted({role for _, role, _ in fired}):
            lines.append(f"\n{role}")
            for state in sorted({state for _, its, state in fired if its == role}):
                counts = [(kind, fired[kind, role, state]) for kind in KINDS]
                said = ", ".join(f"{kind} {count}" for kind, count in counts if count)
                lines.append(f"  {state or 'at work'}: {said}")
        if len(costs) >= ENOUGH:
            seen = {kind for kind, _, _ in fired}
            lines += [f"warning: {kind} never fired" for kind in KINDS if kind not in seen]
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
    found: list[Record] = []
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
        found.append(record)
    return Swarm(found)


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
