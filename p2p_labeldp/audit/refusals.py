"""Which message a refusal is about: it names a sender and a kind, and there may be several of those.

What was refused had no effect, so a message that was acted on, as the trace or the reports show, is the last to be
thought of. Of the others, one that repeats an earlier one is the surplus, the latest first. Where nothing is
repeated its sender was late, and the oldest message is the one that waited longest. In virtual time only what
arrived just then comes into question; a wall clock does not tell.

Where two are left the choice hides nothing: nobody acted on either, and what a late user said counts as said
whether it was refused or not. Where everything was acted on, whatever is chosen is missed by what it caused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from p2p_labeldp.audit.rules import Violation
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.protocol.messages import ATTEMPTS, BY_KIND, COORDINATOR, HOST, KINDS
from p2p_labeldp.scenario import Network

Route = tuple[int, int, str]
"""Sender, receiver and kind."""

_SHOWS = {
    "batch": ("deposit",),
    "unlock": ("go",),
    "reveal": ("unlock",),
    "drawn": ("go", "reveal"),
    "done": ("drawn",),
}
"""In the mixed exchange: kinds that somebody has heard, in this attempt, who sends this."""
_COUNTERPARTS = {kind: other for kind, message in BY_KIND.items() if (other := message.record.counterpart)}


def refused_positions(
    events: Iterable[Event], network: Network | None, reports: Collection[tuple[int, int, int]]
) -> tuple[dict[int, str], list[Violation]]:
    """Positions of the messages that were refused, each with the fault, and what is wrong with the refusals.

    ``network`` says how long messages take, None where clocks do not tell. ``reports`` holds (round, user, label)
    of what the learner took. The events are read twice.
    """
    named = {_refused_route(event) for event in events if _names_a_message(event)}
    by_receiver: dict[tuple[int, str], list[Route]] = defaultdict(list)
    for route in named:
        by_receiver[route[1:]].append(route)
    story: list[Event] = []  # the refusals, and every message that one of them may be about
    begun: dict[int, list[float]] = defaultdict(list)
    heard: set[tuple[Route, tuple[int, ...]]] = set()
    listed: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for event in events:
        route = (event.sender, event.receiver, event.kind)
        if any(type(part) not in (int, str) for part in route) or type(event.time) is not float:
            continue  # no message at all; its shape is what is wrong with it
        if route in named or _names_a_message(event):
            story.append(event)
        if event.kind in ("assignment", "round", "closed"):
            begun[event.receiver].append(event.time)
        heard.update(_heard(event, by_receiver, listed))
    waiting: dict[Route, list[Event]] = defaultdict(list)
    seen: set[tuple[Route, tuple[int, ...]]] = set()
    surplus: set[int] = set()
    refused: dict[int, str] = {}
    wrong: list[Violation] = []
    for event in story:
        if not _names_a_message(event):
            route = (event.sender, event.receiver, event.kind)
            waiting[route].append(event)
            if (route, _about(event)) in seen:
                surplus.add(event.position)
            seen.add((route, _about(event)))
            continue
        route = _refused_route(event)
        candidates = waiting[route]
        if not candidates:
            detail = f"{event}: names no message that was sent"
            wrong.append(Violation("refusals", event.position, detail, event.sender, cause_of=route[0]))
            continue
        if network is None and event.sender == HOST:
            continue  # one of a deployment's hosts, to all of which it went: others may have taken it
        if network is not None:
            timely = [m for m in candidates if _comes_up(m, event.time, begun[event.sender], network)]
            if not timely:
                wrong.append(
                    Violation("timing", event.position, f"{event}: left when nothing it refuses arrived", event.sender)
                )
            candidates = timely or candidates
        idle = [m for m in candidates if not heard.intersection(_traces(route, m)) and not _counted(m, reports)]
        if not idle and event.fields[1] == "hello":
            # Who is in a roster said hello once; what was refused is another one, which is not on record.
            detail = f"{event}: names a message that was acted on"
            wrong.append(Violation("refusals", event.position, detail, event.sender, cause_of=route[0]))
            continue
        idle = idle or candidates
        chosen = ([m for m in idle if m.position in surplus] or idle[:1])[-1]
        waiting[route].remove(chosen)
        refused[chosen.position] = event.fields[2]
    return refused, wrong


def _names_a_message(event: Event) -> bool:
    """Whether this is a refusal of a message; bytes that are none are refused as a ``frame`` and not on record."""
    if event.kind != "refusal":
        return False
    types = tuple(map(type, (event.sender, *event.fields)))
    return types == (int, int, str, str, str) and event.fields[1] != "frame"


def _refused_route(refusal: Event) -> Route:
    about, kind, *_ = refusal.fields
    return about, refusal.sender, kind


_ABOUT = ("round", "cluster", "attempt", "step", "first")
"""Fields that tell messages of one route apart."""


def _about(event: Event) -> tuple[int, ...]:
    """What a message is about: the round, and in the mixed exchange the attempt, the batch and the part of it."""
    fields = zip(KINDS.get(event.kind, ()), event.fields, strict=False)
    return tuple(value for name, value in fields if name in _ABOUT and type(value) is int)


def _heard(
    event: Event, named: dict[tuple[int, str], list[Route]], listed: dict[tuple[int, ...], list[int]]
) -> Iterator[tuple[Route, tuple[int, ...]]]:
    """What its sender must have heard who sends this.

    ``named`` are the routes that refusals name, by receiver and kind; ``listed`` are the members of attempts, as far
    as they are published.
    """
    fields = dict(zip(KINDS.get(event.kind, ()), event.fields, strict=False))
    if any(type(fields.get(name)) is not int for name in KINDS.get(event.kind, ()) if name in _ABOUT):
        return  # a message of another shape tells nothing, and is found for that
    # An ask that was answered was heard, and so was an answer that had been asked for.
    if event.kind in _COUNTERPARTS:
        back = (event.receiver, event.sender, _COUNTERPARTS[event.kind])
        if back in named.get(back[1:], ()):
            yield back, _about(event)
    elif event.kind == "roster":
        yield from (((user, COORDINATOR, "hello"), ()) for user in _listed(fields.get("members")))
    elif event.kind == "passed":
        about = (fields["round"], fields["cluster"], fields["attempt"], fields["step"])
        yield from ((route, about) for route in named.get((event.sender, "batch"), ()))
    elif event.kind in ("committed", "opened"):
        members = listed[fields["round"], fields["cluster"], fields["attempt"]]
        members += _listed(fields.get("members"))
        kind = "commit" if event.kind == "committed" else "open"
        yield from (((user, COORDINATOR, kind), (fields["round"], fields["attempt"])) for user in members)
    elif event.kind in _SHOWS and fields.get("outcome") != "abstained":  # who abstained has heard no draw
        attempts = range(ATTEMPTS) if event.kind == "done" else (fields["attempt"],)
        for kind in _SHOWS[event.kind]:
            for route in named.get((event.sender, kind), ()):
                yield from ((route, (fields["round"], each)) for each in attempts)


def _listed(members: object) -> list[int]:
    """Users, 8 bytes each, as far as they are."""
    if type(members) is not bytes:
        return []
    found: list[int] = np.frombuffer(members[: len(members) // 8 * 8], dtype="<i8").tolist()
    return found


def _traces(route: Route, message: Event) -> list[tuple[Route, tuple[int, ...]]]:
    """What is noted where a message was heard; of a batch, whichever part it is."""
    about = _about(message)
    return [(route, about), (route, about[:-1])] if message.kind == "batch" else [(route, about)]


def _counted(message: Event, reports: Collection[tuple[int, int, int]]) -> bool:
    if message.kind != "report" or tuple(map(type, message.fields)) != (int, int):
        return False
    round_, label = message.fields
    return (round_, message.sender, label) in reports


def _comes_up(message: Event, time: float, begun: list[float], network: Network) -> bool:
    """Whether it arrived at ``time`` or, if it came early, its receiver was told then to begin, or who counts."""
    slack = 1e-9 if network.jitter else 0.0
    causes = [message.time, *(begun if message.kind in ("ask", "report") else ())]
    arrivals = [cause + network.latency for cause in causes]
    return any(first - slack <= time <= first + network.jitter + slack for first in arrivals)
