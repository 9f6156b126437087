"""Data sets of pictures: gzipped IDX files, and what OpenML has. Pixels stay bytes here."""

import gzip
import lzma
import math
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.files import Files
from p2p_labeldp.errors import RequestError

Bytes = NDArray[np.uint8]

DIGITS = tuple(str(digit) for digit in range(10))

IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)

BROKEN_ARCHIVE = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)


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
    except BROKEN_ARCHIVE as error:
        raise RequestError(f"{path} is cut short or damaged: {one_line(error)}") from error
    if len(body) != stated:
        found = "more" if len(body) > stated else str(len(body))
        raise RequestError(f"{path} states {stated} bytes ({' x '.join(map(str, shape))}) and holds {found}")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def load_idx(files: Files, classes: tuple[str, ...], data_dir: Path | None) -> Source:
    """The four files or, where they are not all there, what OpenML has."""
    found = files.find(data_dir)
    if found is None:
        return openml_images(files.fetch(data_dir), classes, 10_000)
    images, names, test_images, test_names = found
    features, labels = _read_idx_pair(images, names)
    test_features, test_labels = _read_idx_pair(test_images, test_names)
    if features.shape[1] != test_features.shape[1]:
        raise RequestError(f"{test_images} has images of another size than {images}")
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


def openml_images(bunch: Any, classes: tuple[str, ...], test_count: int) -> Source:
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


def one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
