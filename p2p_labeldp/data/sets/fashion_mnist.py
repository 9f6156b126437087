"""Fashion-MNIST: 70,000 articles of clothing of 28 x 28 pixels."""

from p2p_labeldp.data.images import IDX_FILES, load_idx
from p2p_labeldp.data.record import DataSet, files_in

CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

DATA_SET = DataSet(
    "Fashion-MNIST pictures",
    lambda data, seed, data_dir: load_idx("fashion-mnist", CLOTHES, 40996, data_dir),
    places=files_in("fashion-mnist", IDX_FILES),
    title="Fashion-MNIST",
)
