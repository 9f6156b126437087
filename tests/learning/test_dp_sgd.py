"""DP-SGD's descent: exact clipping, the planned noise, Poisson batches."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from p2p_labeldp.learning import dp_sgd as module
from p2p_labeldp.learning.dp_sgd import clipped_sum, fit_dp_sgd, pace
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.dp_sgd import plan_steps

FEATURES = np.random.default_rng(1).normal(scale=2, size=(40, 5))
LABELS = np.random.default_rng(2).integers(3, size=40)
WEIGHTS = np.random.default_rng(3).normal(size=(6, 3))


def fitted(features, labels, label_count, seed, **settings):
    plan = plan_steps(len(features), **settings)
    return fit_dp_sgd(features, labels, label_count, plan, SeededRandomness(np.random.default_rng(seed))), plan


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
    labels = np.zeros(50, dtype=int)
    settings = {"epsilon": 1.0, "delta": 1e-5, "clip": 0.5, "batch_size": 25, "epochs": 0.5, "learning_rate": 1.0}
    model, plan = fitted(features, labels, 2, 5, **settings)
    assert plan.steps == 1
    planned = plan.noise_multiplier * 0.5 / 25
    # 8000 normal variates: the deviation's own is 1/sqrt(16000) of it; six of them, error probability 2e-9.
    assert model.weights.std() == pytest.approx(planned, rel=6 / math.sqrt(16_000))
    assert abs(model.weights.mean()) < 6 * planned / math.sqrt(8000)


def test_batches_are_poisson_samples(monkeypatch):
    sizes = []
    original = clipped_sum

    def watched(features, labels, batch, weights, clip):
        sizes.append(len(batch))
        return original(features, labels, batch, weights, clip)

    monkeypatch.setattr(module, "clipped_sum", watched)
    labels = np.random.default_rng(4).integers(2, size=400)
    fitted(np.zeros((400, 1)), labels, 2, 0, epsilon=math.inf, batch_size=100, epochs=100)
    assert len(sizes) == 400
    # Binomial(400, 1/4): deviation sqrt(75). Mean and variance of 400 draws, within six of their deviations.
    assert np.mean(sizes) == pytest.approx(100, abs=6 * math.sqrt(75 / 400))
    assert np.var(sizes) == pytest.approx(75, rel=6 * math.sqrt(2 / 400))


def test_it_learns_digits_when_epsilon_is_large():
    features, labels = load_digits(return_X_y=True)
    features = (features / 16).astype(np.float32)
    accuracies = [
        (fitted(features, labels, 10, 0, epsilon=epsilon)[0].predict(features) == labels).mean()
        for epsilon in (math.inf, 20.0, 2.0, 0.01)
    ]
    assert accuracies[0] > 0.93
    assert accuracies[1] > 0.92
    assert accuracies[2] > 0.8
    assert accuracies[3] < 0.5


@pytest.mark.parametrize("steps", [1, 2, 10, 101])
def test_a_gradient_weighs_what_it_would_in_the_mean_of_the_second_half_of_the_iterates(steps):
    """The mean's weights, counted: the share of averaged iterates that come after a gradient."""
    averaged = range(steps // 2, steps)
    counted = [sum(step <= iterate for iterate in averaged) / len(averaged) for step in range(steps)]
    assert [pace(step, steps) for step in range(steps)] == pytest.approx(counted, abs=1 / steps)


def test_accuracy_does_not_fall_as_noise_does_where_labels_are_noisy_and_features_share_a_mean():
    """Steps of one length, whose second half was averaged, had .517, .499 and .527 here."""
    rng = np.random.default_rng(1)
    centres = 0.05 * rng.normal(size=(5, 200))
    true = rng.integers(5, size=5000)
    features = 0.5 + centres[true] + 0.2 * rng.normal(size=(5000, 200))
    labels = np.where(rng.random(5000) < 0.5, rng.integers(5, size=5000), true)
    found = []
    for epsilon in (4.0, 20.0, math.inf):
        model, _ = fitted(features[:3000], labels[:3000], 5, 0, epsilon=epsilon, delta=1e-5)
        found.append((model.predict(features[3000:]) == labels[3000:]).mean())
    # 2,000 test examples: the deviation of a difference is at most .016. Seeds are fixed; .045 was seen.
    assert min(found[1:]) > found[0] + 0.02
