"""What is released for tiny data sets, outcome by outcome, against the stated epsilon and delta.

The distributions are written down here from the mechanisms' description: every value of the noise, every coin. Then the
program's releases are compared with them, so that the guarantee is the program's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from p2p_labeldp.mechanisms import Plan, SeededCoins, make_plan, release
from p2p_labeldp.mechanisms.coins import SeededRandomness

Distribution = NDArray[np.float64]  # over all (K^n) tuples of noisy labels, last user fastest
Users = tuple[int, ...]


def noisy_q(labels: Users, label_count: int, tau: float, sigma: float) -> tuple[Distribution, Distribution]:
    """Every q that the noise can lead to, and its probability. Nothing is left out: larger noise is clipped alike."""
    most = len(labels) + 1
    values = np.arange(-most, most + 1)
    ratio = math.exp(-1 / sigma)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values).astype(float)
    mass[[0, -1]] = ratio**most / (1 + ratio)  # this and everything beyond
    cells = []
    for count in np.bincount(labels, minlength=label_count):
        share, place = np.unique(np.clip((count + values) / len(labels), tau, 1.0), return_inverse=True)
        cells.append((share, np.bincount(place.reshape(-1), weights=mass)))
    q = np.array(list(itertools.product(*(share for share, _ in cells))))
    weights = np.array([math.prod(part) for part in itertools.product(*(part for _, part in cells))])
    for row in q:
        gap = 1 - row.sum()
        slack = row - tau if gap < 0 else 1 - row
        if slack.sum() > 0:
            row += slack / slack.sum() * gap
    return q, weights


def joint(per_user: list[Distribution], weights: Distribution) -> Distribution:
    """The distribution of everyone's noisy label, given for each noise vector each user's own."""
    table = weights[:, None]
    for mass in per_user:
        table = (table[:, :, None] * mass[:, None, :]).reshape(len(table), -1)
    return table.sum(axis=0)


def centralized_distribution(labels: Users, label_count: int, tau: float, sigma: float, chance: float) -> Distribution:
    if sigma == math.inf:
        q, weights = np.full((1, label_count), 1 / label_count), np.ones(1)
    else:
        q, weights = noisy_q(labels, label_count, tau, sigma)
    return joint([chance * q + (1 - chance) * np.eye(label_count)[label] for label in labels], weights)


def prior_distribution(labels: Users, label_count: int, sigma: float, epsilon: float) -> Distribution:
    prior, weights = noisy_q(labels, label_count, 0.0, sigma)
    found: list[Distribution] = [np.zeros_like(prior) for _ in labels]
    grown = math.exp(epsilon)
    for place, row in enumerate(prior):
        order = sorted(range(label_count), key=lambda y: (-row[y], y))
        right = [grown / (grown + k - 1) * sum(row[y] for y in order[:k]) for k in range(1, label_count + 1)]
        kept = order[: right.index(max(right)) + 1]
        for mass, label in zip(found, labels, strict=True):
            for y in kept:
                if label in kept:
                    mass[place, y] = (grown if y == label else 1) / (grown + len(kept) - 1)
                else:
                    mass[place, y] = 1 / len(kept)
    return joint(found, weights)


def flipped_distribution(labels: Users, label_count: int, alpha: float, shuffled: bool) -> Distribution:
    mass = np.zeros(label_count ** len(labels))
    places = range(len(labels))
    choices = list(itertools.permutations(places) if shuffled else itertools.product(places, repeat=len(labels)))
    for noisy in itertools.product(range(label_count), repeat=len(labels)):
        weight = math.prod(
            1 - alpha if y == label else alpha / (label_count - 1) for y, label in zip(noisy, labels, strict=True)
        )
        for chosen in choices:
            mass[index([noisy[j] for j in chosen], label_count)] += weight / len(choices)
    return mass


def index(labels: Any, label_count: int) -> int:
    return int(sum(y * label_count**place for place, y in enumerate(reversed(list(labels)))))


def distribution_of(plan: Plan, label_count: int) -> Callable[[Users], Distribution]:
    p = plan.numbers
    match plan.kind:
        case "rr_with_prior":
            return lambda labels: prior_distribution(labels, label_count, p["sigma"], p["labels_epsilon"])
        case "peer_to_peer" | "shuffle":
            return lambda labels: flipped_distribution(labels, label_count, p["alpha"], plan.kind == "shuffle")
        case "uniform_rr":
            return lambda labels: centralized_distribution(labels, label_count, 1 / label_count, math.inf, p["lambda"])
    return lambda labels: centralized_distribution(labels, label_count, p["tau"], p["sigma"], p["lambda"])


CASES = [
    ("uniform_rr", 0.7, 0.0, 3, 3, {}),
    ("uniform_rr", 3.0, 0.0, 2, 2, {}),
    ("cluster_rr", 2.0, 0.0, 2, 1, {"tau": 0.05}),
    ("cluster_rr", 2.0, 0.0, 2, 3, {"tau": 0.05}),
    ("cluster_rr", 4.0, 0.0, 3, 2, {"tau": 0.1}),
    ("centralized", 1.5, 0.0, 2, 3, {"tau": 0.2, "share": 0.9}),
    ("centralized", 2.0, 0.0, 2, 2, {"tau": 0.0, "share": 1.0}),
    ("rr_with_prior", 2.0, 0.0, 2, 3, {}),
    ("rr_with_prior", 5.0, 0.0, 3, 2, {}),
    ("rr_with_prior", 2.0, 0.0, 2, 1, {"share": 0.4}),
    ("peer_to_peer", 1.0, 0.05, 2, 3, {}),
    ("peer_to_peer", 1.0, 0.0, 2, 3, {}),
    ("peer_to_peer", 1.5, 0.01, 3, 3, {}),
    ("shuffle", 1.0, 0.05, 2, 3, {}),
    ("shuffle", 1.5, 0.01, 3, 3, {}),
]


def made(case: tuple[str, float, float, int, int, dict[str, Any]]) -> tuple[Plan, int, int]:
    kind, epsilon, delta, label_count, users, options = case
    plan = make_plan(kind, epsilon=epsilon, delta=delta, labels=label_count, sizes=[users], **options)
    return plan, label_count, users


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-K{case[3]}-n{case[4]}")
def test_neighbours_releases_are_within_the_guarantee(case: Any) -> None:
    """All neighbours, all outcomes: delta(epsilon) of the released labels is at most the stated delta."""
    plan, label_count, users = made(case)
    mass = distribution_of(plan, label_count)
    # Users are interchangeable: the first one's label changes, the others' are sorted.
    others = list(itertools.combinations_with_replacement(range(label_count), users - 1))
    for rest in others:
        found = [mass((label, *rest)) for label in range(label_count)]
        for one, other in itertools.permutations(found, 2):
            assert one.sum() == pytest.approx(1, abs=1e-12)
            excess = np.maximum(one - math.exp(plan.epsilon) * other, 0).sum()
            assert excess <= plan.delta + 1e-12
            if plan.delta == 0:  # however rare the outcome
                assert (one <= math.exp(plan.epsilon) * other * (1 + 1e-9)).all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-K{case[3]}-n{case[4]}")
def test_the_program_releases_these_distributions(case: Any) -> None:
    """Chi-squared on 30,000 clusters with the same labels; fails by chance for one seed in a million."""
    plan, label_count, users = made(case)
    labels = tuple(place % label_count for place in range(users))
    repeats = 30_000
    randomness = SeededRandomness(np.random.default_rng(20))
    clusters = np.repeat(np.arange(repeats), users)
    ((ids, noisy),) = release(plan, np.tile(labels, repeats), clusters, SeededCoins(20), randomness).rounds
    np.testing.assert_array_equal(ids, np.arange(repeats * users))
    places = noisy.astype(np.int64).reshape(repeats, users) @ label_count ** np.arange(users)[::-1]
    seen = np.bincount(places, minlength=label_count**users)
    expected = distribution_of(plan, label_count)(labels) * repeats
    assert not seen[expected < 1e-6].any()
    likely = expected >= 5
    observed = np.append(seen[likely], seen[~likely].sum())
    awaited = np.append(expected[likely], expected[~likely].sum())
    if awaited[-1] < 5:
        observed, awaited = observed[:-1], awaited[:-1]
    assert stats.chisquare(observed, awaited * observed.sum() / awaited.sum()).pvalue > 1e-6


def test_the_papers_formula_is_exceeded_by_a_mechanism_that_keeps_to_the_corrected_one() -> None:
    """K=2, n=200, sigma=2, tau=.05, lambda=.99, 100 or 101 ones, event "every noisy label is 0"."""
    plan = make_plan("centralized", labels=2, sizes=[200], tau=0.05, sigma=2.0, lambda_=0.99, beta=0.0)
    assert plan.paper_epsilon == pytest.approx(0.684, abs=1e-3)
    assert plan.epsilon == pytest.approx(1.184, abs=1e-3)

    def all_zero(ones: int) -> float:
        q, weights = noisy_q((0,) * (200 - ones) + (1,) * ones, 2, 0.05, 2.0)
        return float(weights @ ((0.01 + 0.99 * q[:, 0]) ** (200 - ones) * (0.99 * q[:, 0]) ** ones))

    ratio = math.log(all_zero(100) / all_zero(101))
    assert ratio == pytest.approx(1.01, abs=0.02)
    assert plan.paper_epsilon < ratio < plan.epsilon
