"""The table of a run's guarantees, one row for each view: what terminal, page, model card and ``threats`` show of it.

Epsilon and delta are rounded up, everywhere to the same digits, and "at most" stands before an epsilon that is proved
but not known to be attained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from p2p_labeldp.mechanisms import mechanism_of
from p2p_labeldp.privacy import RECORDS, Exchange, Guarantee, View
from p2p_labeldp.privacy import sees as seen_by
from p2p_labeldp.privacy.numbers import plural, rounded_up, shown_epsilon
from p2p_labeldp.scenario import MECHANISMS

METHODS: dict[str, str] = {"exact": "exact", "upper_bound": "proved bound", "searched": "searched, not proved"}
"""From the one that says most to the one that says least."""


@dataclass(frozen=True)
class Row:
    """A guarantee as texts."""

    view: View
    who: str
    sees: str
    epsilon: str
    delta: str
    method: str
    cluster_size: str
    """Of the worst cluster; empty where the guarantee rests on no cluster."""
    reason: str

    @property
    def line(self) -> str:
        """For a terminal."""
        return f"epsilon {self.epsilon}: {self.who}"


def rows(privacy: Mapping[View, Guarantee], mechanism: str) -> list[Row]:
    """A row for every view."""
    return [
        Row(
            view=view,
            who=who(view, guarantee),
            sees=sees(view, mechanism, Exchange.MIXED if View.RELAY in privacy else Exchange.PULL),
            epsilon=epsilon_of(guarantee),
            delta=rounded_up(guarantee.delta),
            method=METHODS[guarantee.method],
            cluster_size="" if guarantee.cluster_size is None else f"{guarantee.cluster_size:,}",
            reason=guarantee.reason or "",
        )
        for view, guarantee in privacy.items()
    ]


def epsilon_of(guarantee: Guarantee) -> str:
    """An epsilon as every table shows it."""
    most = "" if guarantee.method == "exact" or guarantee.epsilon == math.inf else "at most "
    return most + shown_epsilon(guarantee.epsilon)


def who(view: View, guarantee: Guarantee | None = None) -> str:
    """Whose view it is."""
    if view == View.COALITION and guarantee is not None and guarantee.colluders is not None:
        if guarantee.colluders == 0:
            return f"{RECORDS[view].who}, none of them in the worst cluster"
        many = "one user" if guarantee.colluders == 1 else plural(guarantee.colluders, "user")
        relays = ""
        if guarantee.no_relay_epsilon is not None and guarantee.relay_epsilon is not None:
            none, some = shown_epsilon(guarantee.no_relay_epsilon), shown_epsilon(guarantee.relay_epsilon)
            relays = f" ({none} if no relay is among them, {some} if some are)"
        return f"the learner colluding with {many}{relays}"
    return RECORDS[view].who


def short(view: View, guarantee: Guarantee) -> str:
    """A name that fits into a legend."""
    if view == View.COALITION and guarantee.colluders is not None:
        return f"learner, {plural(guarantee.colluders, 'colluder')}"
    if view == View.METADATA:
        return "metadata observer"
    return RECORDS[view].who.removeprefix("the ").removeprefix("a ").removeprefix("an ")


def sees(view: View, mechanism: str, exchange: Exchange = Exchange.PULL) -> str:
    """What they see, in this mechanism."""
    if view == View.LEARNER:
        return mechanism_of(mechanism).learner_sees
    if not MECHANISMS[mechanism].exchanged and view in (View.NETWORK, View.AUDITOR):
        return "every label that is handed over, with its owner"
    return seen_by(view, exchange)
