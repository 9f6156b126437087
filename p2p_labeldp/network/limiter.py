"""Limits on connections that are not authenticated yet: how long each may take, and how many there may be.

The oldest makes room for the next, so that whoever holds many connections open keeps nobody out, and takes no more
of this process's files than that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import trio


class ConnectionLimiter:
    def __init__(self, limit: float, most: int) -> None:
        """``limit`` is in seconds, ``most`` how many may be open at once."""
        self._limit, self._most = limit, most
        self._open: dict[trio.CancelScope, None] = {}  # oldest first

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """The time that one connection has; TooSlowError when it is over, or makes room."""
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
            if trio.current_time() < scope.deadline:
                raise trio.TooSlowError("it made room for newer connections")
            raise trio.TooSlowError(f"no introduction within {self._limit:g} s")


class LineLimiter:
    """A log for what strangers cause: so many lines at once, then one now and again, with how many were left out.

    Whoever can reach a port can make a node refuse as often as they like; they cannot make it fill a disk.
    """

    def __init__(self, log: Callable[..., None], most: int = 50, pause: float = 10.0) -> None:
        """``pause`` is in seconds, for each line that is allowed again."""
        self._log, self._most, self._pause = log, most, pause
        self._room = float(most)
        self._since: float | None = None
        self._left_out = 0
        self.count = 0
        """Of all, logged or not."""

    def __call__(self, event: str, **facts: object) -> None:
        self.count += 1
        now = trio.current_time()
        if self._since is not None:
            self._room = min(self._most, self._room + (now - self._since) / self._pause)
        self._since = now
        if self._room < 1:
            self._left_out += 1
            return
        self._room -= 1
        self._log(event, **facts)
        self.tell()

    def tell(self) -> None:
        """Say how many lines were left out, if any were since the last time."""
        if self._left_out:
            left_out, self._left_out = self._left_out, 0
            self._log("warning", warning=f"{left_out} more lines about strangers were left out of this log")
