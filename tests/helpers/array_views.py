"""Views of a cluster held against each other: those of traces and those of the vectorized engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.array_views import ClusterViews, seen_of_exchange
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.privacy import Parameters

PER_RUN = ("reports", "asks", "answers", "coins", "draws", "opened", "tied")


def said(views: ClusterViews, run: int = 0) -> dict[str, Any]:
    """Everything that one of many views says, as plain values."""
    found = {field.name: getattr(views, field.name) for field in fields(views) if field.name not in (*PER_RUN, "runs")}
    arrays = {name: getattr(views, name) for name in PER_RUN}
    return found | {name: None if every is None else every[run].tolist() for name, every in arrays.items()}


def within_exchange(
    cluster: int,
    labels: NDArray[np.integer],
    clusters: NDArray[np.integer],
    parameters: Parameters,
    coins: Coins,
    adversary: str,
    *,
    members: Collection[int] = (),
    background: Mapping[int, int] | None = None,
) -> ClusterViews:
    """What ``adversary`` knows of one cluster of a run of the vectorized engine."""
    rosters, everyone = Rosters.of(clusters), sorted(members)
    seen = seen_of_exchange(labels, rosters, parameters, coins, adversary, np.array(everyone, dtype=np.int64))
    roster = rosters.roster(cluster).tolist()
    users = {name: getattr(seen, name) for name in PER_RUN if name != "coins"}
    arrays = {name: None if told is None else told[None, :, roster] for name, told in users.items()}
    if arrays["asks"] is not None:
        arrays["asks"] = np.where(arrays["asks"] < 0, -1, np.searchsorted(roster, arrays["asks"]))
    own = [place for place, member in enumerate(everyone) if member in roster]
    return ClusterViews(
        adversary=adversary,
        parameters=parameters,
        cluster_size=len(roster),
        background={roster.index(user): label for user, label in (background or {}).items() if user in roster},
        members=frozenset(roster.index(everyone[place]) for place in own),
        runs=1,
        coins=seen.coins[None, :, own],
        **arrays,
    )
