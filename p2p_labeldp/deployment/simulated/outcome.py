"""What came of one plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from p2p_labeldp.deployment.simulated.disasters import Trouble
from p2p_labeldp.deployment.simulated.history import History
from p2p_labeldp.deployment.simulated.plan import Plan


@dataclass
class Outcome:
    plan: Plan
    history: History
    failures: list[str]
    """What did not hold; empty where all is well."""
    endings: dict[str, str]
    """How each program ended: "done", or its last words."""
    fired: Counter[tuple[str, str, str]]
    troubles: list[Trouble]
    seconds: float
    """Virtual ones."""
    journals: dict[str, int]
    """Bytes of each machine's."""
    complete: bool = False
    """Whether the learner has every report."""
    lacking: int = 0
    """Effects in the trace of messages that never reached it, since their hosts were lost."""
