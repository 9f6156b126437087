"""Who the relays of the mixed exchange may be, and how many of them it takes to withstand colluders.

In the mixed exchange L relays are drawn among the n users of a cluster by public randomness that nobody chose. Sealed
labels pass through all of them, and one honest relay hides whose label is whose. So what a coalition of a users learns
depends on how many relays are among them, which everyone knows and no label influences:

* all of them, with probability rho = C(a, L)/C(n, L): every noisy label is known, the local guarantee is left;
* some: they see all noisy labels, in an order that tells nothing, and the draws: the shuffled view of the n - a others;
* none: they know their own noisy labels and their own draws, beside the learner's reports.

Relays are drawn anew for every round, and after an attempt that failed before anything was opened; relays who all
collude need no opening, so every draw counts towards rho. Rounds with sticky noise show the same noisy labels again:
seen once is seen, in the shuffled view too.
"""

import math
from dataclasses import dataclass

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy.views import LocalNoise

# The part of delta that may be spent on the chance that all relays collude.
SHARE = 0.25


@dataclass(frozen=True)
class Cases:
    """The probabilities that colluders are all of the relays, some of them, none."""

    all: float
    some: float
    none: float


NO_RELAY = Cases(0.0, 0.0, 1.0)


def all_among(chosen: int, users: int, cluster_size: int) -> float:
    """The chance that ``chosen`` users, drawn without replacement, are all among ``users`` of the cluster."""
    if chosen > users:
        return 0.0
    return math.prod((users - place) / (cluster_size - place) for place in range(chosen))


def cases(cluster_size: int, colluders: int, relays: int, rounds: int = 1, attempts: int = 1) -> Cases:
    """Over rounds that share one flip, each with so many draws of relays at most."""
    once = all_among(relays, colluders, cluster_size)
    everyone = 1.0 if once >= 1 else -math.expm1(rounds * attempts * math.log1p(-once))
    # The last draw of every round holds no colluder, and none of the earlier ones only colluders.
    nobody = all_among(relays, cluster_size - colluders, cluster_size) ** rounds * (1 - once) ** (
        rounds * (attempts - 1)
    )
    return Cases(everyone, max(0.0, 1 - everyone - nobody), nobody)


@dataclass(frozen=True)
class OneDraw:
    """One user of the mixed exchange, no relay, who is told one label drawn from all n, and knows her own.

    The victim's noisy label is the one with probability 1/n. The best evidence is a label that she shows with ``high``
    in one case and ``low`` in the other, and it is strongest where the n - 2 others show it with ``low``:

        delta(epsilon) = max(0, high - e^epsilon low - (e^epsilon - 1)(n - 2) low) / n
    """

    cluster_size: int
    noise: LocalNoise

    def delta(self, epsilon: float) -> float:
        high, low, others = self.noise.high, self.noise.low, self.cluster_size - 2
        excess = high - low - (others + 1) * low * math.expm1(min(epsilon, 700.0))
        return max(0.0, excess + 4e-16) / self.cluster_size * (1 + 1e-15)

    def epsilon(self, delta: float) -> float:
        high, low, n = self.noise.high, self.noise.low, self.cluster_size
        if n * delta >= high - low:
            return 0.0
        if low == 0:
            return math.inf
        return math.log1p((high - low - n * delta) / ((n - 1) * low)) * (1 + 1e-14) + 1e-15


def withstand(
    relays: int, cluster_size: int, colluders: int, delta: float, *, rounds: int = 1, attempts: int = 1
) -> bool:
    """Whether so many relays all collude with a chance of at most a quarter of ``delta``."""
    return cases(cluster_size, colluders, relays, rounds, attempts).all <= SHARE * delta


def relays_to_withstand(
    cluster_size: int, colluders: int, delta: float, *, most: int, rounds: int = 1, attempts: int = 1
) -> int:
    """The least number of relays, two or more, who all collude with a chance below a quarter of ``delta``.

    ``cluster_size`` is that of the smallest cluster, where the chance is largest, and ``most`` the most relays there
    may be. With one more relay than colluders the chance is zero.

    >>> relays_to_withstand(500, 1, 4e-6, most=32), relays_to_withstand(500, 50, 4e-6, most=32)
    (2, 6)
    """
    if not 0 <= colluders < cluster_size:
        raise RequestError(
            f"withstand = {colluders} is not allowed; colluders are fewer than the {cluster_size} users of a cluster"
        )
    for relays in range(2, min(most, cluster_size) + 1):
        if withstand(relays, cluster_size, colluders, delta, rounds=rounds, attempts=attempts):
            return relays
    if cluster_size == 1:
        raise RequestError("withstand needs clusters of at least 2 users: a relay alone knows every label")
    left = cases(cluster_size, colluders, min(most, cluster_size), rounds, attempts).all
    raise RequestError(
        f"withstand = {colluders} is not possible with up to {min(most, cluster_size)} relays in clusters of "
        f"{cluster_size} at delta {delta:g}: all of them collude with probability {left:.3g}, and at most a quarter of "
        "delta is allowed"
    )
