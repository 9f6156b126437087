"""A host carries users: it keeps their clusters' rosters and draws their coins, once for all of them.

Users learn their cluster, its size and their own place; the list of members travels once per host, so
that the cost of a broadcast stays linear in the number of users. What users do for themselves is settled here
too, once for all of them. A `round` or `goodbye` to the host comes after those to its users: the round before is
closed for all of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.coins import PEER, Coins
from p2p_labeldp.mechanisms.mixing import agreed_places
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.checking import AssignmentCheck
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    Centre,
    Fault,
    Goodbye,
    Message,
    Refused,
    Roster,
    Round,
    kind_of,
    name_of,
)
from p2p_labeldp.scenario import EXCHANGES, Clusters, Defences

Said = tuple[int, int, Message]
"""(sender, receiver, message): what a user of a host says when her host is told something."""


class Host:
    """The part of a host that its users share. Carries users ``first`` to ``last - 1``."""

    __slots__ = (
        "_agreed", "_block", "_coins", "_first", "_last", "_round", "assigned", "check", "closed", "early", "left",
        "one_answer", "parameters", "permuted", "rosters",
    )  # fmt: skip

    def __init__(self, parameters: Parameters, coins: Coins, first: int, last: int) -> None:
        self.parameters = parameters
        self.rosters: dict[int, array[int]] = {}
        self.assigned: set[int] = set()
        """Clusters that users of this host were assigned to, and decided on by their size: their rosters are whole."""
        self.closed = 0
        """How many rounds are closed for all of its users."""
        self.left = False
        self.one_answer = True
        """Whether a second ask of the same user in a round is refused."""
        self.early: set[tuple[int, int]] = set()
        """(asker, round) of asks that wait for a round to begin. Whoever asks asks one user in a round."""
        self.check: AssignmentCheck | None = None
        self.permuted = EXCHANGES[parameters.exchange].permuted
        """Whether whom users ask is what the members of their cluster agree on; the host then carries all of them."""
        self._agreed: dict[tuple[int, int], array[int]] = {}
        self._coins = coins
        self._first, self._last = first, last
        self._round = -1
        self._block: NDArray[np.float64] = np.empty((0, 4))

    def defend(self, defences: Defences, clusters: Clusters) -> None:
        """Do what ``[defences]`` says; abstaining in small clusters is a matter of ``minimum_size`` alone."""
        self.one_answer = defences.one_answer
        if defences.check_assignment:
            self.check = AssignmentCheck(clusters.count if clusters.method == "kmeans" else 0)

    def coins(self, round_: int, user: int) -> list[float]:
        """User's four coins of a round, which she takes once.

        Everyone's are drawn together when the first user begins a round, and only the newest block is kept.
        A user who lags behind it has not taken hers, so that drawing them for her alone repeats nothing.
        """
        if round_ > self._round:
            self._block = self._coins.block(round_, self._first, self._last)
            self._round = round_
        elif round_ < self._round:
            late: list[float] = self._coins.block(round_, user, user + 1)[0].tolist()
            return late
        coins: list[float] = self._block[user - self._first].tolist()
        return coins

    def agreed(self, cluster: int, round_: int) -> Sequence[int]:
        """Of each member of a cluster, whom she asks in a round, by their places."""
        known = self._agreed.get((cluster, round_))
        if known is None:
            block = self._block
            if round_ != self._round:  # nobody of this cluster has begun the round so far
                block = self._coins.block(round_, self._first, self._last)
            members = np.frombuffer(self.rosters[cluster], dtype=np.int64) - self._first
            known = self._agreed[cluster, round_] = array("q", agreed_places(block[members, PEER]).tolist())
        return known

    def receive(self, sender: int, message: Message) -> Sequence[Said]:
        if sender != COORDINATOR:
            raise Refused(Fault.MISDIRECTED, f"a host takes orders from the coordinator, not {name_of(sender)}")
        if type(message) is Roster:
            self._enrol(message)
        elif type(message) is Centre and self.check is not None:
            self.check.centre(message.cluster, message.features.row)
        elif type(message) is Round:
            if self.left or message.round != self.closed + 1:
                fault = Fault.DUPLICATE if message.round <= self.closed else Fault.OUT_OF_ORDER
                raise Refused(fault, f"round {message.round} cannot follow round {self.closed}")
            if message.round >= self.parameters.rounds:
                raise Refused(Fault.OUT_OF_ORDER, f"round {self.closed} is the last")
            self.closed += 1
        elif type(message) is Goodbye:
            if self.left:
                raise Refused(Fault.DUPLICATE, "the host was dismissed already")
            self.left = True
            self.closed += 1
        else:
            raise Refused(Fault.MISDIRECTED, f"a host takes no {kind_of(message)}")
        return ()

    def _enrol(self, part: Roster) -> None:
        if self.check is not None:
            self.check.require_open()
        if len(part.members) % 8:
            raise Refused(Fault.MALFORMED, "a roster's members take 8 bytes each")
        ids = np.frombuffer(part.members, dtype="<i8")
        known = self.rosters.get(part.cluster)
        places = 0 if known is None else len(known)
        if part.first < places:
            raise Refused(Fault.DUPLICATE, f"places from {part.first} of cluster {part.cluster} are known")
        if part.cluster in self.assigned:
            raise Refused(Fault.OUT_OF_ORDER, f"users of cluster {part.cluster} have begun: its roster is whole")
        if part.first > places:
            raise Refused(Fault.OUT_OF_ORDER, f"place {places} of cluster {part.cluster} comes next")
        # Ascending, so that no user is listed twice to make a cluster look larger than it is.
        before = known[-1] if known else -1
        if len(ids) == 0 or np.diff(ids, prepend=before).min() <= 0:
            raise Refused(Fault.MALFORMED, "a roster lists user ids from 0 up, each once, in ascending order")
        self.rosters.setdefault(part.cluster, array("q")).frombytes(ids.astype(np.int64).tobytes())
