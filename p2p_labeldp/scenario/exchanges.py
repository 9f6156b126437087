"""How a noisy label comes from one user to another: the exchanges, and what is true of each.

What follows from it elsewhere stands in one table of its room: what a view costs (``privacy.account``), what it sees of
a trace (``audit.sight``), and which rules a trace keeps (``audit.runs``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Exchange(StrEnum):
    """How a noisy label comes from one user to another."""

    PULL = "pull"
    """The paper's: she asks one member of her cluster, who learns that she did and answers her."""
    MIXED = "mixed"
    """Relays of the cluster mix sealed labels and draw one for each user: nobody knows whose she got."""
    PERMUTATION = "permutation"
    """Members agree on a secret permutation of their cluster, and each asks whom she is mapped to."""


@dataclass(frozen=True)
class ExchangeRecord:
    """What is true of an exchange."""

    words: str
    relayed: bool = False
    """Whether labels travel sealed through relays of the cluster, who draw: nobody asks, and relays see what others do
    not. Else users ask and answer each other."""
    permuted: bool = False
    """Whether the members agree on whom each of them asks, so that every label is asked for once."""
    hops: tuple[int, int] = (4, 0)
    """Messages one after the other in a round (ask, answer, done, close), and how many more for each relay."""
    messages: tuple[int, int] = (3, 0)
    """Of one user in a round, besides her report and the next round; and how many more for each relay."""
    splits: bool = True
    """Whether workers of a Dask cluster can share the work."""
    undeployable: str = ""
    """Why nodes cannot run it; empty where they can."""

    @property
    def independent(self) -> bool:
        """Whether everyone draws by herself whom she asks, as in the paper."""
        return not self.relayed and not self.permuted


EXCHANGES: dict[str, ExchangeRecord] = {
    Exchange.PULL: ExchangeRecord("users ask each other, as in the paper"),
    Exchange.MIXED: ExchangeRecord(
        "relays of the cluster mix sealed labels",
        relayed=True,
        hops=(44, 4),  # of four attempts
        messages=(5, 1),  # commit, open, deposit, the label that was drawn, done; a go to every relay
        splits=False,
    ),
    Exchange.PERMUTATION: ExchangeRecord(
        "users ask each other by a secret permutation of the cluster, simulations only",
        permuted=True,
        undeployable="a deployment has no key agreement among members of a cluster",
    ),
}
