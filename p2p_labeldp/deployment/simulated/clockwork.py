"""trio without chance: the same seed takes the same steps in the same order, and waiting costs no time.

trio runs the tasks that are ready in a random order, so that nobody comes to depend on it. It has a switch for tests
that must repeat themselves: ready tasks are sorted by age, and then shuffled by a generator that can be seeded.
Both are private names of trio (``trio._core._run``), the ones that Hypothesis is given; they are used here and
nowhere else. Every order that a seed can draw is one that trio may choose by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.testing
from trio._core import _run

Result = TypeVar("Result")


def run(function: Callable[..., Awaitable[Result]], *arguments: object, seed: int) -> Result:
    """``trio.run`` in virtual time, with the order of steps drawn from the seed."""
    before, state = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r.seed(seed)
    try:
        return trio.run(function, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = before  # type: ignore[misc]
        _run._r.setstate(state)
