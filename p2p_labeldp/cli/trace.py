"""``p2p-labeldp trace``: the messages of a run, one line each, in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.output import Json, print_json
from p2p_labeldp.errors import RequestError, meant

if TYPE_CHECKING:
    from p2p_labeldp.audit.trace import Event, Trace


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that sent messages.")],
    user: Annotated[
        int | None, typer.Option("--user", metavar="U", help="Only messages that this user sends or receives.")
    ] = None,
    cluster: Annotated[int | None, typer.Option("--cluster", metavar="C", help="Only users of this cluster.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="K", help="Only messages of this kind.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Print at most N lines; 0 prints all.")] = 0,
    show_labels: Annotated[
        bool,
        typer.Option("--show-labels", help="Show who asked whom, and the answers, even where the data do not ship."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a run's messages in words: all of them, or those of a user, a cluster or a kind."""
    from p2p_labeldp.audit.folder import SCENARIO, TRACE, find
    from p2p_labeldp.audit.trace import Trace
    from p2p_labeldp.protocol.messages import KINDS
    from p2p_labeldp.scenario import load_scenario

    if not run.is_dir():
        raise RequestError(f"{run}: not a run folder")
    if limit < 0:
        raise RequestError(f"--limit {limit} is not allowed; it must be 0 or more")
    if kind is not None and kind not in KINDS:
        raise RequestError(f"--kind {kind}: there is no such message; {meant(kind, KINDS)}")
    if not find(run, TRACE).exists():
        raise RequestError(f"{run}: has no trace; the vectorized engine sends no messages")
    if not (show_labels or load_scenario(find(run, SCENARIO)).ships):
        raise RequestError(f"{run}: its trace tells what real people said; --show-labels prints it all the same")
    trace = Trace.open(find(run, TRACE))
    users = trace.header["users"]
    if user is not None and not 0 <= user < users:
        raise RequestError(f"--user {user}: there is no such user; they are 0 to {users - 1}")
    members = None if cluster is None else _members(trace, cluster)
    chosen = (
        event
        for event in trace
        if (kind is None or event.kind == kind)
        and (user is None or user in (event.sender, event.receiver))
        and (members is None or event.sender in members or event.receiver in members)
    )
    lines = islice(chosen, limit or None)
    if as_json:
        print_json({"messages": [_as_json(event) for event in lines]})
        return
    for event in lines:
        print(line_of(event))


def _members(trace: Trace, cluster: int) -> set[int]:
    """Who was told to be in this cluster."""
    found: dict[int, set[int]] = {}
    for event in trace:
        if event.kind == "assignment":
            found.setdefault(event.fields[0], set()).add(event.receiver)
    if cluster not in found:
        raise RequestError(f"--cluster {cluster}: there is no such cluster; they are {_span(sorted(found))}")
    return found[cluster]


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if numbers else "none"


def line_of(event: Event) -> str:
    """Position, time, who to whom, what."""
    from p2p_labeldp.protocol.messages import name_of

    told = ", ".join(f"{name} {value}" for name, value in _fields(event))
    way = f"{name_of(event.sender)} -> {name_of(event.receiver)}"
    return f"{event.position:>8}  {event.time:>10.4f} s  {way:<32}  {event.kind:<10}  {told}".rstrip()


def _fields(event: Event) -> Iterator[tuple[str, Any]]:
    from p2p_labeldp.protocol.messages import BY_KIND, Features

    message = BY_KIND[event.kind]
    for name, value in zip(message.__struct_fields__, event.fields, strict=True):
        if isinstance(value, bytes):
            yield name, f"of {len(value):,} bytes"
        elif message.__annotations__.get(name) in (Features, "Features"):
            yield name, f"of {value} numbers"
        else:
            yield name, str(value).lower() if isinstance(value, bool) else value


def _as_json(event: Event) -> dict[str, Any]:
    told = {name: value for name, value in event._asdict().items() if name != "number"}
    return told | {"fields": dict(_fields(event))}
