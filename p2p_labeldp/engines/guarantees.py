"""What a run promises: every view's epsilon for the clusters that really took part.

The guarantee of a run is that of its worst cluster. Clusters below the promised minimum abstain and say
nothing. Where users of a cluster went missing on the way their noisy labels count as known; the reports of
the others are still made from the others' shuffled labels alone, so the shuffled view of those who stayed
bounds the learner's in a single round. Over several rounds, who left in between is told apart by what changed when she
did, so that the flips alone are counted on. The closed-form views only lose chances to see something.

Where someone sends what an honest user would not, she may add no noise, or ask whom she likes: again the flips
alone are counted on, and nothing at all for users who make new noise for every asker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.mechanisms.peer_to_peer import Parameters
from p2p_labeldp.privacy import VIEWS, Answer, account, account_clusters

LARGEST_DELTA = 1e-3
FRESH = "fresh_answers"
COLLUDERS = 1  # of the coalition that stands in every run's table


def cluster_sizes(outcome: Outcome, parameters: Parameters) -> dict[int, int]:
    """Each distinct (size) of a cluster that took part, with the most users of such a cluster who went missing."""
    sizes = np.bincount(outcome.clusters[outcome.clusters >= 0])
    absent = [user for user in outcome.missing if outcome.clusters[user] >= 0]
    missing = np.bincount(outcome.clusters[absent], minlength=len(sizes))
    worst: dict[int, int] = {}
    for size, lost in zip(sizes.tolist(), missing.tolist(), strict=True):
        if size >= max(1, parameters.minimum_size):
            worst[size] = max(lost, worst.get(size, 0))
    return worst


def default_delta(sizes: dict[int, int], users: int) -> float:
    """The paper's 1 / (smallest cluster)^2, but at most 1/users and a thousandth.

    One tiny cluster must not set a delta at which nothing is promised to anyone.
    """
    smallest = 1 / min(sizes) ** 2 if sizes else 1.0
    return min(smallest, 1 / max(1, users), LARGEST_DELTA)


def guarantees(
    outcome: Outcome, parameters: Parameters, delta: float = 0.0, misbehaving: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """View to epsilon and delta, with the method and the worst cluster's size; delta 0 takes the default.

    ``misbehaving``: what kinds of adversaries there were that send what an honest party would not.
    """
    sizes = cluster_sizes(outcome, parameters)
    delta = delta or default_delta(sizes, len(outcome.clusters))
    kinds = sorted(set(misbehaving))
    if FRESH in kinds:
        return nothing_promised(
            delta, "some users make new noise for every asker, which protects nobody's label for long"
        )
    if kinds:
        return flips_alone(
            parameters, delta, f"not everyone is honest ({', '.join(kinds)}): the flips alone are counted on"
        )
    return {view: _guarantee(view, sizes, parameters, delta) for view in VIEWS}


def _guarantee(view: str, sizes: dict[int, int], parameters: Parameters, delta: float) -> dict[str, Any]:
    if not sizes:
        silent = {"epsilon": 0.0, "delta": delta, "method": "exact", "cluster_size": None}
        return silent | {"reason": "everyone abstained, so that there is nothing to see"}
    whole = [size for size, lost in sizes.items() if not lost]
    answers: list[tuple[Answer, int]] = []
    shared: dict[str, Any] = {
        "alpha": parameters.alpha,
        "labels": parameters.labels,
        "rounds": parameters.rounds,
        "noise": parameters.noise,
    }
    if whole:
        colluders = COLLUDERS if view == "coalition" else 0
        found = account_clusters(view, whole, delta, theta=parameters.theta, colluders=colluders, **shared)
        answers.append((found.worst, found.worst_size))
    for size, lost in sizes.items():
        if lost:
            answers.append((_with_missing(view, size, lost, parameters.theta, delta, shared), size))
    worst, size = max(answers, key=lambda pair: pair[0].epsilon)
    found_json = worst.as_json()
    kept = ("epsilon", "delta", "method", "error_bound", "searched_epsilon", "reason")
    result = {name: found_json[name] for name in kept if found_json[name] is not None}
    return result | {"cluster_size": size} | ({"colluders": min(COLLUDERS, size - 1)} if view == "coalition" else {})


def flips_alone(parameters: Parameters, delta: float, reason: str) -> dict[str, dict[str, Any]]:
    """What every view is promised when nothing but a user's own flips can be counted on."""
    local = account(
        "auditor", cluster_size=1, alpha=parameters.alpha, theta=1.0, labels=parameters.labels,
        rounds=parameters.rounds, noise=parameters.noise,
    ).get_epsilon(delta).as_json()  # fmt: skip
    found = {"epsilon": local["epsilon"], "delta": delta, "method": "upper_bound", "reason": reason}
    return {view: found | {"cluster_size": None} for view in VIEWS}


def nothing_promised(delta: float, reason: str) -> dict[str, dict[str, Any]]:
    found = {"epsilon": "inf", "delta": delta, "method": "upper_bound", "reason": reason, "cluster_size": None}
    return {view: dict(found) for view in VIEWS}


def _with_missing(view: str, size: int, lost: int, theta: float, delta: float, shared: dict[str, Any]) -> Answer:
    if view in ("learner", "shuffle") and shared["rounds"] == 1:
        stayed = max(1, size - lost)
        answer = account("shuffle", cluster_size=stayed, theta=1.0, thorough=False, **shared).get_epsilon(delta)
        reason = f"{lost} of {size} users went missing: the shuffled view of those who stayed bounds it"
        return replace(answer, view=view, method="upper_bound", error_bound=answer.epsilon, reason=reason)
    answer = account(view, cluster_size=size, theta=theta, thorough=False, **shared).get_epsilon(delta)
    if view in ("coalition", "learner", "shuffle"):
        reason = f"{lost} of {size} users went missing: the flips alone are counted on"
        local = answer.local_epsilon
        why = reason if local < math.inf else "alpha leaves labels unflipped, and users went missing"
        return replace(answer, epsilon=local, method="upper_bound", error_bound=local, reason=why)
    return replace(answer, method="upper_bound", error_bound=answer.epsilon)
