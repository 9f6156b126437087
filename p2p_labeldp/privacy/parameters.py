"""The public parameters of the exchange, known to every party: one value that users run and accountants account for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import EXCHANGES, Exchange


class Noise(StrEnum):
    """How often a user flips her label over several rounds."""

    STICKY = "sticky"
    FRESH = "fresh"


@dataclass(frozen=True)
class Parameters:
    """Of Algorithm 2, and of every mechanism in which users flip their own labels.

    ``alpha`` flips a label to a uniformly chosen other one, ``theta`` keeps and forwards what was heard. Clusters below
    ``minimum_size`` abstain, so that there is nothing to account for in them.
    """

    alpha: float
    theta: float = 1.0
    labels: int = 2
    noise: str = Noise.STICKY
    rounds: int = 1
    minimum_size: int = 1
    exchange: str = Exchange.PULL
    relays: int = 0
    """How many relays mix the labels of a cluster; 0 in the other exchanges, which have none."""
    attempts: int = 1
    """How often relays are drawn in a round at most: after a failed attempt others are drawn."""

    @property
    def flips_alone(self) -> Parameters:
        """Without relays: for the account of a user's own flips, in a cluster of one."""
        return replace(self, exchange=Exchange.PULL, relays=0, attempts=1)

    @property
    def fresh(self) -> bool:
        """Whether every round has a flip of its own."""
        return self.noise == Noise.FRESH and self.rounds > 1

    @property
    def tosses(self) -> bool:
        """Whether a user who asks nobody tosses any coin."""
        return self.alpha > 0 or self.theta < 1

    @property
    def no_noise(self) -> bool:
        """Whether a noisy label tells the true one for certain."""
        return self.alpha == 0 or (self.alpha == 1 and self.labels == 2)

    @property
    def only_noise(self) -> bool:
        """Whether noisy labels are uniform, whatever was held."""
        return math.isclose(self.alpha, (self.labels - 1) / self.labels, rel_tol=1e-9)

    def check_noise(self) -> None:
        """Raise RequestError where flips leave no noise, or only noise; `check` allows both."""
        left = "no noise" if self.no_noise else "only noise" if self.only_noise else None
        if left is not None:
            useless = (self.labels - 1) / self.labels
            raise RequestError(
                f"alpha = {self.alpha:g} with {self.labels} labels leaves {left}; above 0 and other than {useless:.6g}"
            )

    def check(self) -> None:
        """Raise RequestError, naming the field, where a value is out of range."""
        for name, count, least in (
            ("labels", self.labels, 2),
            ("rounds", self.rounds, 1),
            ("attempts", self.attempts, 1),
        ):
            if int(count) != count or count < least:
                raise RequestError(f"{name} must be a whole number of at least {least}, not {count}")
        for name, share in (("alpha", self.alpha), ("theta", self.theta)):
            if not 0 <= share <= 1:
                raise RequestError(f"{name} must be within 0..1, not {share}")
        if self.noise not in tuple(Noise):
            raise RequestError(f"noise must be {' or '.join(Noise)}, not {self.noise!r}")
        if self.exchange not in EXCHANGES:
            raise RequestError(f"exchange must be one of {', '.join(EXCHANGES)}, not {self.exchange!r}")
        if int(self.relays) != self.relays or self.relays < 0:
            raise RequestError(f"relays must be a whole number of at least 0, not {self.relays}")
        relayed = EXCHANGES[self.exchange].relayed
        if relayed != (self.relays > 0):
            needed = "at least 1" if relayed else "0"
            raise RequestError(f"relays must be {needed} with exchange {self.exchange}, not {self.relays}")
