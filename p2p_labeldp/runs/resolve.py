"""A scenario resolved: its noise calibrated, its mechanism planned, its delta chosen; the same for all who run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import Plan, make_plan, mechanism_of
from p2p_labeldp.privacy import Exchange, Parameters, relays_to_withstand
from p2p_labeldp.protocol.messages import ATTEMPTS
from p2p_labeldp.scenario import MAX_RELAYS, MECHANISMS, Scenario, replace

_SECTION = ("theta", "noise", "rounds", "exchange", "relays", "withstand")
"""Keys that are parameters of the exchange, not options of a mechanism."""


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


def parameters_of(scenario: Scenario, labels: int) -> Parameters:
    """The exchange's parameters, checked against the number of labels, which only the data knows."""
    mechanism = scenario.mechanism
    if labels < 2:
        where = f"{scenario.data.label_column} of {scenario.data.path}" if scenario.data.path else scenario.data.name
        raise RequestError(f"data: {where} has one label only; at least two are needed")
    flipping = MECHANISMS[mechanism.kind].flips and mechanism.epsilon == 0
    if scenario.learner.correct_flips and flipping and mechanism.alpha == (labels - 1) / labels:
        raise RequestError(
            f"learner.correct_flips is not possible at mechanism.alpha = {mechanism.alpha:g}: "
            f"with {labels} labels the noise is uniform; choose another alpha"
        )
    return Parameters(
        alpha=mechanism.alpha,
        theta=mechanism.theta,
        labels=labels,
        noise=mechanism.noise,
        rounds=mechanism.rounds,
        # Relays are members of their cluster, so that one with fewer users abstains whatever it defends itself with.
        minimum_size=max(scenario.clusters.minimum_size if scenario.defences.abstain else 1, mechanism.relays),
        exchange=mechanism.exchange,
        relays=mechanism.relays,
        attempts=ATTEMPTS if mechanism.exchange == Exchange.MIXED else 1,
    )


def options_of(scenario: Scenario) -> dict[str, Any]:
    """The keys of ``[mechanism]`` that its kind reads; 0 is not given where an epsilon stands for it."""
    mechanism = scenario.mechanism
    found: dict[str, Any] = {}
    for key in MECHANISMS[mechanism.kind].keys:
        name = "lambda_" if key == "lambda" else key
        value = getattr(mechanism, name)
        solved = key in MECHANISMS[mechanism.kind].instead and (mechanism.epsilon > 0 if key == "alpha" else value == 0)
        if key not in _SECTION and not solved:
            found[name] = value
    return found


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
