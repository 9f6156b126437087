"""Randomized response with subsampling and no exchange: what Algorithm 2 would be if users asked nobody.

Each user flips her label with probability alpha and sends it to the learner herself with probability theta. The paper
remarks that this does not amplify, and it does not: to the learner it is randomized response on {0, ..., K-1, nothing}
with

    P(label | true label) = theta (1-alpha) or theta alpha/(K-1),   P(nothing | true label) = 1 - theta

so that the likelihood ratio of whatever arrives is that of the flip alone, for every theta above 0. Her
delta(epsilon) is theta times the flip's, which is 0 at the same epsilon. Subsampling hides who takes part; here
who reports is seen. It is here to be compared with: the same noise, fewer labels, the same epsilon.
"""

from __future__ import annotations

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.algorithm_1 import chance_for
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, spends
from p2p_labeldp.privacy import View, account

TRUST = "Nobody need be trusted: each user flips her own label before it leaves her, if it does."


def _alpha(request: Request) -> float:
    """The flips for a target: those of uniform_rr, since theta changes nothing."""
    if request.epsilon is None:
        if "alpha" not in request.options:
            request.needed_epsilon(" unless mechanism.alpha is given")
        return float(request.options["alpha"])
    if "alpha" in request.options:
        raise RequestError(f"mechanism.alpha is given beside mechanism.epsilon = {request.epsilon:g}; leave one out")
    labels = request.labels
    return chance_for(request.epsilon, 1 / labels, labels) * (labels - 1) / labels


def plan(request: Request) -> Plan:
    parameters = request.with_flips(_alpha(request), request.parameters.theta)
    local = account(View.AUDITOR, parameters, cluster_size=1).get_epsilon(0.0)
    privacy = {
        view: spends(view, local.epsilon, 0.0, exact=True, reason=local.reason)
        for view in (View.LEARNER, View.NETWORK, View.AUDITOR)
    }
    numbers = {"alpha": parameters.alpha, "theta": parameters.theta}
    return Plan(request.kind, TRUST, Holder.LEARNER, parameters, numbers, privacy)


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.LEARNER,
    trusts="nobody",
    story="randomised her label by herself and sent it to the learner with probability theta",
    learner_sees="the noisy labels that users kept, with their owners",
    colour="#bcbd22",
    marker="<",
    options=("alpha",),
)
