"""Run folders with other records in them, and simulated runs told as deployments.

A deployment's records come in any order that has causes before their effects, with the times of clocks that tell
nothing. ``causes`` says what must stand before a record of a simulated run, ``shuffled`` draws such an order.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgpack

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.audit.rules import Violation
from p2p_labeldp.protocol.messages import HOST

Record = list[Any]
Causes = list[set[int]]


def read_trace(folder: Path) -> tuple[dict[str, Any], list[Record]]:
    with (folder / "trace.msgpack").open("rb") as file:
        header, *records = msgpack.Unpacker(file)
    return header, records


def write_trace(folder: Path, header: dict[str, Any], records: list[Record]) -> None:
    (folder / "trace.msgpack").write_bytes(b"".join(map(msgpack.packb, [header, *records])))


def edit_summary(folder: Path, **changes: Any) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | changes))


def recount(folder: Path, header: dict[str, Any], records: list[Record], **changes: Any) -> None:
    """Put other records into a run folder, and count them in its summary."""
    write_trace(folder, header, records)
    edit_summary(folder, messages_by_kind=Counter(record[4][0] for record in records), **changes)


def forget_the_seed(folder: Path) -> None:
    """Say that the coins were the operating system's: the audit must do without them."""
    text = (folder / "scenario.toml").read_text()
    assert 'source = "seeded"' in text
    (folder / "scenario.toml").write_text(text.replace('source = "seeded"', 'source = "system"'))


def violations(folder: Path) -> list[Violation]:
    return audit_runs([folder]).runs[0].violations


def broken(folder: Path) -> set[str]:
    """The invariants that a run does not keep."""
    return {violation.invariant for violation in violations(folder)}


def causes(records: list[Record], latency: float = 0.0) -> Causes:
    """For each place in a simulated trace, the places of what made its sender send it."""
    places: dict[Any, list[int]] = defaultdict(list)
    found: Causes = []
    rounds = 1 + max((message[1] for *_, message in records if message[0] == "closed"), default=0)
    for place, (_, time, sender, receiver, (kind, *fields)) in enumerate(records):
        round_ = fields[0] if fields else None
        wanted: list[Any] = {
            "hello": [],
            "centre": ["hello"],
            "roster": ["hello", "centre"],
            "assignment": [("roster", round_)],
            "round": [("closed", (round_ or 0) - 1)],
            "goodbye": ["closed"],
            "ask": [("begin", sender, round_)],
            "answer": [("begin", sender, round_), ("ask", receiver, sender, round_)],
            "report": [("release", sender, round_), ("answer", sender, round_)],
            "done": [("begin", sender, round_), ("answer", sender, round_)],
            "closed": [("done", round_), *(((what, (round_ or 0) - 1)) for what in ("closed", "report", "hosted"))],
            "refusal": [("route", round_, sender, fields[1])] if kind == "refusal" else [],
        }[kind]
        found.append({cause for what in wanted for cause in places[what]})
        if kind == "refusal":
            # Of copies the first one will do: which of them was refused, nobody can tell.
            arrived = [cause for cause in sorted(found[-1]) if records[cause][1] + latency <= time]
            newest = max((records[cause][4][1:2] for cause in arrived), default=None)
            found[-1] = {next(cause for cause in arrived if records[cause][4][1:2] == newest)} if arrived else set()
        names: list[Any] = {
            "hello": ["hello"],
            "centre": ["centre"],
            "roster": [("roster", round_)],
            "assignment": [("begin", receiver, 0)],
            "round": [("begin", receiver, round_), ("release", receiver, (round_ or 0) - 1)],
            "goodbye": [("release", receiver, rounds - 1)],
            "report": [("report", round_)],
            "ask": [("ask", sender, receiver, round_)],
            "answer": [("answer", receiver, round_)],
            "done": [("done", round_)],
            "closed": ["closed", ("closed", round_)],
        }.get(kind, [])
        if receiver == HOST and kind == "round":
            names = [("hosted", (round_ or 0) - 1)]
        for name in (*names, ("route", sender, receiver, kind)):
            places[name].append(place)
    return found


def shuffled(records: list[Record], latency: float, seed: int) -> list[Record]:
    """In another order that has every cause before its effects and keeps the order of what one party says."""
    waits_for = causes(records, latency)
    last: dict[int, int] = {}
    for place, record in enumerate(records):
        if record[2] in last:
            waits_for[place].add(last[record[2]])
        last[record[2]] = place
    frees: dict[int, list[int]] = defaultdict(list)
    for place, before in enumerate(waits_for):
        for cause in before:
            frees[cause].append(place)
    generator = random.Random(seed)
    ready = [place for place, before in enumerate(waits_for) if not before]
    order = []
    while ready:
        ready[-1], ready[chosen] = ready[chosen := generator.randrange(len(ready))], ready[-1]
        order.append(ready.pop())
        for place in frees[order[-1]]:
            waits_for[place].discard(order[-1])
            if not waits_for[place]:
                ready.append(place)
    assert len(order) == len(records)
    return timed_anew([records[place] for place in order], seed)


def timed_anew(records: list[Record], seed: int = 0) -> list[Record]:
    """Numbered in this order, at times that only grow, some of them equal."""
    generator = random.Random(seed)
    times = accumulate(generator.choice((0.0, generator.random())) for _ in records)
    return [[number, time, *record[2:]] for number, (time, record) in enumerate(zip(times, records, strict=True))]


def as_deployment(folder: Path, out: Path, seed: int = 0, latency: float = 0.0) -> Path:
    """The folder that a deployment would have left, had it gone as a simulated run went."""
    shutil.copytree(folder, out)
    header, records = read_trace(folder)
    write_trace(out, header | {"clock": "wall"}, shuffled(records, latency, seed))
    edit_summary(out, engine="deployment", hosting=None, virtual_seconds=None)
    (out / "population.npz").unlink()
    return out
