"""A trace with one message altered, dropped, duplicated or put elsewhere is caught by a named invariant.

The trace is of a small run with a user who asks twice, so that every kind of message is in it, refusals
too. Each mutation is tried with the records' numbers left alone, which gives it away at once, and with the
records numbered anew, where only what the messages mean can give it away. All of it is done to the trace of a
simulation and to that of a deployment, where times prove nothing and there is no population.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from recorded import as_deployment, causes, read_trace, timed_anew, write_trace
from small import sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.audit.rules import INVARIANTS, Violation
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.experiments.run import run
from p2p_labeldp.protocol.messages import BY_KIND, KINDS, Ask, Message, Outgoing
from p2p_labeldp.protocol.user import User

Record = list[Any]

OTHERS = ("centre", *(kind for kind, message in BY_KIND.items() if "pull" not in message.record.exchanges))
EXCHANGED = [kind for kind in KINDS if kind not in OTHERS]


class AsksTwice(User):
    __slots__ = ()

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        out = super().receive(sender, message)
        return [*out, *(pair for pair in out if type(pair[1]) is Ask)]


def with_someone_who_asks_twice(simulation: Simulation) -> None:
    simulation.users[7] = AsksTwice(7, int(simulation.population.labels[7]), simulation.host)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    run(sixty("data.users=24", "network.latency=0.25"), out=out, prepare=with_someone_who_asks_twice)
    return out


@pytest.fixture(scope="module")
def deployed(simulated: Path) -> Path:
    out: Path = as_deployment(simulated, simulated.with_name("deployed"), latency=0.25)
    return out


@pytest.fixture(scope="module", params=["simulated", pytest.param("deployed", marks=pytest.mark.slow)])
def recorded(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


Audit = Callable[[Path, list[Record]], list[Violation]]


@pytest.fixture
def audit_of(rules_alone: None, tmp_path: Path) -> Audit:
    """Audit a run with other records in place of its own."""
    copy = tmp_path / "mutated"

    def audit(folder: Path, records: list[Record]) -> list[Violation]:
        if not copy.exists():
            shutil.copytree(folder, copy)
        write_trace(copy, read_trace(folder)[0], records)
        return audit_runs([copy]).runs[0].violations

    return audit


def renumbered(records: list[Record]) -> list[Record]:
    return [[number, *record[1:]] for number, record in enumerate(records)]


def named(violations: list[Violation]) -> list[tuple[str, int | None]]:
    return [(found.invariant, found.position) for found in violations]


def positions(records: list[Record], kind: str) -> list[int]:
    """Some places where messages of a kind stand: the first, the last and one between."""
    places = [place for place, record in enumerate(records) if record[4][0] == kind]
    chosen = random.Random(kind).sample(places, 1)
    return sorted({places[0], places[-1], *chosen})


def other_values(name: str, value: Any) -> list[Any]:
    """Plausible values that a field might have had instead."""
    if name == "members":
        ids = [value[i : i + 8] for i in range(0, len(value), 8)]
        return [value[8:], value[:-8], b"".join([ids[1], ids[0], *ids[2:]])]
    if name == "outcome":
        return [other for other in ("reported", "dropped", "abstained") if other != value]
    if name == "kind":
        return ["answer", "nonsense"]
    if name == "counted":
        return [value[:-1], value + b"\0", bytes([value[0] ^ 1, *value[1:]]), bytes([*value[:-1], value[-1] ^ 128])]
    if name == "release":
        return [not value]
    if name == "fault":
        return ["because"]
    if name == "reason":
        return []  # words for people, who may use others
    return [value + 1, value - 1, 10**6, -1 if value != -1 else 0]


def alterations(record: Record, users: int) -> Iterator[Record]:
    number, time, sender, receiver, message = record
    for late in (-100.0, -0.25, 0.1, 0.25, 100.0):
        yield [number, time + late, sender, receiver, message]
    for other in (0, users - 1, (sender + 1) % users, -1, -2, users, 10**9):
        if other != sender:
            yield [number, time, other, receiver, message]
    for other in (0, users - 1, (receiver + 1) % users, -1, -2, -4, users):
        if other != receiver:
            yield [number, time, sender, other, message]
    for place, (name, value) in enumerate(zip(KINDS[message[0]], message[1:], strict=True), 1):
        for other in other_values(name, value):
            yield [number, time, sender, receiver, [*message[:place], other, *message[place + 1 :]]]
        yield [number, time, sender, receiver, [*message[:place], None, *message[place + 1 :]]]
    for kind in KINDS:
        if kind != message[0]:
            yield [number, time, sender, receiver, [kind, *message[1:]]]
    yield [number, time, sender, receiver, [*message, 0]]
    yield [number, time, sender, receiver]


def still_in_order(records: list[Record]) -> bool:
    return all(0 <= first[1] <= second[1] for first, second in pairwise(records))


def test_the_run_itself_passes_though_someone_asked_twice(recorded: Path) -> None:
    audit = audit_runs([recorded])
    assert audit.passed
    assert audit.runs[0].refusals == 2
    assert {record[4][0] for record in read_trace(recorded)[1]} == set(EXCHANGED)


@pytest.mark.parametrize("kind", EXCHANGED)
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2))])
def test_an_altered_message_is_caught_at_its_position_or_where_it_matters(
    first: int, kind: str, recorded: Path, audit_of: Audit
) -> None:
    """Every third alteration from the first on. Of a deployment's times it is only known that they do not run back."""
    header, records = read_trace(recorded)
    wall = header.get("clock") == "wall"
    # What a refused message says is nobody's word, so that a change in it may go unseen: which copy was refused
    # depends on the order in which tasks ran.
    refused = {(fields[0], sender, fields[1]) for _, _, sender, _, (what, *fields) in records if what == "refusal"}
    heard = [place for place in positions(records, kind) if (*records[place][2:4], kind) not in refused]
    assert heard, "something to alter"
    for place in heard[-1:]:
        for altered in islice(alterations(records[place], 24), first, None, 3):
            mutated = [*records[:place], altered, *records[place + 1 :]]
            violations = audit_of(recorded, mutated)
            unseen = wall and altered[2:] == records[place][2:] and still_in_order(mutated)
            assert bool(violations) != unseen, f"{records[place]} became {altered}"
            assert all(found.invariant in INVARIANTS for found in violations)


@pytest.mark.parametrize("kind", EXCHANGED)
@pytest.mark.parametrize("numbered_anew", [False, True])
def test_a_dropped_message_is_caught(kind: str, numbered_anew: bool, recorded: Path, audit_of: Audit) -> None:
    records = read_trace(recorded)[1]
    for place in positions(records, kind):
        rest = records[:place] + records[place + 1 :]
        violations = audit_of(recorded, renumbered(rest) if numbered_anew else rest)
        assert violations
        if numbered_anew:
            assert any(found.invariant != "summary" for found in violations), "the meaning gives it away"
        elif place < len(rest):
            assert ("order", place) in named(violations)


@pytest.mark.parametrize("kind", EXCHANGED)
@pytest.mark.parametrize("numbered_anew", [False, True])
def test_a_duplicated_message_is_caught_at_its_position(
    kind: str, numbered_anew: bool, recorded: Path, audit_of: Audit
) -> None:
    records = read_trace(recorded)[1]
    for place in positions(records, kind):
        doubled = [*records[: place + 1], *records[place:]]
        violations = audit_of(recorded, renumbered(doubled) if numbered_anew else doubled)
        assert violations
        assert numbered_anew or ("order", place + 1) in named(violations)
        # A second refusal takes back a message that was not refused, and is noticed there. Where one of two
        # copies was refused, it is the other one that is too many.
        assert kind == "refusal" or any(found.position in (place, place + 1) for found in violations)


@pytest.mark.parametrize("kind", EXCHANGED)
@pytest.mark.parametrize("numbered_anew", [False, True])
def test_a_message_put_elsewhere_is_caught(kind: str, numbered_anew: bool, recorded: Path, audit_of: Audit) -> None:
    """Numbered anew, it is put before its cause or after its effects; among its equals order means nothing."""
    records = read_trace(recorded)[1]
    for place in positions(records, kind):
        rest = records[:place] + records[place + 1 :]
        for target in (0, len(rest)) if numbered_anew else (0, len(rest) // 2, len(rest)):
            if target == place or (numbered_anew and abs(target - place) < 50):
                continue
            moved = [*rest[:target], records[place], *rest[target:]]
            violations = audit_of(recorded, renumbered(moved) if numbered_anew else moved)
            assert violations
            assert violations[0].position is not None
            if not numbered_anew:
                assert ("order", min(place, target)) in named(violations)


@pytest.mark.parametrize("kind", EXCHANGED)
def test_in_a_deployment_a_message_put_elsewhere_is_caught_exactly_if_it_now_contradicts_a_cause(
    kind: str, deployed: Path, audit_of: Audit
) -> None:
    """Times are made to fit; what is left is that nothing stands before its cause. Other orders are as good."""
    records = read_trace(deployed)[1]
    before = causes(records)
    for place in positions(records, kind):
        rest = records[:place] + records[place + 1 :]
        for target in (0, len(rest) // 3, len(rest) // 2, 2 * len(rest) // 3, len(rest)):
            overtaken = any(cause >= target for cause in before[place])
            overtakes = any(place in before[effect] for effect in range(place + 1, target + 1))
            moved = timed_anew([*rest[:target], records[place], *rest[target:]])
            assert bool(audit_of(deployed, moved)) == (overtaken or overtakes), (records[place], target)
