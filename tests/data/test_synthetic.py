import time

import numpy as np
import pytest
from scipy.special import softmax

from p2p_labeldp.data import load
from p2p_labeldp.data.sets import synthetic as module
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data


def test_conditional_is_what_the_true_hypothesis_predicts():
    made = load(Data(name="synthetic", labels=4, dimensions=3), seed=1)
    rows, tests = (np.column_stack([part, np.ones(len(part))]) for part in (made.features, made.test_features))
    hypothesis, *_ = np.linalg.lstsq(rows, np.log(made.conditional), rcond=None)
    assert np.allclose(made.conditional, softmax(rows @ hypothesis, axis=1), atol=1e-12)
    assert np.allclose(made.test_conditional, softmax(tests @ hypothesis, axis=1), atol=1e-12)


@pytest.mark.parametrize("rate", [0.0001, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("sharpness", [0.0, 1.0, 30.0])
def test_the_mean_probability_of_label_1_is_the_rate(rate, sharpness):
    made = load(Data(name="synthetic", rate=rate, sharpness=sharpness), seed=1)
    assert made.conditional[:, 1].mean() == pytest.approx(rate, rel=1e-6)


def test_labels_are_drawn_from_the_conditional():
    made = load(Data(name="synthetic", labels=3, users=100_000), seed=1)
    deviation = np.sqrt((made.conditional * (1 - made.conditional)).sum(axis=0))
    surprise = (np.bincount(made.labels) - made.conditional.sum(axis=0)) / deviation
    assert np.abs(surprise).max() < 5  # error probability below 2e-6


def test_given_clusters_are_the_gaussians():
    made = load(Data(name="synthetic", groups=5, users=20_000, spread=0.5), seed=1)
    assert made.given_clusters.max() == 4
    inside = np.concatenate(
        [
            made.features[made.given_clusters == g] - made.features[made.given_clusters == g].mean(axis=0)
            for g in range(5)
        ]
    )
    assert inside.std() == pytest.approx(0.5, rel=0.02)


def test_groups_that_nobody_is_in_have_no_id():
    made = load(Data(name="synthetic", groups=1000, users=3), seed=1)
    assert sorted(made.given_clusters.tolist()) == [0, 1, 2]


def test_users_and_test_examples_come_in_the_numbers_asked_for():
    assert len(load(Data(name="synthetic"), seed=1).labels) == 1000
    made = load(Data(name="synthetic", users=80), seed=1)
    assert (len(made.labels), len(made.test_labels)) == (80, 20)
    assert len(load(Data(name="synthetic", users=1), seed=1).labels) == 1


def test_the_size_of_the_blocks_changes_nothing(monkeypatch):
    data = Data(name="synthetic", users=1000, labels=3, dimensions=3)
    whole = load(data, seed=1)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1000)
    blocks = load(data, seed=1)
    assert np.array_equal(whole.features, blocks.features)
    assert np.array_equal(whole.labels, blocks.labels)


def test_three_million_users_take_seconds():
    begin = time.process_time()
    made = load(Data(name="synthetic", users=3_000_000, rate=0.02), seed=1)
    assert len(made.labels) == 3_000_000
    assert len(made.test_labels) == 100_000
    assert time.process_time() - begin < 10


@pytest.mark.parametrize("changes", [{"spread": 1e300}, {"separation": 1e39}, {"sharpness": 1e308}])
def test_a_scale_beyond_reason_is_refused_by_name(changes):
    with pytest.raises(RequestError, match=f"data.{next(iter(changes))} is"):
        load(Data(name="synthetic", **changes), seed=1)
