"""The learner's side of the protocol: gathers reports until it has everything it will get.

The coordinator closes a round with the number of reports its users say they sent; the learner is
complete when every round is closed and that many reports of it have arrived. If some are lost, the
limit on the wait completes it.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    Closed,
    Message,
    Outgoing,
    Refused,
    Release,
    Report,
    kind_of,
    name_of,
)

_NOTHING = -1


class Learner:
    def __init__(
        self,
        users: int,
        rounds: int,
        labels: int,
        rounds_limit: float,
        report_limit: float,
        teller: int = COORDINATOR,
    ) -> None:
        self.users = users
        self.labels = labels
        self.rounds = rounds
        self.stage = 0
        """How many rounds are closed; the limit on waiting starts anew when this changes."""
        self.expired = False
        # 16-bit labels; -1 where nothing was reported. One array per round, indexed by user.
        self._reports = [array("h", [_NOTHING]) * users for _ in range(rounds)]
        self._received = [0] * rounds
        self._expected: list[int | None] = [None] * rounds  # known once a round is closed
        self._outstanding = 0  # reports of closed rounds that have not arrived
        self._limits = (rounds_limit, report_limit)
        self._teller = teller  # who closes rounds: a keeper of labels, where there is one, passes them on too

    @property
    def limit(self) -> float:
        """Seconds to wait for a round to be closed or, when all are, for reports that are still on their way."""
        return self._limits[self.stage == self.rounds]

    @property
    def finished(self) -> bool:
        return self.expired or (self.stage == self.rounds and self._outstanding == 0)

    def receive(self, sender: int, message: Message) -> tuple[Outgoing, ...]:
        if type(message) is Report and self._teller == COORDINATOR:
            self._report(sender, message.round, message.label)
        elif type(message) is Release and sender == self._teller:
            self._report(message.user, 0, message.label)
        elif type(message) is Closed and sender == self._teller:
            self._close(message)
        else:
            raise Refused("misdirected", f"the learner takes no {kind_of(message)} from {name_of(sender)}")
        return ()

    def expire(self) -> tuple[Outgoing, ...]:
        self.expired = True
        return ()

    def reports(self, round_: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(user ids ascending, their labels) of one round."""
        labels = np.frombuffer(self._reports[round_], dtype=np.int16)
        users = np.flatnonzero(labels != _NOTHING)
        return users, labels[users].astype(np.int64)

    def _report(self, sender: int, round_: int, label: int) -> None:
        if not 0 <= sender < self.users:
            raise Refused("misdirected", f"{name_of(sender)} holds no example")
        if not 0 <= round_ < len(self._reports):
            raise Refused("out_of_order", f"there is no round {round_}")
        if not 0 <= label < self.labels:
            raise Refused("malformed", f"label {label} is not below {self.labels}")
        reports = self._reports[round_]
        if reports[sender] != _NOTHING:
            raise Refused("duplicate", f"{name_of(sender)} reported already in round {round_}")
        expected = self._expected[round_]
        if expected is not None:
            if self.expired or self._received[round_] == expected:
                raise Refused("out_of_order", f"round {round_} is closed")
            self._outstanding -= 1
        reports[sender] = label
        self._received[round_] += 1

    def _close(self, message: Closed) -> None:
        """Rounds may be closed in any order: messages overtake each other."""
        if not 0 <= message.round < self.rounds:
            raise Refused("out_of_order", f"there is no round {message.round}")
        if self._expected[message.round] is not None:
            raise Refused("duplicate", f"round {message.round} was closed already")
        # More than announced may have arrived: a user's report can outlive her lost word to the coordinator.
        received = self._received[message.round]
        expected = max(message.reports, received)
        self._expected[message.round] = expected
        self._outstanding += expected - received
        self.stage += 1
