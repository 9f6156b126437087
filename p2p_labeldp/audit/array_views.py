"""Views of one cluster as arrays, which is what attacks count in.

They come from the vectorized engine, many runs at once, so that a game of a hundred thousand trials takes a second; or
from a trace, one run each (``views``). For the same seed the two are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.sight import Scope, one_peer_each, seen_in, sight_of
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.exchange import BLOCK, Rosters, exchange
from p2p_labeldp.mechanisms.mixing import NONCE, Secret, Secrets, secrets_of
from p2p_labeldp.privacy import RECORDS, Parameters, View
from p2p_labeldp.protocol.depositor import Share
from p2p_labeldp.protocol.sealing import TOKEN, Vault
from p2p_labeldp.protocol.session import Session

UNSEEN = -1


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is seen of an exchange, as arrays: axes are round and user; None what never is, -1 where nothing is.

    What is seen of a mixed exchange is said in ``views``; ``tied`` are the labels of which it is known whose they are.
    """

    reports: NDArray[np.int32] | None
    asks: NDArray[np.int32] | None
    answers: NDArray[np.int32] | None
    """The label that each user was answered."""
    coins: NDArray[np.float64]
    """Axes: round, member, coin."""
    draws: NDArray[np.int32] | None = None
    opened: NDArray[np.int32] | None = None
    tied: NDArray[np.int32] | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterViews(Seen):
    """One adversary's views of many runs of one cluster: all arrays have one axis more, the run, which is the first.

    Users go by their places in the cluster; whoever is in another one goes by its size.
    """

    adversary: str
    parameters: Parameters
    cluster_size: int
    background: dict[int, int]
    members: frozenset[int]
    runs: int
    surplus: tuple[tuple[int, int, int, int], ...] = ()
    """(run, round, answerer, label) of every answer to somebody who has another one, or is not seen to have asked."""

    @property
    def sees_the_wire(self) -> bool:
        """Whether a user of whom no question is seen must have asked herself."""
        return seen_in(View(self.adversary), self.parameters.exchange).asks == "wire"

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
    seen = seen_of_exchange(labels.ravel(), rosters, parameters, coins, adversary, own)

    def by_run(values: NDArray[np.int32] | None) -> NDArray[np.int32] | None:
        return None if values is None else values.reshape(-1, runs, size).swapaxes(0, 1)

    asks = by_run(seen.asks)
    return ClusterViews(
        adversary=adversary,
        parameters=parameters,
        cluster_size=size,
        background=dict(background or {}),
        members=frozenset(members),
        runs=runs,
        reports=by_run(seen.reports),
        asks=None if asks is None else _where(asks >= 0, asks % size),
        answers=by_run(seen.answers),
        coins=seen.coins.reshape(parameters.rounds, runs, len(places), 4).swapaxes(0, 1),
        draws=by_run(seen.draws),
        opened=by_run(seen.opened),
        tied=by_run(seen.tied),
    )


def seen_of_exchange(
    labels: NDArray[np.integer],
    rosters: Rosters,
    parameters: Parameters,
    coins: Coins,
    adversary: str,
    members: NDArray[np.int64],
) -> Seen:
    """Run the exchange and keep of it what is seen. The view ``relay`` is a relay's, whomever the seed would draw."""
    sight, reported = sight_of(adversary, members.tolist(), parameters.exchange), RECORDS[View(adversary)].reports
    inside = np.zeros(len(labels), dtype=np.bool_)
    inside[members] = True
    takes_part = (rosters.sizes >= parameters.minimum_size)[rosters.clusters]
    own: list[NDArray[np.float64]] = []
    found: dict[str, list[NDArray[np.int32]]] = {
        name: [] for name in ("reports", "asks", "answers", "draws", "opened", "tied")
    }

    def note(name: str, shown: NDArray[np.bool_], said: NDArray[np.integer]) -> None:
        found[name].append(_where(shown, said))

    for release in exchange(labels, rosters, parameters, coins):
        own.append(_own_coins(coins, release.round, inside))
        if adversary == "shuffle":
            note("reports", takes_part, _sorted_labels(release.noisy, rosters))
        elif reported:
            note("reports", release.kept, release.reported)
        if sight.asks != "nothing":
            peers = np.where(takes_part, release.sources, 0).astype(np.int32)
            note("asks", takes_part & _shown(sight.asks, rosters, peers, inside), peers)
            if sight.answers != "nothing":
                note("answers", takes_part & _shown(sight.answers, rosters, peers, inside), release.reported)
        if sight.draws:
            note("draws", takes_part & inside, release.reported)
        if sight.opened != "never":
            some, everyone = takes_part, np.zeros_like(takes_part)
            if adversary == "relay":
                some = np.isin(rosters.clusters, rosters.clusters[members])
                everyone = some if parameters.relays == 1 else everyone
            elif sight.opened == "as relay":
                some, everyone = _relaying(rosters, parameters, coins, release.round, inside)
            note("opened", some & takes_part, _sorted_labels(release.noisy, rosters))
            note("tied", everyone & takes_part, release.noisy)
    seen = {name: np.array(rounds) if rounds else None for name, rounds in found.items()}
    return Seen(coins=np.array(own), **seen)


def _relaying(
    rosters: Rosters, parameters: Parameters, coins: Coins, round_: int, inside: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each user, whether some relay of her cluster is the adversary's, and whether all are."""
    some, everyone = np.zeros_like(inside), np.zeros_like(inside)
    if not inside.any():
        return some, everyone
    large = np.flatnonzero(rosters.sizes >= max(1, parameters.minimum_size)).tolist()
    clusters = ((cluster, rosters.roster(cluster).tolist()) for cluster in large)
    for cluster, relays in _relays_of(secrets_of(coins), parameters.relays, round_, clusters):
        among = inside[list(relays)]
        some[rosters.roster(cluster)], everyone[rosters.roster(cluster)] = among.any(), among.all()
    return some, everyone


def _relays_of(
    secrets: Secrets, wanted: int, round_: int, clusters: Iterable[tuple[int, list[int]]]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Who relays in the first attempt of a seeded simulation, by cluster."""
    vault = Vault()
    for cluster, roster in clusters:
        openings = {user: Share(0, secrets.of(Secret.MEMBER, round_, 0, user), vault).opening for user in roster}
        session = Session("", round_, cluster, 0, wanted, TOKEN)
        session.assume(openings, secrets.of(Secret.COORDINATOR, round_, cluster, 0)[:NONCE], bytes(32))
        yield cluster, session.relays


def _where(seen: NDArray[np.bool_], values: NDArray[np.integer]) -> NDArray[np.int32]:
    return np.where(seen, values.astype(np.int32), np.int32(UNSEEN))


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
