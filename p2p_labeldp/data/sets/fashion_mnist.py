"""Fashion-MNIST: 70,000 articles of clothing of 28 x 28 pixels."""

from p2p_labeldp.data.files import Files
from p2p_labeldp.data.images import IDX_FILES, load_idx
from p2p_labeldp.data.record import DataSet

CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
FILES = Files("fashion-mnist", IDX_FILES, openml=40996)

DATA_SET = DataSet(
    "Fashion-MNIST pictures",
    lambda data, seed, data_dir: load_idx(FILES, CLOTHES, data_dir),
    places=FILES.places,
    title="Fashion-MNIST",
)
