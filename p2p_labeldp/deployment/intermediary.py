"""The part of a curator or a shuffler: labels of all users go through it on their way to the learner.

It is trusted: a curator with every true label and its owner, a shuffler with every noisy one. What it takes stands in
its journal, with the root of its randomness, so that a node which is killed passes on the same labels again, word for
word; whoever reads that journal knows what the node knows. What it passes on depends on whose labels came, never on
the order in which they did.

Users who went missing are no matter to a curator, whose noise is the same for any number of labels. Those of a shuffler
hide among the others: it passes nothing on of a cluster of which fewer labels came than the minimum size, nor, where an
epsilon was asked for, of one that is not complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.deployment.items import Directory, Item, Ready
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.roles import SINGLES
from p2p_labeldp.mechanisms.coins import Randomness
from p2p_labeldp.mechanisms.plan import Holder, Plan, Work
from p2p_labeldp.protocol.intermediary import Curator, Intermediary, Shuffler
from p2p_labeldp.protocol.messages import Fault, Outgoing, Refused
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import Scenario


class IntermediaryPart(Part):
    def __init__(self, key: str, log: Log, scenario: Scenario, plan: Plan, randomness: Randomness) -> None:
        super().__init__(key, log, scenario)
        assert plan.work is not None, f"{plan.kind} has no such node"
        self.address = SINGLES[plan.holder.value]
        self._plan = plan
        self._randomness = randomness
        self._role: Intermediary | None = None
        deployment = scenario.deployment
        self.dials |= {"learner": deployment.learner, "auditor": deployment.auditor}

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
        return "the coordinator to dismiss everyone" if self._role.finished else "labels"

    @property
    def finished(self) -> bool:
        return self._role is not None and self._role.finished

    def give_up(self, unreached: Sequence[str]) -> None:
        assert self._role is not None
        self.log("limit", phase="labels", missing=len(self._role.lost()))
        for to, message in self._role.expire():
            self.send(self.address, to, message)

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Directory:
            self.know(item)
            self._prepare(item)
        else:
            super().hear(key, name, item)

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self._role is None:
            raise Refused(Fault.OUT_OF_ORDER, f"the {self.key} knows no users yet")
        return self._role.receive(envelope.sender, envelope.message)

    def _prepare(self, directory: Directory) -> None:
        network = self._scenario.network
        # As the learner's: the coordinator's limits start anew when it is restarted.
        patience = network.hello_limit + network.round_limit + 2 * self._scenario.deployment.away_limit
        kind = Shuffler if self._plan.holder is Holder.SHUFFLER else Curator
        self._role = kind(directory.users, directory.labels, self._work, patience, network.round_limit)
        self.say("coordinator", Ready())

    def _work(self, users: Labels, labels: Labels, clusters: Labels) -> Work:
        assert self._plan.work is not None
        if self._plan.holder is Holder.SHUFFLER:
            kept = self._hidden(clusters)
            users, labels, clusters = users[kept], labels[kept], clusters[kept]
        self.log("passed", count=len(users))
        return self._plan.work(users, labels, clusters, randomness=self._randomness)

    def _hidden(self, clusters: Labels) -> NDArray[np.bool_]:
        """Whose labels hide among as many others as they were told, given the clusters of those that came."""
        assert self._role is not None
        members = np.bincount(self._role.clusters[self._role.clusters >= 0], minlength=1)
        came = np.bincount(clusters, minlength=len(members))
        enough = came >= self._plan.parameters.minimum_size
        if self._scenario.mechanism.epsilon > 0:
            enough &= came == members
        held: NDArray[np.bool_] = enough[clusters]
        return held
