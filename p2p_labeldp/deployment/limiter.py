"""A limit on connections of strangers, who have shown nothing yet: how long each may take, and how many there may be.

The oldest makes room for the next, so that whoever holds many connections open keeps nobody out, and takes no more
of this process's files than that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import trio


class ConnectionLimiter:
    def __init__(self, limit: float, most: int) -> None:
        """``limit`` is in seconds, ``most`` how many may be open at once."""
        self._limit, self._most = limit, most
        self._open: dict[trio.CancelScope, None] = {}  # oldest first

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """The time that one connection has; TooSlowError when it is over."""
        with trio.move_on_after(self._limit) as scope:
            self._open[scope] = None
            if len(self._open) > self._most:
                oldest = next(iter(self._open))
                del self._open[oldest]
                oldest.cancel()
            try:
                yield
            finally:
                self._open.pop(scope, None)
        if scope.cancelled_caught:
            raise trio.TooSlowError
