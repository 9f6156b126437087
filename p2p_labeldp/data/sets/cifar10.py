"""CIFAR-10: 60,000 colour photographs of 32 x 32 pixels, a tar of pickles."""

import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Source
from p2p_labeldp.data.files import Files
from p2p_labeldp.data.images import BROKEN_ARCHIVE, Bytes, one_line, openml_images
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data

THINGS = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
# The published sums. A pickle runs code when it is opened, so no other bytes are ever opened.
CIFAR_MEMBERS = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
}
FILES = Files("cifar-10", ("cifar-10-python.tar.xz",), openml=40927, or_else=("cifar-10-python.tar.gz",))


def load(data: Data, seed: int, data_dir: Path | None) -> Source:
    found = FILES.find(data_dir)
    return openml_images(FILES.fetch(data_dir), THINGS, 10_000) if found is None else read_cifar_archive(*found)


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
    except BROKEN_ARCHIVE as error:
        raise RequestError(f"{path} is cut short or damaged: {one_line(error)}") from error
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


DATA_SET = DataSet("CIFAR-10 pictures", load, places=FILES.places, title="CIFAR-10")
