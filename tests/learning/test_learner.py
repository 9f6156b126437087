"""The one learner: reports in, soft targets and a model out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from p2p_labeldp.learning import Reports, fit_softmax, learn, one_hot, targets_of
from p2p_labeldp.learning.dp_sgd import fit_dp_sgd
from p2p_labeldp.mechanisms import Plan, make_plan
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import Learner

Labels = NDArray[np.int64]
Doubles = NDArray[np.float64]

CLUSTERS = np.array([0, 0, 1, 1, 1, 2, -1])
"""Users 0 and 1, users 2 to 4, user 5; user 6 never came."""
FEATURES = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
PLAIN = Learner(correct_flips=False)


def exchanged(alpha: float = 0.0, labels: int = 2) -> Plan:
    return exchange_of(Parameters(alpha, labels=labels))


def reports_of(users: list[int], labels: list[int], shares: Doubles | None = None) -> Reports:
    return Reports(np.array(users, dtype=np.int64), np.array(labels, dtype=np.int64), CLUSTERS, shares)


def randomness(seed: int = 0) -> SeededRandomness:
    return SeededRandomness(np.random.default_rng(seed))


# Pooling


def test_everyone_of_a_cluster_that_reported_gets_the_cluster_s_shares() -> None:
    """Users 1 and 3 kept nothing, which says nothing of their features; nobody of the third cluster reported."""
    found = targets_of(exchanged(), PLAIN, FEATURES, reports_of([0, 2, 4], [0, 0, 1]))
    assert found.users.tolist() == [0, 1, 2, 3, 4]
    assert found.targets.tolist() == [[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    assert found.weights.tolist() == [1] * 5


def test_of_several_rounds_every_report_counts_alike() -> None:
    found = targets_of(exchanged(), PLAIN, FEATURES, reports_of([2, 2, 2, 3], [0, 0, 0, 1]))
    assert found.users.tolist() == [2, 3, 4]
    assert found.targets.tolist() == [[0.75, 0.25]] * 3


def test_shares_that_undoing_the_flips_leaves_below_zero_are_cut() -> None:
    """All three say 1: with a quarter of flips that comes to -1/2 and 3/2. One of three: (2/3 - 1/4) / (1/2) = 5/6."""
    found = targets_of(exchanged(0.25), Learner(), FEATURES, reports_of([0, 1, 2, 3, 4], [1, 1, 0, 0, 1]))
    np.testing.assert_allclose(found.targets, [[0, 1]] * 2 + [[5 / 6, 1 / 6]] * 3)


def by_hand(reports: Reports, alpha: float, labels: int) -> tuple[list[int], list[Doubles]]:
    """Cluster by cluster: counts to shares, flips undone, negative ones cut, the rest rescaled."""
    users: list[int] = []
    targets: list[Doubles] = []
    for user, cluster in enumerate(reports.clusters.tolist()):
        here = [
            y for i, y in zip(reports.users.tolist(), reports.labels.tolist(), strict=True) if CLUSTERS[i] == cluster
        ]
        if cluster >= 0 and here:
            share = np.bincount(here, minlength=labels) / len(here)
            flips = np.full((labels, labels), alpha / (labels - 1))
            np.fill_diagonal(flips, 1 - alpha)
            kept = np.maximum(np.linalg.solve(flips.T, share), 0)
            users.append(user)
            targets.append(kept / kept.sum())
    return users, targets


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=30),
    st.sampled_from([0.0, 0.1, 0.4, 0.9]),
)
@settings(max_examples=60)
def test_pooled_targets_are_those_of_the_formula(said: list[tuple[int, int]], alpha: float) -> None:
    reports = reports_of([user for user, _ in said], [label for _, label in said])
    found = targets_of(exchanged(alpha, 3), Learner(), FEATURES, reports)
    users, targets = by_hand(reports, alpha, 3)
    assert found.users.tolist() == users
    np.testing.assert_allclose(found.targets, targets, atol=1e-9)


def test_who_of_a_cluster_reported_what_does_not_matter() -> None:
    """Digit for digit, since counts are all that is looked at."""
    one, other = (
        learn(exchanged(0.2), Learner(), FEATURES, reports_of([0, 1, 2, 3, 4, 5], labels), randomness())
        for labels in ([0, 1, 0, 1, 1, 0], [1, 0, 1, 1, 0, 0])
    )
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.weights, other.weights)


# Where a label is its reporter's


def test_reports_that_are_their_users_own_are_not_pooled_and_weigh_as_often_as_they_came() -> None:
    plan = make_plan("none", labels=2, sizes=[2, 3, 1])
    found = targets_of(plan, Learner(), FEATURES, reports_of([0, 2, 2, 4], [0, 0, 1, 1]))
    assert found.users.tolist() == [0, 2, 4]
    assert found.targets.tolist() == [[1, 0], [0.5, 0.5], [0, 1]]
    assert found.weights.tolist() == [1, 2, 1]


def test_undone_flips_may_leave_negative_targets_that_are_right_on_average() -> None:
    plan = make_plan("uniform_rr", labels=3, sizes=[6], epsilon=1.0)
    found = targets_of(plan, Learner(), FEATURES, reports_of([0, 1, 2], [0, 1, 2]))
    alpha = plan.parameters.alpha
    flips = np.full((3, 3), alpha / 2)
    np.fill_diagonal(flips, 1 - alpha)
    assert found.targets.min() < 0
    np.testing.assert_allclose(flips @ found.targets, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(
        targets_of(plan, PLAIN, FEATURES, reports_of([0, 1, 2], [0, 1, 2])).targets, np.eye(3)
    )


def test_a_curator_s_drawing_is_undone_by_the_shares_that_it_published() -> None:
    plan = make_plan("centralized", labels=2, sizes=[2, 3, 1], epsilon=1.0, beta=0.5)
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    found = targets_of(plan, Learner(), FEATURES, reports_of([1, 4], [0, 0], shares))
    np.testing.assert_allclose(found.targets, [[2 - 0.9, -0.1], [2 - 0.2, -0.8]])


# Doubt


def outlying() -> tuple[NDArray[np.float32], Labels, Labels]:
    """Twenty clusters of fifty along a line; the share of label 1 rises from .1 to .9 but for one that says 1 alone."""
    clusters = np.repeat(np.arange(20), 50)
    ones = np.round(50 * np.linspace(0.1, 0.9, 20))
    labels = (np.tile(np.arange(50), 20) < ones[clusters]).astype(np.int64)
    labels[clusters == 3] = 1
    return clusters[:, None].astype(np.float32), clusters, labels


def test_a_robust_learner_doubts_a_cluster_that_stands_out_before_it_pools() -> None:
    features, clusters, labels = outlying()
    reports = Reports(np.arange(1000), labels, clusters)
    trusting, doubting = (
        targets_of(exchanged(), Learner(robust=robust), features, reports).targets[:, 1] for robust in (0.0, 0.05)
    )
    assert trusting[clusters == 3].tolist() == [1.0] * 50
    assert doubting[clusters == 3] == pytest.approx([0.22] * 50, abs=0.15)
    np.testing.assert_allclose(doubting[clusters != 3], trusting[clusters != 3])


def test_what_a_curator_published_is_not_doubted() -> None:
    features, clusters, labels = outlying()
    plan = make_plan("centralized", labels=2, sizes=[50], epsilon=1.0, beta=0.5)
    reports = Reports(np.arange(1000), labels, clusters, np.full((20, 2), 0.5))
    trusting, doubting = (targets_of(plan, Learner(robust=robust), features, reports).targets for robust in (0.0, 0.05))
    np.testing.assert_array_equal(trusting, doubting)


# The model


@pytest.mark.parametrize("kind", ["peer_to_peer", "none", "dp_sgd"])
def test_of_nothing_nothing_is_learned(kind: str) -> None:
    plan = make_plan(kind, labels=2, sizes=[2, 3], epsilon=1.0, delta=1e-3)
    assert learn(plan, Learner(), FEATURES, reports_of([], []), randomness()) is None


def test_the_model_is_softmax_regression_on_the_targets() -> None:
    plan, reports = make_plan("none", labels=2, sizes=[2, 3, 1]), reports_of([0, 2, 2, 4], [0, 0, 1, 1])
    model = learn(plan, Learner(l2=0.01, max_iterations=30), FEATURES, reports, randomness())
    users = np.array([0, 2, 4])
    targets = np.array([[1, 0], [0.5, 0.5], [0, 1]])
    expected = fit_softmax(FEATURES[users], targets, 0.01, 30, np.array([1.0, 2.0, 1.0]))
    assert model is not None
    np.testing.assert_array_equal(model.weights, expected.weights)
    everyone = learn(plan, Learner(), FEATURES[:6], Reports(np.arange(6), np.arange(6) % 2, CLUSTERS[:6]), randomness())
    whole = fit_softmax(FEATURES[:6], one_hot(np.arange(6) % 2, 2), Learner().l2)
    assert everyone is not None
    np.testing.assert_array_equal(everyone.weights, whole.weights)


def test_dp_sgd_learns_from_the_labels_by_its_own_plan_whatever_their_order() -> None:
    plan = make_plan("dp_sgd", labels=2, sizes=[6], epsilon=2.0, delta=1e-2)
    users, labels = np.array([4, 0, 2]), np.array([1, 0, 1])
    settings: dict[str, Any] = {"plan": plan, "settings": Learner(), "features": FEATURES}
    found = [
        learn(**settings, reports=Reports(users[order], labels[order], CLUSTERS), randomness=randomness(3))
        for order in (np.array([0, 1, 2]), np.array([2, 0, 1]))
    ]
    expected = fit_dp_sgd(FEATURES[[0, 2, 4]], np.array([0, 1, 1]), 2, plan.learner, randomness(3))
    for model in found:
        assert model is not None
        np.testing.assert_array_equal(model.weights, expected.weights)
