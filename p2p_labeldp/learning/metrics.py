"""How good a model is on test examples: accuracy, and what accuracy hides where one label is rare.

**Recall** of a label is the share of its examples that are found; **balanced accuracy** is the mean over labels, so
that guessing the commonest label gets 1/K however common it is. **AUC** is the chance that an example of a label is
ranked above one of another, the mean over labels of each against the rest. **Log loss** is the mean of
-log p(label), with p no less than 1e-15. Labels that no test example has count for nothing.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Labels, Matrix
from p2p_labeldp.learning.model import Model

Share = Annotated[float, Meta(ge=0, le=1)]

LEAST = 1e-15


class Metrics(Struct, frozen=True):
    """Of one model on one set of test examples."""

    accuracy: Share
    balanced_accuracy: Share
    recall: tuple[Share | None, ...]
    """Of each label; None where no test example has it."""
    auc: Share | None
    """None where all test examples have one label."""
    log_loss: Annotated[float, Meta(ge=0)]


def metrics_of(chances: Doubles, predicted: Labels, labels: Labels) -> Metrics:
    """What probabilities (n, K) and the predictions made from them come to."""
    if not len(labels):
        raise ValueError("metrics need at least one example")
    right = predicted == labels
    count = chances.shape[1]
    examples = np.bincount(labels, minlength=count)
    found = np.bincount(labels[right], minlength=count)
    recall = tuple(int(hit) / int(all_) if all_ else None for hit, all_ in zip(found, examples, strict=True))
    there = [share for share in recall if share is not None]
    told = np.clip(chances[np.arange(len(labels)), labels], LEAST, 1.0)
    return Metrics(
        accuracy=float(right.mean()),
        balanced_accuracy=float(np.mean(there)),
        recall=recall,
        auc=_auc(chances, labels, examples),
        log_loss=float(max(0.0, -np.log(told).mean())),
    )


def _auc(chances: Doubles, labels: Labels, examples: NDArray[np.integer]) -> float | None:
    """By ranks (Mann and Whitney), ties counted half."""
    areas = []
    for label in np.flatnonzero((examples > 0) & (examples < len(labels))).tolist():
        if chances.shape[1] == 2 and label == 0:
            continue  # the same area as of label 1
        mine = labels == label
        count = int(mine.sum())
        found = np.sort(chances[:, label])
        before, after = (np.searchsorted(found, chances[:, label], side) for side in ("left", "right"))
        ranks = (before + after + 1) / 2
        areas.append((ranks[mine].sum() - count * (count + 1) / 2) / (count * (len(labels) - count)))
    return float(min(1.0, np.mean(areas))) if areas else None


def measured(model: Model, features: Matrix, labels: Labels) -> Metrics:
    """A model's metrics on test examples."""
    return metrics_of(model.predict_proba(features), model.predict(features), labels)


def baseline(training: Labels, labels: Labels, count: int) -> Metrics:
    """Always guessing the commonest label, with everyone's shares of labels as probabilities."""
    shares = np.bincount(training, minlength=count) / max(1, len(training))
    chances = np.tile(shares, (len(labels), 1))
    return metrics_of(chances, np.full(len(labels), int(shares.argmax())), labels)
