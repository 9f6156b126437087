"""Invariants of the mixed exchange: honest traces keep them all, and each is broken by what it is there for."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import msgpack
import numpy as np
import pytest
from small import population_of

from p2p_labeldp.audit.mixed import MIXED_INVARIANTS, MixedChecker
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import BY_KIND, HOST
from p2p_labeldp.scenario import Network, parse_scenario

USERS = 12
PARAMETERS = Parameters(0.3, 0.7, 2, "sticky", 2, 5, exchange="mixed", relays=3)
LABELS = np.arange(USERS) % 2
Records = list[list[Any]]


def traced(network: Network, faults: str = "") -> tuple[Records, list[int]]:
    """[time, sender, receiver, [kind, ...]] of every message of a run, and who was missing."""
    file = io.BytesIO()
    rules = parse_scenario(faults).faults
    simulation = Simulation(
        population_of(LABELS, np.arange(USERS) // 6),
        exchange_of(PARAMETERS),
        SeededCoins(4),
        network,
        seed=4,
        faults=Faults(rules, USERS, 4, 300.0) if rules else None,
        write=file.write,
    )
    outcome = simulation.run()
    file.seek(0)
    _, *records = msgpack.Unpacker(file)
    return [record[1:] for record in records], outcome.missing


@cache
def honest() -> tuple[Records, list[int]]:
    return traced(Network(latency=0.1))


def broken(records: Records, *, seeded: bool = True, missing: Any = (), jitter: float = 0.0) -> set[str]:
    checker = MixedChecker(
        USERS,
        1,
        PARAMETERS,
        Network(latency=0.1, jitter=jitter),
        coins=SeededCoins(4) if seeded else None,
        clusters=np.arange(USERS) // 6,
        true_labels=LABELS,
        missing=missing,
    )
    for number, (time, sender, receiver, (kind, *fields)) in enumerate(records):
        checker.feed(Event(number, number, time, sender, receiver, kind, tuple(fields)))
    checker.finish()
    assert {found.invariant for found in checker.violations} <= set(MIXED_INVARIANTS)
    return {found.invariant for found in checker.violations}


@pytest.mark.parametrize("seeded", [True, False])
def test_an_honest_trace_keeps_every_invariant(seeded: bool) -> None:
    records, _ = honest()
    mixing = {kind for kind, message in BY_KIND.items() if message.record.exchanges == ("mixed",)}
    assert {record[3][0] for record in records} >= mixing - {"nogo", "halt", "overdue", "stop"}
    assert broken(records, seeded=seeded) == set()


@pytest.mark.parametrize("at", np.arange(0.25, 1.6, 0.1).round(3).tolist())
def test_so_does_one_in_which_users_are_gone_for_good_at_any_moment(at: float) -> None:
    records, missing = traced(Network(latency=0.1), f'[[faults]]\nrule = "crash"\ncount = 2\nat = {at}')
    assert broken(records, missing=missing, jitter=float("inf")) == set()


Change = Callable[[Records, int], None]


def first(records: Records, kind: str, **where: Any) -> int:
    return next(
        place
        for place, (_, _, receiver, message) in enumerate(records)
        if message[0] == kind and where.get("receiver", receiver) == receiver
    )


def field(kind: str, number: int, value: Callable[[Any], Any], **where: Any) -> Change:
    def change(records: Records, _: int) -> None:
        place = first(records, kind, **where)
        time, sender, receiver, message = records[place]
        message = [*message]
        message[number] = value(message[number])
        records[place] = [time, sender, receiver, message]

    return change


def without(kind: str) -> Change:
    def change(records: Records, _: int) -> None:
        del records[first(records, kind)]

    return change


def flip_bit(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def swap(packets: list[bytes]) -> list[bytes]:
    return [packets[1], packets[0], *packets[2:]]


def double(packets: list[bytes]) -> list[bytes]:
    return [packets[1], *packets[1:]]


CHANGES: dict[str, tuple[Change, set[str]]] = {
    "another commitment": (field("commit", 3, flip_bit), {"commitments"}),
    "another opening": (field("open", 3, flip_bit), {"commitments"}),
    "another published opening": (field("opened", 5, flip_bit), {"commitments"}),
    "an opening that is missing": (without("open"), {"commitments"}),
    "a deposit that is missing": (without("deposit"), {"whole_batches"}),
    "a packet twice": (field("batch", 6, double), {"whole_batches"}),
    "a packet too few": (field("batch", 6, lambda packets: packets[1:]), {"whole_batches"}),
    "a packet of another size": (
        field("batch", 6, lambda packets: [packets[0] + b"x", *packets[1:]]),
        {"whole_batches"},
    ),
    "another digest of what was taken": (field("passed", 5, flip_bit), {"whole_batches"}),
    "a go over another batch": (field("go", 3, flip_bit), {"agreement", "nothing_opened_early"}),
    "keys that are not signed": (field("open", 6, lambda _: b""), {"signatures"}),
    "a batch that is not signed": (field("batch", 7, lambda _: b"", receiver=HOST), {"signatures"}),
    "a go that is not signed": (field("go", 5, lambda _: b""), {"signatures"}),
    "other keys that sign": (field("opened", 7, flip_bit), {"relays"}),
    "a go that is missing": (without("go"), {"nothing_opened_early"}),
    "another nonce": (field("reveal", 3, flip_bit), {"draws"}),
    "a nonce that is missing": (without("reveal"), {"draws"}),
    "a key that is missing": (without("unlock"), {"draws"}),
    "another commitment to a nonce": (field("unlock", 4, flip_bit), {"draws"}),
}


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("what", CHANGES)
def test_whatever_does_not_fit_breaks_the_invariant_that_is_there_for_it(what: str, seeded: bool) -> None:
    change, invariants = CHANGES[what]
    records = [list(record) for record in honest()[0]]
    change(records, 0)
    assert invariants <= broken(records, seeded=seeded)


@pytest.mark.parametrize("kind", ["deposit", "batch", "go", "unlock", "reveal", "drawn"])
def test_whoever_is_no_relay_cannot_act_as_one(kind: str) -> None:
    records = [list(record) for record in honest()[0]]
    place = first(records, kind)
    cluster = records[place][1] // 6
    relays = {record[2] for record in records if record[3][:2] == ["go", 0] and record[2] // 6 == cluster}
    outsider = next(user for user in range(6 * cluster, 6 * cluster + 6) if user not in relays)
    records[place][2 if kind in ("deposit", "go") else 1] = outsider
    assert broken(records) & {"relays", "draws"}


def test_a_relay_that_keeps_the_order_is_found_out_by_the_seed() -> None:
    records = [list(record) for record in honest()[0]]
    field("batch", 6, swap)(records, 0)
    assert "mixing" in broken(records)
    assert "mixing" not in broken(records, seeded=False), "nobody else can tell one order from another"


def test_a_relay_that_halts_after_its_release_is_found_out() -> None:
    records = [list(record) for record in honest()[0]]
    place = first(records, "unlock")
    time, sender, _, (_, round_, attempt, *_) = records[place]
    cluster = sender // 6
    records.insert(place + 1, [time, sender, -1, ["halt", round_, cluster, attempt, [], "why", []]])
    assert "nothing_opened_early" in broken(records)


def test_whoever_said_go_and_enters_another_attempt_before_all_relays_have_halted_is_found_out() -> None:
    records = [list(record) for record in honest()[0]]
    place = first(records, "unlock")
    time, _, _, (_, round_, attempt, *_) = records[place]
    _, user, _, _ = records[first(records, "go")]
    cluster = user // 6
    before = records[:place]
    relays = sorted({record[2] for record in before if record[3][0] == "go" and record[1] == user})
    assert len(relays) > 1
    stop = [time, -1, HOST, ["stop", round_, cluster, attempt, True]]
    again = [time, user, -1, ["commit", round_, attempt + 1, bytes(32)]]
    halts = [[time, relay, HOST, ["halt", round_, cluster, attempt, [], "why", []]] for relay in relays]
    assert "nothing_opened_early" in broken([*before, stop, *halts[1:], again])
    assert "nothing_opened_early" not in broken([*before, stop, *halts, again])


def test_another_label_than_the_one_drawn_is_found_out_by_the_seed_or_by_others_who_drew_it() -> None:
    for seeded, expected in ((True, {"same_answer", "coins", "draws"}), (False, {"draws"})):
        found: set[str] = set()
        for skip in range(USERS):
            records = [list(record) for record in honest()[0]]
            place = [at for at, record in enumerate(records) if record[3][0] == "drawn"][skip]
            records[place][3] = [*records[place][3][:3], 1 - records[place][3][3]]
            mine = broken(records, seeded=seeded)
            assert mine & expected or not seeded
            found |= mine
        assert found & expected


def test_asking_is_no_message_of_the_mixed_exchange() -> None:
    records = [list(record) for record in honest()[0]]
    place = first(records, "deposit")
    records.insert(place, [records[place][0], 0, 1, ["ask", 0]])
    assert "shape" in broken(records)
