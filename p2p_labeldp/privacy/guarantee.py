"""A guarantee: (epsilon, delta) of one view, and everything one must know before quoting it.

The one record of this noun. Accountants return it, mechanisms and runs state it, summaries hold it as JSON, pages and
tables show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Literal

import msgspec

Method = Literal["exact", "upper_bound", "searched"]
"""How a number was found; "searched" never stands for a guarantee, only beside one."""


class Relation(StrEnum):
    """What neighbouring data sets differ in."""

    REPLACE_LABEL = "replace one label"
    REPLACE_EXAMPLE = "replace one example"
    ADD_OR_REMOVE = "add or remove one example"


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """(epsilon, delta) of one view.

    The pair holds: the asked-for one of the two was given, the other is exact up to ``error_bound`` and rounded
    up (method "exact": every n1 was evaluated or ruled out by a bound), or a proved bound (method "upper_bound"). Where
    a bound was proved and a search of the worst n1 says less, the latter is in ``searched_epsilon`` or
    ``searched_delta``: attained, but not proved to be the worst.
    """

    epsilon: float
    delta: float
    view: str
    method: Method = "upper_bound"
    error_bound: float | None = None
    relation: Relation = Relation.REPLACE_LABEL
    searched_epsilon: float | None = None
    searched_delta: float | None = None
    attained_epsilon: float | None = None
    """A lower bound that some data set attains; ``attained_by`` says which."""
    attained_by: str | None = None
    worst_ones: int | None = None
    searched: str | None = None
    reason: str | None = None
    """Why epsilon is infinite, or no better than the flips alone."""
    local_epsilon: float | None = None
    paper_epsilon: float | None = None
    shuffle_epsilon: float | None = None
    cluster_size: int | None = None
    """Of the cluster that it is the guarantee of; None where it rests on no cluster."""
    colluders: int | None = None
    all_relays_chance: float | None = None
    """Of a coalition in the mixed exchange, over whose relays ``epsilon`` is averaged: that all of them collude."""
    no_relay_epsilon: float | None = None
    """If no relay colludes."""
    relay_epsilon: float | None = None
    """If some of the relays collude, but not all."""
    own_users: int | None = None
    """Users of the cluster at the host whose view it is."""

    def repeated(self, times: int) -> Guarantee:
        """What so many releases on the same labels cost together: epsilons and deltas add up (basic composition).

        >>> one = Guarantee(epsilon=0.5, delta=1e-6, view="learner")
        >>> one.repeated(10).epsilon
        5.0
        """
        epsilon, delta = together([(self.epsilon, self.delta)] * times)
        reason = f"{times} releases on the same labels: epsilons and deltas add up"
        return Guarantee(
            epsilon=epsilon, delta=delta, view=self.view, method="upper_bound", relation=self.relation, reason=reason
        )

    def as_json(self) -> dict[str, Any]:
        """Every field as a plain value; an infinite one is the string "inf"."""
        return {name: _plain(getattr(self, name)) for name in self.__struct_fields__}

    def stated(self) -> dict[str, Any]:
        """The same without what is not known, as a summary holds it under the view's name."""
        return {name: value for name, value in self.as_json().items() if value is not None and name != "view"}


REPETITION = (
    "every run on the same labels is a release of its own, and epsilons add up: tune on public data, or split the "
    "budget beforehand"
)
"""What tuning on private labels comes to, and what to do instead."""


def together(spent: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """(epsilon, delta) of several releases on the same labels, by basic composition."""
    pairs = list(spent)
    epsilon, delta = math.fsum(pair[0] for pair in pairs), math.fsum(pair[1] for pair in pairs)
    return epsilon, min(1.0, delta)


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return str(value)
    return "inf" if value == math.inf else value


def read_guarantee(view: str, stated: object) -> Guarantee:
    """What ``Guarantee.stated`` wrote; msgspec.ValidationError where it makes no sense."""
    fields = dict(stated) if isinstance(stated, dict) else stated
    if isinstance(fields, dict):
        fields = {name: math.inf if value == "inf" else value for name, value in fields.items()} | {"view": view}
    found = msgspec.convert(fields, Guarantee)
    if not (found.epsilon >= 0 and 0 <= found.delta <= 1):
        raise msgspec.ValidationError(f"epsilon {found.epsilon} and delta {found.delta} of {view} are no guarantee")
    return found
