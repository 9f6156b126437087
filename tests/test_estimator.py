import doctest
import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from p2p_labeldp import estimator as module
from p2p_labeldp.errors import RequestError
from p2p_labeldp.estimator import LabelPrivateClassifier
from p2p_labeldp.learning.weighted import weighted_rows
from p2p_labeldp.privacy import Relation
from p2p_labeldp.scenario import MECHANISMS as EVERY

DIGITS, NAMES = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
BLOBS, WHICH = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)


CHECKS = [
    pytest.param(estimator, check, marks=[] if place == 0 else pytest.mark.slow)
    for place, classifier in enumerate(
        (
            LabelPrivateClassifier("cluster_rr"),
            LabelPrivateClassifier(),
            LabelPrivateClassifier("dp_sgd"),
            LabelPrivateClassifier(estimator=LogisticRegression()),
        )
    )
    for estimator, check in estimator_checks_generator(classifier)
    if "array_api" not in str(check)  # arrays of other libraries are not supported
]


def named(value: object) -> str:
    """An estimator or a check without its address, so that every process calls a test the same."""
    check = getattr(value, "func", None)
    return str(value) if check is None else str(check.__name__)


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=named)
def test_it_keeps_scikit_learns_conventions(estimator, check):
    with warnings.catch_warnings():
        # The check reports the checks it skipped by a warning of its own.
        warnings.filterwarnings("ignore", category=UserWarning, module="sklearn.utils.estimator_checks")
        check(estimator)


@pytest.mark.parametrize("mechanism", EVERY)
def test_every_mechanism_fits_predicts_and_says_what_it_spent(mechanism):
    classifier = LabelPrivateClassifier(mechanism, epsilon=3.0, delta=1e-5, random_state=1).fit(BLOBS, WHICH)
    assert classifier.score(BLOBS, WHICH) > 0.9
    privacy = classifier.privacy_
    assert classifier.plan_.kind == mechanism
    assert privacy.relation == (Relation.REPLACE_EXAMPLE if mechanism == "dp_sgd" else Relation.REPLACE_LABEL)
    assert privacy.method in ("exact", "upper_bound")
    if mechanism == "none":
        assert privacy.epsilon == np.inf
    else:
        assert 0.999 * 3.0 <= privacy.epsilon <= 3.0
        assert privacy.delta <= 1e-5
        assert classifier.plan_.numbers
    assert len(classifier.clusters_) == 600


def test_fitting_leaves_numpys_global_stream_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    LabelPrivateClassifier("cluster_rr", clusterer=KMeans(3, n_init=1), estimator=RandomForestClassifier(5)).fit(
        BLOBS, WHICH
    )
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_string_labels_come_back_as_strings():
    names = np.array(["ash", "birch", "cedar"])[WHICH]
    classifier = LabelPrivateClassifier("cluster_rr", epsilon=3.0, random_state=0).fit(BLOBS, names)
    assert list(classifier.classes_) == ["ash", "birch", "cedar"]
    assert classifier.score(BLOBS, names) > 0.9


@pytest.mark.parametrize(
    ("mechanism", "learner"),
    [
        *product(["rr_with_prior", "peer_to_peer", "shuffle"], [LogisticRegression(), RandomForestClassifier(20)]),
        ("peer_to_peer", GaussianNB()),
        ("none", make_pipeline(GaussianNB())),  # which takes no weights, and need not
    ],
)
def test_any_classifier_may_learn_from_noisy_labels(mechanism, learner):
    classifier = LabelPrivateClassifier(mechanism, epsilon=3.0, estimator=learner, random_state=0).fit(BLOBS, WHICH)
    assert classifier.score(BLOBS, WHICH) > 0.85
    assert np.allclose(classifier.predict_proba(BLOBS).sum(axis=1), 1)


def test_soft_targets_refuse_a_classifier_without_weights():
    with pytest.raises(RequestError, match="estimator = KNeighborsClassifier is not allowed"):
        LabelPrivateClassifier(estimator=KNeighborsClassifier()).fit(BLOBS, WHICH)


def test_a_classifier_without_probabilities_predicts_and_offers_none():
    classifier = LabelPrivateClassifier("cluster_rr", epsilon=3.0, estimator=LinearSVC(), random_state=0)
    assert classifier.fit(BLOBS, WHICH).score(BLOBS, WHICH) > 0.85
    assert not hasattr(classifier, "predict_proba")


@pytest.mark.parametrize("clusterer", [KMeans(4, n_init=1), AgglomerativeClustering(3), DBSCAN(eps=0.8)])
def test_any_clusterer_may_group_the_examples(clusterer):
    classifier = LabelPrivateClassifier("cluster_rr", epsilon=3.0, clusterer=clusterer, random_state=0)
    classifier.fit(BLOBS, WHICH)
    assert classifier.score(BLOBS, WHICH) > 0.9
    assert np.bincount(classifier.clusters_).min() >= 10


def test_the_clusters_do_not_depend_on_the_labels():
    one, other = (
        LabelPrivateClassifier("peer_to_peer", random_state=4).fit(BLOBS, labels).clusters_
        for labels in (WHICH, np.roll(WHICH, 1))
    )
    assert np.array_equal(one, other)


def test_small_clusters_join_others_unless_told_otherwise():
    lonely = np.vstack([BLOBS, [[100.0, 100.0]]])
    labels = np.append(WHICH, 0)
    for least, count in ((1, 4), (10, 3)):
        classifier = LabelPrivateClassifier(
            "cluster_rr", clusterer=KMeans(4, n_init=3), min_cluster_size=least, random_state=0
        ).fit(lonely, labels)
        assert len(np.bincount(classifier.clusters_)) == count


def test_it_works_in_a_pipeline_and_a_grid_search():
    pipeline = make_pipeline(StandardScaler(), LabelPrivateClassifier("cluster_rr", random_state=0))
    grid = {"labelprivateclassifier__epsilon": [0.5, 4.0], "labelprivateclassifier__mechanism": ["cluster_rr", "none"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(BLOBS, WHICH)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[-1].clusters_.any()


def test_options_reach_the_mechanism():
    classifier = LabelPrivateClassifier("cluster_rr", mechanism_options={"tau": 0.02}).fit(BLOBS, WHICH)
    assert classifier.plan_.numbers["tau"] == 0.02
    descent = LabelPrivateClassifier("dp_sgd", mechanism_options={"clip": 2.0, "relation": "add_or_remove"})
    assert descent.fit(BLOBS, WHICH).plan_.numbers["clip"] == 2.0
    assert descent.privacy_.relation == Relation.ADD_OR_REMOVE


@pytest.mark.parametrize("mechanism", EVERY)
def test_a_single_class_is_no_secret_and_costs_nothing(mechanism):
    classifier = LabelPrivateClassifier(mechanism).fit(BLOBS, np.full(600, "only"))
    assert set(classifier.predict(BLOBS)) == {"only"}
    assert classifier.privacy_.epsilon == 0
    assert np.array_equal(classifier.predict_proba(BLOBS), np.ones((600, 1)))


@pytest.mark.parametrize("mechanism", EVERY)
@pytest.mark.parametrize("count", [2, 11])
def test_the_smallest_data_sets_work(mechanism, count):
    classifier = LabelPrivateClassifier(mechanism, random_state=0).fit(BLOBS[:count], np.arange(count) % 2)
    assert classifier.predict(BLOBS).shape == (600,)
    assert np.allclose(classifier.predict_proba(BLOBS).sum(axis=1), 1)


def test_when_no_one_reports_nothing_is_known():
    options = {"alpha": 0.3, "theta": 1e-12}
    classifier = LabelPrivateClassifier(epsilon=None, random_state=0, mechanism_options=options).fit(BLOBS, WHICH)
    assert np.allclose(classifier.predict_proba(BLOBS), 1 / 3)


def test_noisy_labels_of_one_class_alone_predict_it():
    classifier = LabelPrivateClassifier(
        "rr_with_prior", estimator=LogisticRegression(), random_state=0, mechanism_options={"prior": [0, 0, 1]}
    ).fit(BLOBS, WHICH)
    assert np.array_equal(classifier.predict_proba(BLOBS[:1]), [[0, 0, 1]])


def test_a_class_that_no_noisy_label_names_has_probability_zero():
    labels = np.arange(600) % 2
    classifier = LabelPrivateClassifier("none", estimator=GaussianNB()).fit(BLOBS, np.append(labels[:-1], 2))
    classifier.estimator_ = GaussianNB().fit(BLOBS, labels * 2)
    shares = classifier.predict_proba(BLOBS)
    assert shares.shape == (600, 3)
    assert not shares[:, 1].any()


def test_weighted_rows_keep_the_positive_part_of_each_example():
    rows, labels, weights = weighted_rows(np.array([[1.5, -0.25, -0.25], [0.6, 0.6, -0.2], [0.0, 0.0, 1.0]]))
    assert rows.tolist() == [0, 1, 1, 2]
    assert labels.tolist() == [0, 0, 1, 2]
    assert weights.tolist() == [1, 0.5, 0.5, 1]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"mechanism": "magic"}, "mechanism is 'magic'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"mechanism": "dp_sgd", "estimator": GaussianNB()}, "leave estimator at None"),
        ({"mechanism_options": {"tua": 1}}, "tua"),
        ({"mechanism": "dp_sgd", "mechanism_options": {"tua": 1}}, "tua"),
        ({"mechanism": "dp_sgd", "epsilon": None}, "epsilon is needed"),
        ({"mechanism_options": {"alpha": 0.1}}, "alpha is given beside"),
        ({"mechanism": "cluster_rr", "mechanism_options": {"theta": 0.5}}, "theta"),
        ({"mechanism_options": {"noise": "loud"}}, "noise must be"),
        ({"min_cluster_size": 0}, "minimum_size"),
    ],
)
def test_a_wrong_request_names_its_field(settings, named):
    with pytest.raises(ValueError, match=named):
        LabelPrivateClassifier(**settings).fit(BLOBS, WHICH)


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(module).attempted >= 5
    assert doctest.testmod(module).failed == 0
