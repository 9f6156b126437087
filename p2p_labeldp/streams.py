"""Random streams other than the coins: one per purpose, each from the run's seed and nothing else.

The coins of the protocol have a scheme of their own (``mechanisms.coins``). These numbers keep the
streams apart; changing one changes every result that was ever published with it.

What happens to a message must not hang on the order in which tasks happen to run, so nothing that concerns a
single message is drawn from a sequence: ``KeyedStream`` finds each number from what it is for.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError


class Purpose(IntEnum):
    SPLIT = 0x_DA7A_0001  # which examples are held out for testing
    USERS = 0x_DA7A_0002  # which training examples become users
    KMEANS = 0x_DA7A_0003  # where k-means starts
    WORLD = 0x_DA7A_0010  # synthetic: centres and the true hypothesis
    TRAIN = 0x_DA7A_0011  # synthetic: the users
    TEST = 0x_DA7A_0012  # synthetic: the test examples
    NETWORK = 0x_DA7A_0020  # how long messages take
    FAULTS = 0x_DA7A_0021  # what becomes of them, and of which users
    ADVERSARIES = 0x_DA7A_0022  # who misbehaves, and noise that is not the coins'
    CURATOR = 0x_DA7A_0030  # a curator's noise, or a shuffler's order
    LEARNER = 0x_DA7A_0031  # DP-SGD's batches and noise
    MIXING = 0x_DA7A_0032  # the mixed exchange's keys, nonces and permutations
    GAME = 0x_DA7A_0040  # what a victim of an attack holds, and the order of equal scores
    SWEEP = 0x_DA7A_0050  # the seeds of a sweep's replicates


def stream(seed: int, purpose: Purpose, part: int = 0) -> np.random.Generator:
    """The stream for ``purpose``; different parts of one purpose are independent of each other."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, int(purpose), part])))


class KeyedStream:
    """Uniform numbers that depend on the seed, the purpose and a key; asking again gives the same one.

    BLAKE2b as a counter-based generator: it costs about as much as one number from numpy, while setting up a
    Philox block for each message would cost several times that.
    """

    __slots__ = ("_base",)

    def __init__(self, seed: int, purpose: Purpose) -> None:
        self._base = hashlib.blake2b(struct.pack("<QQ", seed, int(purpose)), digest_size=8)

    def uniform(self, *key: int) -> float:
        """A number in [0, 1) for this key of whole numbers."""
        hashed = self._base.copy()
        hashed.update(struct.pack(f"<{len(key)}q", *key))
        return (int.from_bytes(hashed.digest(), "little") >> 11) * 2.0**-53


def choose(
    users: Sequence[int], count: int, fraction: float, total: int, generator: np.random.Generator, where: str
) -> NDArray[np.int64]:
    """Ids, ascending, of the users an entry of a scenario concerns: those listed, so many, or a share of ``total``.

    A number or a share is drawn from ``generator``. A fault in the entry names ``where`` it stands.
    """
    if users:
        unknown = [user for user in users if not 0 <= user < total]
        if unknown:
            raise RequestError(f"{where}: there is no user {unknown[0]}; users are 0 to {total - 1}")
        return np.sort(np.array(users, dtype=np.int64))
    if count > total:
        raise RequestError(f"{where}: count = {count} is not allowed; it must be at most the users, {total}")
    chosen = count or round(fraction * total)
    return np.sort(generator.permutation(total)[:chosen])
