"""The messages of a run, from its trace: read once, kept as columns of numbers.

A trace may hold many millions of messages. The first MOST are read, at 38 bytes each, and the report says so
where there were more.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.trace import Event, Trace
from p2p_labeldp.errors import RequestError
from p2p_labeldp.protocol.messages import KINDS, MAX_LABELS, PARTIES, Outcome

MOST = 2_000_000
STRETCHES = 60  # of a timeline
KIND_NAMES = tuple(KINDS)
CODES = {name: code for code, name in enumerate(KIND_NAMES)}
OUTCOMES: tuple[str, ...] = get_args(Outcome)
_PLACES: dict[str, tuple[int | None, ...]] = {
    kind: tuple(names.index(name) if name in names else None for name in ("round", "user", "label", "outcome"))
    for kind, names in KINDS.items()
}
"""Where a kind of message has which column among its fields."""
_LARGEST = 2**53
_LOWEST = -len(PARTIES)


class Sent(NamedTuple):
    """A message; -1 where its kind has no such field."""

    time: float
    kind: str
    sender: int
    receiver: int
    round: int
    user: int
    """Whom it is about, where that is neither its sender nor its receiver."""
    label: int
    outcome: int
    """Of done, as a place in OUTCOMES."""


_ROW = struct.Struct("<dBqqhqhb")
_COLUMNS = np.dtype(list(zip(Sent._fields, ("<f8", "u1", "<i8", "<i8", "<i2", "<i8", "<i2", "i1"), strict=True)))
"""The same, of which the kind is a place in KIND_NAMES."""


@dataclass(frozen=True)
class Traffic:
    """Messages by position in the trace."""

    wall_clock: bool
    complete: bool
    """Whether all of the trace was read."""
    left_out: int
    """How many records were no messages that we know."""
    columns: NDArray[Any]
    rosters: dict[int, NDArray[np.int64]]
    """Cluster to its users, ascending."""
    refusals: dict[int, str]
    """Position to what was refused and why."""

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, position: int) -> Sent:
        found = Sent(*self.columns[position].item())
        return found._replace(kind=KIND_NAMES[int(found.kind)])


def read_traffic(path: Path, users: int, most: int = MOST) -> Traffic:
    """Stream a trace."""
    trace = Trace.open(path)
    if trace.header["users"] != users:
        raise RequestError(f"{path}: trace and summary are of different runs: their numbers of users differ")
    return traffic_of(trace, users, wall_clock=trace.wall_clock, most=most)


def traffic_of(found: Iterable[Event], users: int, *, wall_clock: bool = False, most: int = MOST) -> Traffic:
    """The columns of a run's messages, whoever has them."""
    rows = bytearray()
    rosters: dict[int, list[NDArray[np.int64]]] = {}
    refusals: dict[int, str] = {}
    left_out = 0
    events = iter(found)
    for _, _, at, source, target, kind, fields in islice(events, most):
        code = CODES.get(kind) if type(kind) is str else None
        if (
            code is None
            or type(at) not in (float, int)
            or not 0 <= at < _LARGEST
            or type(source) is not int
            or type(target) is not int
            or not (_LOWEST <= source < users and _LOWEST <= target < users)
            or len(fields) != len(KINDS[kind])
        ):
            left_out += 1
            continue
        if kind == "refusal":
            refusals[len(rows) // _ROW.size] = " ".join(map(str, fields[1:]))[:200]
        elif kind == "roster" and type(fields[0]) is int and isinstance(fields[2], bytes):
            members = np.frombuffer(fields[2][: len(fields[2]) // 8 * 8], dtype="<i8").astype(np.int64)
            rosters.setdefault(fields[0], []).append(members[(members >= 0) & (members < users)])
        at_round, at_user, at_label, at_outcome = _PLACES[kind]
        rows += _ROW.pack(
            at,
            code,
            source,
            target,
            -1 if at_round is None else _whole(fields[at_round], 1 << 15),
            -1 if at_user is None else _whole(fields[at_user], users),
            -1 if at_label is None else _whole(fields[at_label], MAX_LABELS),
            -1 if at_outcome is None else _outcome(fields[at_outcome]),
        )
    return Traffic(
        wall_clock=wall_clock,
        complete=next(events, None) is None,
        left_out=left_out,
        columns=np.frombuffer(bytes(rows), dtype=_COLUMNS),
        rosters={cluster: np.unique(np.concatenate(parts)) for cluster, parts in sorted(rosters.items())},
        refusals=refusals,
    )


def _whole(value: Any, limit: int) -> int:
    """-1 for what no honest party writes there."""
    return value if type(value) is int and 0 <= value < limit else -1


def _outcome(value: Any) -> int:
    return OUTCOMES.index(value) if value in OUTCOMES else -1


@dataclass(frozen=True)
class Timeline:
    """How many messages of each kind there were in each stretch; kinds in the order of the protocol."""

    edges: list[float]
    counts: dict[str, list[int]]
    by_number: bool
    """Where no time passes, stretches are of messages counted from 0, not of seconds."""


def timeline(traffic: Traffic) -> Timeline:
    times, kinds = traffic.columns["time"], traffic.columns["kind"]
    times = times - (times.min() if traffic.wall_clock and len(traffic) else 0.0)
    last = float(times.max(initial=0.0))
    by_number = last == 0
    if by_number:
        times, last = np.arange(len(traffic), dtype=np.float64), float(max(1, len(traffic)))
    edges = np.linspace(0.0, last if math.isfinite(last) else 1.0, STRETCHES + 1)
    counts = {}
    for code in np.unique(kinds).tolist():
        found, _ = np.histogram(times[kinds == code], bins=edges)
        counts[KIND_NAMES[code]] = found.tolist()
    return Timeline(edges.tolist(), counts, by_number)
