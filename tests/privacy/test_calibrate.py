"""Calibration meets its target and does not overshoot; clusters of many sizes."""

import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters, account, account_clusters, calibrate, variance


@pytest.mark.parametrize("view", ["learner", "metadata", "shuffle", "peer"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_target_is_met_and_hardly_undershot(view, epsilon):
    found = calibrate(cluster_size=120, epsilon=epsilon, delta=1e-4, theta=0.5, view=view)
    again = account(view, Parameters(alpha=found.alpha, theta=found.theta), cluster_size=120).get_epsilon(1e-4)
    assert again.epsilon <= epsilon
    assert again.epsilon >= 0.99 * epsilon
    assert found.guarantee == again or found.guarantee.epsilon == again.epsilon


def test_where_the_worst_cluster_is_not_all_zeros_the_target_is_still_met():
    found = calibrate(cluster_size=200, epsilon=0.97, delta=2.5e-5, theta=1.0)
    assert found.guarantee.worst_ones not in (0, 199)
    assert 0.96 < found.guarantee.epsilon <= 0.97


def test_many_labels_are_calibrated_through_their_bound():
    found = calibrate(cluster_size=60, epsilon=1.0, delta=1e-3, theta=1.0, labels=4)
    assert found.guarantee.method == "upper_bound"
    assert 0.98 < found.guarantee.epsilon <= 1.0


def test_the_best_theta_has_no_more_variance_than_others():
    found = calibrate(cluster_size=80, epsilon=0.3, delta=1e-4)
    for theta in (1.0, 0.6, 0.3):
        other = calibrate(cluster_size=80, epsilon=0.3, delta=1e-4, theta=theta)
        assert found.variance <= other.variance * 1.001
    assert found.variance == variance(80, found.alpha, found.theta)


def test_epsilon_falls_with_alpha_up_to_one_half_as_far_as_was_looked():
    before = float("inf")
    for alpha in (0.01, 0.03, 0.08, 0.15, 0.25, 0.35, 0.45, 0.49):
        epsilon = account("learner", Parameters(alpha=alpha, theta=0.7), cluster_size=90).get_epsilon(1e-4).epsilon
        assert epsilon < before
        before = epsilon


def test_an_unreachable_target_names_the_least_reachable():
    with pytest.raises(RequestError, match="the least reachable is"):
        calibrate(cluster_size=10, epsilon=1e-9, delta=0, theta=1.0)
    with pytest.raises(RequestError, match="epsilon must be"):
        calibrate(cluster_size=10, epsilon=-1, delta=0.1)
    with pytest.raises(RequestError, match="view must be"):
        calibrate(cluster_size=10, epsilon=1, delta=0.1, view="nobody")


def test_a_run_is_as_private_as_its_worst_cluster():
    answers = account_clusters("learner", Parameters(alpha=0.1, theta=0.5), [0, 40, 25, 40, 90], 1e-4)
    assert sorted(answers.by_size) == [25, 40, 90]
    assert answers.worst_size == 25
    assert answers.worst.epsilon == max(answer.epsilon for answer in answers.by_size.values())
    with pytest.raises(RequestError, match="cluster sizes"):
        account_clusters("learner", Parameters(alpha=0.1, theta=0.5), [0], 1e-4)


def test_colluders_are_at_most_all_others_of_a_small_cluster():
    answers = account_clusters("coalition", Parameters(alpha=0.1, theta=0.5), [2, 30], 1e-2, colluders=3)
    assert answers.by_size[2].epsilon >= answers.by_size[30].epsilon
