"""The garbage collector, kept from walking what is there to stay.

At its defaults it walks all live objects again and again: a simulation of many users takes more than twice as long, and
a node of a deployment, whose libraries alone are a hundred thousand objects, stands still for 50 ms while others wait.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Leave what is there alone for the length of a run, and look at what comes later more rarely."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
