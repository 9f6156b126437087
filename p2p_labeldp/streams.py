"""Random streams other than the coins: one per purpose, each from the run's seed and nothing else.

The coins of the protocol have a scheme of their own (``mechanisms.coins``). These numbers keep the
streams apart; changing one changes every result that was ever published with it.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    SPLIT = 0x_DA7A_0001  # which examples are held out for testing
    USERS = 0x_DA7A_0002  # which training examples become users
    KMEANS = 0x_DA7A_0003  # where k-means starts
    WORLD = 0x_DA7A_0010  # synthetic: centres and the true hypothesis
    TRAIN = 0x_DA7A_0011  # synthetic: the users
    TEST = 0x_DA7A_0012  # synthetic: the test examples
    NETWORK = 0x_DA7A_0020  # how long messages take
    KEEPER = 0x_DA7A_0030  # a curator's noise, or a shuffler's order
    LEARNER = 0x_DA7A_0031  # DP-SGD's batches and noise


def stream(seed: int, purpose: Purpose, part: int = 0) -> np.random.Generator:
    """The stream for ``purpose``; different parts of one purpose are independent of each other."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, int(purpose), part])))
