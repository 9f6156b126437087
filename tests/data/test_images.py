import gzip
import io
import os
import pickle
import struct
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest

from p2p_labeldp.data import load
from p2p_labeldp.data.sets import cifar10
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data


def idx(magic, shape, body):
    return struct.pack(f">{1 + len(shape)}I", magic, *shape) + bytes(body)


@pytest.fixture
def tiny(tmp_path):
    """A made-up MNIST of 20 training and 10 test images of 2 x 2 pixels."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, count in (("train", 20), ("t10k", 10)):
        pixels = idx(2051, (count, 2, 2), [255 * (i % 2) for i in range(4 * count)])
        labels = idx(2049, (count,), [i % 10 for i in range(count)])
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pixels))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return tmp_path


def test_idx_files_become_pixels_between_0_and_1(tiny):
    mnist = load(Data(name="mnist"), seed=1, data_dir=tiny)
    assert mnist.features.tolist() == [[0, 1, 0, 1]] * 20
    assert mnist.labels.tolist() == [i % 10 for i in range(20)]


def test_the_environment_names_a_folder_too(tiny, nothing_installed, monkeypatch):
    monkeypatch.setenv("P2P_LABELDP_DATA", str(tiny))
    assert len(load(Data(name="mnist"), seed=1).labels) == 20


def test_the_given_folder_comes_before_the_environment_and_the_cache_last(tiny, nothing_installed, monkeypatch):
    nothing_installed.mkdir(parents=True)
    (tiny / "mnist").rename(nothing_installed / "mnist")
    (tiny / "elsewhere").mkdir()
    monkeypatch.setenv("P2P_LABELDP_DATA", str(tiny / "elsewhere"))
    assert len(load(Data(name="mnist"), seed=1, data_dir=tiny).labels) == 20


GOOD_LABELS = idx(2049, (20,), [0] * 20)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("train-labels-idx1-ubyte.gz", b"no gzip at all", "damaged"),
        ("train-labels-idx1-ubyte.gz", b"", "cut short"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(GOOD_LABELS)[:-9], "cut short"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(GOOD_LABELS)[:14] + b"\xff" * 20, "damaged"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(GOOD_LABELS[:6]), "header"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(GOOD_LABELS[:-1]), "states 20"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(GOOD_LABELS + b"\0"), "holds more"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(2051, (20,), [0] * 20)), "magic"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(2049, (19,), [0] * 19)), "19 labels"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(2049, (20,), [10] * 20)), "label 10"),
        ("t10k-images-idx3-ubyte.gz", gzip.compress(idx(2051, (10, 3, 3), [0] * 90)), "another size"),
    ],
    ids=lambda value: "bytes" if isinstance(value, bytes) else None,
)
def test_a_damaged_idx_file_is_named_in_one_line(tiny, name, content, word):
    (tiny / "mnist" / name).write_bytes(content)
    with pytest.raises(RequestError) as caught:
        load(Data(name="mnist"), seed=1, data_dir=tiny)
    assert name in str(caught.value)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("fashion_mnist", "train-images-idx3-ubyte.gz"),
        ("cifar10", "cifar-10-python.tar.xz"),
        ("adult", "adult.data, adult.test"),
        ("diabetes130", "dataset_diabetes.zip"),
    ],
)
def test_without_files_and_network_one_line_says_what_to_put_where(name, file, nothing_installed, openml):
    openml(OSError("no route\nto host"))
    with pytest.raises(RequestError) as caught:
        load(Data(name=name), seed=1)
    assert file in str(caught.value)
    assert str(nothing_installed) in str(caught.value)
    assert "no route to host" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_images_are_fetched_from_openml(nothing_installed, openml):
    labels = np.arange(10_020) % 10
    pixels = np.repeat(labels[:, None] * 25.0, 4, axis=1)
    calls = openml(SimpleNamespace(data=pixels, target=labels.astype(str).astype(object)))
    mnist = load(Data(name="mnist", target="parity"), seed=1)
    assert (len(mnist.labels), len(mnist.test_labels)) == (20, 10_000)
    assert np.allclose(mnist.features[:, 0], np.arange(20) % 10 * 25 / 255)
    assert mnist.labels.tolist() == [0, 1] * 10
    assert calls[0]["data_id"] == 554
    assert str(nothing_installed) in calls[0]["data_home"]


def archive(path, members):
    with tarfile.open(path, "w:xz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_a_pickle_whose_checksum_is_not_the_published_one_is_never_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar-10").mkdir()
    path = tmp_path / "cifar-10" / "cifar-10-python.tar.xz"
    archive(path, {"cifar-10-batches-py/data_batch_1": pickle.dumps(Bomb())})
    with pytest.raises(RequestError, match="data_batch_1 has MD5"):
        load(Data(name="cifar10"), seed=1, data_dir=tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("content", [b"", b"rubbish" * 100])
def test_a_damaged_cifar_archive_is_named(tmp_path, content):
    path = tmp_path / "cifar-10-python.tar.xz"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=r"cifar-10-python.tar.xz is cut short or damaged"):
        cifar10.read_cifar_archive(path)


def test_a_cifar_archive_that_is_cut_short_is_named(tmp_path):
    whole = tmp_path / "whole.tar.xz"
    archive(whole, {"readme.html": np.random.default_rng(1).bytes(100_000)})
    with pytest.raises(RequestError, match="lacks cifar-10-batches-py/data_batch_1"):
        cifar10.read_cifar_archive(whole)
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(whole.read_bytes()[:50_000])
    with pytest.raises(RequestError, match=r"cut.tar.xz"):
        cifar10.read_cifar_archive(cut)


def test_mnist_is_the_published_one(real_files):
    mnist = load(Data(name="mnist"), seed=1, data_dir=real_files)
    assert np.bincount(mnist.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.features.mean(dtype=float) == pytest.approx(0.1307, abs=1e-4)
    assert mnist.test_features.mean(dtype=float) == pytest.approx(0.1325, abs=1e-4)


def test_fashion_mnist_is_the_published_one(real_files):
    fashion = load(Data(name="fashion_mnist", users=1000), seed=1, data_dir=real_files)
    assert len(fashion.labels) == 1000
    assert fashion.classes[9] == "Ankle boot"
    assert np.bincount(fashion.test_labels).tolist() == [1000] * 10
    assert fashion.test_features.mean(dtype=float) == pytest.approx(0.2868, abs=1e-4)


@pytest.mark.slow
def test_cifar10_is_the_published_one(real_files):
    source = cifar10.load(Data(name="cifar10"), 0, real_files)
    assert np.bincount(source.labels).tolist() == [5000] * 10
    assert np.bincount(source.test_labels).tolist() == [1000] * 10
    red = source.features[:, :1024].mean(dtype=float) / source.scale
    assert red == pytest.approx(0.4914, abs=1e-4)
