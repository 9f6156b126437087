"""MNIST: 70,000 handwritten digits of 28 x 28 pixels."""

from p2p_labeldp.data.files import Files
from p2p_labeldp.data.images import DIGITS, IDX_FILES, load_idx
from p2p_labeldp.data.record import PARITY, DataSet

FILES = Files("mnist", IDX_FILES, openml=554)
DATA_SET = DataSet(
    "MNIST digits",
    lambda data, seed, data_dir: load_idx(FILES, DIGITS, data_dir),
    {"parity": PARITY},
    FILES.places,
    title="MNIST",
)
