import numpy as np
import pytest

from p2p_labeldp.data import Dataset


def make(**changes):
    fields = {
        "name": "made up",
        "features": np.zeros((3, 2), dtype=np.float32),
        "labels": np.array([0, 1, 1]),
        "test_features": np.zeros((1, 2), dtype=np.float32),
        "test_labels": np.array([0]),
        "classes": ("no", "yes"),
    }
    return Dataset(**fields | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.array([0, 1])},
        {"labels": np.array([0, 1, 2])},
        {"labels": np.array([0, 1, -1])},
        {"labels": np.array([0, 1, 1], dtype=np.int32)},
        {"features": np.zeros((3, 2))},
        {"features": np.zeros((2, 3), dtype=np.float32).T},
        {"features": np.array([[0, 0], [0, np.nan], [0, 0]], dtype=np.float32)},
        {"features": np.array([[np.inf, -np.inf], [0, 0], [0, 0]], dtype=np.float32)},
        {"test_features": np.zeros((1, 3), dtype=np.float32)},
        {"test_labels": np.array([0, 0])},
        {"given_clusters": np.array([0, 2, 2])},
        {"given_clusters": np.array([0, 1])},
        {"conditional": np.zeros((3, 3))},
        {"test_conditional": np.zeros((2, 2))},
    ],
)
def test_a_dataset_that_does_not_fit_together_cannot_be_made(changes):
    make()
    with pytest.raises(ValueError):
        make(**changes)
