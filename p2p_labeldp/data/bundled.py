"""The two data sets inside scikit-learn: they need no file and no network."""

import numpy as np

from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.images import DIGITS
from p2p_labeldp.data.splits import split
from p2p_labeldp.data.tabular import Table, encode, fitted
from p2p_labeldp.scenario import Schema


def load_digits(seed: int, test_fraction: float) -> Source:
    """1,797 handwritten digits of 8 x 8 pixels, 0 to 16."""
    from sklearn.datasets import load_digits as bundled

    pixels, labels = bundled(return_X_y=True)
    train, test = split(len(labels), seed, test_fraction)
    labels = labels.astype(np.int64)
    return Source(pixels[train], labels[train], pixels[test], labels[test], DIGITS, scale=16.0)


def load_breast_cancer(seed: int, test_fraction: float) -> Source:
    """569 tumours, 30 measurements each: malignant or benign."""
    from sklearn.datasets import load_breast_cancer as bundled

    bunch = bundled()
    train, test = split(len(bunch.target), seed, test_fraction)
    columns = {str(name): bunch.data[:, index] for index, name in enumerate(bunch.feature_names)}
    table = Table(columns, len(bunch.target))
    described = fitted(table, train)
    features = encode(Schema(described), table)
    labels = bunch.target.astype(np.int64)
    classes = tuple(str(name) for name in bunch.target_names)
    return Source(features[train], labels[train], features[test], labels[test], classes, columns=described)
