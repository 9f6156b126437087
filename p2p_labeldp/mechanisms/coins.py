"""The only source of randomness in a mechanism: four uniform numbers per user and round, and a curator's draws.

User i's coins in round r are one block of the counter-based generator Philox, so she can compute them
alone, and a host can draw all its users' at once; both give the same bits:

    Generator(Philox(key=[seed, r], counter=i)).random(4)
    Generator(Philox(key=[seed, r])).random(4 * n).reshape(n, 4)[i]

``FLIP < alpha`` flips the label, ``OTHER`` picks which other label it becomes, ``PEER`` the place of the
chosen peer in her cluster, ``KEEP < theta`` keeps. The order of messages therefore never changes an
outcome. ``Randomness`` is what a curator, a shuffler and DP-SGD draw from. Both come from the run's seed, for
experiments, or from the operating system, for real labels: whoever knows a seed can undo every flip. Anything else
random (faults, adversaries, clustering) has its own stream, see ``streams``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.scenario import Coins as CoinsSection
from p2p_labeldp.streams import Purpose, stream

FLIP, PEER, KEEP, OTHER = range(4)
SCHEME = "philox-4x64: key=[seed, round], counter=user; columns flip, peer, keep, other"


Entropy = Callable[[int], bytes]


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

    def __init__(self, entropy: Entropy | None = None) -> None:
        self._randomness = SystemRandomness(entropy)

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        return self._randomness.uniform(4 * (stop - start)).reshape(stop - start, 4)


def make_coins(source: str, seed: int, entropy: Entropy | None = None) -> Coins:
    """The coins a scenario's ``[coins]`` section asks for; ``entropy`` is the system's."""
    return SystemCoins(entropy) if source == "system" else SeededCoins(seed)


class Randomness(Protocol):
    """What a party draws that works on everyone's labels at once."""

    def integers(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Uniform whole numbers: one from 0..bound-1 for each bound."""
        ...

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Uniform multiples of 2^-53 in [0, 1)."""
        ...

    def permutation(self, count: int) -> NDArray[np.int64]:
        """The numbers 0..count-1 in a uniformly random order."""
        ...

    def normal(self, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Normal variates, in double precision."""
        ...


class SeededRandomness:
    """Repeatable: for experiments only."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def integers(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        # From the generator's raw words, by rejection: no floating point.
        return self._generator.integers(0, bounds, dtype=np.int64)

    def uniform(self, count: int) -> NDArray[np.float64]:
        return self._generator.random(count)

    def permutation(self, count: int) -> NDArray[np.int64]:
        return self._generator.permutation(count)

    def normal(self, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return self._generator.normal(0.0, deviation, size=shape)


class SystemRandomness:
    """The operating system's, which nobody can repeat."""

    def __init__(self, entropy: Entropy | None = None) -> None:
        """``entropy`` gives so many bytes that nobody can guess; the system's unless something stands in for it."""
        self._entropy = entropy or (lambda size: os.urandom(size))

    def _words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(self._entropy(8 * count), dtype="<u8").astype(np.uint64)

    def integers(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        wanted = bounds.astype(np.uint64).ravel()
        # Words below 2^64 mod bound would make small remainders more likely: drawn again.
        surplus = (np.zeros_like(wanted) - wanted) % wanted
        drawn = np.zeros_like(wanted)
        pending = np.arange(len(wanted))
        while len(pending):
            words = self._words(len(pending))
            drawn[pending] = words
            pending = pending[words < surplus[pending]]
        return (drawn % wanted).astype(np.int64).reshape(bounds.shape)

    def uniform(self, count: int) -> NDArray[np.float64]:
        return (self._words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def permutation(self, count: int) -> NDArray[np.int64]:
        while True:  # sorting independent words orders uniformly, unless two are equal
            words = self._words(count)
            order = np.argsort(words, kind="stable")
            if not (np.diff(words[order].astype(np.uint64)) == 0).any():
                return order

    def normal(self, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
        # The inverse distribution function at the middle of one of 2^52 cells. Of 2^53 the last one's would round to 1,
        # and its variate be infinite.
        cells = (self._words(int(np.prod(shape))) >> np.uint64(12)).astype(np.float64)
        found: NDArray[np.float64] = deviation * scipy.special.ndtri((cells + 0.5) * 2.0**-52)
        return found.reshape(shape)


class ExpandedEntropy:
    """Bytes from one root that nobody else can guess, the same ones in the same order whenever it is begun anew."""

    def __init__(self, root: bytes) -> None:
        self._root, self._calls = root, 0

    def __call__(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.shake_256(b"p2p_labeldp entropy" + self._calls.to_bytes(8, "big") + self._root).digest(size)


def randomness_of(coins: CoinsSection, purpose: Purpose, entropy: Entropy | None = None) -> Randomness:
    """The seed's stream for a purpose, or the operating system's randomness, of which ``entropy`` may be a part."""
    return SystemRandomness(entropy) if coins.source == "system" else SeededRandomness(stream(coins.seed, purpose))
