"""Pausing, stepping and pacing a simulation that is watched.

The simulation's thread comes here after every batch of messages, and is told how many the next may have. While it waits
virtual time stands still. It never waits for a page that nobody has open: whoever closes the last one lets it go on.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

from p2p_labeldp.protocol.auditor import BATCH

LOOK = 0.1  # seconds between looks at whether something has changed
GRACE = 5.0  # seconds without a page until a simulation goes on by itself: time enough to load it again
FIRST = 600.0  # the same before any page was opened, where it began paused
FASTEST = 1000.0  # messages a second of a pace that can be chosen; more is no pace

Reached = Callable[[], bool]
"""Whether the simulation has come to where it was to be stopped."""


class Gate:
    """The simulation's thread calls ``through``, anyone else the rest."""

    def __init__(self, *, paused: bool = False) -> None:
        self._lock = threading.Lock()
        self._paused = paused
        self._steps = 0
        self._reached: Reached | None = None
        self._pace = 0.0
        self._due = 0.0
        self._open = False
        self._pages = 0
        self._alone = time.monotonic() + FIRST if paused else 0.0

    @property
    def paused(self) -> bool:
        """Whether it stands still, or will in a moment."""
        return self._paused and not self._steps and self._reached is None and not self._open

    @property
    def pace(self) -> float:
        """Messages a second; 0: as many as there are."""
        return 0.0 if self._open else self._pace

    @property
    def slow(self) -> bool:
        """Whether every message is to be looked at."""
        return (self._paused or self._pace > 0) and not self._open

    def play(self, pace: float = 0.0) -> None:
        """Go on; with a ``pace`` at so many messages a second."""
        with self._lock:
            self._paused, self._steps, self._reached = False, 0, None
            self._pace, self._due = min(max(pace, 0.0), FASTEST), time.monotonic()

    def pause(self) -> None:
        with self._lock:
            self._paused, self._steps, self._reached = True, 0, None

    def step(self, reached: Reached | None = None) -> None:
        """One message more or, with ``reached``, as many as it takes."""
        with self._lock:
            self._paused, self._reached = True, reached
            self._steps += reached is None

    def release(self) -> None:
        """Never wait again."""
        self._open = True

    def page_opened(self) -> None:
        with self._lock:
            self._pages += 1

    def page_closed(self) -> None:
        with self._lock:
            self._pages -= 1
            self._alone = time.monotonic() + GRACE

    def through(self, on_wait: Callable[[], None] = lambda: None) -> int:
        """Wait for as long as that was asked for; how many messages may be sent until this is called again.

        ``on_wait`` is called before it waits.
        """
        if not self.slow:
            return BATCH
        count = self._count()
        if count == 0:
            on_wait()
            with self._interruptible():
                while (count := self._count()) == 0:
                    time.sleep(self._pause())
        return count

    def _count(self) -> int:
        """How many messages may be sent now."""
        with self._lock:
            if not self._pages and time.monotonic() > self._alone:
                self._paused, self._steps, self._reached, self._pace = False, 0, None, 0.0
            if self._open or not (self._paused or self._pace):
                return BATCH
            if self._reached is not None:
                if not self._reached():
                    return 1
                self._reached = None
            if self._paused:
                self._steps, count = max(0, self._steps - 1), min(1, self._steps)
                return count
            now = time.monotonic()
            if now < self._due:
                return 0
            count = max(1, round(self._pace * LOOK))
            self._due = max(self._due, now - LOOK) + count / self._pace
            return count

    def _pause(self) -> float:
        if self._paused or not self._pace:
            return LOOK / 5
        return min(LOOK, max(0.0, self._due - time.monotonic()))

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """trio lets an interrupt wait for the next checkpoint, which a paused simulation would never come to."""
        before = signal.getsignal(signal.SIGINT)
        if before is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: object) -> None:
            self.release()
            if callable(before):
                before(number, frame)  # type: ignore[arg-type]

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
