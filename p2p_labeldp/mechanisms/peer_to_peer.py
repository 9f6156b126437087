"""Algorithm 2: users flip their labels, ask each other, and forward what they heard. ``exchange`` has it on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request
from p2p_labeldp.mechanisms.solve import Flips, flips, given_flips
from p2p_labeldp.privacy import RECORDS, Guarantee, Parameters, View

TRUST = (
    "Peers are trusted to follow the protocol and not to pool what they saw with the learner; each sees one noisy "
    "label a round. Against those who pool, the flips alone protect."
)


def given_alpha(request: Request) -> float:
    """mechanism.alpha, which must leave noise."""
    alpha = float(request.options["alpha"])
    if replace(request.parameters, alpha=alpha, labels=request.labels).no_noise:
        raise RequestError(
            f"mechanism.alpha = {alpha:g} with {request.labels} labels leaves no noise; above 0, or "
            'mechanism.kind = "none"'
        )
    return alpha


def flips_for(request: Request, view: View) -> Flips:
    """The flips that keep the view to what was asked for, or what given ones cost."""
    sought = replace(request.parameters, labels=request.labels)
    if request.epsilon is None:
        if "alpha" not in request.options:
            request.needed_epsilon(" unless mechanism.alpha is given")
        sought = replace(sought, alpha=given_alpha(request))
        return given_flips(view, sought, request.sizes, request.delta)
    if "alpha" in request.options:
        raise RequestError(f"mechanism.alpha is given beside mechanism.epsilon = {request.epsilon:g}; leave one out")
    return flips(view, sought, request.sizes, request.epsilon, request.delta)


def guarantee_of(found: Flips, view: View, delta: float) -> Guarantee:
    return Guarantee(epsilon=found.epsilon, delta=delta, view=view, method=found.method, cluster_size=found.size)


def exchange_of(parameters: Parameters, privacy: Mapping[View, Guarantee] | None = None) -> Plan:
    """The exchange with given parameters. Its table of guarantees depends on who takes part: see ``runs``."""
    numbers = {"alpha": parameters.alpha, "theta": parameters.theta}
    return Plan("peer_to_peer", TRUST, Holder.PEERS, parameters, numbers, privacy or {}, exchangeable=True)


def plan(request: Request) -> Plan:
    """With an epsilon the flips follow from it."""
    if not request.sizes:  # everyone abstains, and any noise will do
        alpha = float(request.options.get("alpha", request.parameters.alpha))
        return exchange_of(replace(request.parameters, alpha=alpha, labels=request.labels))
    if request.epsilon is None and "alpha" in request.options:
        # What it costs takes long to find where rounds are many: a run begins before that.
        given = exchange_of(replace(request.parameters, alpha=given_alpha(request), labels=request.labels))
        return replace(given, stating=lambda: _stated(flips_for(request, View.LEARNER), request))
    found = flips_for(request, View.LEARNER)
    parameters = replace(request.parameters, alpha=found.alpha, labels=request.labels)
    return exchange_of(parameters, {View.LEARNER: _stated(found, request)})


def _stated(found: Flips, request: Request) -> Guarantee:
    return guarantee_of(found, View.LEARNER, request.delta)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.PEERS,
    trusts="peers",
    trusted="not to collude with the learner",
    story="flipped her label and exchanged it within her cluster",
    learner_sees=RECORDS[View.LEARNER].sees,
    colour="#d62728",
    marker="o",
    options=("alpha",),
)
