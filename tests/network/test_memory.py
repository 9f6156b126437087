"""Messages in virtual time: their order, their clock, and what happens to those nobody takes."""

from __future__ import annotations

import io
from typing import Any

import msgpack
import numpy as np
import pytest
import trio
import trio.testing

from p2p_labeldp.network.memory import Mailbox, MemoryNetwork
from p2p_labeldp.protocol import Auditor
from p2p_labeldp.protocol.auditor import BATCH, Record
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    Ask,
    Fault,
    Message,
    Refusal,
    Refused,
    Roster,
)
from p2p_labeldp.streams import KeyedStream, Purpose

pytestmark = pytest.mark.trio


class Delays:
    """Draws that were written down beforehand."""

    def __init__(self, *draws: float) -> None:
        self.draws = list(draws)

    def uniform(self, *key: int) -> float:
        return self.draws.pop(0)


class World:
    """A network of a few users, each of whom writes down what she got and when."""

    def __init__(self, users: int = 3, **settings: Any) -> None:
        self.trace = bytearray()
        self.network = MemoryNetwork(users, Auditor(), self.trace.extend, **settings)
        self.heard: list[tuple[float, int, int]] = []  # (time, receiver, round of the ask)
        for address in [*range(users), COORDINATOR, LEARNER]:
            self.network.boxes[address] = Mailbox()

    def listen(self, nursery: trio.Nursery, *addresses: int) -> None:
        for address in addresses:
            nursery.start_soon(self._listen, address)

    async def _listen(self, address: int) -> None:
        box = self.box(address)
        while True:
            await box.wait()
            for _, _, _, _, message in box.take():
                assert isinstance(message, Ask)
                self.heard.append((trio.current_time(), address, message.round))

    def box(self, address: int) -> Mailbox:
        found = self.network.boxes[address]
        assert found is not None
        return found

    def records(self) -> list[list[Any]]:
        self.network.flush()
        return list(msgpack.Unpacker(io.BytesIO(bytes(self.trace))))

    def refusals(self) -> list[tuple[int, int, list[Any]]]:
        """(who refused, to whom it was told, what it says)"""
        return [(record[2], record[3], record[4]) for record in self.records() if record[4][0] == "refusal"]


def waiting(world: World, address: int) -> list[Message]:
    return [record[4] for record in world.box(address).queue]


# Time


async def test_without_latency_a_message_is_there_at_once() -> None:
    world = World()
    world.network.send(0, 1, Ask(4))
    assert waiting(world, 1) == [Ask(4)]


async def test_a_message_takes_its_latency(autojump_clock: object, nursery: trio.Nursery) -> None:
    world = World(latency=2.5)
    nursery.start_soon(world.network.carry)
    world.listen(nursery, 1)
    await trio.testing.wait_all_tasks_blocked()
    world.network.send(0, 1, Ask(4))
    assert waiting(world, 1) == []
    await trio.sleep(10)
    assert world.heard == [(2.5, 1, 4)]


async def test_messages_of_one_time_arrive_in_the_order_of_senders_and_each_senders_in_the_order_they_were_sent(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    world = World(latency=1.0)
    nursery.start_soon(world.network.carry)
    for number in range(100):
        world.network.send(number % 3, 1, Ask(number))
    await trio.sleep(5)
    assert waiting(world, 1) == [Ask(number) for sender in range(3) for number in range(sender, 100, 3)]


async def test_a_message_due_earlier_than_one_already_waiting_is_delivered_first(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    world = World(jitter=100.0, draws=Delays(1.0, 0.01, 0.02))
    nursery.start_soon(world.network.carry)
    world.listen(nursery, 1)
    world.network.send(0, 1, Ask(0))  # due at 100
    world.network.send(1, 0, Ask(1))  # due at 1
    await world.box(0).wait()
    world.network.send(0, 1, Ask(2))  # due at 3
    await trio.sleep(1000)
    assert world.heard == [(3.0, 1, 2), (100.0, 1, 0)]


async def test_an_answer_takes_its_own_latency_from_when_it_is_sent(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    world = World(latency=1.0)
    nursery.start_soon(world.network.carry)
    world.network.send(0, 1, Ask(0))
    await world.box(1).wait()
    assert (trio.current_time(), world.network.now) == (1.0, 1.0)
    world.network.send(1, 0, Ask(1))
    await world.box(0).wait()
    assert (trio.current_time(), world.network.now) == (2.0, 2.0)


async def test_nobodys_sleep_is_overtaken_by_the_clock(autojump_clock: object, nursery: trio.Nursery) -> None:
    world = World(latency=10.0)
    woken: list[tuple[float, int]] = []

    async def sleeper(seconds: float) -> None:
        await trio.sleep(seconds)
        woken.append((trio.current_time(), len(world.heard)))

    nursery.start_soon(world.network.carry)
    world.listen(nursery, 1)
    for seconds in (3.0, 9.99, 12.0):
        nursery.start_soon(sleeper, seconds)
    world.network.send(0, 1, Ask(0))
    await trio.sleep(20)
    assert woken == [(3.0, 0), (9.99, 0), (12.0, 1)]
    assert world.heard == [(10.0, 1, 0)]


async def test_a_limit_on_a_wait_ends_it_before_a_later_message(autojump_clock: object, nursery: trio.Nursery) -> None:
    world = World(latency=10.0)
    nursery.start_soon(world.network.carry)
    world.network.send(0, 1, Ask(0))
    box = world.box(1)
    with trio.move_on_after(4.0) as limit:
        await box.wait()
    assert limit.cancelled_caught
    assert trio.current_time() == 4.0
    await box.wait()
    assert trio.current_time() == 10.0


async def test_a_message_sent_after_a_sleep_starts_from_then(autojump_clock: object, nursery: trio.Nursery) -> None:
    world = World(latency=1.0)
    nursery.start_soon(world.network.carry)
    world.listen(nursery, 1)
    await trio.sleep(5)
    world.network.advance(trio.current_time())
    world.network.send(0, 1, Ask(0))
    await trio.sleep(5)
    assert world.heard == [(6.0, 1, 0)]
    assert world.records()[0][1] == 5.0


@pytest.mark.parametrize("pause", [0.0, 3.0])
async def test_messages_sent_before_the_carrier_starts_are_delivered_and_it_goes_on_waiting(
    autojump_clock: object, nursery: trio.Nursery, pause: float
) -> None:
    world = World(latency=1.0)
    world.listen(nursery, 1)
    world.network.send(0, 1, Ask(0))
    nursery.start_soon(world.network.carry)
    await trio.sleep(1.0 + pause)
    await trio.testing.wait_all_tasks_blocked()
    world.network.send(0, 1, Ask(1))
    await trio.sleep(10)
    assert [round_ for _, _, round_ in world.heard] == [0, 1]


async def test_the_hosts_link_keeps_its_order_under_jitter_and_is_not_overtaken(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    world = World(latency=0.5, jitter=10.0, draws=KeyedStream(1, Purpose.NETWORK))
    world.network.boxes[HOST] = Mailbox()
    arrivals: list[tuple[int, Message]] = []

    async def note(address: int) -> None:
        while True:
            await world.box(address).wait()
            arrivals.extend((address, record[4]) for record in world.box(address).take())

    nursery.start_soon(world.network.carry)
    nursery.start_soon(note, HOST)
    nursery.start_soon(note, 1)
    parts = [Roster(0, first, b"") for first in range(20)]
    for part in parts:
        world.network.send(COORDINATOR, HOST, part)
        world.network.send(COORDINATOR, 1, Ask(part.first))
    await trio.sleep(100)
    assert [message for address, message in arrivals if address == HOST] == parts
    assert all(
        arrivals.index((HOST, Roster(0, number, b""))) < arrivals.index((1, Ask(number))) for number in range(20)
    )


async def test_jitter_stays_below_its_bound(autojump_clock: object, nursery: trio.Nursery) -> None:
    world = World(latency=2.0, jitter=3.0, draws=KeyedStream(2, Purpose.NETWORK))
    nursery.start_soon(world.network.carry)
    world.listen(nursery, 1)
    for number in range(200):
        world.network.send(0, 1, Ask(number))
    await trio.sleep(100)
    times = [time for time, _, _ in world.heard]
    assert len(times) == 200
    assert times == sorted(times)
    assert 2.0 <= times[0] < times[-1] < 5.0


@pytest.mark.parametrize("seed", range(5))
async def test_deliveries_are_ordered_by_time_and_then_by_number(
    autojump_clock: object, nursery: trio.Nursery, seed: int
) -> None:
    draws = np.random.default_rng(seed).choice([0.0, 0.1, 0.2, 0.3, 0.7], 200).tolist()
    world = World(jitter=1.0, draws=Delays(*draws))
    nursery.start_soon(world.network.carry)
    for number in range(len(draws)):
        world.network.send(0, 1, Ask(number))
    await trio.sleep(5)
    assert waiting(world, 1) == [Ask(number) for _, number in sorted(zip(draws, range(200), strict=True))]


# Mailboxes


async def test_a_wait_ends_when_something_is_put_in(autojump_clock: object, nursery: trio.Nursery) -> None:
    box = Mailbox()

    async def put_later() -> None:
        await trio.sleep(3)
        box.put((0, 0.0, 0, 1, Ask(0)))

    nursery.start_soon(put_later)
    await box.wait()
    assert trio.current_time() == 3
    assert [record[4] for record in box.take()] == [Ask(0)]
    assert box.queue == []


async def test_a_cancelled_wait_leaves_the_mailbox_in_order(autojump_clock: object) -> None:
    box = Mailbox()
    with trio.move_on_after(1):
        await box.wait()
    assert box.task is None
    box.put((0, 0.0, 0, 1, Ask(0)))
    box.put((1, 0.0, 0, 1, Ask(1)))
    await box.wait()
    assert len(box.take()) == 2


# Refusals


@pytest.mark.parametrize("latency", [0.0, 1.0])
@pytest.mark.parametrize("address", [2, 3, 4, 5, 6, 7, 1000, -5, -6, -7, -8, -1000])
async def test_a_message_to_nobody_or_to_someone_who_is_not_there_yet_is_refused(
    autojump_clock: object, nursery: trio.Nursery, latency: float, address: int
) -> None:
    world = World(users=3, latency=latency)
    world.network.boxes[HOST], world.network.boxes[2] = Mailbox(), None
    nursery.start_soon(world.network.carry)
    world.network.send(0, address, Ask(0))
    await trio.sleep(5)
    assert world.refusals() == [
        (address, AUDITOR, ["refusal", 0, "ask", "misdirected", f"there is nobody at address {address}"])
    ]
    assert all(not box.queue for box in world.network.boxes if box is not None)


# The trace


async def test_every_message_is_traced_with_number_time_sender_and_receiver(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    world = World(latency=1.5)
    nursery.start_soon(world.network.carry)
    world.network.send(0, 1, Ask(0))
    await world.box(1).wait()
    world.network.send(1, LEARNER, Ask(1))
    assert world.records() == [[0, 0.0, 0, 1, ["ask", 0]], [1, 1.5, 1, LEARNER, ["ask", 1]]]
    assert world.network.last_time == 1.5


async def test_the_trace_is_written_in_batches_as_it_happens() -> None:
    told: list[int] = []
    world = World(on_batch=lambda batch: told.append(len(batch)) or BATCH)
    for number in range(BATCH):
        world.network.send(0, 1, Ask(number))
    assert len(list(msgpack.Unpacker(io.BytesIO(bytes(world.trace))))) == 1
    world.network.send(0, 1, Ask(0))
    assert len(list(msgpack.Unpacker(io.BytesIO(bytes(world.trace))))) == BATCH + 1
    assert told == [1, BATCH]


@pytest.mark.parametrize("settings", [{}, {"latency": 1.0}])
async def test_whoever_is_shown_the_batches_says_how_long_they_are(settings: dict[str, Any]) -> None:
    sizes = iter((BATCH, 1, 1, 3, BATCH, BATCH))
    shown: list[list[int]] = []

    def see(batch: list[Record]) -> int:
        shown.append([number for number, *_ in batch])
        return next(sizes)

    world = World(on_batch=see, **settings)
    for number in range(BATCH + 7):
        world.network.send(0, 1, Ask(number))
        if number == BATCH + 2:
            world.network.refuse(0, 1, "frame", Refused(Fault.MALFORMED, ""))  # a refusal is a message too
    assert [len(batch) for batch in shown] == [1, BATCH, 1, 1, 3]
    assert [number for number, *_ in world.records()] == list(range(BATCH + 8))
    assert [number for batch in shown for number in batch] == list(range(BATCH + 8))


async def test_messages_are_counted_by_kind_refusals_among_them() -> None:
    world = World()
    for _ in range(3):
        world.network.send(0, 1, Ask(0))
    world.network.refuse(0, 1, "frame", Refused(Fault.MALFORMED, ""))
    world.network.flush()
    assert dict(world.network.kinds) == {Ask: 3, Refusal: 1}


async def test_a_flush_of_nothing_changes_nothing() -> None:
    told: list[int] = []
    world = World(on_batch=lambda batch: told.append(len(batch)) or BATCH)
    world.network.flush()
    assert (bytes(world.trace), told, dict(world.network.kinds)) == (b"", [], {})
