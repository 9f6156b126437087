"""Views from the arrays of the vectorized engine: what ``views`` takes from a trace, for everyone at once.

Many runs of one cluster become `ClusterViews`, so that a game of a hundred thousand trials takes a second. For the same
seed they equal the views of the traces that actors leave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.mixed_views import relays_of
from p2p_labeldp.audit.sight import SIGHT, Scope, sight_of
from p2p_labeldp.audit.views import one_peer_each
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.exchange import BLOCK, Rosters, exchange
from p2p_labeldp.mechanisms.mixing import secrets_of
from p2p_labeldp.privacy import RECORDS, Exchange, Parameters, View

_UNSEEN = -1


@dataclass(frozen=True)
class ClusterViews:
    """One adversary's views of many runs of one cluster, as arrays: axes are run, round, user (her place).

    Whatever is not seen is -1, so that an attack on the arrays knows what an attack on the views knows.
    """

    adversary: str
    parameters: Parameters
    cluster_size: int
    background: dict[int, int]
    members: frozenset[int]
    runs: int
    reports: NDArray[np.int32] | None
    asks: NDArray[np.int32] | None
    answers: NDArray[np.int32] | None
    """The label that each user was answered."""
    coins: NDArray[np.float64]
    """Axes: run, round, member, coin."""
    draws: NDArray[np.int32] | None = None
    opened: NDArray[np.int32] | None = None
    tied: NDArray[np.int32] | None = None
    """Mixed exchange: as in ``mixed_views``."""

    @property
    def sees_the_wire(self) -> bool:
        return self.parameters.exchange != Exchange.MIXED and SIGHT[View(self.adversary)].asks == "wire"

    def __len__(self) -> int:
        return self.runs


def views_of_exchange(
    labels: NDArray[np.integer],
    parameters: Parameters,
    coins: Coins,
    adversary: str,
    *,
    members: Collection[int] = (),
    background: Mapping[int, int] | None = None,
) -> ClusterViews:
    """What ``adversary`` knows of many clusters of one exchange, each a run of its own: a row of ``labels`` each.

    ``members`` and ``background`` go by places in the cluster and are the same in every run.
    """
    runs, size = labels.shape
    rosters = Rosters.of(np.repeat(np.arange(runs, dtype=np.int32), size))
    places = np.array(sorted(members), dtype=np.int64)
    one_peer_each(adversary, members, {0: tuple(range(size))})
    own = (np.arange(runs)[:, None] * size + places).ravel()
    seen = _exchanged(labels.ravel(), rosters, parameters, coins, adversary, own)

    def by_run(values: NDArray[np.int32] | None) -> NDArray[np.int32] | None:
        return None if values is None else values.reshape(-1, runs, size).swapaxes(0, 1)

    asks = by_run(seen.asks)
    if asks is not None:
        asks = _where(asks >= 0, asks % size)
    drawn = seen.coins.reshape(parameters.rounds, runs, len(places), 4).swapaxes(0, 1)
    return ClusterViews(
        adversary, parameters, size, dict(background or {}), frozenset(members), runs,
        by_run(seen.reports), asks, by_run(seen.answers), drawn,
        by_run(seen.draws), by_run(seen.opened), by_run(seen.tied),
    )  # fmt: skip


@dataclass(frozen=True)
class _Seen:
    """Axes: round, user (the coins: round, member, coin); -1 where nothing is seen."""

    reports: NDArray[np.int32] | None
    asks: NDArray[np.int32] | None
    answers: NDArray[np.int32] | None
    coins: NDArray[np.float64]
    draws: NDArray[np.int32] | None = None
    opened: NDArray[np.int32] | None = None
    tied: NDArray[np.int32] | None = None


def _exchanged(
    labels: NDArray[np.integer],
    rosters: Rosters,
    parameters: Parameters,
    coins: Coins,
    adversary: str,
    members: NDArray[np.int64],
) -> _Seen:
    """Run the exchange and keep of it what is seen."""
    if parameters.exchange == Exchange.MIXED:
        return _mixed(labels, rosters, parameters, coins, adversary, members)
    sight, reported = sight_of(adversary, members.tolist(), parameters.exchange), RECORDS[View(adversary)].reports
    inside = np.zeros(len(labels), dtype=np.bool_)
    inside[members] = True
    takes_part = (rosters.sizes >= parameters.minimum_size)[rosters.clusters]
    reports: list[NDArray[np.int32]] = []
    asks: list[NDArray[np.int32]] = []
    answers: list[NDArray[np.int32]] = []
    own: list[NDArray[np.float64]] = []
    for release in exchange(labels, rosters, parameters, coins):
        if adversary == "shuffle":
            reports.append(_where(takes_part, _sorted_labels(release.noisy, rosters)))
        elif reported:
            reports.append(_where(release.kept, release.reported))
        if sight.asks == "nothing":
            continue
        own.append(_own_coins(coins, release.round, inside))
        peers = np.where(takes_part, release.sources, 0).astype(np.int32)
        for scope, kept, said in ((sight.asks, asks, peers), (sight.answers, answers, release.reported)):
            shown = takes_part & _shown(scope, rosters, peers, inside)
            kept.append(_where(shown, said))

    def stacked(rounds: list[NDArray[np.int32]], seen: bool) -> NDArray[np.int32] | None:
        return np.array(rounds) if seen else None

    return _Seen(
        stacked(reports, reported),
        stacked(asks, sight.asks != "nothing"),
        stacked(answers, sight.answers != "nothing"),
        np.array(own) if own else np.zeros((parameters.rounds, len(members), 4)),
    )


def _mixed(
    labels: NDArray[np.integer],
    rosters: Rosters,
    parameters: Parameters,
    coins: Coins,
    adversary: str,
    members: NDArray[np.int64],
) -> _Seen:
    """The same of the mixed exchange. The view ``relay`` is a relay's, whomever the seed would have drawn."""
    sight = sight_of(adversary, members.tolist(), parameters.exchange)
    inside = np.zeros(len(labels), dtype=np.bool_)
    inside[members] = True
    takes_part = (rosters.sizes >= parameters.minimum_size)[rosters.clusters]
    nobody = np.zeros_like(takes_part)
    found: dict[str, list[NDArray[np.int32]]] = {name: [] for name in ("reports", "draws", "opened", "tied")}
    own: list[NDArray[np.float64]] = []
    for release in exchange(labels, rosters, parameters, coins):
        if adversary == "shuffle":
            found["reports"].append(_where(takes_part, _sorted_labels(release.noisy, rosters)))
        else:
            found["reports"].append(_where(release.kept, release.reported))
        found["draws"].append(_where(takes_part & inside, release.reported))
        some, all_ = takes_part, nobody
        if sight.opened == "as relay":
            some, all_ = nobody, nobody
            if adversary == "relay":
                some = takes_part & np.isin(rosters.clusters, rosters.clusters[members])
                all_ = some if parameters.relays == 1 else nobody
            elif len(members):
                some, all_ = _relaying(rosters, parameters, coins, release.round, inside)
        found["opened"].append(_where(some & takes_part, _sorted_labels(release.noisy, rosters)))
        found["tied"].append(_where(all_ & takes_part, release.noisy))
        blocks = [coins.block(release.round, user, user + 1) for user in members.tolist()]
        own.append(np.concatenate(blocks) if blocks else np.zeros((0, 4)))
    arrays = {name: np.array(rounds) for name, rounds in found.items()}
    return _Seen(
        arrays["reports"] if RECORDS[View(adversary)].reports else None,
        None,
        None,
        np.array(own),
        arrays["draws"] if sight.draws else None,
        arrays["opened"] if sight.opened != "never" else None,
        arrays["tied"],
    )


def _relaying(
    rosters: Rosters, parameters: Parameters, coins: Coins, round_: int, inside: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each user, whether some relay of her cluster is the adversary's, and whether all are."""
    some, everyone = np.zeros_like(inside), np.zeros_like(inside)
    large = np.flatnonzero(rosters.sizes >= max(1, parameters.minimum_size)).tolist()
    clusters = ((cluster, rosters.roster(cluster).tolist()) for cluster in large)
    found = relays_of(secrets_of(coins), parameters.relays, round_, clusters)
    for (_, cluster), relays in found.items():
        among = inside[list(relays)]
        some[rosters.roster(cluster)], everyone[rosters.roster(cluster)] = among.any(), among.all()
    return some, everyone


def _where(seen: NDArray[np.bool_], values: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.where(seen, values.astype(np.int32), np.int32(_UNSEEN))


def _own_coins(coins: Coins, round_: int, inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The coins of the adversary's own users; block by block."""
    own = [np.empty((0, 4))]
    for start in range(0, len(inside), BLOCK):
        here = slice(start, min(start + BLOCK, len(inside)))
        if inside[here].any():
            own.append(coins.block(round_, here.start, here.stop)[inside[here]])
    return np.concatenate(own)


def _shown(scope: Scope, rosters: Rosters, peers: NDArray[np.int32], inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    match scope:
        case "nothing":
            return np.zeros(len(peers), dtype=np.bool_)
        case "own":
            return np.logical_or(inside, inside[peers])
        case "cluster":
            return np.isin(rosters.clusters, rosters.clusters[inside])
        case "wire":
            return np.not_equal(np.arange(len(peers)), peers)
        case "all":
            return np.ones(len(peers), dtype=np.bool_)


def _sorted_labels(noisy: NDArray[np.integer], rosters: Rosters) -> NDArray[np.integer]:
    """Each cluster's noisy labels in ascending order among its users."""
    order = np.lexsort((noisy, rosters.clusters))
    if rosters.members is None:
        return noisy[order]
    ordered = np.empty_like(noisy)
    ordered[rosters.members] = noisy[order]
    return ordered
