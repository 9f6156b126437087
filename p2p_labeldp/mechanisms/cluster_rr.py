"""ClusterRR of the paper: Algorithm 1 with beta = 0, a given tau, and the budget split between histogram and labels."""

from __future__ import annotations

from p2p_labeldp.mechanisms import solve
from p2p_labeldp.mechanisms.centralized import curated
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request

TRUST = "A curator is trusted with every true label; the learner sees noisy labels only."


def plan(request: Request) -> Plan:
    tau, share = request.options.get("tau"), request.options.get("share", 0.5)
    found = solve.central(request.needed_epsilon(), request.labels, tau=tau, share=share)
    return curated(request, TRUST, found, 0.0)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.CURATOR,
    trusts="a curator",
    story="handed her true label to a curator, who drew noisy labels from each cluster's noisy shares",
    learner_sees="the noisy labels that the curator releases",
    colour="#1f77b4",
    marker="D",
    options=("tau", "share"),
)
