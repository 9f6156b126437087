"""The shuffled view, and the bounds through clones that need nobody's label."""

import math

import numpy as np
import pytest
from scipy import stats

from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.privacy.clones import Clones
from p2p_labeldp.privacy.pairs import solve
from p2p_labeldp.privacy.views import LocalNoise


@pytest.mark.parametrize(
    ("cluster_size", "epsilon"),
    [(200, 0.853), (500, 0.529), (1000, 0.377)],
)
def test_known_values(cluster_size, epsilon):
    answer = account("shuffle", Parameters(alpha=0.1), cluster_size=cluster_size).get_epsilon(1 / cluster_size**2)
    assert answer.epsilon == pytest.approx(epsilon, abs=5e-4)
    assert answer.method == "exact"


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("cluster_size", [50, 400])
def test_exact_then_shuffle_then_variation_ratio_then_clones(cluster_size, alpha):
    delta = 1e-6
    noise = LocalNoise.flip(alpha, 2)
    answer = account("learner", Parameters(alpha=alpha), cluster_size=cluster_size).get_epsilon(delta)
    others, right = cluster_size - 1, noise.high / (noise.high + noise.low)
    variation, clones = (
        solve(bound.pairs(delta * 1e-9), delta, noise.epsilon)
        for bound in (Clones.variation_ratio(others, noise), Clones(others, noise.low / noise.high, right, 1.0))
    )
    assert answer.epsilon <= answer.shuffle_epsilon <= variation <= clones
    closed = math.log1p(
        (math.exp(noise.epsilon) - 1)
        / (math.exp(noise.epsilon) + 1)
        * (
            8 * math.sqrt(math.exp(noise.epsilon) * math.log(4 / delta) / cluster_size)
            + 8 * math.exp(noise.epsilon) / cluster_size
        )
    )
    if noise.epsilon <= math.log(cluster_size / (16 * math.log(2 / delta))):
        assert clones <= closed


@pytest.mark.parametrize("labels", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_the_learner_of_many_labels_is_bounded_by_the_shuffled_bound(labels):
    answer = account("learner", Parameters(alpha=0.3, theta=0.5, labels=labels), cluster_size=300).get_epsilon(1e-5)
    assert answer.method == "upper_bound"
    assert 0 < answer.epsilon < 0.8 * answer.shuffle_epsilon < answer.local_epsilon


def test_with_two_labels_the_bound_is_above_the_exact_value():
    for theta in (0.2, 1.0):
        accountant = account("learner", Parameters(alpha=0.2, theta=theta), cluster_size=150)
        exact = accountant.get_epsilon(1e-5).epsilon
        bound = accountant.profile.bounds.epsilon(1e-5)
        assert exact <= bound <= 2 * exact


@pytest.mark.parametrize("clones", [0, 1, 6, 37])
def test_the_clones_threshold_is_the_hockey_stick(clones):
    noise = LocalNoise(0.7, 0.1)
    pairs = Clones(clones, 1.0, noise.high / 0.8, 0.8).pairs(1e-20)
    base = stats.binom.pmf(np.arange(clones + 1), clones, 0.5)
    right, wrong = 0.875, 0.125
    one = wrong * np.append(base, 0) + right * np.append(0, base)
    zero = right * np.append(base, 0) + wrong * np.append(0, base)
    for epsilon in (0.0, 0.3, 1.5, 1.94):
        truth = 0.8 * np.maximum(0, one - np.exp(epsilon) * zero).sum()
        assert truth <= pairs.deltas(epsilon)[0, 0, 0] <= truth + 1e-9
