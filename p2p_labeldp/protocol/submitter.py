"""Users of the mechanisms that Algorithm 2 is compared with: they hand over one label and are done.

What they hand over, and to whom, is the trust model: their true labels to a curator (cluster_rr, centralized,
rr_with_prior), flipped labels to a shuffler, flipped or true labels straight to the learner
(uniform_rr; dp_sgd and none, where the learner is trusted). Assignments, minimum sizes and goodbyes are those
of ``user``. In a mechanism with two stages (lp_2st) some answer the learner's prior instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.plan import Stages
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    LEARNER,
    Answer,
    Ask,
    Done,
    Fault,
    Message,
    Outgoing,
    Prior,
    Refused,
    Round,
    Submit,
    name_of,
)
from p2p_labeldp.protocol.user import ABSTAINING, ANSWERED, BEGINS, LEFT, WAITING, User


class Submitter(User):
    """``receiver`` is whom she hands her label to. She flips it first where her host's alpha says so."""

    __slots__ = ("_coin", "_receiver")

    def __init__(self, id_: int, label: int, host: Host, receiver: int) -> None:
        super().__init__(id_, label, host)
        self._receiver = receiver

    def _take_part(self, round_: int) -> Sequence[Outgoing]:
        self.noisy, self._keeps = self.label, True
        if self.host.parameters.tosses:
            self._coin = self._toss(round_)
        self._answer = self.noisy
        self._go(BEGINS)
        self._go(ANSWERED)  # by herself
        done = COORDINATOR, Done(round_, "reported" if self._keeps else "dropped")
        if not self._keeps or self._receiver == LEARNER:  # which she tells at the close, as in the exchange
            return (done,)
        self._keeps = False
        return ((self._receiver, Submit(self.noisy)), done)

    def _exchanged(self, sender: int, message: Message) -> Sequence[Outgoing]:
        """Above all she answers nobody: what she holds may be her true label."""
        raise Refused(Fault.MISDIRECTED, "labels are not exchanged in this mechanism")

    handlers = User.handlers | dict.fromkeys((Ask, Answer, Round), _exchanged)


class Responder(Submitter):
    """A user of a mechanism with two stages: she reports in one of two rounds, which her own coin chooses.

        first round    heads: she flips her label and reports it at the close, as in plain randomized response
        second round   tails: she waits for the learner's prior, answers with it once, and reports at the close

    She uses her label once. Whatever prior she is sent, even by a learner who makes it up, her answer costs what the
    plan states; a second one is refused, and so is any after she has reported, and so is a third round. A prior may
    overtake the message that lets her begin the second round; it is held until then.
    """

    __slots__ = ("_first", "_prior", "_stages")

    def __init__(self, id_: int, label: int, host: Host, stages: Stages) -> None:
        super().__init__(id_, label, host, LEARNER)
        self._stages = stages
        self._first = False
        self._prior: NDArray[np.float64] | None = None

    def _take_part(self, round_: int) -> Sequence[Outgoing]:
        if round_ == 0:
            super()._take_part(0)
            self._first = self._coin < self._stages.share
            self._keeps = self._keeps and self._first
            return ((COORDINATOR, Done(0, "reported" if self._keeps else "dropped")),)
        self._keeps = False
        self._go(BEGINS)
        if self._first:
            self._go(ANSWERED)
            return ((COORDINATOR, Done(round_, "dropped")),)
        return () if self._prior is None else self._answered_with(self._prior)

    def _told(self, sender: int, message: Prior) -> Sequence[Outgoing]:
        if sender != LEARNER:
            raise Refused(Fault.MISDIRECTED, f"only the learner may send this, not {name_of(sender)}")
        if self._prior is not None:
            raise Refused(Fault.DUPLICATE, f"user {self.id} has her prior")
        if self.state in (ABSTAINING, LEFT):
            return ()  # the learner need not know
        if self.round < 0 or self._first:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} takes no part in the second stage")
        values = message.values
        if len(values) != 8 * self.host.parameters.labels:
            raise Refused(Fault.MALFORMED, f"{len(values)} bytes are no prior of {self.host.parameters.labels} labels")
        prior = np.frombuffer(values, dtype="<f8").astype(np.float64)
        if not (np.isfinite(prior).all() and (prior >= 0).all()):
            raise Refused(Fault.MALFORMED, "a prior has finite numbers, none negative")
        self._prior = prior
        return self._answered_with(prior) if self.round == 1 and self.state is WAITING else ()

    def _answered_with(self, prior: NDArray[np.float64]) -> Sequence[Outgoing]:
        coins = np.array([self.host.coins(self.round, self.id)])
        self._answer = int(self._stages.respond(np.array([self.label]), prior[None, :], coins)[0])
        self._keeps = True
        self._go(ANSWERED)
        return ((COORDINATOR, Done(self.round, "reported")),)

    handlers = Submitter.handlers | {Round: User._next_round, Prior: _told}
