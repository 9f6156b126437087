"""A fitted model as a file, ``model.npz``: arrays, and how features are made from a row. Nothing in it is executed.

An .npz archive with one member ``about``, JSON as bytes, and the arrays of the model's kind. ``about`` holds the
version of the format, the kind, and the schema with the label column's name. The archive's comment, the last thing in
the file, is a SHA-256 of every byte before it, so that a file that was altered by accident is noticed; whoever alters
it on purpose can write a new one, which the digest in a run's manifest and model card tells.

The record of a model (``learning.models``) says how it becomes arrays, and arrays a model. A classifier of scikit-learn
that is named by its class has no such record and leaves no file: formats that hold any object either execute what they
load or, as with trees, follow indices that nobody has checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError
from p2p_labeldp.learning.model import Model, Storage
from p2p_labeldp.learning.models import model_of
from p2p_labeldp.scenario import MODELS
from p2p_labeldp.scenario.schema import Schema

FILE = "model.npz"
VERSION = 1
LARGEST = 1 << 30  # bytes of a file's arrays, unpacked: ten times the largest model of the data sets here
_ABOUT = "about"
_SIZE, _DIGITS = 2, 64  # bytes that say how long an archive's comment is, and the comment

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model, and how rows become its features."""

    model: Model
    schema: Schema
    label_column: str


def _stored() -> Iterator[tuple[str, Storage]]:
    """Models that can be kept, softmax first: the others' code is loaded where it is needed."""
    for name in MODELS:
        storage = model_of(name).storage
        if storage is not None:
            yield name, storage


def can_be_kept(model: Model) -> bool:
    """Whether a model can be written to a file."""
    return any(isinstance(model, storage.of) for _, storage in _stored())


def write_model(stored: StoredModel) -> bytes:
    """The file's bytes: the same for the same model."""
    name, storage = next(found for found in _stored() if isinstance(stored.model, found[1].of))
    arrays = storage.to_arrays(stored.model)
    about: dict[str, Any] = {
        "format": VERSION,
        "kind": name,
        "label_column": stored.label_column,
        "schema": msgspec.to_builtins(stored.schema),
    }
    encoded = np.frombuffer(json.dumps(about, allow_nan=False).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{_ABOUT: encoded}, **arrays)
    return sealed(buffer.getvalue())


def sealed(archive: bytes) -> bytes:
    """An archive without a comment, with the digest of all that precedes as its comment."""
    content = archive[:-_SIZE] + _DIGITS.to_bytes(_SIZE, "little")
    return content + hashlib.sha256(content).hexdigest().encode()


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
    storage = dict(_stored()).get(str(about.get("kind")))
    if storage is None:
        raise RequestError(f"a model of kind {about.get('kind')!r}; this program knows {', '.join(MODELS)}")
    if sealed(content[:-_DIGITS]) != content:
        raise RequestError("the model was altered: its content is not that of its digest")
    try:
        schema = msgspec.convert(about["schema"], Schema)
        label = about["label_column"]
        if not isinstance(label, str):
            raise ValueError("label_column is no text")
        return StoredModel(storage.from_arrays(arrays, len(schema.classes), schema.features), schema, label)
    except (KeyError, ValueError, msgspec.ValidationError) as error:
        raise RequestError(f"not a model that can be used: {error}") from None
