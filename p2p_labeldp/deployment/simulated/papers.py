"""Certificates for a simulated fleet: real ones, but the same every time.

They are made by the code that makes all others, with keys, serial numbers and dates from a fixed source, so that
fingerprints, by which hosts are known and which of two calls the other, are the same in every process. One folder
serves every run of a process.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from contextvars import copy_context
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from p2p_labeldp.deployment.certificates import MOST_DAYS, SOURCE, Source, init_certificates
from p2p_labeldp.network.credentials import Credentials

MOST_HOSTS = 8
DATE = datetime(2026, 1, 1, tzinfo=UTC)
_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # until the process ends


credentials = cache(Credentials.load)
"""Of a folder of these: read once in a process, since they do not change."""


@cache
def papers() -> Path:
    """The folder of ``certs init``."""
    kept = tempfile.TemporaryDirectory(prefix="p2p-labeldp-papers-")
    _KEPT.append(kept)
    folder = Path(kept.name) / "certs"
    count = itertools.count(1)

    def entropy(size: int) -> bytes:
        return hashlib.shake_256(f"papers/{next(count)}".encode()).digest(size)

    context = copy_context()
    context.run(SOURCE.set, Source(entropy, lambda: DATE))
    context.run(init_certificates, folder, MOST_HOSTS, MOST_DAYS)
    return folder
