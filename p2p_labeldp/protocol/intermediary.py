"""A party that labels go through on their way to the learner: a curator sees true ones, a shuffler noisy ones.

It gathers what users hand over until the coordinator says whose labels count, does its one piece of work on all of
them (a mechanism on arrays, or a permutation within clusters), and passes the result to the learner. A curator
may publish a label distribution for each cluster besides; that travels as messages too, before the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.protocol.collection import Collection, closed_parts
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    CURATOR,
    LEARNER,
    SHUFFLER,
    Closed,
    ClusterShares,
    Fault,
    Message,
    Outgoing,
    Refusal,
    Refused,
    Release,
    Roster,
    Submit,
    kind_of,
    name_of,
)

_UNKNOWN = -1


class Stage(IntEnum):
    GATHERING = 0
    CLOSED = 1  # it is known whose labels count
    PASSED_ON = 2


TRANSITIONS: dict[Stage, tuple[Stage, ...]] = {
    Stage.GATHERING: (Stage.CLOSED, Stage.PASSED_ON),  # the latter where the close never comes
    Stage.CLOSED: (Stage.PASSED_ON,),
    Stage.PASSED_ON: (),
}

Work = Callable[[Labels, Labels, Labels], tuple[Labels, Labels, NDArray[np.float64] | None]]
"""(user ids ascending, the labels they handed over, their clusters) to (user ids ascending, labels for the learner,
and the published distribution of each cluster's labels, (clusters, K), or None)."""


class Intermediary:
    address: int

    def __init__(self, users: int, labels: int, work: Work, closing_limit: float, submit_limit: float) -> None:
        self.users = users
        self.stage = Stage.GATHERING
        self._work = work
        self._handed = Collection(users, labels, 0)
        self.clusters: Labels = np.full(users, _UNKNOWN, dtype=np.int64)
        """Each user's cluster, below 0 where it is not known."""
        self._limits = (closing_limit, submit_limit, submit_limit)

    @property
    def limit(self) -> float:
        return self._limits[self.stage]

    @property
    def finished(self) -> bool:
        return self.stage is Stage.PASSED_ON

    def receive(self, sender: int, message: Message) -> Iterable[Outgoing]:
        refusals: list[Outgoing] = []
        if type(message) is Submit:
            if self.finished:
                raise Refused(Fault.OUT_OF_ORDER, "the labels have been passed on")
            self._handed.take(sender, message.label)
        elif type(message) is Roster and sender == COORDINATOR:
            self._enrol(message)
        elif type(message) is Closed and sender == COORDINATOR:
            left_out = self._handed.close(message)
            refusals = [(AUDITOR, Refusal(user, "submit", Fault.OUT_OF_ORDER, "does not count")) for user in left_out]
            if self._handed.closed:
                self._go(Stage.CLOSED)
        else:
            raise Refused(
                Fault.MISDIRECTED, f"{name_of(self.address)} takes no {kind_of(message)} from {name_of(sender)}"
            )
        if self.stage is not Stage.CLOSED or not self._handed.complete:
            return refusals
        users, _ = self._handed.counting()
        return refusals if (self.clusters[users] == _UNKNOWN).any() else self._pass_on(refusals)

    def expire(self) -> Iterable[Outgoing]:
        """Go on with what there is: some labels were lost on the way."""
        return () if self.finished else self._pass_on([])

    def lost(self) -> list[int]:
        """Users who count and whose labels have not come."""
        return self._handed.lost()

    def _go(self, stage: Stage) -> None:
        assert stage in TRANSITIONS[self.stage], f"{stage.name} after {self.stage.name}"
        self.stage = stage

    def _enrol(self, part: Roster) -> None:
        members = np.frombuffer(part.members[: len(part.members) // 8 * 8], dtype="<i8")
        if len(part.members) % 8 or len(members) == 0 or members.min() < 0 or members.max() >= self.users:
            raise Refused(Fault.MALFORMED, "a roster lists user ids, 8 bytes each")
        self.clusters[members] = part.cluster

    def _pass_on(self, refusals: list[Outgoing]) -> Iterator[Outgoing]:
        self._go(Stage.PASSED_ON)
        users, labels = self._handed.counting()
        known = self.clusters[users] != _UNKNOWN
        users, labels = users[known], labels[known]
        return self._results(refusals, *self._work(users, labels, self.clusters[users]))

    def _results(
        self, refusals: list[Outgoing], users: Labels, labels: Labels, shares: NDArray[np.float64] | None
    ) -> Iterator[Outgoing]:
        yield from refusals
        rows = [] if shares is None else [row.astype("<f8").tobytes() for row in shares]
        for cluster, row in enumerate(rows):
            yield LEARNER, ClusterShares(cluster, row)
        for user, label in zip(users.tolist(), labels.tolist(), strict=True):
            yield LEARNER, Release(user, label)
        counted = np.zeros(self.users, dtype=np.bool_)
        counted[users] = True
        for part in closed_parts(0, counted, len(rows)):
            yield LEARNER, part


class Curator(Intermediary):
    address = CURATOR


class Shuffler(Intermediary):
    address = SHUFFLER
