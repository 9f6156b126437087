"""What each adversary of a scenario gets to see: the view whose guarantee is the bound on what it can learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from p2p_labeldp.adversaries.cast import Part
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import Entry, entries


def _coalition(_: Entry) -> View:
    return View.COALITION


def _nothing(_: Entry) -> None:
    """It changes what is said and looks at nothing."""


def _isolated(entry: entries.IsolatingCoordinator) -> View:
    """In a small cluster there is nobody of its own to look with."""
    return View.LEARNER if entry.way == "small_cluster" else View.COALITION


def _observed(entry: entries.Observer) -> View | None:
    """Who talks to whom, without what the learner receives, tells of no label."""
    if entry.sees == "metadata":
        return View.METADATA if entry.reports else None
    return View.NETWORK if entry.reports else View.EAVESDROPPER


SEEN: dict[type[Entry], Callable[[Any], View | None]] = {
    entries.CuriousPeers: lambda _: View.PEER,
    entries.Collusion: _coalition,
    entries.Focus: _coalition,
    entries.Sybils: _coalition,
    entries.RepeatAskers: _coalition,
    entries.IsolatingCoordinator: _isolated,
    entries.Observer: _observed,
    entries.Liars: _nothing,
    entries.TwoFaced: _nothing,
    entries.Silent: _nothing,
    entries.FreshAnswers: _nothing,
    entries.ReplayingLearner: _nothing,
}
"""Kind of adversary to its view, which may depend on the entry's keys; None: it sees no label."""


def seen_by(entry: Entry) -> View | None:
    return SEEN[type(entry)](entry)


def present(parts: Iterable[Part]) -> tuple[View, ...]:
    """The views of the adversaries of a run, each once."""
    found = (seen_by(part.entry) for part in parts)
    return tuple(dict.fromkeys(view for view in found if view is not None))


def colluding(parts: Iterable[Part]) -> tuple[int, ...]:
    """All users who pool what they see with the learner, ascending."""
    return tuple(sorted({user for part in parts if seen_by(part.entry) == View.COALITION for user in part.members}))
