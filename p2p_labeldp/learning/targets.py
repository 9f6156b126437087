"""Soft targets: what the learner puts in place of a label she knows to be noisy.

A flip with probability alpha to a uniformly chosen other label is the same as keeping the label with
probability 1 - beta and drawing a uniform one with probability beta = alpha K / (K - 1). Its matrix is
(1 - beta) I + beta/K 1 1^T, whose inverse is (I - beta/K 1 1^T) / (1 - beta). So cross-entropy with the
target (onehot - beta/K) / (1 - beta) has, in expectation over the flips, the value that the true labels
give. Entries sum to 1 and some are negative. alpha is public, so this costs no privacy.
"""

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Doubles, Labels
from p2p_labeldp.errors import RequestError


def one_hot(labels: NDArray[np.integer], label_count: int) -> Doubles:
    """One row per label, 1 at the label and 0 elsewhere."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < label_count):
        raise ValueError(f"labels must lie in 0..{label_count - 1}")
    rows = np.zeros((len(labels), label_count))
    rows[np.arange(len(labels)), labels] = 1.0
    return rows


def unflip(targets: Doubles, alpha: float) -> Doubles:
    """Rows that sum to 1, with the bias of flips at ``alpha`` undone."""
    label_count = targets.shape[1]
    if label_count == 1:
        return targets  # there is no other label to flip to
    beta = alpha * label_count / (label_count - 1)
    if abs(1 - beta) < 1e-9:
        raise RequestError(
            f"learner.correct_flips cannot undo mechanism.alpha = {alpha:g}: with {label_count} labels such "
            f"a flip leaves nothing of the label (any other alpha works)"
        )
    corrected: Doubles = (targets - beta / label_count) / (1 - beta)
    return corrected


def undrawn(targets: Doubles, shares: Doubles, beta: float) -> Doubles:
    """Rows that sum to 1, with a share ``beta`` of the drawing from ``shares`` undone: (target - beta q) / (1 - beta).

    The drawing's matrix is (1-beta) I + beta q 1^T and, since 1^T q = 1, its inverse (I - beta q 1^T) / (1 - beta).
    """
    corrected: Doubles = (targets - beta * shares) / (1 - beta)
    return corrected


def positive_part(targets: Doubles) -> Doubles:
    """Rows that sum to 1 without their negative entries, and so again; a row of nothing stays one."""
    positive = np.maximum(targets, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    shares: Doubles = positive / np.where(total > 0, total, 1.0)
    return shares


def pooled_reports(users: Labels, labels: Labels, label_count: int) -> tuple[Labels, Doubles, Doubles]:
    """Several rounds' reports as one row per user: ids in ascending order, shares of labels, report counts.

    Fitting the shares with the counts as ``sample_weight`` is fitting every report by itself, since
    cross-entropy is linear in the target; it costs one row per user however many rounds there were.
    """
    ids, place = np.unique(users, return_inverse=True)
    cells = np.bincount(place.reshape(-1) * label_count + labels, minlength=len(ids) * label_count)
    counts = cells.reshape(len(ids), label_count).astype(np.float64)
    weights = counts.sum(axis=1)
    return ids, counts / weights[:, None], weights
