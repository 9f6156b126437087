"""DP-SGD's plan: noise that spends what was asked for, under a named neighbouring relation."""

import builtins
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.dp_sgd import BATCH_SHARE, EPOCHS, REACH, RELATIONS, Steps, plan_steps, spent_epsilon
from p2p_labeldp.privacy import Relation


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("epsilon", "examples", "batch", "delta"), [(0.05, 1000, 100, None), (0.5, 60_000, 2000, None), (4.0, 30, 30, 1e-6)]
)
def test_a_plan_spends_at_most_its_epsilon_and_nearly_all_of_it(relation, epsilon, examples, batch, delta):
    plan = plan_steps(examples, epsilon=epsilon, delta=delta, relation=relation, batch_size=batch, epochs=3)
    assert 0.999 * epsilon <= plan.epsilon <= epsilon
    assert plan.delta == (delta or 1 / examples)
    again = spent_epsilon(
        plan.noise_multiplier, plan.delta, plan.relation, plan.sampling_rate, plan.steps, interval=epsilon / 4000
    )
    assert again <= epsilon


def gaussian_epsilon(shift, delta):
    """epsilon at delta of N(0, 1) against N(shift, 1), from its closed form."""
    return brentq(
        lambda e: norm.cdf(shift / 2 - e / shift) - math.exp(e) * norm.cdf(-shift / 2 - e / shift) - delta, 0, 50
    )


@pytest.mark.parametrize(("relation", "move"), [(Relation.REPLACE_EXAMPLE, 2), (Relation.ADD_OR_REMOVE, 1)])
def test_without_sampling_a_replacement_counts_as_twice_the_clip(relation, move):
    exact = gaussian_epsilon(move * math.sqrt(30) / 12, 1e-5)
    ours = spent_epsilon(12, 1e-5, relation, 1.0, 30)
    assert exact <= ours <= exact * 1.001


def divergence(first, second, rate, noise, epsilon):
    """The hockey-stick divergence of two sampled Gaussians in the plane, summed on a fine grid."""
    line = np.linspace(-8 * noise, 8 * noise, 301)
    one, other = np.meshgrid(line, line)

    def density(mean):
        def bell(x, y):
            return np.exp(-((one - x) ** 2 + (other - y) ** 2) / (2 * noise**2)) / (2 * math.pi * noise**2)

        return (1 - rate) * bell(0, 0) + rate * bell(*mean)

    cell = (line[1] - line[0]) ** 2
    return float(np.maximum(density(first) - math.exp(epsilon) * density(second), 0).sum() * cell)


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 0.8), (0.5, 1.5)])
@pytest.mark.parametrize("epsilon", [-0.2, 0.0, 0.1, 0.5])
def test_no_two_clipped_gradients_are_further_apart_than_opposite_ones(rate, noise, epsilon):
    worst = divergence((1, 0), (-1, 0), rate, noise, epsilon)
    for angle in np.linspace(0, math.pi, 7):
        for near, far in ((1, 1), (0.5, 1), (1, 0.5), (0, 1), (1, 0)):
            pair = (near, 0), (far * math.cos(angle), far * math.sin(angle))
            assert divergence(*pair, rate, noise, epsilon) <= worst + 1e-7


def test_the_accountant_bounds_opposite_gradients_of_one_step():
    epsilon = spent_epsilon(0.8, 0.01, Relation.REPLACE_EXAMPLE, 0.1, 1)
    assert divergence((1, 0), (-1, 0), 0.1, 0.8, epsilon) <= 0.01 + 1e-5
    assert divergence((1, 0), (-1, 0), 0.1, 0.8, epsilon * 0.99) > 0.01


def test_a_replacement_needs_more_noise_than_an_addition():
    settings = {"epsilon": 1.0, "batch_size": 100, "epochs": 5}
    replace, add = (plan_steps(2000, relation=relation, **settings) for relation in RELATIONS)
    assert plan_steps(2000, **settings) == replace
    assert 1.4 < replace.noise_multiplier / add.noise_multiplier <= 2.05


def test_without_dp_accounting_one_line_names_the_extra(monkeypatch):
    original = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RequestError, match=r"p2p-labeldp\[accounting\]"):
        spent_epsilon(1.0, 1e-5, Relation.REPLACE_EXAMPLE, 0.1, 10)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "relation": "swap"}, "relation"),
        ({"epsilon": 1.0, "batch_size": 0}, "batch_size"),
        ({"epsilon": 1.0, "epochs": 0}, "epochs"),
        ({"epsilon": 1.0, "clip": 0.0}, "clip"),
        ({"epsilon": 1.0, "learning_rate": math.nan}, "learning_rate"),
        ({"epsilon": 1.0, "l2": -1.0}, "l2"),
    ],
)
def test_an_impossible_request_names_its_field(settings, named):
    with pytest.raises(RequestError, match=named):
        plan_steps(40, **settings)


# Defaults: public numbers in, a learning rate out; no label has a part in them.


def steps(noise=0.0, clip=1.0, rate=None):
    return Steps(1.0, 1e-5, Relation.REPLACE_EXAMPLE, noise, 0.1, 100, clip, rate)


def test_the_rate_balances_the_reach_with_the_variance_of_sampling_and_noise():
    assert steps().rate_for(weights=50, batch=400) == pytest.approx(REACH / math.sqrt(100 / 400))
    variance = 1 / 400 + 50 * (8 / 400) ** 2
    assert steps(noise=8.0).rate_for(weights=50, batch=400) == pytest.approx(REACH / math.sqrt(100 * variance))


def test_the_rate_is_in_units_of_the_clip_and_a_given_one_stands():
    assert steps(clip=2.0).rate_for(50, 400) == steps().rate_for(50, 400) / 2
    assert steps(noise=8.0, rate=0.25).rate_for(50, 400) == 0.25


def test_the_passes_and_the_batch_are_those_of_the_docstring():
    plan = plan_steps(2000, epsilon=math.inf)
    assert plan.sampling_rate == BATCH_SHARE
    assert plan.steps == round(EPOCHS / BATCH_SHARE)
    assert plan.learning_rate is None
