"""A door for strangers, who have shown nothing yet: each may stay for a little while, and only so many at once.

The one who has been there longest makes room for the next, so that whoever holds many connections open keeps
nobody out, and takes no more of this process's files than that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import trio


class Door:
    def __init__(self, limit: float, most: int) -> None:
        """``limit`` is in seconds, ``most`` how many may be inside."""
        self._limit, self._most = limit, most
        self._inside: dict[trio.CancelScope, None] = {}  # oldest first

    @contextlib.contextmanager
    def passed(self) -> Iterator[None]:
        """The time that one of them has; TooSlowError when it is over."""
        with trio.move_on_after(self._limit) as scope:
            self._inside[scope] = None
            if len(self._inside) > self._most:
                oldest = next(iter(self._inside))
                del self._inside[oldest]
                oldest.cancel()
            try:
                yield
            finally:
                self._inside.pop(scope, None)
        if scope.cancelled_caught:
            raise trio.TooSlowError
