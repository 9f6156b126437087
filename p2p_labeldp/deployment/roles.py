"""The roles of a deployment: which a scenario's mechanism has, and which scenarios can be deployed at all."""

from __future__ import annotations

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import mechanism_of
from p2p_labeldp.protocol.messages import HOST, PARTIES
from p2p_labeldp.scenario import EXCHANGES, Scenario
from p2p_labeldp.scenario.extensions import added

SINGLES = {name: address for name, address in PARTIES.items() if address != HOST}
"""Roles of which a deployment has one at most, and their addresses."""
SINGLE_AT = {address: (name,) for name, address in SINGLES.items()}
"""Who carries an address that is no user's: one node, or nobody."""


def require_deployable(scenario: Scenario) -> None:
    """Not every scenario that can be simulated can be deployed."""
    if added("mechanism", scenario.mechanism.kind) is not None:
        raise RequestError(f"mechanism.kind = {scenario.mechanism.kind} comes from a plugin and cannot be deployed")
    exchange = scenario.mechanism.exchange
    if why := EXCHANGES[exchange].undeployable:
        others = " or ".join(f'"{name}"' for name, record in EXCHANGES.items() if not record.undeployable)
        raise RequestError(f'mechanism.exchange = "{exchange}" is for simulations; {why}; use {others}')
    if scenario.adversaries:
        from p2p_labeldp.deployment import misbehaving  # a host that carries none stays small

        misbehaving.require_deployable(scenario)


def gatherer_of(scenario: Scenario) -> str:
    """The role that gathers users' labels: the learner's, or that of a curator or a shuffler before it."""
    holder = mechanism_of(scenario.mechanism.kind).holder.value
    return holder if holder in SINGLES else "learner"


def singles_of(scenario: Scenario) -> list[str]:
    """The roles, besides those of the user hosts, that a deployment of this scenario has."""
    between = gatherer_of(scenario)
    return ["coordinator", "learner", "auditor", *([between] if between != "learner" else [])]


def require_role(role: str, scenario: Scenario) -> None:
    """There are a few roles, and not every mechanism has all of them."""
    if role not in (*SINGLES, "users"):
        raise RequestError(f"role {role} is not allowed; it must be one of {', '.join((*SINGLES, 'users'))}")
    roles, kind = [*singles_of(scenario), "users"], scenario.mechanism.kind
    if role not in roles:
        raise RequestError(f"role {role} is not allowed: {kind} has no {role}; its roles are {', '.join(roles)}")


def require_schema(scenario: Scenario) -> None:
    """Nodes have no rows but their own, so that what features are is the scenario's to say."""
    if not scenario.data.schema:
        raise RequestError(
            "data.schema is missing; `p2p-labeldp schema` proposes one for a table, and `p2p-labeldp divide` makes a "
            "study of a data set"
        )
