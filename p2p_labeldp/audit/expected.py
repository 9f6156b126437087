"""Every choice, flip and subsampling recomputed from the seed; nothing where coins are the operating system's.

Where true labels are not on record, as in a deployment, a user's first answer gives hers away: the seed says how far
she moved it. Later answers with other noise must agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.rules import require
from p2p_labeldp.mechanisms.coins import FLIP, KEEP, OTHER, PEER, Coins
from p2p_labeldp.mechanisms.mixing import agreed_places
from p2p_labeldp.privacy import Parameters


class Expected:
    def __init__(self, coins: Coins | None, parameters: Parameters, users: int, truth: list[int] | None) -> None:
        self._coins = coins
        self._parameters = parameters
        self._users = users
        self._truth = {} if truth is None else dict(enumerate(truth))
        self._round = 0
        self._drawn: dict[int, list[list[float]]] = {}

    def next_round(self) -> None:
        """A round is closed; of its coins only a flip that lasts is needed for everyone again."""
        if self._round > 0 or self._parameters.noise == "fresh":
            self._drawn.pop(self._round, None)
        self._round += 1

    def choice(self, user: int, round_: int, place: int, size: int) -> None:
        if self._coins is not None:
            expected = int(self._of(user, round_)[PEER] * size)
            require(place == expected, "coins", f"the seed chooses place {expected}, not {place}")

    def agreed(self, members: Sequence[int], round_: int) -> NDArray[np.int64] | None:
        """Of each member of a cluster, whom she asks by the permutation that they agree on, by their places."""
        if self._coins is None:
            return None
        return agreed_places(np.array([self._of(member, round_)[PEER] for member in members]))

    def noisy(self, user: int, flip_round: int, label: int) -> None:
        if self._coins is not None:
            coins, labels = self._of(user, flip_round), self._parameters.labels
            moved = 1 + int(coins[OTHER] * (labels - 1)) if coins[FLIP] < self._parameters.alpha else 0
            expected = (self._truth.setdefault(user, (label - moved) % labels) + moved) % labels
            require(label == expected, "coins", f"the seed gives her the noisy label {expected}, not {label}")

    def kept(self, user: int, round_: int, kept: bool) -> None:
        if self._coins is not None:
            expected = self._of(user, round_)[KEEP] < self._parameters.theta
            require(kept == expected, "coins", f"the seed {'keeps' if expected else 'drops'} what she got")

    def _of(self, user: int, round_: int) -> list[float]:
        assert self._coins is not None
        if round_ not in self._drawn:
            if round_ < self._round:  # someone is late: not worth drawing everyone's
                late: list[float] = self._coins.block(round_, user, user + 1)[0].tolist()
                return late
            self._drawn[round_] = self._coins.block(round_, 0, self._users).tolist()
        return self._drawn[round_][user]
