"""The shuffle model within clusters: each user flips her label, a trusted shuffler permutes each cluster's.

Beside the peer-to-peer mechanism on the same flips: there a label is drawn from the cluster with replacement, here
every noisy label is handed over exactly once. The learner learns how many noisy labels of each kind a cluster holds
and nothing else, the view ``shuffle`` of the privacy room. Whoever reads the shuffler's mail sees every noisy label
with its owner.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.peer_to_peer import Rosters


def permuted_within(values: NDArray[np.int64], rosters: Rosters, generator: np.random.Generator) -> NDArray[np.int64]:
    """Each cluster's values in a uniformly random order among its own users."""
    members = np.arange(len(values)) if rosters.members is None else rosters.members
    # Sorting everyone by (cluster, a random rank) orders each cluster at random, in one sort for all.
    order = np.lexsort((generator.permutation(len(values)), rosters.clusters))
    permuted = np.empty_like(values)
    permuted[members] = values[order]
    return permuted
