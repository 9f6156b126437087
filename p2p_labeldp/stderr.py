"""Standard error that never blocks: a program must not wait for whoever reads it.

A pipe whose reader has stalled blocks the writer, one whose reader has gone breaks it, and a full disk refuses it; none
of that may hold a node up, or end it. Lines go through a thread of their own and a buffer with a bound: what does
not fit is dropped and counted. The thread writes to the descriptor itself and takes no lock of Python's streams, so
that the program can end while it is still blocked.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque

MOST = 1 << 20  # bytes that wait: some thousand lines
LAST = 2.0  # seconds for what is left when the program ends


class Outlet:
    def __init__(self, descriptor: int = 2, most: int = MOST) -> None:
        self.dropped = 0
        """Lines that there was no room for, or that could not be written."""
        self.process = os.getpid()
        self._descriptor, self._most = descriptor, most
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> bool:
        """Never waits; whether there was room for it."""
        data = text.encode("utf-8", "backslashreplace")
        with self._change:
            if self._bytes + len(data) > self._most:
                self.dropped += 1
                return False
            self._lines.append(data)
            self._bytes += len(data)
            if self._thread is None:
                # Not before there is something to say: a process that forks takes no threads along.
                self._thread = threading.Thread(target=self._run, name="outlet", daemon=True)
                self._thread.start()
            self._change.notify_all()
            return True

    def drain(self, limit: float = LAST) -> bool:
        """Wait until all is written, for so many seconds at most."""
        end = time.monotonic() + limit
        with self._change:
            while self._bytes and (left := end - time.monotonic()) > 0:
                self._change.wait(left)
            return not self._bytes

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._lines:
                    self._change.wait()
                data = self._lines.popleft()
            written = self._put(data)
            with self._change:
                self._bytes -= len(data)
                self.dropped += not written
                self._change.notify_all()

    def _put(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # someone who shares it has made it so
                select.select([], [self._descriptor], [], 1.0)
            except OSError:  # nobody reads it, or the disk is full
                return False
        return True


_shared: Outlet | None = None


def standard_error() -> Outlet | None:
    """The process's own; None where something else stands in standard error's place."""
    global _shared
    stream = sys.__stderr__
    if stream is None or sys.stderr is not stream:
        return None
    if _shared is None or _shared.process != os.getpid():  # threads do not follow into a fork
        _shared = Outlet(stream.fileno())
    return _shared


def say_last(line: str) -> None:
    """A program's last words, after whatever it has logged; given up after a while if nobody reads."""
    outlet = standard_error()
    if outlet is None:
        print(line, file=sys.stderr)
        return
    outlet.write(line + "\n")
    outlet.drain()
