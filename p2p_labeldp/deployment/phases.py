"""The phases of a deployment, which its coordinator takes it through."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    GATHERING = "gathering"
    MEETING = "meeting"
    RUNNING = "running"
    CLOSING = "closing"
    TRACING = "tracing"
    WRITING = "writing"
    LEAVING = "leaving"


GATHERING, MEETING, RUNNING, CLOSING, TRACING, WRITING, LEAVING = Phase

TRANSITIONS: dict[Phase, tuple[Phase, ...]] = {
    # LEAVING before the end: data differ, hosts or users are too few, or nobody can do without a node that is away.
    GATHERING: (MEETING, LEAVING),
    MEETING: (RUNNING, LEAVING),
    RUNNING: (CLOSING, LEAVING),
    CLOSING: (TRACING, LEAVING),
    TRACING: (WRITING, LEAVING),
    WRITING: (LEAVING,),
    LEAVING: (),
}
