"""What operating systems do differently, in one place: locks, lasting writes, signals, and what needs a POSIX system.

Nothing else in the package names a function that some system lacks. What could not be tried is in docs/platforms.md.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from p2p_labeldp.errors import RequestError

fcntl: ModuleType | None
msvcrt: Any
try:
    import fcntl
except ImportError:
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None
_FAR = 1 << 40  # where Windows locks a byte: behind any content, which would be locked too


def require_posix(what: str) -> None:
    """RequestError on Windows: no file there is its owner's alone by its mode, and journals cannot be made to last."""
    if fcntl is None:
        raise RequestError(f"{what}: needs Linux or macOS; run, sweep and compare work here, or use a container")


def cutting_signals(what: str) -> tuple[signal.Signals, signal.Signals]:
    """What tells a process to cut its links, and to mend them; RequestError where the system lacks such signals."""
    if not hasattr(signal, "SIGUSR1"):
        raise RequestError(f"{what} is not allowed: this system has no SIGUSR1")
    return signal.SIGUSR1, signal.SIGUSR2


def lock(descriptor: int) -> None:
    """Take an open file for this process until it is closed. OSError where another one has it."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)
    else:
        raise RequestError("this system has no locks for files, which keep two processes from writing to one")


def make_last(descriptor: int) -> None:
    """Return when what was written survives a loss of power."""
    if fcntl is not None and hasattr(fcntl, "F_FULLFSYNC"):  # macOS, whose fsync leaves it in the drive's cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


@contextlib.contextmanager
def put_in_place(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write under; what was there before stays until all of it is written."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the end; processes started meanwhile do not hear it, from their first moment on."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    """Ctrl-C has no effect, but Python's own handler is there for ``interrupt``."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt(*_: object) -> None:
    """As Ctrl-C, also where that is ignored; a handler of other signals."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.raise_signal(signal.SIGINT)
