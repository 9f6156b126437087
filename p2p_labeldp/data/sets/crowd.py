"""A crowd of any number of users, made where they are needed."""

from p2p_labeldp.data.crowd import Crowd
from p2p_labeldp.data.record import DataSet

DATA_SET = DataSet("a synthetic crowd", lambda data, seed, _: Crowd.of(data, seed).dataset(data.test_fraction))
