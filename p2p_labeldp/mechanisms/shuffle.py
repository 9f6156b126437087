"""The shuffle model within clusters: each user flips her label, a trusted shuffler permutes each cluster's.

Beside the peer-to-peer mechanism on the same flips: there a label is drawn from the cluster with replacement, here
every noisy label is handed over exactly once. The learner learns how many noisy labels of each kind a cluster holds
and nothing else, the view ``shuffle`` of the privacy room. Whoever reads the shuffler's mail sees every noisy label
with its owner.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.mechanisms.coins import Randomness
from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.mechanisms.peer_to_peer import flips_for
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, Work, spends
from p2p_labeldp.mechanisms.solve import Flips
from p2p_labeldp.privacy import Guarantee, View, account

TRUST = "A shuffler is trusted not to tell the learner whose noisy label is whose; it sees every noisy label."


def permuted_within(values: NDArray[np.int64], rosters: Rosters, randomness: Randomness) -> NDArray[np.int64]:
    """Each cluster's values in a uniformly random order among its own users."""
    members = np.arange(len(values)) if rosters.members is None else rosters.members
    # Sorting everyone by (cluster, a random rank) orders each cluster at random, in one sort for all.
    order = np.lexsort((randomness.permutation(len(values)), rosters.clusters))
    permuted = np.empty_like(values)
    permuted[members] = values[order]
    return permuted


def work(users: Labels, labels: Labels, clusters: Labels, randomness: Randomness) -> Work:
    return Work(users, permuted_within(labels, Rosters.of(clusters), randomness))


def plan(request: Request) -> Plan:
    if request.sizes:
        found = flips_for(request, View.SHUFFLE)
    else:  # everyone abstains: any noise will do, and there is nothing to see
        found = Flips(float(request.options.get("alpha", 0.0)), 0.0, "exact")
    parameters = request.with_flips(found.alpha)
    local = account(View.AUDITOR, parameters, cluster_size=1).get_epsilon(0.0)
    privacy: dict[View, Guarantee] = {
        View.LEARNER: Guarantee(
            epsilon=found.epsilon, delta=request.delta, view=View.LEARNER, method=found.method, cluster_size=found.size
        )
    }
    for view in (View.SHUFFLER, View.NETWORK, View.AUDITOR):
        privacy[view] = spends(view, local.epsilon, 0.0, exact=True, reason=local.reason)
    return Plan(
        request.kind, TRUST, Holder.SHUFFLER, parameters, {"alpha": found.alpha}, privacy, exchangeable=True, work=work
    )


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.SHUFFLER,
    trusts="a shuffler",
    story="flipped her label and handed it to a shuffler, who passed each cluster's labels on in random order",
    learner_sees="each cluster's noisy labels, shuffled",
    colour="#ff7f0e",
    marker="s",
    options=("alpha",),
)
