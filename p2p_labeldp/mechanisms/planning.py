"""A mechanism by its name: its record, and its plan for what is asked. No mechanism's own module imports this one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.scenario import MECHANISMS
from p2p_labeldp.scenario.extensions import added

LEAST_EPSILON, MOST_EPSILON = 1e-9, 700.0  # beyond, 1 - lambda or e^epsilon leaves what float64 can tell


def mechanism_of(kind: str) -> Mechanism:
    """The record of the mechanism that ``mechanism.kind`` calls so."""
    if kind not in MECHANISMS:
        raise RequestError(f"mechanism.kind is {kind!r}; one of {', '.join(MECHANISMS)}")
    outside = added("mechanism", kind)
    found: Mechanism = (
        importlib.import_module(f"p2p_labeldp.mechanisms.{kind}").MECHANISM if outside is None else outside.record
    )
    return found


def require_installed(kind: str) -> None:
    """Raise RequestError where the mechanism needs an extra that is missing: before anything is computed."""
    record = mechanism_of(kind)
    if record.needs and importlib.util.find_spec(record.needs) is None:
        raise RequestError(f"mechanism.kind = {kind} needs {record.needs}: pip install 'p2p-labeldp[{record.extra}]'")


def make_plan(
    kind: str,
    *,
    labels: int,
    sizes: Iterable[int],
    epsilon: float | None = None,
    delta: float = 0.0,
    parameters: Parameters | None = None,
    **options: Any,
) -> Plan:
    """The plan of a mechanism that spends (epsilon, delta) on clusters of these sizes, one for each cluster.

    Without an epsilon (None or 0) its parameters must be given, and what they spend is stated. ``parameters`` are those
    of the exchange: theta, rounds, noise, minimum size.
    """
    record = mechanism_of(kind)
    for name in options:
        if name not in record.options:
            allowed = ", ".join(record.options) or "none"
            raise RequestError(f"mechanism.{name} is no option of {kind}; allowed are: {allowed}")
    if labels < 2:
        raise RequestError(f"data has {labels} label; a mechanism needs at least 2")
    if MECHANISMS[kind].epsilon and epsilon not in (None, 0) and not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise RequestError(f"mechanism.epsilon is {epsilon}; a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}")
    if not 0 <= delta < 1:
        raise RequestError(f"privacy.delta is {delta}; at least 0 and less than 1")
    shared = parameters or Parameters(0.0, labels=labels)
    everyone = sorted(int(size) for size in sizes)
    if everyone and everyone[0] < 0:
        raise RequestError("cluster sizes must not be below 0")
    taking_part = [size for size in everyone if size >= max(1, shared.minimum_size)]
    distinct = tuple(sorted(set(taking_part)))
    asked = float(epsilon) if epsilon else None
    plan = record.plan(Request(kind, labels, distinct, sum(taking_part), asked, float(delta), shared, options))
    outside = added("mechanism", kind)
    if outside is not None:
        _check(plan, record, f"plugin {outside.plugin}: mechanism {kind}")
    assert plan.holder is record.holder, f"{kind} hands labels to {plan.holder}, its record says {record.holder}"
    assert plan.parameters.rounds == shared.rounds * record.stages, f"{kind} has {plan.parameters.rounds} rounds"
    return plan


def _check(plan: Plan, record: Mechanism, where: str) -> None:
    """A plugin's plan, as far as what it states can be told from what users and learners will do."""
    if not isinstance(plan, Plan) or plan.trust != record.trust:
        raise RequestError(f"{where}: its plan must be a Plan that trusts whom its record does")
    if plan.holder is not record.holder:
        raise RequestError(
            f"{where}: its plan hands labels to {plan.holder.value}, its record to {record.holder.value}"
        )
    if plan.stating is None and not {View.LEARNER, View.MODEL} & set(plan.privacy):
        raise RequestError(f"{where}: its plan states no guarantee against the learner, nor of the model")
    if (plan.work is not None) != (plan.holder in (Holder.CURATOR, Holder.SHUFFLER)):
        raise RequestError(f"{where}: a curator or a shuffler, and nobody else, has work to do")
    if plan.holder is Holder.LEARNER and View.LEARNER in plan.privacy:
        # She is sent each user's label by herself, flipped or not: what that spends is known exactly.
        stated = plan.privacy[View.LEARNER]
        flips = account(View.AUDITOR, plan.parameters.flips_alone, cluster_size=1)
        if stated.delta < flips.get_delta(stated.epsilon).delta:
            spent = flips.get_epsilon(stated.delta).epsilon
            raise RequestError(
                f"{where}: states epsilon {stated.epsilon:.6g} at delta {stated.delta:g} against the learner, but "
                f"labels flipped with alpha {plan.parameters.alpha:g} spend {spent:.6g}"
            )
