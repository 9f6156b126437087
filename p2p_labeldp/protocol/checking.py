"""Checks of an assignment by a host: do the other users of the cluster exist?

Labels hide among the users of a cluster, so a coordinator who may put anyone anywhere can leave her among
its own. Where users check, it publishes the centres of its k-means cells and every roster before anyone
begins, and a host distrusts a cluster

* whose roster lists someone whom another roster lists too: members were told different rosters;
* that has a user of this host for whom another cluster's centre is nearer: features did not put her there.

It distrusts all of them where there are more centres than clusters were asked for (one for each user would
make any assignment the nearest), or none though features decide. Users in a cluster that their host
distrusts abstain.

An honest coordinator never fails this. k-means ends with everyone in the cell of the nearest centre, and a cell
that was too small moves as a whole: the centres are those of cells, each with the cluster it went to. The nearest
*mean* of a merged cluster would be no such rule. Distances that differ by rounding alone count as equal. Where
clusters are given, features decide nothing and only the rosters are compared.

What it cannot find: invented users who claim her features, as k-means itself would put them with her; and
rosters told to other hosts. Costs one pass of k-means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.protocol.messages import Fault, Refused

_BLOCK = 4096  # users measured against all centres at once
# k-means works in single precision: 2^-24 times the root of the number of features, at most 256, with room to spare.
_ROUNDING = 1e-4
_STORED = 1e-6  # of a feature's own size, where all of them lie far from the origin


class AssignmentCheck:
    """``most`` is how many clusters were asked for; 0 where they are given."""

    __slots__ = ("_centres", "_claims", "_distrusted", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._claims: dict[int, NDArray[np.float32]] = {}
        self._centres: list[tuple[int, NDArray[np.float32]]] = []
        self._distrusted: frozenset[int] | None = None  # known once someone asks

    def claim(self, user: int, features: NDArray[np.float32]) -> None:
        """A user of this host says hello with these features."""
        self._claims[user] = features

    def centre(self, cluster: int, features: NDArray[np.float32]) -> None:
        self.require_open()
        width = len(next(iter(self._claims.values()), features))
        if len(features) != width:
            raise Refused(Fault.MALFORMED, f"a centre of {len(features)} features in place of {width}")
        self._centres.append((cluster, features))

    def require_open(self) -> None:
        """Refuse what comes after users were told that they may begin."""
        if self._distrusted is not None:
            raise Refused(Fault.OUT_OF_ORDER, "users have begun; centres and rosters come before")

    def trusts(self, cluster: int, rosters: Mapping[int, Sequence[int]]) -> bool:
        if self._distrusted is None:
            self._distrusted = frozenset(self._judge(rosters))
            self._claims, self._centres = {}, []
        return cluster not in self._distrusted

    def _judge(self, rosters: Mapping[int, Sequence[int]]) -> set[int]:
        if len(self._centres) > self._most or (self._most and not self._centres):
            return set(rosters)
        return _overlapping(rosters) | (self._misplaced(rosters) if self._most else set())

    def _misplaced(self, rosters: Mapping[int, Sequence[int]]) -> set[int]:
        homes = np.array([cluster for cluster, _ in self._centres])
        centres = np.stack([row for _, row in self._centres]).astype(np.float64)
        found = set()
        for cluster, roster in rosters.items():
            own = homes == cluster
            mine = [self._claims[member] for member in roster if member in self._claims]
            for start in range(0, len(mine), _BLOCK):
                if not own.any() or _strays(np.stack(mine[start : start + _BLOCK]), centres, own):
                    found.add(cluster)
                    break
        return found


def _overlapping(rosters: Mapping[int, Sequence[int]]) -> set[int]:
    """Clusters that share a member with another one."""
    members = np.concatenate([np.asarray(roster, dtype=np.int64) for roster in rosters.values()])
    clusters = np.repeat(np.array(list(rosters)), [len(roster) for roster in rosters.values()])
    order = np.argsort(members, kind="stable")
    again = np.flatnonzero(np.diff(members[order]) == 0)
    return set(clusters[order[again]].tolist()) | set(clusters[order[again + 1]].tolist())


def _strays(features: NDArray[np.float32], centres: NDArray[np.float64], own: NDArray[np.bool_]) -> bool:
    """Whether one of them is nearer to a centre that is not her own cluster's, by more than rounding explains."""
    origin = centres.mean(axis=0)
    rows, points = features - origin, centres - origin
    norms, reaches = (rows**2).sum(axis=1), (points**2).sum(axis=1)
    distances = norms[:, None] - 2 * rows @ points.T + reaches
    reach = np.sqrt(norms) + np.sqrt(reaches.max())
    stored = np.sqrt((features.astype(np.float64) ** 2).sum(axis=1)) + np.sqrt((origin**2).sum())
    slack = _ROUNDING * reach**2 + _STORED * reach * stored
    return bool((distances[:, own].min(axis=1) > distances.min(axis=1) + slack).any())
