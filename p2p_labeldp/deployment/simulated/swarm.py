"""Many seeds: which failed, and what fired in which state of which role, so that gaps show."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from p2p_labeldp.deployment.simulated.outcome import Outcome
from p2p_labeldp.deployment.simulated.plan import KINDS
from p2p_labeldp.deployment.simulated.run import simulate

ENOUGH = 1000  # seeds in which every kind of disaster should have fired


@dataclass
class Swarm:
    seeds: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    fired: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    """How many runs were complete, went on without some, or broke."""
    costs: list[float] = field(default_factory=list)
    """Seconds of CPU."""

    def add(self, outcome: Outcome, cost: float) -> None:
        self.seeds += 1
        self.costs.append(cost)
        self.fired += outcome.fired
        self.endings[_ending(outcome)] += 1
        if outcome.plan.skews:
            self.fired["clock_skew", "everyone", "from the beginning"] += 1
        if outcome.failures:
            self.failed[outcome.plan.seed] = outcome.failures[0]

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
        lines = [f"{self.seeds} seeds, {len(self.failed)} failed; median {self.median:.2f} s of CPU"]
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


def swarm(seeds: Iterable[int], told: Callable[[Outcome, float], None] | None = None) -> Swarm:
    found = Swarm()
    for seed in seeds:
        before = time.process_time()
        outcome = simulate(seed)
        cost = time.process_time() - before
        found.add(outcome, cost)
        if told is not None:
            told(outcome, cost)
    return found
