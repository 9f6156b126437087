"""MNIST and Fashion-MNIST (gzipped IDX files) and CIFAR-10 (a tar of pickles). Pixels stay bytes here."""

import gzip
import hashlib
import io
import lzma
import math
import pickle
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.files import find, from_openml
from p2p_labeldp.errors import RequestError

Bytes = NDArray[np.uint8]

DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
THINGS = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)

# The published sums. A pickle runs code when it is opened, so no other bytes are ever opened.
CIFAR_MEMBERS = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
}
CIFAR_ARCHIVES = ("cifar-10-python.tar.xz", "cifar-10-python.tar.gz")

_BROKEN_ARCHIVE = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)


def load_mnist(data_dir: Path | None) -> Source:
    return _load_idx("mnist", DIGITS, 554, data_dir)


def load_fashion_mnist(data_dir: Path | None) -> Source:
    return _load_idx("fashion-mnist", CLOTHES, 40996, data_dir)


def load_cifar10(data_dir: Path | None) -> Source:
    for name in CIFAR_ARCHIVES:
        folder = find("cifar-10", (name,), data_dir)
        if folder is not None:
            return read_cifar_archive(folder / name)
    bunch = from_openml(40927, "cifar-10", CIFAR_ARCHIVES[:1], data_dir)
    return _openml_images(bunch, THINGS, 10_000)


def read_idx(path: Path, dimensions: int) -> Bytes:
    """The array in one gzipped IDX file of unsigned bytes."""
    try:
        with gzip.open(path) as file:
            head = file.read(4 + 4 * dimensions)
            if len(head) < 4 + 4 * dimensions:
                raise RequestError(f"{path} is cut short: it ends inside its header")
            magic, *shape = struct.unpack(f">{1 + dimensions}I", head)
            if magic != 0x0800 + dimensions:
                raise RequestError(f"{path} has magic number {magic}, not {0x0800 + dimensions}")
            stated = math.prod(shape)
            body = file.read(stated + 1)
    except _BROKEN_ARCHIVE as error:
        raise RequestError(f"{path} is cut short or damaged: {_one_line(error)}") from error
    if len(body) != stated:
        found = "more" if len(body) > stated else str(len(body))
        raise RequestError(f"{path} states {stated} bytes ({' x '.join(map(str, shape))}) and holds {found}")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def read_cifar_archive(path: Path) -> Source:
    """CIFAR-10 from its Python archive; opens a batch only if its MD5 is the published one."""
    batches: dict[str, tuple[Bytes, Labels]] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name not in CIFAR_MEMBERS or not member.isfile():
                    continue
                file = archive.extractfile(member)
                assert file is not None, "isfile() holds"
                content = file.read()
                digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
                if digest != CIFAR_MEMBERS[member.name]:
                    raise RequestError(
                        f"{path}: {member.name} has MD5 {digest}, not the published "
                        f"{CIFAR_MEMBERS[member.name]}; it was not opened"
                    )
                batches[member.name] = _unpickle_batch(content)
                if len(batches) == len(CIFAR_MEMBERS):
                    break
    except _BROKEN_ARCHIVE as error:
        raise RequestError(f"{path} is cut short or damaged: {_one_line(error)}") from error
    missing = [name for name in CIFAR_MEMBERS if name not in batches]
    if missing:
        raise RequestError(f"{path} lacks {', '.join(missing)}")
    *train, test = (batches[name] for name in CIFAR_MEMBERS)
    return Source(
        features=np.concatenate([pixels for pixels, _ in train]),
        labels=np.concatenate([labels for _, labels in train]),
        test_features=test[0],
        test_labels=test[1],
        classes=THINGS,
        scale=255.0,
    )


def _unpickle_batch(content: bytes) -> tuple[Bytes, Labels]:
    batch = pickle.load(io.BytesIO(content), encoding="bytes")
    return batch[b"data"], np.asarray(batch[b"labels"], dtype=np.int64)


def _load_idx(folder: str, classes: tuple[str, ...], number: int, data_dir: Path | None) -> Source:
    place = find(folder, IDX_FILES, data_dir)
    if place is None:
        return _openml_images(from_openml(number, folder, IDX_FILES, data_dir), classes, 10_000)
    features, labels = _read_idx_pair(place / IDX_FILES[0], place / IDX_FILES[1])
    test_features, test_labels = _read_idx_pair(place / IDX_FILES[2], place / IDX_FILES[3])
    if features.shape[1] != test_features.shape[1]:
        raise RequestError(f"{place / IDX_FILES[2]} has images of another size than {place / IDX_FILES[0]}")
    return Source(features, labels, test_features, test_labels, classes, scale=255.0)


def _read_idx_pair(images: Path, names: Path) -> tuple[Bytes, Labels]:
    pixels = read_idx(images, 3)
    labels = read_idx(names, 1).astype(np.int64)
    if len(pixels) != len(labels):
        raise RequestError(f"{images} holds {len(pixels)} images, but {names} {len(labels)} labels")
    if not len(labels):
        raise RequestError(f"{names} holds no label")
    if labels.max() > 9:
        raise RequestError(f"{names} holds the label {labels.max()}; labels are 0 to 9")
    return pixels.reshape(len(pixels), -1), labels


def _openml_images(bunch: Any, classes: tuple[str, ...], test_count: int) -> Source:
    """OpenML keeps the original order, training examples first; last examples that lack a class belie it."""
    features = np.asarray(bunch.data).astype(np.uint8)
    labels = np.asarray(bunch.target).astype(np.int64)
    if len(labels) <= test_count or len(features) != len(labels) or labels.min() < 0 or labels.max() > 9:
        raise RequestError(f"OpenML's answer has {len(labels)} examples; more than {test_count} are needed")
    if not np.bincount(labels[-test_count:], minlength=10).all():
        raise RequestError("OpenML's answer is not in the original order: its last examples lack a class")
    return Source(
        features[:-test_count], labels[:-test_count], features[-test_count:], labels[-test_count:],
        classes, scale=255.0,
    )  # fmt: skip


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
