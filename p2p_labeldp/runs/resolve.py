"""A scenario resolved: its noise calibrated, its mechanism planned, its delta chosen; the same for all who run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import Plan, make_plan, mechanism_of
from p2p_labeldp.privacy import relays_to_withstand
from p2p_labeldp.protocol.beforehand import options_of, parameters_of
from p2p_labeldp.scenario import MAX_RELAYS, MECHANISMS, Scenario, replace


@dataclass(frozen=True, eq=False)
class Resolved:
    """What a run goes by."""

    scenario: Scenario
    """With the alpha that its epsilon asks for."""
    plan: Plan
    delta: float
    """Of every guarantee that has one."""
    target: float | None
    """The epsilon that was asked for."""


def resolve(scenario: Scenario, *, labels: int, users: int, sizes: Iterable[int]) -> Resolved:
    """The scenario's plan for ``users`` in clusters of ``sizes``, one for each cluster."""
    mechanism = scenario.mechanism
    parameters = parameters_of(scenario, labels)
    everyone = [int(size) for size in sizes]
    taking_part = [size for size in everyone if size >= max(1, parameters.minimum_size)]
    delta = scenario.privacy.delta or mechanism_of(mechanism.kind).default_delta(taking_part, users)
    if mechanism.withstand and taking_part:
        try:
            relays = relays_to_withstand(
                min(taking_part),
                mechanism.withstand,
                delta,
                most=MAX_RELAYS,
                rounds=parameters.rounds,
                attempts=parameters.attempts,
            )
        except RequestError as refusal:
            raise RequestError(f"mechanism.{refusal}") from None
        if relays > scenario.clusters.minimum_size:
            raise RequestError(
                f"mechanism.withstand = {mechanism.withstand} takes {relays} relays, which are members of their "
                f"cluster; clusters.minimum_size must be at least that, not {scenario.clusters.minimum_size}"
            )
        scenario = replace(scenario, mechanism__relays=relays, mechanism__withstand=0)
        parameters = dataclasses.replace(parameters, relays=relays)
    plan = make_plan(
        mechanism.kind,
        labels=labels,
        sizes=everyone,
        epsilon=mechanism.epsilon,
        delta=delta,
        parameters=parameters,
        **options_of(scenario),
    )
    if plan.learner is not None and scenario.learner.model != "softmax":
        raise RequestError(
            f"learner.model = {scenario.learner.model} is not allowed with {plan.kind}, which learns softmax "
            "regression itself; it must be softmax"
        )
    from p2p_labeldp.learning import model_of  # user hosts do without

    model_of(scenario.learner.model)
    undone = plan.beta or (plan.parameters.alpha and scenario.learner.correct_flips)
    if undone and not plan.exchangeable and scenario.learner.l2 == 0 and scenario.learner.model == "softmax":
        raise RequestError(
            f"learner.l2 = 0 is not allowed where the noise of {plan.kind} is undone: targets are negative, and the "
            "loss has no minimum; it must be above 0"
        )
    target = mechanism.epsilon or None
    if target and "alpha" in MECHANISMS[mechanism.kind].keys:
        scenario = replace(scenario, mechanism__alpha=plan.parameters.alpha, mechanism__epsilon=0.0)
    return Resolved(scenario, plan, delta, target)
