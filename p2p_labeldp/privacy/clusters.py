"""Clusters of different sizes: everyone's own guarantee, and the run's, which is that of its worst cluster.

A smaller cluster mostly protects less, but not always (two labels, theta 1, alpha .01, two sticky rounds, delta 1e-6:
3.844 for three users, 3.869 for four), so every size is accounted for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy.account import account
from p2p_labeldp.privacy.guarantee import Guarantee
from p2p_labeldp.privacy.parameters import Parameters


@dataclass(frozen=True)
class ClusterGuarantees:
    """``worst`` is the guarantee of the run; ``by_size[n]`` that of every user in a cluster of n."""

    worst: Guarantee
    worst_size: int
    by_size: Mapping[int, Guarantee]


def account_clusters(
    view: str,
    parameters: Parameters,
    sizes: Iterable[int],
    delta: float,
    *,
    colluders: int = 0,
) -> ClusterGuarantees:
    """epsilon at ``delta`` for each distinct cluster size. Empty clusters have no user to protect.

    ``colluders`` are in the victim's cluster, all but her at most.
    """
    distinct = sorted({int(size) for size in sizes if size > 0})
    if not distinct:
        raise RequestError("cluster sizes must include a cluster with at least one user")
    by_size = {
        size: account(
            view, parameters, cluster_size=size, colluders=min(colluders, size - 1), thorough=False
        ).get_epsilon(delta)
        for size in distinct
    }
    worst_size = max(distinct, key=lambda size: by_size[size].epsilon)
    return ClusterGuarantees(by_size[worst_size], worst_size, by_size)
