"""The two ways a request can fail; every command turns them into an exit status.

``RequestError`` is the caller's fault (exit status 2) and ``RunError`` is ours or the machine's
(exit status 3). A message that a role refuses is neither: see ``protocol.messages.Refused``.
Messages are one line, name the field or file, and say what is allowed.
"""


class RequestError(ValueError):
    """The request was wrong: a scenario, an argument, a data file, a trace. Nothing was written."""

    def __init__(self, message: str) -> None:
        # What a user wrote may be part of it; the line stays one.
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class RunError(RuntimeError):
    """The run broke after it had begun; the message names actor, virtual time, seed and cause."""
