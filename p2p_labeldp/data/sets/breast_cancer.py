"""569 tumours, 30 measurements each, malignant or benign; inside scikit-learn."""

from pathlib import Path

import numpy as np

from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.data.splits import split
from p2p_labeldp.data.tabular import Table, encode, fitted
from p2p_labeldp.scenario import Data, Schema


def load(data: Data, seed: int, data_dir: Path | None) -> Source:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    train, test = split(len(bunch.target), seed, data.test_fraction)
    columns = {str(name): bunch.data[:, index] for index, name in enumerate(bunch.feature_names)}
    table = Table(columns, len(bunch.target))
    described = fitted(table, train)
    features = encode(Schema(described), table)
    labels = bunch.target.astype(np.int64)
    classes = tuple(str(name) for name in bunch.target_names)
    return Source(features[train], labels[train], features[test], labels[test], classes, columns=described)


DATA_SET = DataSet("breast cancer records", load)
