"""A user of the mechanisms that Algorithm 2 is compared with: she hands over one label and is done.

What she hands over, and to whom, is the trust model: her true label to a curator (cluster_rr, centralized,
rr_with_prior), her flipped label to a shuffler, her flipped or true label straight to the learner
(uniform_rr; dp_sgd and none, where the learner is trusted). Assignments, minimum sizes and goodbyes are those
of ``user``.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    Refused,
    Round,
    Submit,
)
from p2p_labeldp.protocol.user import ABSTAINS, ANSWERED, BEGINS, User


class Submitter(User):
    """``receiver`` is whom she hands her label to. She flips it first where her host's alpha says so."""

    __slots__ = ("_coins", "_receiver")

    def __init__(self, id_: int, label: int, host: Host, receiver: int) -> None:
        super().__init__(id_, label, host)
        self._receiver = receiver

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        if type(message) in (Ask, Answer, Round):
            # Above all she answers nobody: what she holds may be her true label.
            raise Refused(Fault.MISDIRECTED, "labels are not exchanged in this mechanism")
        return super().receive(sender, message)

    def _begin(self, round_: int) -> Sequence[Outgoing]:
        self.round = round_
        parameters = self.host.parameters
        if self._must_abstain(len(self._roster)):
            self._go(ABSTAINS)
            return ((COORDINATOR, Done(round_, "abstained")),)
        label, kept = self.label, True
        if parameters.tosses:
            self._coins = flip, _, keep, other = self.host.coins(round_, self.id)
            kept = keep < parameters.theta
            if flip < parameters.alpha:
                label = (label + 1 + int(other * (parameters.labels - 1))) % parameters.labels
        self.noisy = self._answer = label
        self._go(BEGINS)
        self._go(ANSWERED)  # by herself
        done = COORDINATOR, Done(round_, "reported" if kept else "dropped")
        self._keeps = kept and self._receiver == LEARNER  # then she reports it at the close, as in the exchange
        return ((self._receiver, Submit(label)), done) if kept and not self._keeps else (done,)
