"""Fashion-MNIST: 70,000 articles of clothing of 28 x 28 pixels."""

from p2p_labeldp.data.images import IDX_FILES, load_fashion_mnist
from p2p_labeldp.data.record import DataSet, files_in

DATA_SET = DataSet(
    "Fashion-MNIST pictures",
    lambda data, seed, data_dir: load_fashion_mnist(data_dir),
    places=files_in("fashion-mnist", IDX_FILES),
    title="Fashion-MNIST",
)
