"""1,797 handwritten digits of 8 x 8 pixels, inside scikit-learn."""

from p2p_labeldp.data.bundled import load_digits
from p2p_labeldp.data.record import PARITY, DataSet

DATA_SET = DataSet(
    "handwritten digits", lambda data, seed, _: load_digits(seed, data.test_fraction), {"parity": PARITY}
)
