"""The permutation that the members of a cluster agree on, so that each asks whom she is mapped to.

The paper's aside in "Comparison to the shuffle model": a secret of the members alone, by a key agreement. Every member
contributes a number that nobody can guess, and what they agree on is a function of all numbers together, so that it is
uniform to whoever lacks one of them (SHA-256 and SHAKE-256, see ``mixing``):

    permutation(digest of the contributions, ids ascending)

A member contributes her coin ``PEER`` of the round, which is of no other use here. How the numbers come to all members
and to nobody else is not part of this package: a simulation takes it as done, sends no message for it and counts none,
and a deployment refuses the exchange.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.mixing import digest, permutation


def agreed_places(contributions: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each place in a cluster, the place whose user she asks; one contribution for each place."""
    return permutation(digest(b"agreement", [contributions.astype("<f8").tobytes()]), len(contributions))
