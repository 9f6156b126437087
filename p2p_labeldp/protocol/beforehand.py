"""What is known of a mechanism before there are clusters: parameters, options, rounds, and what users and curators use.

It is the same for those who run it and those who audit it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import Plan, make_plan, mechanism_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import ATTEMPTS
from p2p_labeldp.scenario import EXCHANGES, MECHANISMS, Scenario

_SECTION = ("theta", "noise", "rounds", "exchange", "relays", "withstand")
"""Keys that are parameters of the exchange, not options of a mechanism."""


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
        attempts=ATTEMPTS if EXCHANGES[mechanism.exchange].relayed else 1,
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


def rounds_of(scenario: Scenario) -> int:
    """How many rounds a run has."""
    return scenario.mechanism.rounds * mechanism_of(scenario.mechanism.kind).stages


def plan_beforehand(scenario: Scenario, labels: int) -> Plan:
    """What those who hold labels know of the plan before there are clusters: enough to take part.

    Flips that follow from clusters are as many as there can be until they are known.
    """
    mechanism, parameters = scenario.mechanism, parameters_of(scenario, labels)
    record, reads = mechanism_of(mechanism.kind), MECHANISMS[mechanism.kind]
    if record.learns:
        handed = dataclasses.replace(parameters, alpha=0.0, theta=1.0)
        return Plan(mechanism.kind, record.trust, record.holder, handed, {})
    if not reads.by_cluster:
        options = options_of(scenario)
        return make_plan(
            mechanism.kind, labels=labels, sizes=(), epsilon=mechanism.epsilon, parameters=parameters, **options
        )
    found = make_plan(mechanism.kind, labels=labels, sizes=(), parameters=parameters)
    alpha = (labels - 1) / labels if mechanism.epsilon else mechanism.alpha
    return dataclasses.replace(found, parameters=dataclasses.replace(found.parameters, alpha=alpha))
