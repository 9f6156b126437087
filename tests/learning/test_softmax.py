import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import fit_softmax, one_hot, pooled_reports, unflip
from p2p_labeldp.learning import softmax as module
from p2p_labeldp.learning.softmax import Objective

FEATURES = np.random.default_rng(1).normal(loc=2, size=(50, 4))
LABELS = np.random.default_rng(2).integers(3, size=50)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_that_of_the_loss(alpha, weighted):
    draw = np.random.default_rng(2)
    weight = draw.uniform(0, 3, size=50) if weighted else None
    objective = Objective(FEATURES, unflip(one_hot(LABELS, 3), alpha), l2=0.1, sample_weight=weight)
    point = draw.normal(size=objective.size)
    numeric = approx_fprime(point, lambda at: objective(at)[0], 1e-7)
    assert np.allclose(objective(point)[1], numeric, atol=1e-5)


def test_the_loss_is_mean_cross_entropy_plus_the_penalty_of_the_weights_alone():
    model = fit_softmax(FEATURES, one_hot(LABELS, 3), l2=0.1)
    entropy = -np.log(model.predict_proba(FEATURES)[np.arange(50), LABELS]).mean()
    assert model.loss == pytest.approx(entropy + 0.05 * (model.weights**2).sum(), rel=1e-9)


def test_blocks_of_rows_change_nothing(monkeypatch):
    targets = unflip(one_hot(LABELS, 3), 0.2)
    draw = np.random.default_rng(3)
    weight, point = draw.uniform(size=50), draw.normal(size=15)
    whole = Objective(FEATURES, targets, 0.1, weight)(point)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 28)
    blocks = Objective(FEATURES, targets, 0.1, weight)(point)
    assert whole[0] == pytest.approx(blocks[0], rel=1e-12)
    assert np.allclose(whole[1], blocks[1], atol=1e-14)


def test_it_agrees_with_scikit_learn_on_digits():
    features, labels = load_digits(return_X_y=True)
    features = (features / 16).astype(np.float32)
    l2 = 1e-3
    ours = fit_softmax(features, one_hot(labels, 10), l2, max_iterations=1000, tolerance=1e-9)
    theirs = LogisticRegression(C=1 / (l2 * len(labels)), max_iter=1000, tol=1e-6).fit(features, labels)
    assert np.abs(ours.predict_proba(features) - theirs.predict_proba(features)).max() < 0.01
    assert (ours.predict(features) == theirs.predict(features)).mean() > 0.998


def test_a_shift_of_the_features_moves_only_the_bias():
    targets = one_hot(LABELS, 3)
    near, far = (fit_softmax(FEATURES + shift, targets, 0.01, 500, tolerance=1e-12) for shift in (0, 1000))
    assert np.allclose(near.weights, far.weights, atol=1e-4)


def test_correcting_flips_removes_their_bias():
    """Half the labels 0 flip away at random; the corrected model still finds the true share."""
    labels = np.repeat([0, 1], [1000, 9000])
    flipped = np.where(np.random.default_rng(4).random(10_000) < 0.3, 1 - labels, labels)
    nothing = np.zeros((10_000, 1), dtype=np.float32)
    plain = fit_softmax(nothing, one_hot(flipped, 2), 1e-3).predict_proba(nothing[:1])[0, 1]
    corrected = fit_softmax(nothing, unflip(one_hot(flipped, 2), 0.3), 1e-3).predict_proba(nothing[:1])[0, 1]
    # Five deviations of the flips' share, 5 * sqrt(.21 / 10000) / .4: error probability below 1e-6.
    assert corrected == pytest.approx(0.9, abs=0.057)
    assert plain == pytest.approx(0.9 * 0.7 + 0.1 * 0.3, abs=0.023)


def test_pooled_reports_with_weights_give_the_model_of_the_single_reports():
    draw = np.random.default_rng(5)
    users, labels = draw.integers(50, size=400), draw.integers(3, size=400)
    ids, shares, counts = pooled_reports(users, labels, 3)
    single = fit_softmax(FEATURES[users], one_hot(labels, 3), 0.01, 500, tolerance=1e-13)
    pooled = fit_softmax(FEATURES[ids], shares, 0.01, 500, sample_weight=counts, tolerance=1e-13)
    assert np.allclose(single.weights, pooled.weights, atol=1e-4)


@pytest.mark.parametrize(
    ("features", "labels", "label_count"),
    [
        (np.ones((1, 1)), [1], 2),
        (np.ones((5, 3)), [0, 1, 0, 1, 1], 2),
        (np.zeros((4, 2)), [0, 0, 0, 0], 1),
        (np.array([[-1.0], [1.0]]), [0, 1], 2),
        (np.zeros((3, 0)), [0, 1, 1], 2),
        (np.array([[1e4, 0], [0, 1e-4]]), [2, 2], 3),
    ],
)
def test_the_smallest_problems_work(features, labels, label_count):
    features, labels = features.astype(np.float32), np.array(labels)
    model = fit_softmax(features, one_hot(labels, label_count), 1e-4)
    assert (model.predict(features) == labels).mean() >= np.bincount(labels).max() / len(labels)
    assert np.allclose(model.predict_proba(features).sum(axis=1), 1)


def test_separable_data_without_a_penalty_still_end():
    features = np.array([[-1.0], [1.0]], dtype=np.float32)
    model = fit_softmax(features, one_hot(np.array([0, 1]), 2), l2=0)
    assert model.predict(features).tolist() == [0, 1]
    assert model.iterations <= 100


def test_features_of_float32_are_not_copied():
    features = FEATURES.astype(np.float32)
    assert Objective(features, one_hot(LABELS, 3), 0.1).features is features


def test_negative_targets_need_a_penalty():
    with pytest.raises(RequestError, match=r"learner\.l2"):
        fit_softmax(FEATURES, unflip(one_hot(LABELS, 3), 0.1), l2=0)


@pytest.mark.parametrize("l2", [-1, float("nan"), float("inf")])
def test_an_impossible_penalty_is_refused(l2):
    with pytest.raises(RequestError, match=r"learner\.l2"):
        fit_softmax(FEATURES, one_hot(LABELS, 3), l2=l2)


def test_targets_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        fit_softmax(FEATURES, np.ones((50, 3)), l2=0.1)
    with pytest.raises(ValueError, match="as many rows"):
        fit_softmax(FEATURES, np.ones((49, 1)), l2=0.1)
    with pytest.raises(ValueError, match="as many rows"):
        fit_softmax(FEATURES[:0], np.ones((0, 1)), l2=0.1)


def test_a_class_whose_corrected_labels_weigh_less_than_nothing_does_not_carry_the_model_away() -> None:
    """With a free bias the loss would fall without end: its minimum is far away, but it is one."""
    features = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    labels = np.repeat([0, 1, 2], [100, 90, 10])
    targets = unflip(one_hot(labels, 3), 0.55)
    assert targets.mean(axis=0).min() < 0
    model = fit_softmax(features, targets, l2=1e-2, max_iterations=500, tolerance=1e-12)
    again = fit_softmax(features, targets, l2=1e-2, max_iterations=1000, tolerance=1e-12)
    assert model.iterations < 500
    assert abs(model.loss - again.loss) < 1e-9 * abs(model.loss)
    assert np.abs(model.bias).max() < 1e4
