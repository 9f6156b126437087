"""Algorithm 2 on arrays: true labels and clusters in, the learner's noisy labels out.

The same rules as ``protocol.user``, for everyone at once. Work goes block by block, so that 10^8 users
fit in memory: what lasts for a round is one small label, one peer index and one keep bit per user.
Users whose cluster is below the minimum size abstain: they neither ask, answer nor report.

In the mixed exchange ``mixing`` says whose label each user draws, cluster by cluster, and in the permutation whom she
asks; the rest is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.coins import FLIP, KEEP, OTHER, PEER, Coins
from p2p_labeldp.mechanisms.mixing import agreed_places, secrets_of, sources
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import EXCHANGES

BLOCK = 1 << 15  # users per block: coins of a block (1 MiB) stay in the second-level cache


@dataclass(frozen=True)
class Rosters:
    """Who is in which cluster: ``members[starts[c] : starts[c] + sizes[c]]``, ids ascending."""

    clusters: NDArray[np.integer]
    members: NDArray[np.integer] | None
    """None where users already stand in the order of their clusters, so that place is id minus start."""
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, clusters: NDArray[np.integer]) -> Rosters:
        sizes = np.bincount(clusters).astype(np.int64)
        starts = np.zeros_like(sizes)
        np.cumsum(sizes[:-1], out=starts[1:])
        ordered = bool(np.all(clusters[1:] >= clusters[:-1]))
        return cls(clusters, None if ordered else _by_cluster(clusters, len(sizes)), starts, sizes)

    def roster(self, cluster: int) -> NDArray[np.integer]:
        """The user ids of one cluster, ascending."""
        start, size = int(self.starts[cluster]), int(self.sizes[cluster])
        if self.members is None:
            return np.arange(start, start + size)
        return self.members[start : start + size]


def _by_cluster(clusters: NDArray[np.integer], count: int) -> NDArray[np.integer]:
    """User ids ordered by cluster, ascending within each: a stable counting sort.

    That is what transposing a sparse matrix with a one at (user, cluster) does, in a tenth of argsort's time.
    """
    users = len(clusters)
    ones = np.ones(users, dtype=np.int8)
    belongs = scipy.sparse.csr_array((ones, clusters, np.arange(users + 1, dtype=clusters.dtype)), shape=(users, count))
    members: NDArray[np.integer] = belongs.tocsc().indices
    return members


@dataclass(frozen=True)
class Release:
    """What the learner receives in one round."""

    round: int
    noisy: NDArray[np.unsignedinteger]
    """Every user's noisy label, the one she answers with."""
    reported: NDArray[np.unsignedinteger]
    """Every user's label after the exchange; meaningful where ``kept``."""
    kept: NDArray[np.bool_]
    sources: NDArray[np.signedinteger]
    """Whose label that is; meaningful where users take part."""

    @property
    def users(self) -> NDArray[np.int64]:
        """Ids of the users who reported, ascending."""
        return np.flatnonzero(self.kept)

    @property
    def labels(self) -> NDArray[np.unsignedinteger]:
        """What they reported."""
        return self.reported[self.kept]


def flip(
    labels: NDArray[np.integer], coins: NDArray[np.float64], alpha: float, label_count: int
) -> NDArray[np.integer]:
    """Each label, moved with probability alpha to a uniformly chosen other one."""
    flips = coins[:, FLIP] < alpha
    if label_count == 2:
        return labels ^ flips
    moved = labels + 1 + (coins[:, OTHER] * (label_count - 1)).astype(np.int64)
    return np.where(flips, moved % label_count, labels).astype(labels.dtype)


def exchange(labels: NDArray[np.integer], rosters: Rosters, parameters: Parameters, coins: Coins) -> Iterator[Release]:
    """Run the mechanism; one release per round."""
    count = len(labels)
    small = np.min_scalar_type(parameters.labels - 1)
    index: type[np.signedinteger] = np.int32 if count <= np.iinfo(np.int32).max else np.int64
    true = labels.astype(small, copy=False)
    takes_part = rosters.sizes >= parameters.minimum_size
    everyone = bool(takes_part.all())
    # As numbers of the types they are combined with, so that no block converts them again.
    sizes, starts = rosters.sizes.astype(np.float64), rosters.starts.astype(index)
    noisy = true
    way = EXCHANGES[parameters.exchange]
    contributed = np.empty(count if way.permuted else 0)
    secrets = secrets_of(coins)
    for round_ in range(parameters.rounds):
        flipping = round_ == 0 or parameters.noise == "fresh"
        if flipping:
            noisy = np.empty(count, dtype=small)
        peers: NDArray[np.signedinteger] = (np.empty if way.independent else np.zeros)(count, dtype=index)
        kept = np.empty(count, dtype=np.bool_)
        for start in range(0, count, BLOCK):
            here = slice(start, min(start + BLOCK, count))
            drawn = coins.block(round_, here.start, here.stop)
            if flipping:
                noisy[here] = flip(true[here], drawn, parameters.alpha, parameters.labels)
            cluster = rosters.clusters[here]
            if way.independent:
                place: NDArray[np.signedinteger] = (drawn[:, PEER] * sizes.take(cluster)).astype(index)
                place += starts.take(cluster)
                peers[here] = place if rosters.members is None else rosters.members.take(place)
            elif way.permuted:
                contributed[here] = drawn[:, PEER]
            kept[here] = drawn[:, KEEP] < parameters.theta
            if not everyone:
                kept[here] &= takes_part[cluster]
        for each in () if way.independent else np.flatnonzero(takes_part & (rosters.sizes > 0)).tolist():
            roster = rosters.roster(each)
            if way.relayed:
                peers[roster] = roster[sources(secrets, round_, each, len(roster), parameters.relays)]
            else:
                peers[roster] = roster[agreed_places(contributed[roster])]
        reported = np.empty(count, dtype=small)
        for start in range(0, count, BLOCK):
            here = slice(start, min(start + BLOCK, count))
            reported[here] = noisy.take(peers[here])
        yield Release(round_, noisy, reported, kept, peers)


def noisy_sha256(rounds: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]]) -> str:
    """The digest of a noisy data set, given (users, labels) of each round, users ascending.

    Over int64 user ids, then int64 labels, little-endian, sorted by round and user id.
    """
    digest = hashlib.sha256()
    for column in (0, 1):
        for pair in rounds:
            values = pair[column]
            for start in range(0, len(values), BLOCK):
                digest.update(values[start : start + BLOCK].astype("<i8").tobytes())
    return digest.hexdigest()
