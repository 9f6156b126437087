"""A coordinator and a learner who misbehave: each replaces the honest role before the first message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.protocol.coordinator import Coordinator
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import HOST, Assignment, Message, Outgoing, Report, Roster, Round


class Isolator(Coordinator):
    """Takes the victim, and ``company``, out of the clusters they belong to and puts them into one of their own.

    The centres it publishes are those of the honest clustering: they are public, and anyone may work them out
    from public features. Only where users are is invented.
    """

    def __init__(self, honest: Coordinator, victim: int, company: Sequence[int]) -> None:
        vars(self).update(vars(honest))
        self._victim = victim
        self._moved = np.array([victim, *company], dtype=np.int64)
        self._honestly = honest._cluster
        self._cluster = self._apart

    def _apart(self, ids: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.int64]:
        clusters = np.array(self._honestly(ids, features), dtype=np.int64)
        clusters[np.isin(ids, self._moved)] = clusters.max(initial=-1) + 1
        return clusters


class TwoRosters(Isolator):
    """Tells the victim that she is with ``pretended``; everyone else's roster is the honest one without her."""

    def __init__(self, honest: Coordinator, victim: int, pretended: Sequence[int]) -> None:
        super().__init__(honest, victim, ())
        self._told_her = np.sort(np.array([victim, *pretended], dtype="<i8"))

    def _assignments(self, rosters: Rosters) -> Iterator[Outgoing]:
        hers = int(self.clusters[self._victim])
        if hers < 0:  # she never said hello
            yield from super()._assignments(rosters)
            return
        told = self._told_her
        place = int(np.searchsorted(told, self._victim))
        for to, message in super()._assignments(rosters):
            if to == HOST and type(message) is Roster and message.cluster == hers:
                yield HOST, Roster(hers, 0, told.tobytes())
            elif to == self._victim:
                yield to, Assignment(hers, len(told), place)
            else:
                yield to, message


class Replayer(Learner):
    """With each of the first reports it tells every user to begin the next round, as if it were the coordinator."""

    def __init__(self, honest: Learner, times: int) -> None:
        vars(self).update(vars(honest))
        self._replays = times

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        said = super().receive(sender, message)
        if type(message) is not Report or self._replays == 0:
            return said
        self._replays -= 1
        order = Round(message.round + 1, True)
        return tuple((user, order) for user in range(self.users))
