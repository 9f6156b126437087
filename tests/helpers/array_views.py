"""Single views from the arrays of the vectorized engine, to be compared with those of traces."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.array_views import ClusterViews, Seen, seen_of_exchange
from p2p_labeldp.audit.sight import SIGHT
from p2p_labeldp.audit.views import View, one_peer_each
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.privacy import Exchange, Parameters
from p2p_labeldp.privacy import View as Name


def one_of(views: ClusterViews, run: int) -> View:
    """One of many views; users are called by their places."""
    every = {field.name: getattr(views, field.name) for field in fields(Seen)}
    seen = Seen(**{name: None if values is None else values[run] for name, values in every.items()})
    rosters = {0: tuple(range(views.cluster_size))}
    return _from_arrays(views.adversary, views.parameters, rosters, views.background, views.members, seen)


def view_of_exchange(
    labels: NDArray[np.integer],
    clusters: NDArray[np.integer],
    parameters: Parameters,
    coins: Coins,
    adversary: str,
    *,
    members: Collection[int] = (),
    background: Mapping[int, int] | None = None,
) -> View:
    """What ``adversary`` knows of a run of the vectorized engine."""
    rosters = Rosters.of(clusters)
    seen = seen_of_exchange(labels, rosters, parameters, coins, adversary, np.array(sorted(members), dtype=np.int64))
    named = {cluster: tuple(rosters.roster(cluster).tolist()) for cluster in range(len(rosters.sizes))}
    one_peer_each(adversary, members, named)
    return _from_arrays(adversary, parameters, named, dict(background or {}), frozenset(members), seen)


def _from_arrays(
    adversary: str,
    parameters: Parameters,
    rosters: dict[int, tuple[int, ...]],
    background: dict[int, int],
    members: frozenset[int],
    seen: Seen,
) -> View:
    def by_user(values: NDArray[np.int32] | None) -> tuple[dict[int, int], ...] | None:
        if values is None:
            return None
        shown = [(np.flatnonzero(row >= 0), row) for row in values]
        return tuple(dict(zip(users.tolist(), row[users].tolist(), strict=True)) for users, row in shown)

    asks, told, tied = by_user(seen.asks), by_user(seen.answers), by_user(seen.tied)
    answers: tuple[dict[tuple[int, int], tuple[int, ...]], ...] | None = None
    if asks is not None and told is not None:
        answers = tuple(
            {(peers[asker], asker): (label,) for asker, label in labels.items()}
            for peers, labels in zip(asks, told, strict=True)
        )
    if tied is not None and parameters.exchange == Exchange.MIXED and SIGHT[Name(adversary)].opened == "as relay":
        answers = tuple({(user, user): (label,) for user, label in shown.items()} for shown in tied)
    coins = {
        (user, round_): tuple(seen.coins[round_, place].tolist())
        for place, user in enumerate(sorted(members))
        for round_ in range(parameters.rounds)
    }
    users = sum(map(len, rosters.values()))
    return View(
        adversary, parameters, users, rosters, background, by_user(seen.reports), asks, answers, coins, members,
        by_user(seen.draws), by_user(seen.opened),
    )  # fmt: skip
