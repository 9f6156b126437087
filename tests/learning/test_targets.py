import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import one_hot, pooled_reports, unflip


def test_one_hot_has_a_one_at_the_label():
    assert one_hot(np.array([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert one_hot(np.array([], dtype=np.int64), 3).shape == (0, 3)
    with pytest.raises(ValueError, match=r"0\.\.2"):
        one_hot(np.array([3]), 3)


def test_two_labels_and_a_quarter_of_flips_give_a_half_over_and_under():
    assert unflip(one_hot(np.array([1]), 2), 0.25).tolist() == [[-0.5, 1.5]]


@given(label_count=st.integers(2, 10), alpha=st.floats(0, 1))
def test_targets_sum_to_one_and_are_right_on_average_over_the_flips(label_count, alpha):
    if abs(alpha - (label_count - 1) / label_count) < 1e-3:
        return
    flips = np.full((label_count, label_count), alpha / (label_count - 1))
    np.fill_diagonal(flips, 1 - alpha)
    targets = unflip(one_hot(np.arange(label_count), label_count), alpha)
    assert np.allclose(targets.sum(axis=1), 1)
    assert np.allclose(flips @ targets, np.eye(label_count), atol=1e-8)


@pytest.mark.parametrize(("label_count", "alpha"), [(2, 0.5), (3, 2 / 3), (10, 0.9)])
def test_flips_that_leave_nothing_cannot_be_undone(label_count, alpha):
    with pytest.raises(RequestError, match=r"learner\.correct_flips cannot undo mechanism\.alpha"):
        unflip(one_hot(np.array([0]), label_count), alpha)


def test_one_label_cannot_flip():
    assert unflip(one_hot(np.array([0, 0]), 1), 0.3).tolist() == [[1], [1]]


def test_reports_of_several_rounds_are_pooled_by_user():
    users, shares, counts = pooled_reports(np.array([7, 3, 7, 7]), np.array([0, 1, 1, 1]), 2)
    assert users.tolist() == [3, 7]
    assert np.allclose(shares, [[0, 1], [1 / 3, 2 / 3]])
    assert counts.tolist() == [1, 3]
