"""An estimator of scikit-learn: a classifier whose training labels go through a mechanism first.

    >>> from sklearn.datasets import load_digits
    >>> from p2p_labeldp.estimator import LabelPrivateClassifier
    >>> features, labels = load_digits(return_X_y=True)
    >>> classifier = LabelPrivateClassifier("cluster_rr", epsilon=2.0, random_state=0).fit(features / 16, labels)
    >>> classifier.privacy_.epsilon <= 2.0
    True
    >>> classifier.score(features / 16, labels) > 0.7
    True

What is public: the features, the clusters made from them, the set of classes and the number of examples. What is
private: each example's label. ``fit`` clusters the features, calibrates the mechanism for the sizes found, releases
noisy labels once, and learns from those alone, by the same functions as ``run``; ``privacy_`` says what that cost.

Every ``fit`` is a release of its own, and epsilons add up: a grid search of c candidates with k folds costs an example
(k-1) c + 1 times the epsilon of one fit, and its scores are computed from the true labels, which no epsilon
here covers. Search on public data, or on another data set, where that matters.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from p2p_labeldp.arrays import Doubles, Labels, Matrix
from p2p_labeldp.data.clusters import given_clusters, kmeans_clusters
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning import Reports, SoftmaxModel, learn, learned_prior, model_of, targets_of
from p2p_labeldp.learning.weighted import all_labels, certain, fit_weighted
from p2p_labeldp.mechanisms import Plan, make_coins, make_plan, mechanism_of, randomness_of
from p2p_labeldp.privacy import Guarantee, Parameters, View
from p2p_labeldp.runs.guarantees import Circumstances, cluster_sizes, guarantees, headline
from p2p_labeldp.runs.results import reports_of
from p2p_labeldp.scenario import MECHANISMS, SECTIONS, Coins, Learner
from p2p_labeldp.streams import Purpose

# The default clustering: at most so many clusters, so many examples in each on average.
_MOST_CLUSTERS, _MEAN_SIZE = 100, 50
# Options that are parameters of the exchange, not of one mechanism.
_EXCHANGE = ("theta", "rounds", "noise")


def _tells_probabilities(classifier: "LabelPrivateClassifier") -> bool:
    return (
        classifier.estimator is None
        or isinstance(classifier.estimator, str)
        or hasattr(classifier.estimator, "predict_proba")
    )


class LabelPrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from labels made noisy by a mechanism with a stated epsilon.

    Parameters
    ----------
    mechanism : as ``mechanism.kind`` of a scenario names it; `MECHANISMS` lists them. ``dp_sgd`` protects whole
        examples while learning softmax regression; it needs the extra ``accounting`` and takes no estimator.
    epsilon, delta : the most that a fit may spend. Mechanisms with pure epsilon leave delta at 0; delta None is
        1/(smallest cluster)^2, at most 1/examples (dp_sgd: 1/examples). With epsilon None, ``mechanism_options`` must
        give the mechanism's parameters, and ``privacy_`` says what they cost.
    clusterer : any clusterer of scikit-learn (``fit_predict``), such as ``KMeans(100)``; it sees the features alone.
        A number is k-means as runs do it, with so many clusters; None is n // 50 of them, at least 1 and at most 100.
    estimator : any classifier, or what ``learner.model`` of a scenario takes (``"mlp"``, ``"boosted_trees"``, the name
        of a class of scikit-learn); None is softmax regression with l2 = 1e-4, which wants features of a similar scale
        (pixels in 0..1, or a ``StandardScaler`` before it). Its targets undo the mechanism's known bias; some of them
        are negative. Where a label says nothing of its reporter (``peer_to_peer``, ``shuffle``), or next to nothing
        (``cluster_rr`` and ``centralized`` with lambda from .9), all members of a cluster share one target, the
        cluster's shares of labels as far as its reports tell: none negative. Other classifiers learn soft targets as
        weights: each example becomes up to K weighted rows (mind the memory), and the classifier must take
        ``sample_weight``. They take no negative weights, so without pooling only the positive part of a target
        remains. That is the noisy label itself: such a classifier learns from noisy labels as they are, and under
        uniform flips it is right about the most probable class but too unsure of it.
    random_state : a number or RandomState repeats a fit exactly, for experiments: with it anyone can undo every flip.
        None takes the operating system's randomness.
    min_cluster_size : smaller clusters join the nearest one, since mechanisms are calibrated for the smallest; 1 merges
        none.
    correct_flips : whether the learner undoes the flips' bias; it costs no privacy.
    mechanism_options : further settings of the mechanism, such as ``{"tau": 0.01}``, ``{"theta": 0.5}`` or dp_sgd's
        ``{"clip": 2.0}``.

    Attributes
    ----------
    classes_, n_features_in_ : as everywhere in scikit-learn. The set of classes is taken to be public.
    privacy_ : a `Guarantee`: what this fit spent. Every further fit on the same labels spends as much again.
    plan_ : the mechanism's `Plan`: whom it trusts (``plan_.trust``), what its noise came to (``plan_.numbers``).
    clusters_ : the cluster of each training example.
    estimator_ : the fitted classifier, whose labels are positions in ``classes_``; a `SoftmaxModel` by default.
    """

    classes_: NDArray[Any]
    privacy_: Guarantee
    plan_: Plan | None
    clusters_: Labels | None
    estimator_: Any

    def __init__(
        self,
        mechanism: str = "peer_to_peer",
        epsilon: float | None = 1.0,
        delta: float | None = None,
        clusterer: Any = None,
        estimator: Any = None,
        random_state: Any = None,
        min_cluster_size: int = 10,
        correct_flips: bool = True,
        mechanism_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.clusterer = clusterer
        self.estimator = estimator
        self.random_state = random_state
        self.min_cluster_size = min_cluster_size
        self.correct_flips = correct_flips
        self.mechanism_options = mechanism_options

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        features, labels = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(labels)
        if self.mechanism not in MECHANISMS:
            raise RequestError(f"mechanism is {self.mechanism!r}; allowed are {', '.join(MECHANISMS)}")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        codes = codes.astype(np.int64).reshape(-1)
        coins = _coins(self.random_state)
        self.clusters_, self.plan_ = None, None
        if len(self.classes_) == 1:
            self._know(features)
        else:
            self._release(features, codes, coins)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        features = self._validated(X)
        best: NDArray[Any] = self.classes_[self.estimator_.predict(features)]
        return best

    @available_if(_tells_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Doubles:
        features = self._validated(X)
        found: Doubles = np.asarray(self.estimator_.predict_proba(features), dtype=np.float64)
        if not hasattr(self.estimator_, "classes_"):  # a model of ours, which knows all labels
            return found
        # Classes that no noisy label named are unknown to the estimator.
        return all_labels(found, self.estimator_.classes_, len(self.classes_))

    def _validated(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self, "estimator_")
        features: Matrix = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return features

    def _know(self, features: Matrix) -> None:
        """One class: its labels say nothing that is not public, so nothing is released and nothing spent."""
        self.estimator_ = SoftmaxModel(np.zeros((1, features.shape[1])), np.zeros(1))
        self.privacy_ = Guarantee(
            epsilon=0.0, delta=0.0, view="learner", method="exact", reason="there is a single class, which is public"
        )

    def _release(self, features: Matrix, codes: Labels, coins: Coins) -> None:
        clusters = self._cluster(features, coins.seed)
        plan, delta = self._plan(np.bincount(clusters))
        if isinstance(self.estimator, str):
            model_of(self.estimator)
        if plan.learner is not None and self.estimator is not None:
            raise RequestError(f"mechanism {plan.kind} learns softmax regression itself: leave estimator at None")
        population = Population(features, codes, lambda ids, _: clusters[ids])
        drawn = make_coins(coins.source, coins.seed)
        settings = self._settings()

        def prior_of(users: Labels, labels: Labels) -> Doubles:
            return learned_prior(plan, settings, features, users, labels)

        outcome = run_vectorized(population, plan, drawn, randomness_of(coins, Purpose.CURATOR), prior_of)
        self.clusters_, self.plan_ = clusters, plan
        table = guarantees(plan, Circumstances(cluster_sizes(clusters, plan.parameters), delta), (View.LEARNER,))
        self.privacy_ = table[headline(table)]
        # From here on nothing sees the true labels.
        self.estimator_ = self._learn(plan, features, reports_of(outcome), coins)

    def _plan(self, sizes: NDArray[np.integer]) -> tuple[Plan, float]:
        options = dict(self.mechanism_options or {})
        exchange = {name: options.pop(name) for name in _EXCHANGE if name in options}
        foreign = [name for name in exchange if name not in MECHANISMS[self.mechanism].keys]
        if foreign:
            raise RequestError(f"mechanism_options has {foreign[0]!r}, which is no option of {self.mechanism}")
        delta = self.delta
        if delta is None:
            delta = mechanism_of(self.mechanism).default_delta(sizes[sizes > 0].tolist(), int(sizes.sum()))
        labels = len(self.classes_)
        parameters = Parameters(0.0, labels=labels, **exchange)
        plan = make_plan(
            self.mechanism,
            labels=labels,
            sizes=sizes.tolist(),
            epsilon=self.epsilon,
            delta=delta,
            parameters=parameters,
            **options,
        )
        return plan, delta

    def _cluster(self, features: Matrix, seed: int) -> Labels:
        if self.clusterer is None or isinstance(self.clusterer, int | np.integer):
            usual = min(_MOST_CLUSTERS, max(1, len(features) // _MEAN_SIZE))
            count = usual if self.clusterer is None else int(self.clusterer)
            if not 1 <= count <= len(features):
                raise RequestError(f"clusterer = {count} is not allowed; from 1 to the {len(features)} examples")
            return kmeans_clusters(features, count, self.min_cluster_size, seed).assignment
        clusterer = clone(self.clusterer)
        _seed_unseeded(clusterer, np.random.default_rng(seed))
        with warnings.catch_warnings():
            # Fewer distinct points than clusters: the clusters that exist are as good.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = np.unique(clusterer.fit_predict(features), return_inverse=True)[1].reshape(-1).astype(np.int64)
        return given_clusters(features, found, self.min_cluster_size).assignment

    def _learn(self, plan: Plan, features: Matrix, reports: Reports, coins: Coins) -> Any:
        labels = plan.parameters.labels
        settings = self._settings()
        if self.estimator is None or isinstance(self.estimator, str) or not len(reports):
            model = learn(plan, settings, features, reports, randomness_of(coins, Purpose.LEARNER))
            # Where no one reported nothing is known.
            return model or SoftmaxModel(np.zeros((labels, features.shape[1])), np.zeros(labels))
        found = targets_of(plan, settings, features, reports)
        estimator = clone(self.estimator)
        _seed_unseeded(estimator, np.random.default_rng([coins.seed, 1]))
        fitted = fit_weighted(estimator, features[found.users], found.targets, found.weights)
        return certain(found.targets, features) if fitted is None else fitted

    def _settings(self) -> Learner:
        model = self.estimator if isinstance(self.estimator, str) else "softmax"
        found: Learner = SECTIONS["learner"](model=model, correct_flips=self.correct_flips)  # plugins may add keys
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Hundreds of examples are few at epsilon 1: the noise that privacy asks for may leave little to learn.
        tags.classifier_tags.poor_score = True
        return tags


def _coins(random_state: Any) -> Coins:
    """A number is the seed itself, as in a scenario; without one the operating system's randomness."""
    if random_state is None:
        # Public choices (where k-means starts) need a number all the same.
        return Coins("system", int(np.random.SeedSequence().generate_state(1)[0]))
    if isinstance(random_state, int | np.integer):
        return Coins("seeded", int(random_state))
    return Coins("seeded", int(check_random_state(random_state).randint(2**31)))


def _seed_unseeded(estimator: Any, generator: np.random.Generator) -> None:
    """A seed for every ``random_state`` that was left at None, nested ones too."""
    unset = sorted(
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    if unset:
        estimator.set_params(**{name: int(generator.integers(2**31)) for name in unset})
