"""Certificates for a simulated fleet: real ones, but the same every time.

They are made by the code that makes all others, with keys, serial numbers and dates from a fixed source, so that
fingerprints, by which hosts are known and which of two calls the other, are the same in every process. One folder
serves every run of a process.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from p2p_labeldp.deployment.certificates import MOST_DAYS, SOURCE, Source, init_certificates
from p2p_labeldp.network.credentials import Credentials

MOST_HOSTS = 8
DATE = datetime(2026, 1, 1, tzinfo=UTC)
_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # until the process ends


class FixedSource:
    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def __call__(self, size: int) -> bytes:
        self._count += 1
        return hashlib.shake_256(f"{self._seed}/{self._count}".encode()).digest(size)


@contextmanager
def fixed(seed: str) -> Iterator[None]:
    """Within, certificates are made from this seed."""
    token = SOURCE.set(Source(FixedSource(seed), lambda: DATE))
    try:
        yield
    finally:
        SOURCE.reset(token)


credentials = cache(Credentials.load)
"""Of a folder of these: read once in a process, since they do not change."""


@cache
def papers() -> Path:
    """The folder of ``certs init``."""
    kept = tempfile.TemporaryDirectory(prefix="p2p-labeldp-papers-")
    _KEPT.append(kept)
    folder = Path(kept.name) / "certs"
    with fixed("papers"):
        init_certificates(folder, MOST_HOSTS, MOST_DAYS)
    return folder
