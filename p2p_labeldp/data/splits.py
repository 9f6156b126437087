"""Which examples are held out for testing, where a data set does not say so itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.streams import Purpose, stream

Rows = NDArray[np.int64]


def split(rows: int, seed: int, test_fraction: float) -> tuple[Rows, Rows]:
    """Rows for training and for testing, each in ascending order, at least one on either side."""
    return split_by_owner(np.arange(rows), seed, test_fraction)


def split_by_owner(owners: NDArray[Any], seed: int, test_fraction: float) -> tuple[Rows, Rows]:
    """As ``split``, but all rows of one owner (a patient) are on one side; the fraction is of owners."""
    distinct, owner = np.unique(owners, return_inverse=True)
    if len(distinct) < 2:
        raise ValueError("at least two owners are needed, one to learn from and one to test on")
    count = min(max(1, round(test_fraction * len(distinct))), len(distinct) - 1)
    held_out = np.zeros(len(distinct), dtype=bool)
    held_out[stream(seed, Purpose.SPLIT).permutation(len(distinct))[:count]] = True
    in_test = held_out[owner.reshape(-1)]
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)
