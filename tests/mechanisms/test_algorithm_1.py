"""Algorithm 1: q is a distribution above tau, and the soft target undoes the redrawing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from p2p_labeldp.data import quality
from p2p_labeldp.learning import one_hot, undrawn
from p2p_labeldp.mechanisms.algorithm_1 import (
    chance_for,
    cluster_counts,
    noisy_shares,
    renormalised,
    resampled,
    spent_epsilon,
)
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.privacy.paper import centralized_epsilon

label_counts = st.integers(2, 12)
parts = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


@st.composite
def raw_rows(draw: st.DrawFn) -> tuple[NDArray[np.float64], float]:
    label_count = draw(label_counts)
    values = st.one_of(st.floats(-1e9, 1e9), st.floats(-2, 2), st.sampled_from([0.0, 1.0, -1e300, 1e300]))
    raw = draw(hnp.arrays(np.float64, (draw(st.integers(1, 4)), label_count), elements=values))
    return raw, draw(parts) / label_count


def assert_distributions(q: NDArray[np.float64], tau: float) -> None:
    assert (q >= tau).all()
    assert (q <= 1).all()
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-12)


@given(raw_rows())
@example((np.array([[0.5, 0.5]]), 0.5))
@example((np.array([[np.inf, -np.inf, np.inf]]), 0.1))
@example((np.full((1, 3), np.inf), 1 / 3))
@example((np.full((1, 3), -np.inf), 0.0))
def test_any_noise_becomes_a_distribution_between_tau_and_1(case: tuple[NDArray[np.float64], float]) -> None:
    raw, tau = case
    assert_distributions(renormalised(raw, tau), tau)


def test_mass_moves_as_the_paper_says() -> None:
    # Too much: in proportion to the room above tau. Too little: in proportion to the room below 1.
    np.testing.assert_allclose(
        renormalised(np.array([[0.9, 0.5, -3.0]]), 0.1), [[0.9 - 0.5 * 2 / 3, 0.5 - 0.5 / 3, 0.1]]
    )
    rises = 0.6 * np.array([0.8, 0.9, 0.9]) / 2.6
    np.testing.assert_allclose(renormalised(np.array([[0.2, 0.1, 0.1]]), 0.0), [np.array([0.2, 0.1, 0.1]) + rises])


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    label_counts,
    parts,
    st.sampled_from([0.0, 0.3, 2.0, 50.0, 1e6, math.inf]),
    st.integers(0, 2**32),
)
@example([0, 1], 3, 1.0, 1.0, 0)
@example([0, 1], 2, 0.0, 0.0, 0)
@example([1], 2, 1.0, math.inf, 0)
def test_q_is_a_distribution_for_any_sizes_tau_and_sigma(
    sizes: list[int], label_count: int, part: float, sigma: float, seed: int
) -> None:
    """Empty and singleton clusters, tau = 1/K, sigma 0 and inf included."""
    generator = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    labels = generator.integers(0, label_count, len(clusters))
    counts = cluster_counts(labels, clusters, label_count, len(sizes))
    q = noisy_shares(counts, sigma, part / label_count, SeededRandomness(generator))
    assert_distributions(q, part / label_count)
    np.testing.assert_allclose(q[np.array(sizes) == 0], 1 / label_count)
    if part == 1.0 or sigma == math.inf:
        np.testing.assert_allclose(q, 1 / label_count)
    if sigma == 0 and part == 0:
        shares = np.where(counts.sum(1, keepdims=True) > 0, q_exact(counts), 1 / label_count)
        np.testing.assert_allclose(q, shares, atol=1e-15)


def q_exact(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


@st.composite
def distributions(draw: st.DrawFn) -> NDArray[np.float64]:
    weights = draw(hnp.arrays(np.float64, draw(label_counts), elements=st.floats(0.001, 1)))
    return weights / weights.sum()


@given(distributions(), st.floats(0, 0.99))
def test_the_modified_loss_is_unbiased_when_beta_is_lambda(q: NDArray[np.float64], beta: float) -> None:
    """Exactly, by expectation over the noisy label: its mean target is the true label's one-hot row."""
    label_count = len(q)
    targets = undrawn(np.eye(label_count), np.tile(q, (label_count, 1)), beta)
    redrawing = (1 - beta) * np.eye(label_count) + beta * q  # row: true label, column: noisy label
    np.testing.assert_allclose(redrawing @ targets, np.eye(label_count), atol=1e-13 / (1 - beta))


@given(distributions(), st.floats(0, 0.99))
def test_soft_targets_invert_the_redrawing_and_their_weights_have_no_factor_of_the_labels(
    q: NDArray[np.float64], beta: float
) -> None:
    label_count = len(q)
    targets = undrawn(np.eye(label_count), np.tile(q, (label_count, 1)), beta)
    matrix = (1 - beta) * np.eye(label_count) + beta * q[:, None]  # Q[y', y] of the paper
    np.testing.assert_allclose(targets.T, np.linalg.inv(matrix), atol=1e-11 / (1 - beta))
    np.testing.assert_allclose(targets.sum(axis=1), 1, atol=1e-12 / (1 - beta))
    assert np.abs(targets).sum(axis=1).max() <= (1 + beta) / (1 - beta) * (1 + 1e-12)


def test_beta_0_leaves_one_hot_targets() -> None:
    targets = one_hot(np.array([1, 0]), 2)
    np.testing.assert_array_equal(undrawn(targets, np.array([[0.3, 0.7]] * 2), 0.0), targets)


@pytest.mark.parametrize(("sigma", "tau"), [(0.5, 0.0), (2.0, 0.01), (10.0, 0.05), (40.0, 0.1)])
def test_the_distortion_stays_below_its_bound_in_expectation(sigma: float, tau: float) -> None:
    """psi's mean over 400 draws; its bound is 5 standard errors above or more, so chance plays no part here."""
    generator = np.random.default_rng(11)
    label_count, sizes = 10, np.array([50, 80, 200])
    clusters = np.repeat(np.arange(3), sizes)
    labels = np.minimum(generator.geometric(0.4, len(clusters)) - 1, label_count - 1)
    counts = cluster_counts(labels, clusters, label_count, 3)
    shares = quality.cluster_shares(labels, clusters, label_count)
    found = []
    for _ in range(400):
        q = noisy_shares(counts, sigma, tau, SeededRandomness(generator))
        found.append(np.abs(q - shares).sum(axis=1))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / 20
    bound = 2 * label_count * tau + 2 * math.sqrt(2) * label_count * sigma / sizes.min()
    assert (mean + 5 * error <= bound).all()


def test_labels_are_replaced_at_rate_lambda_by_draws_from_their_clusters_q() -> None:
    """80,000 users, 4 cells per cluster; each frequency within 5 standard errors: fails for one seed in 200,000."""
    users, chance = 80_000, 0.6
    q = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    clusters = np.arange(users) % 2
    noisy = resampled(np.zeros(users, dtype=np.int64), clusters, q, chance, SeededRandomness(np.random.default_rng(3)))
    for cluster in range(2):
        expected = chance * q[cluster] + (1 - chance) * np.eye(4)[0]
        shares = np.bincount(noisy[clusters == cluster], minlength=4) / (users / 2)
        np.testing.assert_array_less(np.abs(shares - expected), 5 * np.sqrt(expected * (1 - expected) / (users / 2)))


def test_nothing_is_replaced_at_lambda_0_and_everything_at_lambda_1() -> None:
    labels, clusters = np.zeros(100, dtype=np.int64), np.zeros(100, dtype=np.int64)
    q = np.array([[0.0, 1.0]])
    assert not resampled(labels, clusters, q, 0.0, SeededRandomness(np.random.default_rng(0))).any()
    assert resampled(labels, clusters, q, 1.0, SeededRandomness(np.random.default_rng(0))).all()


@given(st.floats(1e-6, 600), st.floats(1e-6, 0.5), st.sampled_from([2, 10]))
def test_the_least_lambda_costs_what_was_asked_for_and_no_more(cost: float, tau: float, label_count: int) -> None:
    chance = chance_for(cost, min(tau, 1 / label_count), label_count)
    spent = spent_epsilon(math.inf, min(tau, 1 / label_count), chance, label_count)
    assert 0.999 * cost <= spent <= cost


def test_the_account_is_the_corrected_one_with_the_rounding_of_draws_on_top() -> None:
    spent, formula = spent_epsilon(2.0, 0.05, 0.99, 2), centralized_epsilon(2.0, 0.05, 0.99)
    assert formula == pytest.approx(1.184, abs=1e-3)
    assert formula <= spent <= formula * (1 + 1e-12)
