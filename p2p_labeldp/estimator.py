"""scikit-learn's way in: a classifier whose training labels go through a mechanism first.

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
noisy labels once, and learns from those alone; ``privacy_`` says what that cost.

Every ``fit`` is a release of its own, and epsilons add up: a grid search of c candidates with k folds costs an example
(k-1) c + 1 times the epsilon of one fit, and its scores are computed from the true labels, which no epsilon
here covers. Search on public data, or on another data set, where that matters.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from p2p_labeldp.data.clusters import given_clusters, kmeans_clusters
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.dp_sgd import OPTIONS, TRUST, fit_dp_sgd
from p2p_labeldp.learning.softmax import Doubles, Matrix, SoftmaxModel, fit_softmax
from p2p_labeldp.learning.targets import one_hot
from p2p_labeldp.mechanisms.catalogue import KINDS, make_mechanism

Codes = NDArray[np.int64]

# Corrected labels have negative targets, which need a penalty; this one hardly moves the model of clean labels.
L2 = 1e-4
# Mechanisms after which a label says nothing of its reporter, only of her cluster.
_EXCHANGED = ("peer_to_peer", "shuffle")
# The default clustering: at most so many clusters, so many examples in each on average.
_MOST_CLUSTERS, _MEAN_SIZE = 100, 50


@dataclass(frozen=True)
class Privacy:
    """What one ``fit`` spent: ``epsilon`` at ``delta``, for neighbours as ``relation`` says.

    ``replace`` is one label replaced, and for dp_sgd one whole example. ``trust`` says who must be trusted for it to
    hold, ``method`` how the number was found (``exact`` or ``upper_bound``), ``parameters`` are the mechanism's own,
    ``cluster_sizes`` the clusters it was calibrated for.
    """

    mechanism: str
    epsilon: float
    delta: float
    relation: str
    method: str
    trust: str
    parameters: Mapping[str, float]
    cluster_sizes: tuple[int, ...]


def _tells_probabilities(classifier: "LabelPrivateClassifier") -> bool:
    return classifier.estimator is None or hasattr(classifier.estimator, "predict_proba")


class LabelPrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from labels made noisy by a mechanism with a stated epsilon.

    Parameters
    ----------
    mechanism : one of ``uniform_rr``, ``cluster_rr``, ``centralized``, ``peer_to_peer``, ``shuffle``,
        ``rr_with_prior``, ``none`` or ``dp_sgd``. The last protects whole examples while learning softmax regression;
        it needs the extra ``accounting`` and takes no estimator.
    epsilon, delta : the most that a fit may spend. Mechanisms with pure epsilon leave delta at 0. With epsilon
        None, ``mechanism_options`` must give the mechanism's parameters, and ``privacy_`` says what they cost.
    clusterer : any clusterer of scikit-learn (``fit_predict``), such as ``KMeans(100)``; it sees the features alone.
        None is k-means with n // 50 clusters, at least 1 and at most 100.
    estimator : any classifier; None is softmax regression with l2 = 1e-4, which wants features of a similar scale
        (pixels in 0..1, or a ``StandardScaler`` before it). Its targets undo the mechanism's known bias; some of them
        are negative. After an exchange (``peer_to_peer``, ``shuffle``) a label says nothing of its reporter, so all
        members of a cluster share one target, the cluster's shares of labels as far as its reports tell: none
        negative. Other classifiers learn soft targets as weights: each example becomes up to K weighted rows (mind the
        memory), and the classifier must take ``sample_weight``. They take no negative weights, so without an
        exchange only the positive part of a target remains. That is the noisy label itself: such a classifier learns
        from noisy labels as they are, and under uniform flips it is right about the most probable class but too
        unsure of it.
    random_state : a number or RandomState repeats a fit exactly, for experiments: who knows it knows the noise. None
        takes the operating system's randomness.
    min_cluster_size : smaller clusters join the nearest one, since mechanisms are calibrated for the smallest; 1 merges
        none.
    mechanism_options : further settings of the mechanism, such as ``{"tau": 0.01}`` or dp_sgd's ``{"clip": 2.0}``.

    Attributes
    ----------
    classes_, n_features_in_ : as everywhere in scikit-learn. The set of classes is taken to be public.
    privacy_ : a `Privacy`: what the fit spent, under whose trust.
    clusters_ : the cluster of each training example (None for dp_sgd, which has no use for clusters).
    estimator_ : the fitted classifier, whose labels are positions in ``classes_``; a `SoftmaxModel` by default.
    """

    classes_: NDArray[Any]
    privacy_: Privacy
    clusters_: Codes | None
    estimator_: Any

    def __init__(
        self,
        mechanism: str = "peer_to_peer",
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        clusterer: Any = None,
        estimator: Any = None,
        random_state: Any = None,
        min_cluster_size: int = 10,
        mechanism_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.clusterer = clusterer
        self.estimator = estimator
        self.random_state = random_state
        self.min_cluster_size = min_cluster_size
        self.mechanism_options = mechanism_options

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        features, labels = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(labels)
        if self.mechanism not in (*KINDS, "dp_sgd"):
            raise RequestError(f"mechanism is {self.mechanism!r}; allowed are {', '.join((*KINDS, 'dp_sgd'))}")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        codes = codes.astype(np.int64).reshape(-1)
        generator = _generator(self.random_state)
        self.clusters_ = None
        if len(self.classes_) == 1:
            self._know(features)
        elif self.mechanism == "dp_sgd":
            self._descend(features, codes, generator)
        else:
            self._release(features, codes, generator)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        features = self._validated(X)
        best: NDArray[Any] = self.classes_[self.estimator_.predict(features)]
        return best

    @available_if(_tells_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Doubles:
        features = self._validated(X)
        found: Doubles = np.asarray(self.estimator_.predict_proba(features), dtype=np.float64)
        if isinstance(self.estimator_, SoftmaxModel):
            return found
        # Classes that no noisy label named are unknown to the estimator.
        shares = np.zeros((len(features), len(self.classes_)))
        shares[:, self.estimator_.classes_] = found
        return shares

    def _validated(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self, "estimator_")
        features: Matrix = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return features

    def _know(self, features: Matrix) -> None:
        """One class: its labels say nothing that is not public, so nothing is released and nothing spent."""
        self.estimator_ = SoftmaxModel(np.zeros((1, features.shape[1])), np.zeros(1))
        self.privacy_ = Privacy(
            self.mechanism, 0.0, 0.0, "replace", "exact", "No one: there is a single class, which is public.", {}, ()
        )

    def _descend(self, features: Matrix, codes: Codes, generator: np.random.Generator) -> None:
        if self.estimator is not None:
            raise RequestError("mechanism dp_sgd learns softmax regression itself: leave estimator at None")
        if self.epsilon is None:
            raise RequestError("epsilon is None; dp_sgd needs a positive one")
        options = dict(self.mechanism_options or {})
        for name in options:
            if name not in OPTIONS:
                raise RequestError(f"mechanism_options has {name!r}; dp_sgd allows {', '.join(OPTIONS)}")
        fit = fit_dp_sgd(
            features,
            codes,
            len(self.classes_),
            epsilon=self.epsilon,
            delta=self.delta,
            generator=generator,
            **options,
        )
        plan = fit.plan
        self.estimator_ = fit.model
        parameters = {
            "noise_multiplier": plan.noise_multiplier,
            "sampling_rate": plan.sampling_rate,
            "steps": float(plan.steps),
            "clip": float(options.get("clip", 1.0)),
        }
        self.privacy_ = Privacy("dp_sgd", plan.epsilon, plan.delta, plan.relation, plan.method, TRUST, parameters, ())

    def _release(self, features: Matrix, codes: Codes, generator: np.random.Generator) -> None:
        clusters = self._cluster(features, generator)
        sizes = np.bincount(clusters)
        mechanism = make_mechanism(
            self.mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            label_count=len(self.classes_),
            cluster_sizes=sizes,
            **(self.mechanism_options or {}),
        )
        noisy = mechanism.release(codes, clusters, generator)
        self.clusters_ = clusters
        self.privacy_ = Privacy(
            self.mechanism,
            mechanism.epsilon,
            mechanism.delta,
            "replace",
            mechanism.method,
            mechanism.trust,
            dict(mechanism.parameters),
            tuple(int(size) for size in sizes),
        )
        # From here on nothing sees the true labels.
        users, targets = noisy.users, noisy.targets
        if targets is None:
            targets = one_hot(noisy.labels, len(self.classes_))
        if self.mechanism in _EXCHANGED:
            users, targets = pooled_targets(users, targets, clusters)
        self.estimator_ = self._learn(features[users], targets, generator)

    def _cluster(self, features: Matrix, generator: np.random.Generator) -> Codes:
        if self.clusterer is None:
            count = min(_MOST_CLUSTERS, max(1, len(features) // _MEAN_SIZE))
            seed = int(generator.integers(2**31))
            return kmeans_clusters(features, count, self.min_cluster_size, seed).assignment
        clusterer = clone(self.clusterer)
        _seed_unseeded(clusterer, generator)
        with warnings.catch_warnings():
            # Fewer distinct points than clusters: the clusters that exist are as good.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = np.unique(clusterer.fit_predict(features), return_inverse=True)[1].reshape(-1).astype(np.int64)
        return given_clusters(features, found, self.min_cluster_size).assignment

    def _learn(self, features: Matrix, targets: Doubles, generator: np.random.Generator) -> Any:
        if not len(features):  # no one reported: nothing is known
            return SoftmaxModel(np.zeros((targets.shape[1], features.shape[1])), np.zeros(targets.shape[1]))
        if self.estimator is None:
            return fit_softmax(features, targets, L2)
        estimator = clone(self.estimator)
        _seed_unseeded(estimator, generator)
        rows, labels, weights = weighted_rows(targets)
        named = np.unique(labels)
        if len(named) == 1:  # most classifiers refuse a single class
            bias = np.full(targets.shape[1], -np.inf)
            bias[named] = 0.0
            return SoftmaxModel(np.zeros((targets.shape[1], features.shape[1])), bias)
        if (weights == 1).all():
            return estimator.fit(features[rows], labels)
        if not has_fit_parameter(estimator, "sample_weight"):
            raise RequestError(
                f"mechanism {self.mechanism} gives soft targets, so estimator must take sample_weight: "
                f"{type(estimator).__name__} does not"
            )
        return estimator.fit(features[rows], labels, sample_weight=weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Hundreds of examples are few at epsilon 1: the noise that privacy asks for may leave little to learn.
        tags.classifier_tags.poor_score = True
        return tags


def pooled_targets(users: Codes, targets: Doubles, clusters: Codes) -> tuple[Codes, Doubles]:
    """Every member of a cluster that reported, with the cluster's shares of labels as its target.

    An exchanged label belongs to a random member of the cluster, so who reported it means nothing: the mean of the
    reports' targets keeps all there is to know and drops the noise of the assignment. Shares below 0, which come of
    undoing flips in small clusters, are cut and the rest rescaled.
    """
    count = int(clusters.max()) + 1
    reports = np.bincount(clusters[users], minlength=count)
    sums = np.stack([np.bincount(clusters[users], column, minlength=count) for column in targets.T], axis=1)
    members = np.flatnonzero(reports[clusters] > 0).astype(np.int64)
    return members, _positive_part(sums / np.maximum(reports, 1)[:, None])[clusters[members]]


def weighted_rows(targets: Doubles) -> tuple[Codes, Codes, Doubles]:
    """Soft targets for a classifier that knows only weights: (example, label, weight) of each row.

    Negative entries are dropped and the rest rescaled, so that an example's weights sum to 1.
    """
    positive = _positive_part(targets)
    rows, labels = np.nonzero(positive)
    return rows.astype(np.int64), labels.astype(np.int64), positive[rows, labels]


def _positive_part(targets: Doubles) -> Doubles:
    """Rows that sum to 1 without their negative entries, and so again; a row of nothing stays one."""
    positive = np.maximum(targets, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    shares: Doubles = positive / np.where(total > 0, total, 1.0)
    return shares


def _generator(random_state: Any) -> np.random.Generator:
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def _seed_unseeded(estimator: Any, generator: np.random.Generator) -> None:
    """A seed for every ``random_state`` that was left at None, nested ones too."""
    unset = sorted(
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    if unset:
        estimator.set_params(**{name: int(generator.integers(2**31)) for name in unset})
