"""Rounds with fresh noise: composed."""

import numpy as np
import pytest
from accounting import accounted

from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.privacy.losses import Losses, of_local


def fresh(view, users, alpha, theta, rounds, **more):
    return accounted(view, cluster_size=users, alpha=alpha, theta=theta, rounds=rounds, noise="fresh", **more)


def test_one_fresh_round_is_one_round():
    assert fresh("learner", 60, 0.1, 0.5, 1).get_epsilon(1e-4).method == "exact"


def test_fresh_rounds_cost_more_than_sticky_ones_in_the_end():
    sticky = account("learner", Parameters(alpha=0.1, rounds=20), cluster_size=100).get_epsilon(1e-4)
    composed = fresh("learner", 100, 0.1, 1.0, 20).get_epsilon(1e-4)
    assert sticky.epsilon < sticky.shuffle_epsilon < composed.epsilon
    assert composed.error_bound < 0.1 * composed.epsilon


def test_putting_losses_on_a_grid_only_raises_delta():
    rng = np.random.default_rng(1)
    one, zero = rng.dirichlet(np.ones(40), size=2)
    truth = lambda epsilon: np.maximum(0, one - np.exp(epsilon) * zero).sum()  # noqa: E731
    for step in (0.5, 0.1, 0.01):
        losses = Losses.of_pair(one, zero, step, limit=12.0)
        assert losses.mass.sum() + losses.infinite == pytest.approx(1)
        for epsilon in (0.0, 0.33, 1.234):
            assert truth(epsilon) - 1e-15 <= losses.deltas(epsilon)[0] <= truth(epsilon) + step


def test_a_label_without_noise_is_lost_at_once():
    assert of_local(1.0, 0.0, 0.25).times(2, 1e-30).deltas(5.0)[0] == pytest.approx(1 - 0.75**2)


@pytest.mark.parametrize("theta", [0.0, 1e-6])
def test_a_coalition_that_learns_little_from_reports_is_accounted_for_in_no_time(theta: float) -> None:
    """The seen label then decides; two rounds cost at most twice the local epsilon, and no less than one round."""
    settings = {"cluster_size": 10, "alpha": 0.1, "theta": theta, "colluders": 1}
    once = accounted("coalition", **settings).get_epsilon(1e-3)
    twice = accounted("coalition", **settings, rounds=2, noise="fresh").get_epsilon(1e-3)
    assert once.epsilon - once.error_bound <= twice.epsilon <= 2 * once.local_epsilon
