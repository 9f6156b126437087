"""scikit-learn's classifiers on soft targets: an example becomes a row for each label that it may have, with a weight.

A target is a share of each label. Cross-entropy is linear in it, so that fitting an example once for each label, with
the label's share as weight, is fitting the target. **Weights are not negative**: of a target that undoes flips only
the positive part remains, rescaled. Where users report their own labels that is the noisy label itself: such a
classifier learns noisy labels as they are, is right about the most probable one under uniform flips, and too unsure of
it. Where reports are pooled by cluster targets have no negative part, and nothing is lost.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from p2p_labeldp.arrays import Doubles, Labels, Matrix
from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.softmax import SoftmaxModel
from p2p_labeldp.learning.targets import positive_part
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.threads import one_thread


def weighted_rows(targets: Doubles) -> tuple[Labels, Labels, Doubles]:
    """(example, label, weight) of each row; an example's weights sum to 1."""
    positive = positive_part(targets)
    rows, labels = np.nonzero(positive)
    return rows.astype(np.int64), labels.astype(np.int64), positive[rows, labels]


def fit_weighted(classifier: Any, features: Matrix, targets: Doubles, weights: Doubles | None) -> Any:
    """The classifier, fitted; None where one label is all there is, which most classifiers refuse: see ``certain``.

    On one thread, so that the model does not depend on the machine's number of cores.
    """
    rows, labels, shares = weighted_rows(targets)
    if weights is not None:
        shares = shares * weights[rows]
    if len(np.unique(labels)) == 1:
        return None
    examples = features[rows]
    with one_thread(), warnings.catch_warnings():
        # A limit on passes that is reached is what was asked for.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if (shares == 1).all():
            return classifier.fit(examples, labels)
        require_weights(classifier)
        return classifier.fit(examples, labels, sample_weight=shares)


def require_weights(classifier: Any, called: str = "estimator") -> None:
    """Raise RequestError where a classifier cannot learn soft targets."""
    if not has_fit_parameter(classifier, "sample_weight"):
        raise RequestError(
            f"{called} = {type(classifier).__name__} is not allowed: soft targets are weights, and its fit takes no "
            "sample_weight"
        )


def all_labels(chances: Doubles, known: NDArray[np.integer], labels: int) -> Doubles:
    """Probabilities of all labels, given those of the labels that a classifier has met; the others have none."""
    found = np.zeros((len(chances), labels))
    found[:, known] = chances
    return found


def certain(targets: Doubles, features: Matrix) -> SoftmaxModel:
    """The model where all targets name one label."""
    only = int(weighted_rows(targets)[1][0])
    return SoftmaxModel.of_one_label(only, targets.shape[1], features.shape[1])


def seed_of(randomness: Randomness) -> int:
    """For a classifier that makes its own randomness from a seed."""
    return int(randomness.integers(np.array([2**31]))[0])
