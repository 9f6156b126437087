"""The ways a request can fail; every command turns them into an exit status.

``RequestError`` is the caller's fault (exit status 2) and ``RunError`` is ours or the machine's (exit status 3); a
``CheckError`` is a RunError of a run that did not fulfil what its scenario asks for (exit status 1). A message that a
role refuses is none of these: see ``protocol.messages.Refused``.
Messages are one line, name the field or file, and say what is allowed.
"""

import difflib
from collections.abc import Iterable


class RequestError(ValueError):
    """The request was wrong: a scenario, an argument, a data file, a trace. Nothing was written."""

    def __init__(self, message: str) -> None:
        # What a user wrote may be part of it; the line stays one.
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class RunError(RuntimeError):
    """The run broke after it had begun; the message names actor, virtual time, seed and cause."""


class CheckError(RunError):
    """The run was stopped since it does not fulfil a condition of its scenario."""


def meant(word: str, known: Iterable[str]) -> str:
    """A hint for a message: the known word that is the nearest to what was written, or all of them."""
    every = list(known)
    near = difflib.get_close_matches(word, every, 1, 0.5)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(every)}"


def leaves(error: BaseException) -> list[BaseException]:
    """The errors that came together, in order; one that came alone is itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]


def first_of(error: BaseException, *kinds: type[BaseException]) -> BaseException | None:
    """The one to tell of errors that came together: of the first of these kinds that is among them."""
    found = leaves(error)
    return next((leaf for kind in kinds for leaf in found if isinstance(leaf, kind)), None)
