import builtins
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.datasets import load_digits

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import dp_sgd as module
from p2p_labeldp.learning.dp_sgd import RELATIONS, clipped_sum, fit_dp_sgd, plan_dp_sgd, spent_epsilon

FEATURES = np.random.default_rng(1).normal(scale=2, size=(40, 5))
LABELS = np.random.default_rng(2).integers(3, size=40)
WEIGHTS = np.random.default_rng(3).normal(size=(6, 3))


def per_example_gradients(features, labels, weights):
    """Cross-entropy's gradient of each example by itself, by central differences; the bias is the last row."""

    def losses(at):
        logits = features @ at[:-1] + at[-1]
        return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]

    gradients = np.empty((len(labels), *weights.shape))
    for place in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[place] = 1e-6
        gradients[:, *place] = (losses(weights + step) - losses(weights - step)) / 2e-6
    return gradients


@pytest.mark.parametrize("clip", [0.01, 1.0, 5.0, 1e6])
def test_the_sum_is_that_of_explicit_gradients_each_clipped(clip):
    gradients = per_example_gradients(FEATURES, LABELS, WEIGHTS)
    norms = np.sqrt((gradients**2).sum(axis=(1, 2)))
    explicit = (gradients * np.minimum(1, clip / norms)[:, None, None]).sum(axis=0)
    ours = clipped_sum(FEATURES, LABELS, np.arange(40), WEIGHTS, clip)
    assert np.allclose(ours, explicit, atol=1e-6 * min(clip, 100), rtol=1e-6)


def test_no_example_moves_the_sum_by_more_than_the_clip():
    for example in range(40):
        alone = clipped_sum(FEATURES * 100, LABELS, np.array([example]), WEIGHTS, 0.7)
        assert np.linalg.norm(alone) <= 0.7 * (1 + 1e-12)


def test_gradients_below_the_clip_are_left_alone():
    small = clipped_sum(FEATURES, LABELS, np.array([4]), WEIGHTS, 1e3)
    assert np.allclose(small, clipped_sum(FEATURES, LABELS, np.array([4]), WEIGHTS, 1e9), rtol=1e-12)


def test_an_example_that_is_fitted_perfectly_and_an_empty_batch_add_nothing():
    sure = np.zeros((6, 3))
    sure[-1] = [1000.0, 0.0, 0.0]
    assert not clipped_sum(FEATURES, np.zeros(40, dtype=int), np.arange(40), sure, 1.0).any()
    assert not clipped_sum(FEATURES, LABELS, np.arange(0), WEIGHTS, 1.0).any()


def test_blocks_change_nothing(monkeypatch):
    whole = clipped_sum(FEATURES, LABELS, np.arange(40), WEIGHTS, 1.0)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 20)
    assert np.allclose(whole, clipped_sum(FEATURES, LABELS, np.arange(40), WEIGHTS, 1.0), atol=1e-13)


def test_the_noise_has_the_planned_deviation():
    """One step from zero on examples without features or gradient: what is left is noise over the batch size."""
    features = np.zeros((50, 4000))
    fit = fit_dp_sgd(
        features,
        np.zeros(50, dtype=int),
        2,
        epsilon=1.0,
        delta=1e-5,
        clip=0.5,
        batch_size=25,
        epochs=0.5,
        learning_rate=1.0,
        generator=np.random.default_rng(5),
    )
    assert fit.plan.steps == 1
    planned = fit.plan.noise_multiplier * 0.5 / 25
    # 8000 normal variates: the deviation's own is 1/sqrt(16000) of it; six of them, error probability 2e-9.
    assert fit.model.weights.std() == pytest.approx(planned, rel=6 / math.sqrt(16_000))
    assert abs(fit.model.weights.mean()) < 6 * planned / math.sqrt(8000)


def test_batches_are_poisson_samples(monkeypatch):
    sizes = []
    original = clipped_sum

    def watched(features, labels, batch, weights, clip):
        sizes.append(len(batch))
        return original(features, labels, batch, weights, clip)

    monkeypatch.setattr(module, "clipped_sum", watched)
    fit_dp_sgd(
        np.zeros((400, 1)),
        np.random.default_rng(4).integers(2, size=400),
        2,
        epsilon=math.inf,
        batch_size=100,
        epochs=100,
        generator=np.random.default_rng(0),
    )
    assert len(sizes) == 400
    # Binomial(400, 1/4): deviation sqrt(75). Mean and variance of 400 draws, within six of their deviations.
    assert np.mean(sizes) == pytest.approx(100, abs=6 * math.sqrt(75 / 400))
    assert np.var(sizes) == pytest.approx(75, rel=6 * math.sqrt(2 / 400))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 4.0])
@pytest.mark.parametrize(("examples", "batch", "delta"), [(1000, 100, None), (60_000, 2000, None), (30, 30, 1e-6)])
def test_a_plan_spends_at_most_its_epsilon_and_nearly_all_of_it(relation, epsilon, examples, batch, delta):
    plan = plan_dp_sgd(examples, epsilon=epsilon, delta=delta, relation=relation, batch_size=batch, epochs=3)
    assert 0.999 * epsilon <= plan.epsilon <= epsilon
    assert plan.delta == (delta or 1 / examples)
    again = spent_epsilon(
        plan.noise_multiplier, plan.delta, relation, plan.sampling_rate, plan.steps, interval=epsilon / 4000
    )
    assert again <= epsilon


def gaussian_epsilon(shift, delta):
    """epsilon at delta of N(0, 1) against N(shift, 1), from its closed form."""
    return brentq(
        lambda e: norm.cdf(shift / 2 - e / shift) - math.exp(e) * norm.cdf(-shift / 2 - e / shift) - delta, 0, 50
    )


@pytest.mark.parametrize(("relation", "move"), [("replace", 2), ("add_or_remove", 1)])
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
    epsilon = spent_epsilon(0.8, 0.01, "replace", 0.1, 1)
    assert divergence((1, 0), (-1, 0), 0.1, 0.8, epsilon) <= 0.01 + 1e-5
    assert divergence((1, 0), (-1, 0), 0.1, 0.8, epsilon * 0.99) > 0.01


def test_a_replacement_needs_more_noise_than_an_addition():
    settings = {"epsilon": 1.0, "batch_size": 100, "epochs": 5}
    replace, add = (plan_dp_sgd(2000, relation=relation, **settings) for relation in RELATIONS)
    assert plan_dp_sgd(2000, **settings) == replace
    assert 1.4 < replace.noise_multiplier / add.noise_multiplier <= 2.05


def test_the_same_seed_gives_the_same_model_and_another_one_another():
    def weights(seed):
        return fit_dp_sgd(FEATURES, LABELS, 3, epsilon=5.0, generator=np.random.default_rng(seed)).model.weights

    assert np.array_equal(weights(1), weights(1))
    assert not np.array_equal(weights(1), weights(2))


def test_it_learns_digits_when_epsilon_is_large():
    features, labels = load_digits(return_X_y=True)
    features = (features / 16).astype(np.float32)
    accuracies = [
        fit_dp_sgd(features, labels, 10, epsilon=epsilon, generator=np.random.default_rng(0)).model.accuracy(
            features, labels
        )
        for epsilon in (math.inf, 20.0, 2.0, 0.01)
    ]
    assert accuracies[0] > 0.93
    assert accuracies[1] > 0.92
    assert accuracies[2] > 0.8
    assert accuracies[3] < 0.5


def test_without_dp_accounting_one_line_names_the_extra(monkeypatch):
    original = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RequestError, match=r"p2p-labeldp\[accounting\]"):
        spent_epsilon(1.0, 1e-5, "replace", 0.1, 10)


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
        fit_dp_sgd(FEATURES, LABELS, 3, generator=np.random.default_rng(0), **settings)
