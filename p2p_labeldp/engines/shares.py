"""Shares of a run: whole clusters that one worker exchanges by itself.

Labels never leave a cluster, coins belong to user ids and places in a cluster follow ascending ids, so a share's
outcome is the same bits whoever computes it and whatever the other shares are. A share is a small object that travels:
``HeldShare`` carries arrays cut out of a population in memory, ``CrowdShare`` a recipe from which the worker makes the
users itself.

What a worker needs is bounded by a share, however large the run (``share_bytes``; ``docs/large-runs.md``). A single
cluster that is larger than a share may be is a share by itself: its users cannot be told apart from far away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.sets.crowd import Crowd, People
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.exchange import BLOCK, Release, Rosters, exchange
from p2p_labeldp.privacy import Parameters

MOST_USERS = 1 << 22
MOST_HELD = 1 << 19  # where arrays travel, 13 bytes a user: below what Dask calls a large task
MOST_REPORTS = 1 << 24  # users times rounds, and so a result's size
MOST_CELLS = 1 << 20  # clusters times labels, and so the size of tables of counts
LEAST_USERS = 1 << 14  # smaller shares would cost more to send than to work on
SHARES_PER_THREAD = 4  # so that the last ones do not keep a single worker busy
GAP = 1 << 9  # ids that are left out are drawn and forgotten, up to so many in a row: cheaper than beginning anew

Ids = range | NDArray[np.int64]
Labels = NDArray[np.unsignedinteger]


class Share(Protocol):
    """Whole clusters of a run, with everyone in them."""

    @property
    def users(self) -> int: ...

    def take(self) -> tuple[Ids, Labels, Rosters]:
        """Their ids, ascending; their labels; their clusters, counted from the share's first."""
        ...


@dataclass(frozen=True, eq=False)
class HeldShare:
    """Users that someone holds in memory."""

    ids: Ids
    labels: Labels
    clusters: NDArray[np.int32]

    @property
    def users(self) -> int:
        return len(self.labels)

    def take(self) -> tuple[Ids, Labels, Rosters]:
        return self.ids, self.labels, Rosters.of(self.clusters)


@dataclass(frozen=True, eq=False)
class CrowdShare:
    """Users of a crowd, made where they are needed. Their ids follow each other."""

    people: People

    @property
    def users(self) -> int:
        return self.people.users

    def take(self) -> tuple[Ids, Labels, Rosters]:
        people = self.people
        groups = people.groups()
        starts = np.cumsum(people.sizes) - people.sizes
        ids = range(people.first, people.first + len(groups))
        return ids, people.labels(groups), Rosters(groups, None, starts, people.sizes)


def most_users(users: int, rounds: int, shares: int, limit: int = MOST_USERS) -> int:
    """How many users a share may have if there are to be about so many shares; none is larger than memory allows."""
    return max(1, min(max(-(-users // shares), LEAST_USERS), limit, MOST_REPORTS // rounds))


def cut(sizes: NDArray[np.int64], most: int, labels: int) -> Iterator[tuple[int, int]]:
    """Consecutive clusters with at most ``most`` users together, or a single larger one: (first, behind the last)."""
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        begun = int(ends[low - 1]) if low else 0
        high = int(np.searchsorted(ends, begun + most, side="right"))
        high = max(low + 1, min(high, low + max(1, MOST_CELLS // labels)))
        yield low, high
        low = high


def crowd_shares(crowd: Crowd, most: int) -> Iterator[CrowdShare]:
    """A crowd in shares, in the order of user ids."""
    for low, high in cut(crowd.sizes, most, crowd.labels):
        yield CrowdShare(crowd.people(low, high))


def held_shares(labels: NDArray[np.integer], rosters: Rosters, count: int, most: int) -> Iterator[HeldShare]:
    """A population in memory, in shares by its clusters; labels are 0 to ``count - 1``."""
    small = np.min_scalar_type(count - 1)
    for low, high in cut(rosters.sizes, most, count):
        start, stop = int(rosters.starts[low]), int(rosters.starts[high - 1] + rosters.sizes[high - 1])
        ids: Ids = range(start, stop)
        here: slice | NDArray[np.int64] = slice(start, stop)
        if rosters.members is not None:
            ids = here = np.sort(rosters.members[start:stop]).astype(np.int64, copy=False)
        yield HeldShare(ids, labels[here].astype(small), (rosters.clusters[here] - low).astype(np.int32))


class CoinsOf:
    """The coins of a share's users: row i is that of the user with the i-th id."""

    def __init__(self, ids: Ids, coins: Coins) -> None:
        self._ids = ids
        self._coins = coins

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        ids = self._ids[start:stop]
        if isinstance(ids, range):
            return self._coins.block(round_, ids.start, ids.stop)
        drawn = np.empty((len(ids), 4))
        for low, high in _pieces(ids):
            first = int(ids[low])
            whole = self._coins.block(round_, first, int(ids[high - 1]) + 1)
            np.take(whole, ids[low:high] - first, axis=0, out=drawn[low:high])
        return drawn


def _pieces(ids: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ids without large gaps between them that span at most a block."""
    far = np.append(np.flatnonzero(np.diff(ids) > GAP) + 1, len(ids)).tolist()
    low = 0
    for stop in far:
        while low < stop:
            high = min(stop, int(np.searchsorted(ids, ids[low] + BLOCK)))
            yield low, high
            low = high


@dataclass(frozen=True, eq=False)
class ShareResult:
    """What a share's users reported, packed for the way back."""

    users: int
    abstained: int
    """How many of them are in clusters below the minimum size."""
    reported: Sequence[int]
    """How many reported, by round."""
    kept: Sequence[NDArray[np.uint8]]
    """By round: a bit per user, set if she reported."""
    labels: Sequence[Labels]
    """By round: what they reported, in the smallest type; a bit each where there are two labels."""
    psi: float | None
    """The largest distortion of a cluster; None where it was not asked for, or a cluster reported nothing."""


def run_share(share: Share, parameters: Parameters, coins: Coins, distortion: bool = False) -> ShareResult:
    """The exchange of a share's clusters; ``distortion`` asks for psi, where users stand in their clusters' order."""
    ids, labels, rosters = share.take()
    abstained = int(rosters.sizes[rosters.sizes < parameters.minimum_size].sum())
    tally = Tally(rosters, parameters.labels) if distortion else None
    if tally is not None:
        tally.count_true(labels)
    reported, kept, packed = [], [], []
    for release in exchange(labels, rosters, parameters, CoinsOf(ids, coins)):
        if tally is not None:
            tally.count_reports(release)
        found = release.labels
        reported.append(len(found))
        kept.append(np.packbits(release.kept))
        packed.append(np.packbits(found) if parameters.labels == 2 else found)
    return ShareResult(len(labels), abstained, reported, kept, packed, tally.psi() if tally is not None else None)


class Tally:
    """How often each label was there, and how often it was reported, in every cluster."""

    def __init__(self, rosters: Rosters, labels: int) -> None:
        assert rosters.members is None, "users stand in the order of their clusters"
        self._clusters = rosters.clusters
        self._true = np.zeros(len(rosters.sizes) * labels, dtype=np.int64)
        self._reported = np.zeros_like(self._true)
        self._labels = labels

    def count_true(self, labels: Labels) -> None:
        self._count(self._true, labels, None)

    def count_reports(self, release: Release) -> None:
        self._count(self._reported, release.reported, release.kept)

    def _count(self, counts: NDArray[np.int64], labels: Labels, kept: NDArray[np.bool_] | None) -> None:
        for start in range(0, len(labels), BLOCK):
            here = slice(start, start + BLOCK)
            cells = self._clusters[here].astype(np.int64) * self._labels
            low = int(cells[0])
            cells += labels[here]
            found = np.bincount((cells if kept is None else cells[kept[here]]) - low)
            counts[low : low + len(found)] += found

    def psi(self) -> float | None:
        """As ``data.quality`` has it: the largest distance of what a cluster reported from what it holds."""
        shape = -1, self._labels
        before, after = self._true.reshape(shape), self._reported.reshape(shape)
        reported = after.sum(axis=1, keepdims=True)
        if not reported.all():
            return None
        held = before.sum(axis=1, keepdims=True)
        return float(np.abs(after / reported - before / held).sum(axis=1).max())


def share_bytes(users: int, clusters: int, parameters: Parameters, spread: bool = False) -> int:
    """The most memory that working on a share takes; ``spread``: its users' ids do not follow each other."""
    label = np.dtype(np.min_scalar_type(parameters.labels - 1)).itemsize
    packed = 1 / 8 if parameters.labels == 2 else label
    each = (4 + label) + (5 + 2 * label) + label  # cluster and label; peer, keep bit, noisy and reported label; a copy
    each += 5 + 2 * label if parameters.rounds > 1 else 0  # the round before
    each += 12 if spread else 0  # ids and the members of clusters
    results = parameters.rounds * (1 / 8 + packed)
    return int(users * (each + results)) + 40 * clusters * parameters.labels + 160 * BLOCK
