"""The learner's view with two labels: exact, never below the truth, fast at any size."""

import math
from fractions import Fraction

import numpy as np
import pytest
from accounting import accounted
from scipy import stats

from p2p_labeldp.privacy.profile import pure_epsilon
from p2p_labeldp.privacy.reports import Reports
from p2p_labeldp.privacy.worst import worst_epsilon


def learner(cluster_size, alpha, theta, **more):
    return accounted("learner", cluster_size=cluster_size, alpha=alpha, theta=theta, **more)


@pytest.mark.parametrize(
    ("cluster_size", "alpha", "theta", "delta", "epsilon"),
    [
        (200, 0.1, 1.0, 1 / 200**2, 0.5148),
        (500, 0.1, 1.0, 4e-6, 0.3400),
        (1000, 0.1, 1.0, 1e-6, 0.2488),
        (500, 0.1, 0.05, 4e-6, 0.1008),
        (200, 0.02, 1.0, 2.5e-5, 0.9706),
        (200, 0.1, 0.5, 2.5e-5, 0.3609),
    ],
)
def test_known_values(cluster_size, alpha, theta, delta, epsilon):
    answer = learner(cluster_size, alpha, theta).get_epsilon(delta)
    assert answer.epsilon == pytest.approx(epsilon, abs=5e-5)
    assert answer.method == "exact"
    assert answer.relation == "replace one label"


def test_the_worst_cluster_is_not_always_all_zeros():
    assert learner(200, 0.02, 1.0).get_epsilon(2.5e-5).worst_ones in (3, 196)
    assert learner(200, 0.1, 1.0).get_epsilon(2.5e-5).worst_ones in (0, 199)


def direct_sum(cluster_size, alpha, theta, epsilon, rounds=1):
    """The learner's delta for every n1, up and down, summed over every m, k and N1 with scipy's point masses."""
    n, trials = cluster_size, cluster_size * rounds
    distributions = np.zeros((n + 1, n + 1))
    for ones in range(n + 1):
        stays = stats.binom.pmf(np.arange(ones + 1), ones, 1 - alpha)
        distributions[ones] = np.convolve(stays, stats.binom.pmf(np.arange(n - ones + 1), n - ones, alpha))
    shares = (np.arange(n + 1) / n)[:, None]
    arrive = stats.binom.pmf(np.arange(trials + 1), trials, theta)
    up, down = np.zeros(n), np.zeros(n)
    for sent in np.flatnonzero(arrive > 1e-40):
        received = distributions @ stats.binom.pmf(np.arange(sent + 1)[None, :], sent, shares)
        without, victim = received[:-1], received[1:]
        up += arrive[sent] * np.maximum(0, victim - np.exp(epsilon) * without).sum(axis=1)
        down += arrive[sent] * np.maximum(0, without - np.exp(epsilon) * victim).sum(axis=1)
    return up, down


@pytest.mark.parametrize(
    ("cluster_size", "alpha", "theta", "rounds"),
    [
        (60, 0.1, 0.5, 1),
        (60, 0.02, 1.0, 1),
        (45, 0.4, 0.3, 1),
        (45, 0.2, 0.9, 3),
        (80, 0.3, 0.02, 1),
        (70, 0.0, 0.5, 1),
    ],
)
def test_delta_is_the_direct_sum_over_every_n1(cluster_size, alpha, theta, rounds):
    for epsilon in (0.05, 0.4, 1.0):
        up, down = direct_sum(cluster_size, alpha, theta, epsilon, rounds)
        truth = max(up.max(), down.max())
        found = learner(cluster_size, alpha, theta, rounds=rounds).get_delta(epsilon)
        assert found.method == "exact"
        assert truth * (1 - 1e-12) <= found.delta <= truth * (1 + 1e-6) + 1e-15
        if truth > 1e-12:
            assert found.delta - found.error_bound <= truth * (1 + 1e-9)


@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 0.5), (0.02, 1.0), (0.35, 0.2)])
def test_epsilon_is_where_the_direct_sum_reaches_delta(alpha, theta):
    for delta in (1e-2, 1e-5, 1e-9):
        answer = learner(50, alpha, theta).get_epsilon(delta)
        for epsilon, holds in ((answer.epsilon, True), (answer.epsilon - answer.error_bound - 1e-9, False)):
            if epsilon > 0:
                up, down = direct_sum(50, alpha, theta, epsilon)
                assert bool(max(up.max(), down.max()) <= delta * (1 + 1e-9)) == holds
        assert answer.error_bound <= max(1e-9, 1e-6 * answer.epsilon)


def fractional_delta(cluster_size, alpha, ones, epsilon):
    """delta at theta = 1 in rational arithmetic, for one n1 and both directions."""
    n, grown = cluster_size, Fraction(math.exp(epsilon))
    distributions = []
    for held in (ones, ones + 1):
        distribution = [Fraction(1)]
        for user in range(n):
            one = 1 - alpha if user < held else alpha
            distribution = [
                (distribution[j] if j < len(distribution) else 0) * (1 - one) + (distribution[j - 1] if j else 0) * one
                for j in range(len(distribution) + 1)
            ]
        distributions.append(
            [
                sum(
                    mass * math.comb(n, k) * Fraction(j, n) ** k * Fraction(n - j, n) ** (n - k)
                    for j, mass in enumerate(distribution)
                )
                for k in range(n + 1)
            ]
        )
    pairs = list(zip(*distributions, strict=True))
    up = sum(max(Fraction(0), one - grown * zero) for zero, one in pairs)
    return max(up, sum(max(Fraction(0), zero - grown * one) for zero, one in pairs))


@pytest.mark.parametrize("delta", [1e-4, 1e-15])
def test_small_deltas_agree_with_rational_arithmetic(delta):
    n, alpha = 24, 0.25
    answer = learner(n, alpha, 1.0).get_epsilon(delta)
    assert answer.error_bound <= max(1e-9, 1e-6 * answer.epsilon)
    assert all(fractional_delta(n, Fraction(1, 4), ones, answer.epsilon) <= delta for ones in range(n // 2))
    below = answer.epsilon - answer.error_bound
    assert fractional_delta(n, Fraction(1, 4), answer.worst_ones, below) > delta


def test_more_ones_in_the_reports_are_better_evidence_for_a_one():
    """The likelihood ratio grows with k for each m, so the optimal test is a threshold."""
    zero, one = Reports(29, 30, 30, 0.5, 0.1, 0.1).rows(4, 4, 1e-30).table
    for without, victim in zip(zero, one, strict=True):
        both = (without > 1e-200) & (victim > 1e-200)
        ratio = victim[both] / without[both]
        assert (np.diff(ratio) >= -1e-10 * ratio[:-1]).all()


def test_a_cover_is_at_least_as_bad_as_every_pair_it_covers():
    reports = Reports(99, 100, 100, 0.6, 0.1, 0.1)
    exact = reports.rows(0, 49, 1e-20).deltas([0.1, 0.5])
    for block in ((0, 3), (5, 20), (10, 49), (0, 49)):
        cover = reports.cover([block], 1e-20).deltas([0.1, 0.5])
        assert (exact[:, block[0] : block[1] + 1] <= cover).all()


def test_giving_up_the_search_leaves_a_proved_bound_beside_the_searched_value():
    reports = Reports(4999, 5000, 5000, 0.5, 0.4, 0.4)
    full = worst_epsilon(reports, 1e-6, math.log(1.5))
    early = worst_epsilon(reports, 1e-6, math.log(1.5), work=1e5)
    assert not early.exact
    assert early.searched <= full.value <= early.value <= 1.1 * full.value


def test_the_pure_epsilon_is_that_of_a_cluster_of_zeros():
    answer = learner(8, 0.2, 0.5).get_epsilon(0)
    assert answer.method == "exact"
    assert answer.worst_ones == 0
    assert answer.epsilon == pytest.approx(pure_epsilon(8, 8, 0.2), rel=1e-12)
    above, below = (max(map(np.max, direct_sum(8, 0.2, 0.5, answer.epsilon + shift))) for shift in (1e-7, -1e-3))
    assert above < 1e-17
    assert below > 1e-15


def test_large_clusters_are_exact_too():
    answer = learner(20_000, 0.1, 1.0).get_epsilon(1e-9)
    assert answer.method == "exact"
    assert 0.0674 < answer.epsilon < 0.0675
    assert answer.error_bound <= max(1e-9, 1e-6 * answer.epsilon)


def test_what_the_paper_says_stands_beside():
    answer = learner(1000, 0.1, 1.0).get_epsilon(1e-6)
    assert answer.paper_epsilon == pytest.approx(2.87, abs=5e-3)
    assert answer.shuffle_epsilon == pytest.approx(0.377, abs=5e-4)
    assert answer.local_epsilon == pytest.approx(math.log(9))
    assert learner(500, 0.1, 1.0).get_epsilon(4e-6).paper_epsilon is None
