"""What an accountant says: a number, and everything one must know before quoting it."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Method = Literal["exact", "upper_bound", "searched"]

NEIGHBOURS = "replace one label"


@dataclass(frozen=True)
class Answer:
    """(epsilon, delta) of one view.

    The pair holds: the asked-for one of the two was given, the other is exact up to ``error_bound`` and rounded
    up (method "exact": every n1 was compared or covered), or a proved bound (method "upper_bound"). Where a
    bound was proved and a search of the worst n1 says less, the latter is in ``searched_epsilon`` or
    ``searched_delta``: attained, but not proved to be the worst. ``attained_epsilon`` is a lower bound that the data
    set ``attained_by`` reaches: where both meet to 1e-6 the method is "exact".
    """

    epsilon: float
    delta: float
    view: str
    method: Method
    error_bound: float
    neighbours: str = NEIGHBOURS
    searched_epsilon: float | None = None
    searched_delta: float | None = None
    attained_epsilon: float | None = None
    attained_by: str | None = None
    worst_ones: int | None = None
    searched: str = ""
    reason: str | None = None
    local_epsilon: float = math.inf
    paper_epsilon: float | None = None
    shuffle_epsilon: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values; an infinite one is the string "inf"."""
        return {key: "inf" if value == math.inf else value for key, value in asdict(self).items()}
