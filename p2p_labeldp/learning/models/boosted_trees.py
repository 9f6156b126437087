"""Gradient-boosted trees (scikit-learn's ``HistGradientBoostingClassifier``).

scikit-learn fits them; what is kept are the trees as arrays, and predictions are made from these alone, so that a model
from a file predicts what it predicted before it was written. Loading checks that every node leads to later nodes of its
own tree, so that a file made to harm can neither loop nor reach outside of the arrays. ``learner.l2`` is the penalty on
leaves, ``learner.max_iterations`` the number of trees for each label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from p2p_labeldp.arrays import Doubles, Matrix
from p2p_labeldp.learning.model import LearnerModel, Model, Probabilities, Storage
from p2p_labeldp.learning.softmax import as_chances
from p2p_labeldp.learning.weighted import certain, fit_weighted, seed_of
from p2p_labeldp.mechanisms import Randomness
from p2p_labeldp.scenario import Learner as Settings

_NEVER = -np.inf  # the baseline of a label that was never met
_MOST_BINS = 64  # a quarter of scikit-learn's default, and about twice as fast; noisy labels tell no finer
_ROWS = 4096  # at a time, so that memory does not grow with the number of examples


@dataclass(frozen=True, eq=False)
class TreesModel(Probabilities):
    """Nodes of all trees one after the other. A leaf leads to itself."""

    baseline: Doubles
    """Of each label, before any tree."""
    roots: NDArray[np.int64]
    """Where each tree begins."""
    label: NDArray[np.int64]
    """Which label's score each tree adds to."""
    feature: NDArray[np.int64]
    threshold: Doubles
    """Up to it, the left one."""
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Doubles

    def predict_proba(self, features: Matrix) -> Doubles:
        blocks = [self._block(features[start : start + _ROWS]) for start in range(0, len(features), _ROWS)]
        return np.concatenate([np.empty((0, len(self.baseline))), *blocks])

    def _block(self, features: Matrix) -> Doubles:
        rows = np.arange(len(features))
        examples = features.astype(np.float64)
        scores = np.tile(self.baseline, (len(features), 1))
        for root, label in zip(self.roots.tolist(), self.label.tolist(), strict=True):
            here = np.full(len(features), root)
            while True:
                goes_left = examples[rows, self.feature[here]] <= self.threshold[here]
                further = np.where(goes_left, self.left[here], self.right[here])
                if (further == here).all():
                    break
                here = further
            scores[:, label] += self.value[here]
        return as_chances(scores)


def fit(
    settings: Settings, features: Matrix, targets: Doubles, weights: Doubles | None, randomness: Randomness
) -> Model:
    classifier = HistGradientBoostingClassifier(
        max_iter=settings.max_iterations,
        l2_regularization=settings.l2,
        max_bins=_MOST_BINS,
        early_stopping=False,  # rows of one example would stand on both sides of its split
        random_state=seed_of(randomness),
    )
    found = fit_weighted(classifier, features, targets, weights)
    if found is None:
        return certain(targets, features)
    baseline = np.full(targets.shape[1], _NEVER)
    known = found.classes_
    start = np.ravel(found._baseline_prediction)
    if len(known) == 2:  # one score: the logit of the second label
        baseline[known[0]], baseline[known[1]] = 0.0, start[0]
        known = known[1:]
    else:
        baseline[known] = start
    trees = [(tree.nodes, label) for trees in found._predictors for tree, label in zip(trees, known, strict=True)]
    sizes = np.array([len(nodes) for nodes, _ in trees], dtype=np.int64)
    roots = np.cumsum(sizes) - sizes
    nodes = np.concatenate([nodes for nodes, _ in trees])
    own, first = np.arange(len(nodes)), np.repeat(roots, sizes)
    leaf = nodes["is_leaf"].astype(np.bool_)
    return TreesModel(
        baseline,
        roots,
        np.array([label for _, label in trees], dtype=np.int64),
        np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64),
        np.where(leaf, 0.0, nodes["num_threshold"]),
        np.where(leaf, own, nodes["left"].astype(np.int64) + first),
        np.where(leaf, own, nodes["right"].astype(np.int64) + first),
        nodes["value"].astype(np.float64),
    )


def check(model: TreesModel, features: int) -> None:
    if not (model.baseline < np.inf).all() or not np.isfinite(model.baseline).any():
        raise ValueError("the baseline does not fit the schema")
    nodes = len(model.value)
    if not _within(model.roots, nodes) or not _within(model.label, len(model.baseline)):
        raise ValueError("a tree begins nowhere, or is no label's")
    # Later nodes or, both, the node itself: so that every way ends.
    own = np.arange(nodes)
    ends = (model.left == own) & (model.right == own)
    onwards = (model.left > own) & (model.right > own)
    if not (_within(model.left, nodes) and _within(model.right, nodes) and (ends | onwards).all()):
        raise ValueError("a node leads nowhere, or back")
    if not _within(model.feature, features) or not np.isfinite(model.value).all() or np.isnan(model.threshold).any():
        raise ValueError("a node asks for a feature that there is not")


def _within(numbers: NDArray[np.int64], count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


LAYOUT = {
    "baseline": ("float64", "labels"),
    "threshold": ("float64", "nodes"),
    "value": ("float64", "nodes"),
    "roots": ("int64", "trees"),
    "label": ("int64", "trees"),
    "feature": ("int64", "nodes"),
    "left": ("int64", "nodes"),
    "right": ("int64", "nodes"),
}

MODEL = LearnerModel("gradient-boosted trees", fit, Storage.of_fields(TreesModel, LAYOUT, check))
