"""The only source of randomness in a mechanism: four uniform numbers per user and round.

User i's coins in round r are one block of the counter-based generator Philox, so she can compute them
alone, and a host can draw all its users' at once; both give the same bits:

    Generator(Philox(key=[seed, r], counter=i)).random(4)
    Generator(Philox(key=[seed, r])).random(4 * n).reshape(n, 4)[i]

``FLIP < alpha`` flips the label, ``OTHER`` picks which other label it becomes, ``PEER`` the place of the
chosen peer in her cluster, ``KEEP < theta`` keeps. The order of messages therefore never changes an
outcome. Anything else random (faults, adversaries, clustering) has its own stream, see ``streams``.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FLIP, PEER, KEEP, OTHER = range(4)
SCHEME = "philox-4x64: key=[seed, round], counter=user; columns flip, peer, keep, other"


class Coins(Protocol):
    """Four uniform numbers in [0, 1) for each user and round."""

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        """The coins of users ``start`` to ``stop - 1``, one row each."""
        ...


class SeededCoins:
    """Repeatable coins: the same seed gives the same bits in every engine, process and message order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        # A fresh bit generator per call: `counter` counts blocks of four 64-bit words, one user each.
        philox = np.random.Philox(key=np.array([self.seed, round_], dtype=np.uint64), counter=start)
        return np.random.Generator(philox).random(4 * (stop - start)).reshape(stop - start, 4)


class SystemCoins:
    """The operating system's randomness. A block asked for twice differs: draw each one once."""

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        words = np.frombuffer(os.urandom(32 * (stop - start)), dtype="<u8").reshape(stop - start, 4)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def make_coins(source: str, seed: int) -> Coins:
    """The coins a scenario's ``[coins]`` section asks for."""
    return SystemCoins() if source == "system" else SeededCoins(seed)
