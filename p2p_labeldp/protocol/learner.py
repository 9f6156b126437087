"""The learner's side of the protocol: gathers reports until it has everything it will get.

The coordinator closes a round with the list of those who report; the learner is complete when every round is
closed and the reports of all on the lists have arrived. If some are lost, the limit on the wait completes it. Nobody
else's report is taken.

Where labels go through a curator or a shuffler, that party closes the round and passes the labels on; a curator may
publish a label distribution for each cluster besides.

In a mechanism of two stages the learner makes a model of the first round's reports, once it has them all, and tells
each user who did not report in it what that model expects of her: the prior with which she answers in the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.plan import PriorOf, told_to_others
from p2p_labeldp.protocol.collection import Collection
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    Closed,
    ClusterShares,
    Fault,
    Message,
    Outgoing,
    Prior,
    Refusal,
    Refused,
    Release,
    Report,
    kind_of,
    name_of,
)


class Learner:
    def __init__(
        self,
        users: int,
        rounds: int,
        labels: int,
        rounds_limit: float,
        report_limit: float,
        teller: int = COORDINATOR,
        prior_of: PriorOf | None = None,
    ) -> None:
        self.users = users
        self.labels = labels
        self.rounds = rounds
        self.stage = 0
        """How many rounds are closed; the limit on waiting starts anew when this changes."""
        self.expired = False
        self._collected = [Collection(users, labels, round_) for round_ in range(rounds)]
        self._shares: dict[int, NDArray[np.float64]] = {}
        self._limits = (rounds_limit, report_limit)
        self.prior: NDArray[np.float64] | None = None
        """What users of the second stage were told, (users, labels); rows of zeros for all others."""
        self._prior_of = prior_of
        self._teller = teller  # who closes rounds: where labels go through a curator or a shuffler, that party

    @property
    def limit(self) -> float:
        """Seconds to wait for a round to be closed or, when all are, for reports that are still on their way."""
        return self._limits[self.stage == self.rounds]

    @property
    def finished(self) -> bool:
        return self.expired or (
            self.stage == self.rounds and self._all_shares and all(each.complete for each in self._collected)
        )

    @property
    def shares(self) -> NDArray[np.float64] | None:
        """The published label distribution of every cluster, (clusters, labels); None where nobody published all."""
        if not self._shares or not self._all_shares:
            return None
        found = np.zeros((max(self._shares) + 1, self.labels))
        for cluster, row in self._shares.items():
            found[cluster] = row
        return found

    @property
    def _all_shares(self) -> bool:
        return len(self._shares) == max((each.shares for each in self._collected), default=0)

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        if type(message) is Report and self._teller == COORDINATOR:
            self._take(sender, message.round, message.label)
            return self.priors()
        if type(message) is Release and sender == self._teller != COORDINATOR:
            self._take(message.user, 0, message.label)
        elif type(message) is Closed and sender == self._teller:
            return self._close(message)
        elif type(message) is ClusterShares and sender == self._teller != COORDINATOR:
            self._publish(message)
        else:
            raise Refused(Fault.MISDIRECTED, f"the learner takes no {kind_of(message)} from {name_of(sender)}")
        return ()

    def expire(self) -> tuple[Outgoing, ...]:
        self.expired = True
        return ()

    def reports(self, round_: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(user ids ascending, their labels) of one round."""
        return self._collected[round_].counting()

    def lost(self, round_: int) -> list[int]:
        """Users whose reports of a round were announced and have not come."""
        return self._collected[round_].lost()

    def _take(self, user: int, round_: int, label: int) -> None:
        if not 0 <= round_ < self.rounds:
            raise Refused(Fault.OUT_OF_ORDER, f"there is no round {round_}")
        if self.expired:
            raise Refused(Fault.OUT_OF_ORDER, "the wait for reports is over")
        self._collected[round_].take(user, label)

    def _close(self, message: Closed) -> Sequence[Outgoing]:
        """Rounds, and the parts of each, may come in any order: messages overtake each other."""
        if not 0 <= message.round < self.rounds:
            raise Refused(Fault.OUT_OF_ORDER, f"there is no round {message.round}")
        collected = self._collected[message.round]
        left_out = collected.close(message)
        self.stage += collected.closed
        kind = "report" if self._teller == COORDINATOR else "release"
        reason = f"does not count in round {message.round}"
        refusals = [(AUDITOR, Refusal(user, kind, Fault.OUT_OF_ORDER, reason)) for user in left_out]
        return [*refusals, *self.priors()]

    @property
    def priors_due(self) -> bool:
        """Whether the first of two stages is complete, and nobody was told what came of it."""
        return self._prior_of is not None and self.prior is None and self._collected[0].complete

    def priors(self) -> Sequence[Outgoing]:
        """What the others are told, when the first stage is complete: all at once, so that times tell nothing."""
        if self._prior_of is None or not self.priors_due:
            return ()
        users, labels = self._collected[0].counting()
        self.prior = told_to_others(users, self._prior_of(users, labels))
        rows = self.prior.astype("<f8")
        others = np.setdiff1d(np.arange(self.users), users, assume_unique=True)
        return [(user, Prior(rows[user].tobytes())) for user in others.tolist()]

    def _publish(self, message: ClusterShares) -> None:
        if len(message.values) != 8 * self.labels:
            raise Refused(Fault.MALFORMED, f"{len(message.values)} bytes are not the shares of {self.labels} labels")
        if message.cluster >= self.users:
            raise Refused(Fault.MALFORMED, f"there are fewer clusters than {message.cluster + 1}")
        if message.cluster in self._shares:
            raise Refused(Fault.DUPLICATE, f"the shares of cluster {message.cluster} are known")
        row = np.frombuffer(message.values, dtype="<f8").astype(np.float64)
        if not np.isfinite(row).all():
            raise Refused(Fault.MALFORMED, "shares must be finite numbers")
        self._shares[message.cluster] = row
