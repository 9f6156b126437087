"""Every model that ``learner.model`` can name learns soft targets, is repeatable, and is kept safely or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neural_network import MLPClassifier

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import Model, model_of, one_hot
from p2p_labeldp.learning.model import Storage
from p2p_labeldp.learning.models.boosted_trees import TreesModel
from p2p_labeldp.learning.weighted import fit_weighted
from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.scenario import MODELS, Learner

SETTINGS = Learner(max_iterations=40)
RANDOM = np.random.default_rng(4)
FEATURES = RANDOM.normal(size=(240, 3)).astype(np.float32)
LABELS = np.where(FEATURES[:, 0] > 0.3, 2, np.where(FEATURES[:, 1] > 0, 1, 0))


def fitted(name: str, targets: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Model:
    randomness = SeededRandomness(np.random.default_rng(8))
    return model_of(name).fit(SETTINGS, FEATURES, targets, weights, randomness)


def storage_of(name: str) -> Storage:
    storage = model_of(name).storage
    assert storage is not None
    return storage


@pytest.mark.parametrize("name", [*MODELS, "GaussianNB"])
@pytest.mark.parametrize("labels", [2, 3])
def test_models_learn_are_repeatable_and_tell_probabilities_of_all_labels(name: str, labels: int) -> None:
    mine = np.minimum(LABELS, labels - 1)
    model, again = (fitted(name, one_hot(mine, labels)) for _ in range(2))
    chances = model.predict_proba(FEATURES)
    assert chances.shape == (240, labels)
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert (chances.argmax(axis=1) == model.predict(FEATURES)).all()
    assert (model.predict(FEATURES) == mine).mean() > 0.75
    np.testing.assert_array_equal(chances, again.predict_proba(FEATURES))


@pytest.mark.parametrize("name", [*MODELS, "GaussianNB"])
def test_a_label_that_nobody_named_is_never_predicted(name: str) -> None:
    both = fitted(name, one_hot(np.minimum(LABELS, 1) * 2, 4))
    assert set(both.predict(FEATURES).tolist()) <= {0, 2}
    one = fitted(name, one_hot(np.full(240, 3), 4))
    assert set(one.predict(FEATURES).tolist()) == {3}


@pytest.mark.parametrize("name", ["mlp", "boosted_trees"])
@pytest.mark.parametrize("labels", [2, 3])
def test_our_predictions_are_scikit_learns(name: str, labels: int) -> None:
    """The arrays that are kept say what the fitted classifier does."""
    targets = one_hot(np.minimum(LABELS, labels - 1), labels)
    seed = int(SeededRandomness(np.random.default_rng(8)).integers(np.array([2**31]))[0])
    theirs: Any = (
        MLPClassifier((64,), alpha=SETTINGS.l2, max_iter=40, random_state=seed)
        if name == "mlp"
        else HistGradientBoostingClassifier(
            max_iter=40, l2_regularization=SETTINGS.l2, max_bins=64, early_stopping=False, random_state=seed
        )
    )
    found = fit_weighted(theirs, FEATURES, targets, None)
    assert fitted(name, targets).predict_proba(FEATURES) == pytest.approx(found.predict_proba(FEATURES), abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_soft_targets_are_learned_as_shares(name: str) -> None:
    """Nothing to tell examples apart but one feature: the model says each group's share, within .06."""
    side = (FEATURES[:, :1] > 0).astype(np.float32)
    shares = np.where(side > 0, [[0.8, 0.2, 0.0]], [[0.1, 0.3, 0.6]])
    model = model_of(name).fit(
        Learner(max_iterations=100), side, shares, None, SeededRandomness(np.random.default_rng(1))
    )
    assert model.predict_proba(side) == pytest.approx(shares, abs=0.06)


@pytest.mark.parametrize("name", MODELS)
def test_weights_count_as_often_as_they_say(name: str) -> None:
    """A tenth of the examples say otherwise with a hundred times the weight: they are believed."""
    side = np.zeros((100, 1), dtype=np.float32)
    targets = one_hot((np.arange(100) % 10 == 0).astype(np.int64), 2)
    weights = np.where(np.arange(100) % 10 == 0, 100.0, 1.0)
    randomness = SeededRandomness(np.random.default_rng(1))
    model = model_of(name).fit(Learner(max_iterations=100), side, targets, weights, randomness)
    assert model.predict(side[:1]).tolist() == [1]


@pytest.mark.parametrize("name", MODELS)
def test_arrays_read_back_to_the_same_predictions(name: str) -> None:
    storage, model = storage_of(name), fitted(name, one_hot(LABELS, 3))
    again = storage.from_arrays(storage.to_arrays(model), 3, 3)
    np.testing.assert_array_equal(model.predict_proba(FEATURES), again.predict_proba(FEATURES))
    arrays = storage.to_arrays(model)
    for labels, features in ((4, 3), (3, 2)):
        with pytest.raises(ValueError, match=r"fit|feature"):
            storage.from_arrays(arrays, labels, features)
    for array in arrays:
        for wrong in (arrays[array].astype(np.float32), arrays[array][None], arrays[array][:-1]):
            with pytest.raises(ValueError, match="does not fit the schema"):
                storage.from_arrays({**arrays, array: wrong}, 3, 3)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("left", 0, 0), ("right", 0, 10**9), ("left", 0, -1), ("feature", 0, 3), ("roots", 0, 10**9), ("label", 0, 3)],
)
def test_trees_that_loop_or_lead_out_of_the_file_are_refused(name: str, place: int, value: int) -> None:
    storage = storage_of("boosted_trees")
    model = fitted("boosted_trees", one_hot(LABELS, 3))
    assert isinstance(model, TreesModel)
    arrays = {key: array.copy() for key, array in storage.to_arrays(model).items()}
    arrays[name][place] = value
    with pytest.raises(ValueError, match=r"node|tree|feature"):
        storage.from_arrays(arrays, 3, 3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("KNeighborsClassifier", "takes no sample_weight"),
        ("sofmax", 'did you mean "softmax"'),
        ("", "it must be softmax, mlp, boosted_trees or the name of a classifier"),
        ("RidgeClassifier", "tells no probabilities"),
        ("StackingClassifier", "needs arguments"),
    ],
)
def test_a_model_that_cannot_be_fitted_is_refused_in_one_line(name: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        model_of(name)
    assert str(refused.value).startswith("learner.model = ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
