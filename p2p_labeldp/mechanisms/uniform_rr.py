"""Randomized response over all labels: each user replaces her own label with chance lambda = K/(K-1+e^epsilon)."""

from __future__ import annotations

from p2p_labeldp.mechanisms.algorithm_1 import chance_for, spent_epsilon
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, spends
from p2p_labeldp.privacy import View

TRUST = "Nobody need be trusted: each user can replace her own label before it leaves her."


def plan(request: Request) -> Plan:
    """A uniform draw with chance lambda is a flip to another label with chance lambda (K-1)/K."""
    labels = request.labels
    chance = chance_for(request.needed_epsilon(), 1 / labels, labels)
    spent = spent_epsilon(float("inf"), 1 / labels, chance, labels)
    parameters = request.with_flips(chance * (labels - 1) / labels)
    privacy = {view: spends(view, spent, 0.0, exact=True) for view in (View.LEARNER, View.NETWORK, View.AUDITOR)}
    numbers = {"alpha": parameters.alpha, "lambda": chance}
    return Plan(request.kind, TRUST, Holder.LEARNER, parameters, numbers, privacy)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.LEARNER,
    trusts="nobody",
    story="randomised her label by herself and sent it to the learner",
    learner_sees="every noisy label, with its owner",
    colour="#7f7f7f",
    marker="v",
)
