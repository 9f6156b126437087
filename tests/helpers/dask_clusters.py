"""Dask clusters on this machine, for tests."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def local_cluster(**options: Any) -> Iterator[Any]:
    """A cluster whose workers' ends are no news, in logs or in warnings."""
    from distributed import LocalCluster

    levels = {name: logging.getLogger(name).level for name in ("distributed", "distributed.nanny", "tornado")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    settings = {"threads_per_worker": 1, "dashboard_address": None, "protocol": "tcp://"}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="distributed")
            with LocalCluster(**(settings | options)) as cluster:
                yield cluster
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
