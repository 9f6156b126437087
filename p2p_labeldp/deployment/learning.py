"""The learner's part: gathers reports and, when the coordinator has told what it knows, writes the results.

It takes the reports of those who count in a round, as in a simulation, until then. Nothing is lost by not waiting
for all of them before it says that it is done: no host is done before the learner has all that it said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.items import (
    Column,
    Data,
    Directory,
    Ended,
    Facts,
    Item,
    Over,
    Quiet,
    Ready,
    Written,
    decode_column,
)
from p2p_labeldp.deployment.parts import Log, Part
from p2p_labeldp.engines.outcome import Outcome, withheld_line
from p2p_labeldp.errors import RunError
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import LEARNER, Envelope, Fault, Outgoing, Refused
from p2p_labeldp.scenario import Scenario

Write = Callable[[Outcome, Facts, Directory, float], None]
"""(what came of it, the coordinator's facts, the hosts, seconds it took): write the results, once or again."""


class _Gatherer(Learner):
    @property
    def finished(self) -> bool:
        return self.expired or self.stage == self.rounds


class LearnerPart(Part):
    address = LEARNER

    def __init__(self, key: str, log: Log, scenario: Scenario, write: Write, data: Data) -> None:
        super().__init__(key, log, scenario)
        self._data = data
        self._write = write
        self._role: _Gatherer | None = None
        self._written = False
        self.withheld: list[int] = []
        """Clusters that released nothing, since they would not keep the target."""
        self._quiet = False
        self._begun = 0.0  # by this node's own clock: another's may be hours away
        self._columns: dict[str, list[NDArray[np.int64]]] = {"clusters": [], "missing": []}
        self.dials["auditor"] = scenario.deployment.auditor

    @property
    def stage(self) -> object:
        return None if self._role is None else self._role.stage

    @property
    def limit(self) -> float | None:
        return None if self._role is None or self._role.finished else self._role.limit

    @property
    def waits_for(self) -> str:
        if self._role is None:
            return "the coordinator to name the hosts"
        return "the coordinator to end the run" if self._role.finished else "reports"

    @property
    def done(self) -> bool:
        return not self._quiet and self._role is not None and self._role.finished

    def arrived(self) -> None:
        self._quiet = True
        self.say("coordinator", Quiet())

    def give_up(self) -> None:
        assert self._role is not None
        self.log("limit", phase="reports")
        self._role.expire()

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Directory:
            self.knows(key, item)
            self._prepare(item)
        elif type(item) is Column:
            self.only(key, "coordinator")
            self._columns[item.name].append(decode_column(item))
        elif type(item) is Facts:
            self.only(key, "coordinator")
            self._finish(item)
        elif type(item) is Over:
            self.leave(key, item)
        elif type(item) is Ended:
            self.end(key, item)
        else:
            super().hear(key, name, item)

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self._role is None:
            raise Refused(Fault.OUT_OF_ORDER, "the learner knows no users yet")
        if self._written:
            raise Refused(Fault.OUT_OF_ORDER, "the results are written")
        return self._role.receive(envelope.sender, envelope.message)

    def _prepare(self, directory: Directory) -> None:
        self._begun = self.now
        network, rounds = self._scenario.network, self._scenario.mechanism.rounds
        # No round is closed later than this after the one before, whatever is lost on the way; as the coordinator's
        # limits start anew when it is restarted, a node may be away for as long again.
        patience = network.hello_limit + rounds * network.round_limit + 2 * self._scenario.deployment.away_limit
        self._role = _Gatherer(directory.users, rounds, directory.labels, patience, network.round_limit)
        self.say("coordinator", Ready(self._data))

    def _finish(self, facts: Facts) -> None:
        if self._role is None or self.directory is None:
            raise Refused(Fault.OUT_OF_ORDER, "there is no run to finish")
        clusters = np.concatenate([np.empty(0, dtype=np.int64), *self._columns["clusters"]])
        missing = {user for part in self._columns["missing"] for user in part.tolist()}
        for round_ in range(self._role.rounds):
            missing.update(self._role.lost(round_))
        if len(clusters) != self.directory.users:
            raise RunError(f"the coordinator tells clusters of {len(clusters)} users, of {self.directory.users}")
        self._written = True
        self.withheld = facts.withheld
        outcome = Outcome(
            clusters=clusters,
            rounds=[self._role.reports(round_) for round_ in range(self._role.rounds)],
            messages=dict(sorted(facts.kinds.items())),
            outcomes=facts.outcomes,
            missing=sorted(missing),
            withheld=facts.withheld,
        )
        self._write(outcome, facts, self.directory, max(0.0, self.now - self._begun))
        self.log("written", run=self.run)
        if self.withheld:
            self.log("warning", warning=withheld_line(self.withheld))
        self.say("coordinator", Written())
