"""The coordinator of the mixed exchange: the coordinator as it is, with an ``Assembly`` for every cluster of the
round.

The round's limit is divided among the attempts, with one part more for those who then abstain: when one part of it is
over every cluster that is not settled ends its wait, whatever it waits for, and begins the next attempt; with the
last part the round is closed. So nobody waits longer than that for anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np

from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.protocol.assembly import Assembly, Mixing
from p2p_labeldp.protocol.coordinator import ABSTAINED, EXCHANGE, OVER, SPOKE, Coordinator, Phase
from p2p_labeldp.protocol.messages import (
    ATTEMPTS,
    Batch,
    Commit,
    Done,
    Fault,
    Halt,
    Message,
    NoGo,
    Open,
    Outgoing,
    Overdue,
    Passed,
    Refused,
    name_of,
)

WINDOWS = ATTEMPTS + 1
"""Parts of a round's limit: one for each attempt, and one in which the members of a cluster that stopped abstain."""
MOST_NAMED = 20
"""Things that went wrong of which people are told."""


class MixingCoordinator(Coordinator):
    mixing: Mixing
    """Set before it begins."""

    def __init__(self, *facts: Any, mixing: Mixing, **settings: Any) -> None:
        super().__init__(*facts, **settings)
        self.mixing = mixing
        self.window = 0
        """How many attempts' time is over in this round."""
        self._named = 0  # things that went wrong
        self._assemblies: dict[int, Assembly] = {}
        self._assembly_of: list[Assembly | None] = []  # by user

    @property
    def stage(self) -> tuple[Phase, int, int]:  # type: ignore[override]
        return self.phase, self.round, self.window

    @property
    def limit(self) -> float | None:
        whole = super().limit
        return whole / WINDOWS if whole is not None and self.phase == EXCHANGE else whole

    def receive(self, sender: int, message: Message) -> Iterable[Outgoing]:
        kind = type(message)
        handler = _HANDLERS.get(kind)
        if handler is None or not 0 <= sender < self.users:
            round_, said = self.round, super().receive(sender, message)
            if kind is not Done or self.round != round_ or self.phase is OVER:
                return said
            assembly = self._assembly_of[sender]
            more = () if assembly is None else assembly.done(sender)
            return [*said, *more] if more else said
        round_ = message.round  # type: ignore[attr-defined]
        assembly = self._assembly_of[sender] if self._assembly_of else None
        if self.phase is not EXCHANGE or round_ != self.round or assembly is None:
            raise Refused(Fault.OUT_OF_ORDER, f"{name_of(sender)} speaks of round {round_} at the wrong time")
        return handler(assembly, sender, message)

    def expire(self) -> Iterable[Outgoing]:
        if self.phase != EXCHANGE or self.window + 1 >= WINDOWS:
            return super().expire()
        self.window += 1
        return chain.from_iterable([assembly.expire() for assembly in self._assemblies.values()])

    def _start_round(self, round_: int) -> None:
        super()._start_round(round_)
        self.window = 0
        self._assemblies = {}
        present = np.sort(self._present)
        rosters = Rosters.of(self.clusters[present])
        for cluster in np.flatnonzero(rosters.sizes >= max(1, self.mixing.least)).tolist():
            members = present[rosters.roster(cluster)].tolist()
            self._assemblies[cluster] = Assembly(self.mixing, round_, cluster, members)
        self._assembly_of = [self._assemblies.get(cluster) for cluster in self.clusters.tolist()]

    def _close(self) -> Any:
        for cluster, assembly in self._assemblies.items():
            assembly.settle()
            self._warn(assembly.named)
            said = {self._heard[user] for user in assembly.members}
            reports = not said.isdisjoint(SPOKE)
            if assembly.stopped and not reports and cluster not in self.stopped:
                self.stopped = sorted([*self.stopped, cluster])
            if (assembly.reduced or (reports and ABSTAINED in said)) and cluster not in self.reduced:
                self.reduced = sorted([*self.reduced, cluster])
        return super()._close()

    def _warn(self, named: list[str]) -> None:
        """Of many things that went wrong the first are told, and how many more there are."""
        kept = self.warnings[: min(self._named, MOST_NAMED)] + named
        self._named += len(named)
        more = self._named - MOST_NAMED
        self.warnings = kept[:MOST_NAMED] + ([f"and {more} more of the mixed exchange"] if more > 0 else [])


_HANDLERS: dict[type, Callable[[Assembly, int, Any], Iterable[Outgoing]]] = {
    Commit: Assembly.commit,
    Open: Assembly.open,
    Passed: Assembly.passed,
    Halt: Assembly.halt,
    Overdue: Assembly.overdue,
    NoGo: Assembly.no_go,
    Batch: Assembly.show,
}
