"""MNIST: 70,000 handwritten digits of 28 x 28 pixels."""

from p2p_labeldp.data.images import DIGITS, IDX_FILES, load_idx
from p2p_labeldp.data.record import PARITY, DataSet, files_in

DATA_SET = DataSet(
    "MNIST digits",
    lambda data, seed, data_dir: load_idx("mnist", DIGITS, 554, data_dir),
    {"parity": PARITY},
    files_in("mnist", IDX_FILES),
    title="MNIST",
)
