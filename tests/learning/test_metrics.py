"""Metrics against scikit-learn's, and against what guessing must give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, recall_score, roc_auc_score

from p2p_labeldp.learning.metrics import baseline, metrics_of


@pytest.mark.parametrize("labels", [2, 4])
def test_every_metric_is_scikit_learns(labels: int) -> None:
    random = np.random.default_rng(labels)
    truth = random.integers(0, labels, 300)
    chances = random.dirichlet(np.ones(labels), 300).round(2) + 0.01  # with ties
    chances /= chances.sum(axis=1, keepdims=True)
    predicted = chances.argmax(axis=1)
    found = metrics_of(chances, predicted, truth)
    scores = chances[:, 1] if labels == 2 else chances
    assert found.accuracy == pytest.approx((predicted == truth).mean())
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert found.recall == pytest.approx(recall_score(truth, predicted, average=None))
    assert found.auc == pytest.approx(roc_auc_score(truth, scores, multi_class="ovr"))
    assert found.log_loss == pytest.approx(log_loss(truth, chances))


def test_guessing_the_commonest_label_looks_good_in_accuracy_alone() -> None:
    training, truth = np.repeat([0, 1], [95, 5]), np.repeat([0, 1], [190, 10])
    found = baseline(training, truth, 2)
    assert (found.accuracy, found.balanced_accuracy, found.recall, found.auc) == (0.95, 0.5, (1.0, 0.0), 0.5)
    assert found.log_loss == pytest.approx(-0.95 * math.log(0.95) - 0.05 * math.log(0.05))


def test_labels_without_test_examples_count_for_nothing() -> None:
    chances = np.tile([0.2, 0.3, 0.5], (4, 1))
    found = metrics_of(chances, np.full(4, 2), np.array([1, 1, 2, 2]))
    assert found.recall == (None, 0.0, 1.0)
    assert found.balanced_accuracy == 0.5
    assert metrics_of(chances, np.full(4, 2), np.full(4, 2)).auc is None


def test_a_certain_mistake_costs_much_and_not_everything() -> None:
    found = metrics_of(np.array([[1.0, 0.0]]), np.array([0]), np.array([1]))
    assert found.log_loss == pytest.approx(-math.log(1e-15))
