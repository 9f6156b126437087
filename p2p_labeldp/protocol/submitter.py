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
from p2p_labeldp.protocol.user import ANSWERED, BEGINS, User


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
