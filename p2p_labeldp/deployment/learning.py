"""The learner's part: gathers reports and, when the coordinator has told what it knows, writes the results.

In place of counting, as in a simulation, it takes whatever comes until then. The coordinator closes a round with the
number of reports that users told it of, and one who reports without a word to it would take up another's
place. Nothing is lost by not waiting: no host is done before the learner has all that it said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.items import (
    Column,
    Directory,
    Facts,
    Item,
    Over,
    Quiet,
    Ready,
    Written,
    decode_column,
)
from p2p_labeldp.deployment.parts import Log, Part
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.errors import RunError
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import LEARNER, Closed, Envelope, Outgoing, Refused
from p2p_labeldp.scenario import Scenario

Write = Callable[[Outcome, Facts, Directory, float], None]
"""(what came of it, the coordinator's facts, the hosts, seconds it took): write the results, once or again."""


class _Gatherer(Learner):
    @property
    def finished(self) -> bool:
        return self.expired or self.stage == self.rounds

    def _close(self, message: Closed) -> None:
        super()._close(Closed(message.round, self.users))


class LearnerPart(Part):
    address = LEARNER

    def __init__(
        self, key: str, log: Log, scenario: Scenario, write: Write, counts: tuple[int, int, int] | None = None
    ) -> None:
        """``counts`` are the users, features and labels of the learner's own data, where it has any."""
        super().__init__(key, log, scenario)
        self._counts_here = counts
        self._write = write
        self._role: _Gatherer | None = None
        self._written = False
        self._quiet = False
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
        else:
            super().hear(key, name, item)

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self._role is None:
            raise Refused("out_of_order", "the learner knows no users yet")
        if self._written:
            raise Refused("out_of_order", "the results are written")
        return self._role.receive(envelope.sender, envelope.message)

    def _prepare(self, directory: Directory) -> None:
        theirs = (directory.users, directory.features, directory.labels)
        for what, its, mine in zip(("users", "features", "labels"), theirs, self._counts_here or theirs, strict=True):
            if its != mine:
                raise RunError(f"the hosts count {its} {what} in their data, the learner {mine}")
        network, rounds = self._scenario.network, self._scenario.mechanism.rounds
        # No round is closed later than this after the one before, whatever is lost on the way; as the coordinator's
        # limits start anew when it comes back from the dead, a node may be away for as long again.
        patience = network.hello_limit + rounds * network.round_limit + 2 * self._scenario.deployment.away_limit
        self._role = _Gatherer(directory.users, rounds, directory.labels, patience, network.round_limit)
        self.say("coordinator", Ready())

    def _finish(self, facts: Facts) -> None:
        if self._role is None or self.directory is None:
            raise Refused("out_of_order", "there is no run to finish")
        clusters = np.concatenate([np.empty(0, dtype=np.int64), *self._columns["clusters"]])
        missing = np.concatenate([np.empty(0, dtype=np.int64), *self._columns["missing"]])
        if len(clusters) != self.directory.users:
            raise RunError(f"the coordinator tells clusters of {len(clusters)} users, of {self.directory.users}")
        self._written = True
        outcome = Outcome(
            clusters=clusters,
            rounds=[self._reports(self._role, round_, clusters) for round_ in range(self._role.rounds)],
            messages=dict(sorted(facts.kinds.items())),
            outcomes=facts.outcomes,
            missing=missing.tolist(),
        )
        self._write(outcome, facts, self.directory, self.now - self.directory.started)
        self.log("written", run=self.run)
        self.say("coordinator", Written())

    def _reports(
        self, role: Learner, round_: int, clusters: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What users reported in a round, but for those whom the coordinator never assigned: nobody asked them."""
        users, labels = role.reports(round_)
        assigned = clusters[users] >= 0
        if not assigned.all():
            self.log("refused", kind="report", fault="out_of_order", count=int((~assigned).sum()))
        return users[assigned], labels[assigned]
