"""A keeper of other people's labels: the curator who sees true ones, or the shuffler who sees noisy ones.

She gathers what users hand over until the coordinator says how many did, does her one piece of work on all of it
(a mechanism on arrays, or a permutation within clusters), and passes the result to the learner.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.plan import Work
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    LEARNER,
    Closed,
    Message,
    Outgoing,
    Refused,
    Release,
    Submit,
    kind_of,
    name_of,
)

_NOTHING = -1

Working = Callable[[NDArray[np.int64], NDArray[np.int64]], Work]
"""(user ids ascending, the labels they handed over) to (user ids ascending, labels for the learner)."""


class Keeper:
    def __init__(self, users: int, labels: int, work: Working, closing_limit: float, submit_limit: float) -> None:
        self.users = users
        self.labels = labels
        self.stage = 0
        """1 once the coordinator has said how many labels were handed over, 2 when the work is done."""
        self._work = work
        self._handed = array("h", [_NOTHING]) * users
        self._received = 0
        self._expected = -1
        self._limits = (closing_limit, submit_limit, submit_limit)

    @property
    def limit(self) -> float:
        return self._limits[self.stage]

    @property
    def finished(self) -> bool:
        return self.stage == 2

    def receive(self, sender: int, message: Message) -> Iterable[Outgoing]:
        if type(message) is Submit:
            self._submit(sender, message)
        elif type(message) is Closed and sender == COORDINATOR:
            if self.stage:
                raise Refused("duplicate", "the submissions were closed already")
            self._expected = max(message.reports, self._received)
            self.stage = 1
        else:
            raise Refused("misdirected", f"a keeper of labels takes no {kind_of(message)} from {name_of(sender)}")
        return self._release() if self.stage == 1 and self._received == self._expected else ()

    def expire(self) -> Iterable[Outgoing]:
        """Go on with what there is: some labels were lost on the way."""
        return self._release() if self.stage < 2 else ()

    def _submit(self, sender: int, message: Submit) -> None:
        if not 0 <= sender < self.users:
            raise Refused("misdirected", f"{name_of(sender)} holds no example")
        if not 0 <= message.label < self.labels:
            raise Refused("malformed", f"label {message.label} is not below {self.labels}")
        if self._handed[sender] != _NOTHING:
            raise Refused("duplicate", f"{name_of(sender)} handed over a label already")
        if self.stage == 2:
            raise Refused("out_of_order", "the labels have been passed on")
        self._handed[sender] = message.label
        self._received += 1

    def _release(self) -> Iterator[Outgoing]:
        self.stage = 2
        handed = np.frombuffer(self._handed, dtype=np.int16)
        users = np.flatnonzero(handed != _NOTHING)
        done = self._work(users, handed[users].astype(np.int64))
        return self._pass_on(done.users, done.labels)

    def _pass_on(self, users: NDArray[np.int64], labels: NDArray[np.int64]) -> Iterator[Outgoing]:
        for user, label in zip(users.tolist(), labels.tolist(), strict=True):
            yield LEARNER, Release(user, label)
        yield LEARNER, Closed(0, len(users))
