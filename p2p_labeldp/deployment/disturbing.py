"""A scenario's faults, done to a local deployment: links cut, processes killed and started again.

What happens to single users in a simulation happens to whole hosts here: to those that carry the users named, or to
a share of the hosts, drawn from the seed. Seconds are real ones, from the moment at which shares are dealt.

    partition   all of a host's links are cut, in both directions, and mended at the end (``network.cuttable``)
    crash       killed (SIGKILL), and started again where the entry says so
    churn       the same, each host once, at a moment of the window

Messages are lost, doubled, overtaken and delayed below TCP, where a deployment's nodes see nothing of it: those rules
are left out, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from p2p_labeldp.errors import RequestError
from p2p_labeldp.runs.summary import Fault
from p2p_labeldp.scenario import Entry, Scenario
from p2p_labeldp.scenario.entries import Churn, Crash, Delay, Duplicate, Loss, Partition, Reorder, Slow, SomeUsers
from p2p_labeldp.streams import Purpose, stream

DONE_TO_PROCESSES = (Partition, Crash, Churn)
HIDDEN_BY_TCP = (Delay, Loss, Duplicate, Reorder, Slow)


class Blow(StrEnum):
    CUT = "cut"
    KILL = "kill"


@dataclass(frozen=True)
class Disturbance:
    """One host, from ``start`` for ``seconds`` (None: for good)."""

    rule: int
    """The entry's position, from 0."""
    host: int
    blow: Blow
    start: float
    seconds: float | None


def disturbances(scenario: Scenario, hosts: int, users: int) -> tuple[list[Disturbance], list[str]]:
    """What is done to whom, and warnings of what is not."""
    found: list[Disturbance] = []
    warnings: list[str] = []
    for number, entry in enumerate(scenario.faults):
        if isinstance(entry, HIDDEN_BY_TCP):
            warnings.append(f"faults[{number + 1}] ({entry.name}) was left out: TCP hides it from a deployment's nodes")
            continue
        if isinstance(entry, Partition) and entry.one_way:
            raise RequestError(f"faults[{number + 1}] (partition): one_way is for simulations; TCP needs both ways")
        assert isinstance(entry, Partition | Crash | Churn), f"nothing says what {entry.name} does to processes"
        drawn = stream(scenario.coins.seed, Purpose.FAULTS, number + 1)
        chosen = _hosts(entry, hosts, users, drawn)
        if isinstance(entry, Crash):
            away = entry.restart or None
            found += [Disturbance(number, host, Blow.KILL, entry.at, away) for host in chosen]
        elif isinstance(entry, Churn):
            last = max(entry.start, entry.end - entry.seconds)
            moments = entry.start + (last - entry.start) * drawn.random(len(chosen))
            found += [
                Disturbance(number, host, Blow.KILL, float(moment), entry.seconds)
                for host, moment in zip(chosen, moments, strict=True)
            ]
        else:
            away = entry.end - entry.start if entry.end else None
            found += [Disturbance(number, host, Blow.CUT, entry.start, away) for host in chosen]
    return sorted(found, key=lambda each: (each.start, each.host)), warnings


def _hosts(entry: SomeUsers, hosts: int, users: int, generator: np.random.Generator) -> Sequence[int]:
    """The hosts of the users named, or at least one of all."""
    if entry.users:
        edges = [users * place // hosts for place in range(hosts + 1)]
        found = {int(np.searchsorted(edges, user, side="right")) - 1 for user in entry.users if user < users}
        return sorted(found)
    share = entry.fraction or entry.count / max(1, users)
    return sorted(generator.permutation(hosts)[: max(1, round(share * hosts))].tolist())


def fired(faults: Sequence[Entry], done: Sequence[Disturbance]) -> tuple[Fault, ...]:
    """How often each rule acted on a process."""
    return tuple(Fault(entry.name, sum(each.rule == number for each in done)) for number, entry in enumerate(faults))
