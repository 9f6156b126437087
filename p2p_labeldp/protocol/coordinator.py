"""The coordinator: clusters users by their public features, paces the rounds, sees no label.

    HELLOS --every hello, or the limit--> EXCHANGE --every done, or the limit--> ... --> OVER

A user says when she is done with a round, and whether she would report. That tells the coordinator nothing that
depends on a label. Who has not spoken when a wait's limit is over counts as missing; the others go on, and wait
for her again when she has said something, be it too late. Then the
round is closed for everyone: the learner is told whose reports count, and each of those that she may report.

Where the mechanism has a target for epsilon, a cluster of which someone is missing no longer keeps it, since who
reports then tells of whom she could ask. Such a cluster is withheld: its users report nothing from that round on.

Users may be carried by hosts. A host of which nobody spoke in a round is not waited for in the next, so that one which
stays away costs one limit; what its users say in time counts all the same.

Where users check their assignment it publishes the centres of its clusters, and all rosters before anyone begins.

Broadcasts are generators, so that a million assignments need not exist at once. Rounds may end and
messages may arrive while one is being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.protocol.collection import closed_parts
from p2p_labeldp.protocol.messages import (
    HOST,
    LEARNER,
    ROSTER_PART,
    VERSION,
    Assignment,
    Centre,
    Done,
    Fault,
    Features,
    Goodbye,
    Hello,
    Message,
    Outgoing,
    Refused,
    Roster,
    Round,
    kind_of,
    name_of,
)


class Phase(StrEnum):
    HELLOS = "hellos"
    EXCHANGE = "exchange"
    OVER = "over"


class Event(StrEnum):
    ASSIGNED = "assigned"  # everyone who said hello
    NOBODY_CAME = "nobody came"
    CLOSED = "closed"  # a round, and there is another one
    ENDED = "ended"  # the last round is closed


HELLOS, EXCHANGE, OVER = Phase

TRANSITIONS: dict[Phase, dict[Event, Phase]] = {
    HELLOS: {Event.ASSIGNED: EXCHANGE, Event.NOBODY_CAME: OVER},
    EXCHANGE: {Event.CLOSED: EXCHANGE, Event.ENDED: OVER},
    OVER: {},
}

Clusterer = Callable[[NDArray[np.int64], NDArray[np.float32]], NDArray[np.integer]]
"""(ids of the users present, their features) to a cluster 0, 1, ... for each."""

Centres = Callable[[], Iterable[tuple[int, NDArray[np.float32]]]]
"""The cells of the clustering that was just made: each with its cluster, and the features at its centre."""

Target = Callable[[int], bool]
"""Whether a cluster of so many users, all of whom take part, keeps to the epsilon that was asked for."""

_UNHEARD, _DROPPED, _REPORTS, ABSTAINED = range(4)
SPOKE = (_DROPPED, _REPORTS)
"""What is heard of whoever got a label in a round."""
_SAID = {"dropped": _DROPPED, "reported": _REPORTS, "abstained": ABSTAINED}


@dataclass
class Attendance:
    """Who took part in one round, as far as the coordinator was told."""

    outcomes: dict[str, int] = field(default_factory=lambda: {"reported": 0, "dropped": 0, "abstained": 0})
    """How many users report, dropped what they got or abstained; ``withheld``, who would report but may not."""
    missing: list[int] = field(default_factory=list)


class Coordinator:
    def __init__(
        self,
        users: int,
        features: int,
        rounds: int,
        cluster: Clusterer,
        hello_limit: float,
        round_limit: float,
        told: int = LEARNER,
        target: Target | None = None,
    ) -> None:
        """``told`` is who gathers the labels; ``target`` is None where no epsilon was asked for."""
        self.users = users
        self.rounds = rounds
        self.phase: Phase = HELLOS
        self.round = -1
        self.attendance: list[Attendance] = []
        self.absent: list[int] = []
        """Users who never said hello."""
        self.warnings: list[str] = []
        """What went wrong in rounds that are over, and who is or may be to blame: for people."""
        self.stopped: list[int] = []
        """Clusters that released nothing in some round since their exchange was stopped, ascending."""
        self.reduced: list[int] = []
        """Clusters whose exchange went on in some round without some of their users, ascending."""
        self.clusters: NDArray[np.int64] = np.full(users, -1, dtype=np.int64)
        """Each user's cluster, -1 for the absent; known once everyone is assigned."""
        self.centres: Centres | None = None
        """What is published so that users can check their assignment; None where they do not."""
        self.hosts: Sequence[tuple[int, int]] = ()
        """Where hosts carry users: the first of each and the one behind its last."""
        self.away: frozenset[int] = frozenset()
        """The places of hosts of which nobody was heard of in the latest stage that is over."""
        self.require: Callable[[NDArray[np.int64]], None] | None = None
        """Called with those who take part before anything is sent to them; whatever it raises ends the run."""
        self._cluster = cluster
        self.withheld: list[int] = []
        """Clusters that release nothing, ascending: without all of their users they do not keep the target."""
        self._told = told
        self._target = target
        self._limits = {HELLOS: hello_limit, EXCHANGE: round_limit}
        self._features = np.zeros((users, features), dtype=np.float32)
        self._heard = bytearray(users)  # hello of this user, then what she said of this round
        self._awaited = users
        self._late = np.zeros(users, dtype=np.bool_)  # missing in the round before: not waited for in this one
        self._stuck = np.zeros(users, dtype=np.bool_)  # not waited for in this round alone
        # Cluster by cluster, so that a host hears a broadcast to one cluster all at once.
        self._present: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def stage(self) -> tuple[Phase, int]:
        """What the limit on waiting holds for: it starts anew when this changes."""
        return self.phase, self.round

    @property
    def limit(self) -> float | None:
        """Seconds to wait in the present stage, from its beginning."""
        return self._limits.get(self.phase)

    @property
    def finished(self) -> bool:
        return self.phase == OVER

    @property
    def awaited(self) -> int:
        """How many users have not been heard from in the present stage."""
        return self._awaited

    def filled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each cluster, how many users have said that they are done with the latest round, and how many it has."""
        clusters = self.clusters[self._present]
        sizes = np.bincount(clusters)
        heard = np.frombuffer(self._heard, dtype=np.uint8)[self._present] != _UNHEARD
        return np.bincount(clusters[heard], minlength=len(sizes)), sizes

    def receive(self, sender: int, message: Message) -> Iterable[Outgoing]:
        handler = _HANDLERS.get(type(message))
        if handler is None or not 0 <= sender < self.users:
            raise Refused(Fault.MISDIRECTED, f"the coordinator takes no {kind_of(message)} from {name_of(sender)}")
        return handler(self, sender, message)

    def expire(self) -> Iterable[Outgoing]:
        """The limit of this phase has passed: go on without those who are missing."""
        if self.phase == HELLOS:
            return self._assign()
        if self.phase == EXCHANGE:
            return self._close()
        return ()

    def _hello(self, sender: int, message: Hello) -> Iterable[Outgoing]:
        if message.version != VERSION:
            raise Refused(Fault.MALFORMED, f"protocol version {message.version}, but this is {VERSION}")
        if self.phase != HELLOS:
            raise Refused(Fault.OUT_OF_ORDER, f"{name_of(sender)} says hello after users were assigned")
        if self._heard[sender]:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} said hello already")
        row = message.features.row
        if len(row) != self._features.shape[1]:
            raise Refused(Fault.MALFORMED, f"{len(row)} features in place of {self._features.shape[1]}")
        self._features[sender] = row
        self._heard[sender] = 1
        self._awaited -= 1
        return self._assign() if self._awaited == 0 else ()

    def _assign(self) -> Iterator[Outgoing]:
        heard = np.frombuffer(self._heard, dtype=np.uint8)
        self._present = np.flatnonzero(heard)
        self.absent = np.flatnonzero(heard == 0).tolist()
        if self.require is not None:
            self.require(self._present)
        self._note_away(heard != 0, np.ones(self.users, dtype=np.bool_))
        if len(self._present) == 0:
            self._go(Event.NOBODY_CAME)
            nobody = np.zeros(self.users, dtype=np.bool_)
            return ((self._told, part) for round_ in range(self.rounds) for part in closed_parts(round_, nobody))
        self.clusters[self._present] = self._cluster(self._present, self._features[self._present])
        self._features = self._features[:0]
        self._go(Event.ASSIGNED)
        self._start_round(0)
        rosters = Rosters.of(self.clusters[self._present])
        if rosters.members is not None:
            self._present = self._present[rosters.members]
        return self._assignments(rosters)

    def _assignments(self, rosters: Rosters) -> Iterator[Outgoing]:
        clusters = np.flatnonzero(rosters.sizes).tolist()
        if self.centres is not None:
            for cluster, row in self.centres():
                yield HOST, Centre(cluster, Features(row))
            for cluster in clusters:
                yield from self._roster_parts(cluster, self._members(rosters, cluster))
        for cluster in clusters:
            members = self._members(rosters, cluster)
            if self.centres is None:
                yield from self._roster_parts(cluster, members)
            size = len(members)
            for place, user in enumerate(members.tolist()):
                yield user, Assignment(cluster, size, place)

    def _members(self, rosters: Rosters, cluster: int) -> NDArray[np.int64]:
        start = int(rosters.starts[cluster])
        return self._present[start : start + int(rosters.sizes[cluster])]

    def _roster_parts(self, cluster: int, members: NDArray[np.int64]) -> Iterator[Outgoing]:
        for first in range(0, len(members), ROSTER_PART):
            part = Roster(cluster, first, members[first : first + ROSTER_PART].astype("<i8").tobytes())
            yield HOST, part
            if self._told != LEARNER:  # whose work goes by clusters
                yield self._told, part

    def _go(self, event: Event) -> None:
        self.phase = TRANSITIONS[self.phase][event]

    def _start_round(self, round_: int) -> None:
        self.round = round_
        self.attendance.append(Attendance())
        self._heard = bytearray(self.users)
        self._awaited = len(self._present) - int(self._late[self._present].sum())

    def excuse(self, round_: int, users: NDArray[np.int64]) -> Iterable[Outgoing]:
        """Do not wait for these users in this round: they have asked somebody who is away. What they say counts."""
        if self.phase != EXCHANGE or round_ != self.round:
            return ()
        heard = np.frombuffer(self._heard, dtype=np.uint8)
        new = users[(heard[users] == _UNHEARD) & ~self._late[users] & (self.clusters[users] >= 0)]
        self._late[new] = self._stuck[new] = True
        self._awaited -= len(new)
        return self._close() if len(new) and self._awaited == 0 else ()

    def welcome(self, place: int) -> None:
        """A host that was away is heard from again: its users are waited for."""
        self.away -= {place}
        if self.phase == EXCHANGE:
            users = np.arange(*self.hosts[place])
            unheard = np.frombuffer(self._heard, dtype=np.uint8)[users] == _UNHEARD
            back = users[self._late[users] & unheard & (self.clusters[users] >= 0)]
            self._late[back] = False
            self._awaited += len(back)

    def _note_away(self, heard: NDArray[np.bool_], due: NDArray[np.bool_]) -> None:
        """Which hosts have users who were to speak, none of whom did."""
        self.away = frozenset(
            place
            for place, (first, last) in enumerate(self.hosts)
            if last > first and not heard[first:last].any() and (due[first:last].any() or place in self.away)
        )

    def _done(self, sender: int, message: Done) -> Iterable[Outgoing]:
        if self.phase != EXCHANGE or message.round != self.round or self.clusters[sender] < 0:
            self._is_back(sender, message.round)
            raise Refused(Fault.OUT_OF_ORDER, f"{name_of(sender)} is done with round {message.round} at the wrong time")
        if self._heard[sender]:
            raise Refused(Fault.DUPLICATE, f"{name_of(sender)} was done already with round {message.round}")
        self._heard[sender] = _SAID[message.outcome]
        if self._late[sender]:  # back, and waited for again from the next round on
            return ()
        self._awaited -= 1
        return self._close() if self._awaited == 0 else ()

    def _is_back(self, sender: int, round_: int) -> None:
        """Whoever speaks too late of a round is there again, and waited for in the present one."""
        if self.phase == EXCHANGE and round_ < self.round and self._late[sender] and not self._heard[sender]:
            self._late[sender] = False
            self._awaited += 1

    def _close(self) -> Iterator[Outgoing]:
        heard = np.frombuffer(self._heard, dtype=np.uint8)
        if self.require is not None:
            self.require(np.flatnonzero(heard))
        self._note_away(heard != _UNHEARD, self.clusters >= 0)
        attendance = self.attendance[-1]
        said = np.bincount(heard[self._present], minlength=len(_SAID) + 1).tolist()
        attendance.outcomes |= {outcome: said[code] for outcome, code in _SAID.items()}
        if said[_UNHEARD]:
            attendance.missing = sorted(self._present[heard[self._present] == _UNHEARD].tolist())
        self._late[self._present] = (heard[self._present] == _UNHEARD) & ~self._stuck[self._present]
        self._stuck[:] = False
        release = heard == _REPORTS
        if self._target is not None:
            self._withhold(heard, self._target)
            kept_back = release & np.isin(self.clusters, self.withheld)
            if kept_back.any():
                release &= ~kept_back
                attendance.outcomes["reported"] = int(release.sum())
                attendance.outcomes["withheld"] = int(kept_back.sum())
        closed = closed_parts(self.round, release)
        if self.round + 1 < self.rounds:
            self._go(Event.CLOSED)
            self._start_round(self.round + 1)
            return self._broadcast(closed, release, Round(self.round, False), Round(self.round, True))
        self._go(Event.ENDED)
        return self._broadcast(closed, release, Goodbye(False), Goodbye(True))

    def _withhold(self, heard: NDArray[np.uint8], target: Target) -> None:
        """Clusters that do not keep the target release nothing any more; those that abstain have nothing to release.

        Where some abstain and others do not, the others hide among fewer than was accounted for.
        """
        present = self._present
        clusters, said = self.clusters[present], heard[present]
        sizes = np.bincount(clusters)
        missing = np.bincount(clusters[(said == _UNHEARD) | (said == ABSTAINED)], minlength=len(sizes)) > 0
        takes_part = np.bincount(clusters[(said == _REPORTS) | (said == _DROPPED)], minlength=len(sizes)) > 0
        keeps = {size: target(size) for size in np.unique(sizes[takes_part]).tolist()}
        fails = missing | np.array([not keeps.get(size, True) for size in sizes.tolist()])
        self.withheld = sorted({*self.withheld, *np.flatnonzero(takes_part & fails).tolist()})

    def _broadcast(
        self, closed: Iterable[Message], release: NDArray[np.bool_], stays: Message, reports: Message
    ) -> Iterator[Outgoing]:
        """To whoever gathers the labels, to every user, and last to the host, for whom everyone has then been told."""
        for part in closed:
            yield self._told, part
        for start in range(0, len(self._present), ROSTER_PART):
            users = self._present[start : start + ROSTER_PART]
            for user, hers in zip(users.tolist(), release[users].tolist(), strict=True):
                yield user, reports if hers else stays
        yield HOST, stays


_HANDLERS: dict[type, Callable[[Coordinator, int, Any], Iterable[Outgoing]]] = {
    Hello: Coordinator._hello,
    Done: Coordinator._done,
}
