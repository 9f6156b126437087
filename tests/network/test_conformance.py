"""What a role may rely on, whichever network carries its messages: the same claims, in memory and over TLS.

Two sides with a few addresses each. In memory they are one network; over TLS they are two nodes, and an item
holds an envelope.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trio

from p2p_labeldp.network.memory import Mailbox, MemoryNetwork
from p2p_labeldp.protocol import Auditor
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    LEARNER,
    ROSTER_PART,
    Ask,
    Features,
    Hello,
    Message,
    Report,
    Roster,
)
from p2p_labeldp.protocol.wire import Envelope, decode, encode

LEFT = (COORDINATOR, LEARNER)
RIGHT = (0, 1, 2, HOST)
Mail = list[tuple[int, Message]]


class InMemory:
    def __init__(self) -> None:
        self._network = MemoryNetwork(3, Auditor(), bytearray().extend)
        for address in (*LEFT, *RIGHT):
            self._network.boxes[address] = Mailbox()
        self.send = self._network.send
        self.reading = trio.Event()  # nobody reads unless asked to

    async def received(self, address: int, count: int) -> Mail:
        box = self._network.boxes[address]
        assert box is not None
        mail: Mail = []
        while len(mail) < count:
            await box.wait()
            mail += [(sender, message) for _, _, sender, _, message in box.take()]
        return mail


class OverTls:
    def __init__(self, left: Any, right: Any) -> None:
        self._sides = dict.fromkeys(LEFT, left) | dict.fromkeys(RIGHT, right)
        self._mail: dict[int, Mail] = defaultdict(list)
        self._changed = trio.Event()
        self.reading = trio.Event()
        self.reading.set()

    def send(self, sender: int, receiver: int, message: Message) -> None:
        envelope = encode(Envelope(sender, receiver, message))
        self._sides[sender].transport.post(self._sides[receiver].key, 0, envelope)

    async def read(self, node: Any) -> None:
        """What a node does: take what arrives and hand it out."""
        while True:
            await self.reading.wait()
            for arrival in await node.receive_any():
                envelope = decode(arrival.body)
                self._mail[envelope.receiver].append((envelope.sender, envelope.message))
            self._changed.set()
            self._changed = trio.Event()

    async def received(self, address: int, count: int) -> Mail:
        while len(self._mail[address]) < count:
            await self._changed.wait()
        return self._mail.pop(address)


Network = InMemory | OverTls


@pytest.fixture(params=["memory", "tls"])
async def network(request: pytest.FixtureRequest, nursery: trio.Nursery, new_node: Callable[..., Any]) -> Network:
    if request.param == "memory":
        return InMemory()
    left = await new_node("coordinator").start()
    right = await new_node("users-1").start(None)
    right.transport.connect(left.key, left.address)
    made = OverTls(left, right)
    nursery.start_soon(made.read, left)
    nursery.start_soon(made.read, right)
    return made


async def mail(network: Network, address: int, count: int) -> Mail:
    with trio.fail_after(60):
        found = await network.received(address, count)
    assert len(found) == count, "more than was sent"
    return found


async def test_a_message_reaches_only_the_one_it_is_for_with_its_senders_address(network: Network) -> None:
    network.send(2, COORDINATOR, Report(0, 1))
    for address in RIGHT:
        network.send(LEARNER, address, Ask(address + 10))
    assert await mail(network, COORDINATOR, 1) == [(2, Report(0, 1))]
    for address in RIGHT:
        assert await mail(network, address, 1) == [(LEARNER, Ask(address + 10))]


async def test_many_small_messages_arrive_once_and_in_the_order_of_each_pair(network: Network) -> None:
    count = 20_000
    for number in range(count):
        network.send(number % 2, LEFT[number % 3 % 2], Ask(number % 10_000))
    expected = {(sender, receiver): [] for sender in (0, 1) for receiver in LEFT}
    for number in range(count):
        expected[number % 2, LEFT[number % 3 % 2]].append(Ask(number % 10_000))
    for receiver in LEFT:
        found = await mail(network, receiver, sum(len(expected[sender, receiver]) for sender in (0, 1)))
        for sender in (0, 1):
            assert [message for origin, message in found if origin == sender] == expected[sender, receiver]


async def test_both_directions_at_once_do_not_disturb_each_other(network: Network) -> None:
    count = 5000
    asks = [Ask(number) for number in range(count)]
    results: dict[int, Mail] = {}

    async def speak(sender: int, receiver: int) -> None:
        for number, ask in enumerate(asks):
            network.send(sender, receiver, ask)
            if number % 100 == 0:
                await trio.lowlevel.checkpoint()

    async def listen(address: int) -> None:
        results[address] = await mail(network, address, count)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak, COORDINATOR, 0)
        nursery.start_soon(speak, 0, COORDINATOR)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(listen, 0)
        nursery.start_soon(listen, COORDINATOR)
    assert results == {0: [(COORDINATOR, ask) for ask in asks], COORDINATOR: [(0, ask) for ask in asks]}


async def test_the_largest_messages_arrive_whole(network: Network) -> None:
    roster = Roster(0, 0, np.arange(ROSTER_PART, dtype="<i8").tobytes())
    hello = Hello(1, Features(np.linspace(0, 1, 1 << 16, dtype=np.float32)))
    network.send(COORDINATOR, HOST, roster)
    network.send(COORDINATOR, HOST, Ask(1))
    network.send(0, COORDINATOR, hello)
    assert await mail(network, HOST, 2) == [(COORDINATOR, roster), (COORDINATOR, Ask(1))]
    assert await mail(network, COORDINATOR, 1) == [(0, hello)]


async def test_a_receiver_that_does_not_read_for_a_while_loses_nothing(network: Network) -> None:
    network.reading = trio.Event()
    part = Roster(0, 0, bytes(8 * ROSTER_PART))
    for number in range(60):  # 30 MiB: more than the sockets and the receiver's node hold
        network.send(COORDINATOR, HOST, part)
        network.send(COORDINATOR, HOST, Ask(number))
        await trio.lowlevel.checkpoint()
    await trio.sleep(0.2)  # nothing depends on how long
    network.reading.set()
    found = await mail(network, HOST, 120)
    assert [message.round for _, message in found if isinstance(message, Ask)] == list(range(60))
    assert sum(message == part for _, message in found) == 60
