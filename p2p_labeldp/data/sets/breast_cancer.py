"""569 tumours, 30 measurements each, malignant or benign; inside scikit-learn."""

from pathlib import Path

import numpy as np

from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.data.splits import split
from p2p_labeldp.data.tabular import without_schema
from p2p_labeldp.scenario import Data


def load(data: Data, seed: int, data_dir: Path | None) -> Source:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    table = {str(name): bunch.data[:, index] for index, name in enumerate(bunch.feature_names)}
    classes = tuple(str(name) for name in bunch.target_names)
    rows = split(len(bunch.target), seed, data.test_fraction)
    return without_schema(table, bunch.target.astype(np.int64), classes, *rows)


DATA_SET = DataSet("breast cancer records", load)
