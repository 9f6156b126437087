"""Attack games: how well an attack on a view tells the victim's label, beside what is proved.

A cluster is a trial: all trials are clusters of one exchange, so that they run at once, by the vectorized engine. The
views that actors leave in their traces give the same result for the same seed, digit for digit.

The victim is the first user of the cluster; the adversary's own users, if any, are the last. Of the other honest
users the first so many ``ones`` hold label 1 and all others label 0; unless told, as many as the accountant found to be
the worst, so that an exact bound can be attained (with an unequal prior perhaps by the mirrored number: the accountant
does not say which label it is the worst for). The candidates are 0 and 1, however many labels there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.attacks import ATTACKS, Attack
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.evidence import evidence_of_all
from p2p_labeldp.adversaries.game import CONFIDENCE, GameResult, judge
from p2p_labeldp.arrays import Labels
from p2p_labeldp.audit.array_views import ClusterViews, views_of_exchange
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.streams import Purpose, stream

VICTIM = 0


@dataclass(frozen=True)
class Game:
    """One game's setting."""

    view: str
    cluster_size: int
    parameters: Parameters
    trials: int
    seed: int
    colluders: int = 0
    ones: int | None = None
    prior: float = 0.5

    def __post_init__(self) -> None:
        if int(self.trials) != self.trials or self.trials < 1:
            raise RequestError(f"trials must be a whole number of at least 1, not {self.trials}")
        if self.cluster_size < 1:
            raise RequestError(f"cluster_size must be at least 1, not {self.cluster_size}")
        if self.parameters.minimum_size > self.cluster_size:
            raise RequestError(
                f"a cluster of {self.cluster_size} abstains where {self.parameters.minimum_size} are asked for"
            )
        if self.view in ("peer", "relay") and self.cluster_size < 2:
            raise RequestError(f"the view {self.view} needs a cluster of at least 2: the victim and the {self.view}")
        most = self.cluster_size - 1 - self.colluders
        if self.ones is not None and not 0 <= self.ones <= most:
            raise RequestError(f"ones must lie within 0..{most}, the other honest users, not {self.ones}")

    @property
    def members(self) -> range:
        """Places of the adversary's own users."""
        own = 1 if self.view in ("peer", "relay") else self.colluders
        return range(self.cluster_size - own, self.cluster_size)

    def bounds(self) -> Bounds:
        """What is proved about this view."""
        accountant = account(self.view, self.parameters, cluster_size=self.cluster_size, colluders=self.colluders)
        return Bounds(accountant, self.prior)

    def others(self, bounds: Bounds) -> dict[int, int]:
        """The labels of everyone but the victim, by place."""
        ones = self.ones if self.ones is not None else bounds.worst_ones or 0
        return {place: int(place <= ones) for place in range(1, self.cluster_size)}

    def positive(self) -> NDArray[np.bool_]:
        """In which trials the victim holds label 1."""
        return stream(self.seed, Purpose.GAME).random(self.trials) < self.prior

    def labels(self, others: dict[int, int]) -> Labels:
        """Everyone's labels: a row for each trial."""
        row = np.array([0, *(others[place] for place in range(1, self.cluster_size))], dtype=np.int64)
        labels = np.tile(row, (self.trials, 1))
        labels[:, VICTIM] = self.positive()
        return labels

    def judged(self, attack: Attack, scores: NDArray[np.float64], confidence: float, bounds: Bounds) -> GameResult:
        ties = stream(self.seed, Purpose.GAME, 1).random(self.trials)
        return judge(
            self.view, attack, self.positive(), scores, ties, prior=self.prior, confidence=confidence, bounds=bounds
        )


def play_each(
    game: Game, attacks: Sequence[str] = tuple(ATTACKS), *, confidence: float = CONFIDENCE
) -> dict[str, GameResult]:
    """Several attacks on the same trials."""
    for name in attacks:
        if name not in ATTACKS:
            raise RequestError(f"attack must be one of {', '.join(ATTACKS)}, not {name!r}")
    bounds = game.bounds()
    evidence = evidence_of_all(seen_by_arrays(game, bounds), VICTIM)
    return {
        name: game.judged(ATTACKS[name], ATTACKS[name].score(evidence, (0, 1)), confidence, bounds) for name in attacks
    }


def seen_by_arrays(game: Game, bounds: Bounds) -> ClusterViews:
    """The adversary's views of a game's trials, from one exchange on arrays."""
    others = game.others(bounds)
    coins = SeededCoins(game.seed)
    return views_of_exchange(
        game.labels(others), game.parameters, coins, game.view, members=game.members, background=others
    )
