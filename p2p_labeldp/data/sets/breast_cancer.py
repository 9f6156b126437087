"""569 tumours, inside scikit-learn."""

from p2p_labeldp.data.bundled import load_breast_cancer
from p2p_labeldp.data.record import DataSet

DATA_SET = DataSet("breast cancer records", lambda data, seed, _: load_breast_cancer(seed, data.test_fraction))
