"""Which host speaks for which users."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.deployment.items import Directory, Holder
from p2p_labeldp.protocol.messages import Fault, Refused


class Shares:
    """Who speaks for which users: the coordinator's directory, checked."""

    def __init__(self, directory: Directory) -> None:
        self.hosts = directory.hosts
        self.by_key = {holder.key: holder for holder in self.hosts}
        expected = 0
        for holder in self.hosts:
            if not expected <= holder.first <= holder.last <= directory.users:
                raise Refused(Fault.MALFORMED, "the directory's shares must ascend and not overlap")
            expected = holder.last
        if len(self.by_key) < len(self.hosts):
            raise Refused(Fault.MALFORMED, "the directory lists a host twice")
        self._firsts = [holder.first for holder in self.hosts]

    def holders_of(self, users: NDArray[np.int64]) -> list[Holder]:
        """Those who speak for any of these users, in order."""
        until = np.bincount(np.searchsorted(np.array(self._firsts), users, side="right"))
        return [self.hosts[place - 1] for place in np.flatnonzero(until).tolist() if place]

    def holder_of(self, user: int) -> Holder | None:
        place = bisect_right(self._firsts, user) - 1
        if place < 0 or user >= self.hosts[place].last:
            return None
        return self.hosts[place]
