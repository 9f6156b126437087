"""The parameters of the exchange that a scenario asks for: the same for those who run it and those who audit it."""

from __future__ import annotations

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import ATTEMPTS
from p2p_labeldp.scenario import EXCHANGES, MECHANISMS, Scenario


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
