"""How a scenario can be run: the engines, and how many users a task of the actors carries."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from p2p_labeldp.errors import RequestError


class Engine(StrEnum):
    """How labels become reports; ``runs.execute`` calls the module of each."""

    ACTORS = "actors"
    VECTORIZED = "vectorized"


class Hosting(StrEnum):
    """How many users a task of the actors engine carries."""

    USER = "user"
    CLUSTER = "cluster"


@dataclass(frozen=True)
class EngineRecord:
    """What is true of an engine."""

    words: str
    sends_messages: bool
    """Whether there is a trace, virtual time, and anyone whom an adversary or a fault could disturb."""
    hosting: bool = False
    """Whether its tasks carry one user each or whole clusters, as asked for."""
    splits: bool = False
    """Whether workers of a Dask cluster can share the work."""


def check_options(engine: str | None, hosting: str) -> None:
    """RequestError for a value that ``--engine`` (None: not given) or ``--hosting`` cannot have."""
    for option, value, allowed in (("--engine", engine, tuple(Engine)), ("--hosting", hosting, tuple(Hosting))):
        if value is not None and value not in allowed:
            raise RequestError(f"{option} {value} is not allowed; it must be one of {', '.join(allowed)}")


ENGINES = {
    Engine.ACTORS: EngineRecord("real messages", sends_messages=True, hosting=True),
    Engine.VECTORIZED: EngineRecord("numpy arrays", sends_messages=False, splits=True),
}
