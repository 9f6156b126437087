"""No noise at all: what privacy is compared with."""

from __future__ import annotations

from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, sees_true_labels
from p2p_labeldp.privacy import View

TRUST = "The learner is trusted with every true label."


def plan(request: Request) -> Plan:
    privacy = sees_true_labels((View.LEARNER, View.NETWORK, View.AUDITOR), 0.0)
    return Plan(request.kind, TRUST, Holder.LEARNER, request.with_flips(), {}, privacy)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.LEARNER,
    trusts="the learner",
    trusted="with every true label",
    story="sent her true label to the learner, without any privacy",
    learner_sees="every true label, with its owner",
    colour="#000000",
    marker=".",
)
