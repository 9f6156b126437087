"""Gaussian clusters with known p(y|x)."""

from p2p_labeldp.data.record import DataSet
from p2p_labeldp.data.synthetic import make_synthetic

DATA_SET = DataSet("synthetic data", lambda data, seed, _: make_synthetic(data, seed))
