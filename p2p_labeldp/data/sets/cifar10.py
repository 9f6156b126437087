"""CIFAR-10: 60,000 colour photographs of 32 x 32 pixels."""

from p2p_labeldp.data.images import CIFAR_ARCHIVES, load_cifar10
from p2p_labeldp.data.record import DataSet, files_in

DATA_SET = DataSet(
    "CIFAR-10 pictures",
    lambda data, seed, data_dir: load_cifar10(data_dir),
    places=files_in("cifar-10", *((name,) for name in CIFAR_ARCHIVES)),
    title="CIFAR-10",
)
