"""1,797 handwritten digits of 8 x 8 pixels, inside scikit-learn: they need no file and no network."""

from pathlib import Path

import numpy as np

from p2p_labeldp.data.dataset import Source, parted
from p2p_labeldp.data.images import DIGITS
from p2p_labeldp.data.record import PARITY, DataSet
from p2p_labeldp.data.splits import split
from p2p_labeldp.scenario import Data


def load(data: Data, seed: int, data_dir: Path | None) -> Source:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)  # from 0 to 16
    rows = split(len(labels), seed, data.test_fraction)
    return parted(pixels, labels.astype(np.int64), DIGITS, *rows, scale=16.0)


DATA_SET = DataSet("handwritten digits", load, {"parity": PARITY})
