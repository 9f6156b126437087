"""What goes into an engine and what comes out: plain data, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.exchange import noisy_sha256
from p2p_labeldp.network.faults import Delivered


@dataclass(frozen=True)
class Population:
    """The users: row i of the features and label i belong to user i."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    cluster: Callable[[NDArray[np.int64], NDArray[np.float32]], NDArray[np.integer]]
    """What the coordinator does with the hellos: (ids present, their features) to clusters 0, 1, ..."""


@dataclass(frozen=True)
class Outcome:
    """What the learner received, and who took part."""

    clusters: NDArray[np.int64]
    rounds: Sequence[tuple[NDArray[np.int64], NDArray[np.integer]]]
    """(user ids ascending, labels) of each round."""
    messages: dict[str, int] = field(default_factory=dict)
    """How many messages of each kind were sent; empty where none were."""
    outcomes: list[dict[str, int]] = field(default_factory=list)
    """Per round: how many users reported, dropped what they got, or abstained; or would report and were withheld."""
    missing: list[int] = field(default_factory=list)
    """Users of whom a hello, a word that they are done or a report never came, or came too late."""
    withheld: list[int] = field(default_factory=list)
    """Clusters that released nothing, since without all of their users they would not keep the target."""
    stopped: list[int] = field(default_factory=list)
    """Clusters that opened nothing in some round of the mixed exchange: their users abstained in it."""
    reduced: list[int] = field(default_factory=list)
    """Clusters whose mixed exchange went on in some round without some of their users, who were left out of an attempt
    or abstained."""
    shares: NDArray[np.float64] | None = None
    """The label distribution of each cluster, (clusters, K), as a curator published it."""
    prior: NDArray[np.float64] | None = None
    """The priors that users of a second stage got before they answered, (users, K); rows of zeros for all others."""
    virtual_seconds: float = 0.0
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Every rule of the scenario's faults, in order, and how often it fired."""
    warnings: list[str] = field(default_factory=list)
    delivery: dict[Delivered, int] = field(default_factory=dict)
    """What faults cost: messages sent again, copies dropped, messages lost for good."""

    @property
    def reports(self) -> int:
        return sum(len(users) for users, _ in self.rounds)

    def sha256(self) -> str:
        return noisy_sha256(self.rounds)


def withheld_line(clusters: Sequence[int]) -> str:
    """Which clusters released nothing, for people."""
    named = ", ".join(map(str, clusters[:20])) + (f" and {len(clusters) - 20} more" if len(clusters) > 20 else "")
    which = f"cluster {named} has" if len(clusters) == 1 else f"clusters {named} have"
    return f"{which} released nothing: users went missing, and without them mechanism.epsilon would not hold"
