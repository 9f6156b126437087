"""A fitted model as a file, ``model.npz``: arrays, and how features are made from a row. Nothing in it is executed.

An .npz archive with one member ``about``, JSON as bytes, and the arrays of the model's kind. ``about`` holds the
version of the format, the kind, the schema with the label column's name, and a SHA-256 of all the rest, so that a file
that was altered by accident is noticed; whoever alters it on purpose can write a new one, which the digest in a run's
manifest and model card tells.

``KINDS`` is the one table of models: how a kind becomes arrays, and arrays a model of that kind. A model that is no
arrays (one of scikit-learn's) would be one array of bytes in a format that is safe to load, such as that of skops.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.learner import Model
from p2p_labeldp.learning.softmax import SoftmaxModel
from p2p_labeldp.scenario.schema import Schema

FILE = "model.npz"
VERSION = 1
LARGEST = 1 << 30  # bytes of a file's arrays, unpacked: ten times the largest model of the data sets here
_ABOUT = "about"

Arrays = dict[str, NDArray[Any]]


class Kind(NamedTuple):
    """How a model becomes arrays, and arrays a model; the latter raises ValueError where they do not fit a schema."""

    of: type
    to_arrays: Callable[[Any], Arrays]
    from_arrays: Callable[[Arrays, Schema], Model]


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model, and how rows become its features."""

    model: Model
    schema: Schema
    label_column: str


def _softmax(arrays: Arrays, schema: Schema) -> SoftmaxModel:
    weights, bias = arrays["weights"], arrays["bias"]
    if weights.dtype != np.float64 or weights.shape != (len(schema.classes), schema.features):
        raise ValueError(f"weights of shape {weights.shape} do not fit the schema")
    if bias.dtype != np.float64 or bias.shape != (len(schema.classes),):
        raise ValueError(f"a bias of shape {bias.shape} does not fit the schema")
    if not np.isfinite(weights).all() or np.isnan(bias).any():
        raise ValueError("a weight is not a number")
    return SoftmaxModel(weights, bias)


KINDS: dict[str, Kind] = {
    "softmax": Kind(SoftmaxModel, lambda model: {"weights": model.weights, "bias": model.bias}, _softmax),
}


def write_model(stored: StoredModel) -> bytes:
    """The file's bytes: the same for the same model."""
    name, kind = next((name, kind) for name, kind in KINDS.items() if isinstance(stored.model, kind.of))
    arrays = kind.to_arrays(stored.model)
    about: dict[str, Any] = {
        "format": VERSION,
        "kind": name,
        "label_column": stored.label_column,
        "schema": msgspec.to_builtins(stored.schema),
    }
    about["sha256"] = _digest(about, arrays)
    encoded = np.frombuffer(json.dumps(about, allow_nan=False).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{_ABOUT: encoded}, **arrays)
    return buffer.getvalue()


def read_model(path: Path) -> StoredModel:
    """A model file, or one line that says what is wrong with it."""
    try:
        return parse_model(path.read_bytes())
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None


def parse_model(content: bytes) -> StoredModel:
    """Bytes that ``write_model`` gave; RequestError for any others."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST:
                raise ValueError(f"it unpacks to more than {LARGEST} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays: Arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop(_ABOUT).tobytes())
        if not isinstance(about, dict):
            raise TypeError("about is no object")
    except Exception as error:  # a damaged archive fails in many ways
        raise RequestError(f"not a model, or damaged: {type(error).__name__}: {error}") from None
    if about.get("format") != VERSION:
        raise RequestError(f"a model of format {about.get('format')}; this program reads format {VERSION}")
    kind = KINDS.get(str(about.get("kind")))
    if kind is None:
        raise RequestError(f"a model of kind {about.get('kind')!r}; this program knows {', '.join(KINDS)}")
    if about.pop("sha256", None) != _digest(about, arrays):
        raise RequestError("the model was altered: its content is not that of its digest")
    try:
        schema = msgspec.convert(about["schema"], Schema)
        label = about["label_column"]
        if not isinstance(label, str):
            raise ValueError("label_column is no text")
        return StoredModel(kind.from_arrays(arrays, schema), schema, label)
    except (KeyError, ValueError, msgspec.ValidationError) as error:
        raise RequestError(f"not a model that can be used: {error}") from None


def _digest(about: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
