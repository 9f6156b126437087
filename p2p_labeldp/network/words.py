"""What went wrong on a connection, in words that are safe in a log."""

from __future__ import annotations

import ssl
from pathlib import Path

from p2p_labeldp.errors import leaves
from p2p_labeldp.network.frames import MAX_REASON


def plain(text: str) -> str:
    """A peer's words as one line for a log, bounded."""
    return "".join(c if c.isprintable() else " " for c in text[:MAX_REASON])


def why(error: BaseException) -> str:
    """What broke a connection, in the words of whoever noticed."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(cause, OSError):
        error = cause
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was cut"
    if isinstance(error, ssl.SSLError) and getattr(error, "reason", None):  # Python's own have none
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return plain(str(error)) or type(error).__name__


def whence(error: BaseException) -> str:
    """Where a fault of ours is; not what it says, which may be about a message."""
    error = leaves(error)[0]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
    return f"{type(error).__name__} at {line}"
