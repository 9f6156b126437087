"""The close of a round as a message."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from p2p_labeldp.protocol.collection import closed_parts
from p2p_labeldp.protocol.messages import Closed


def closed(users: int, round_: int = 0, counted: Iterable[int] = (), shares: int = 0) -> Closed:
    """Of ``users`` users those listed count; few enough for one part."""
    listed = np.zeros(users, dtype=np.bool_)
    listed[list(counted)] = True
    (part,) = closed_parts(round_, listed, shares)
    return part
