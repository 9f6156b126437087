"""What a node says of the data it has loaded, so that nodes with other data find out before anyone begins.

Every user host and the learner load all examples. They compare how many there are, a digest of the features and a
digest of the public schema: the names of the classes, in order. Nothing in it depends on a label: of a digest of
labels, whoever knows all but one could try out the last.

Features are compared in 4096 steps of each column's range: the same file gives the same digest on another processor,
whose arithmetic may differ in the last digit, while a row in another place, or another value, is found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data import Dataset
from p2p_labeldp.deployment.items import Data

_BLOCK = 1 << 16  # rows at once
_BITS = 12  # of a column's range


def data_of(dataset: Dataset) -> Data:
    """What to say of this data set."""
    users, features = dataset.features.shape
    schema = json.dumps([features, *dataset.classes]).encode()
    return Data(
        users, features, len(dataset.classes), features_digest(dataset.features), hashlib.sha256(schema).hexdigest()
    )


def features_digest(features: NDArray[np.float32]) -> str:
    digest = hashlib.sha256(np.array(features.shape, dtype="<i8").tobytes())
    _, exponents = np.frexp(np.abs(features).max(axis=0, initial=0.0))
    for start in range(0, len(features), _BLOCK):
        steps = np.rint(np.ldexp(features[start : start + _BLOCK].astype(np.float64), _BITS - exponents))
        digest.update(steps.astype("<i4").tobytes())
    return digest.hexdigest()


def differences(told: Sequence[tuple[str, Data]]) -> Iterator[tuple[str, str]]:
    """Those whose data are other than those of the largest group, each with what is different.

    ``told`` are names and what each says, in order; of two equally large groups the one that began first counts.
    """
    groups: dict[Data, int] = {}
    for _, data in told:
        groups[data] = groups.get(data, 0) + 1
    usual = max(groups, key=lambda data: groups[data])
    for name, data in told:
        if data != usual:
            yield name, difference(data, usual)


def difference(data: Data, usual: Data) -> str:
    """The first thing in which data differ, in words; empty where they agree."""
    for what, its, most in (
        ("users", data.users, usual.users),
        ("features", data.features, usual.features),
        ("labels", data.labels, usual.labels),
    ):
        if its != most:
            return f"{its} {what} in place of {most}"
    if data.schema_digest != usual.schema_digest:
        return "other class names, or in another order"
    return "other features, or in another order" if data.features_digest != usual.features_digest else ""
