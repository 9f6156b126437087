"""What a role may rely on, whichever network carries its messages: the same claims, in memory and over TLS.

Two sides with a few addresses each. In memory they are one network; over TLS they are two nodes, and an item
holds a list of envelopes, which the receiving side checks against what the certificate says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
import trio

from p2p_labeldp.network.memory import Mailbox, MemoryNetwork
from p2p_labeldp.protocol import Auditor
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    ROSTER_PART,
    Ask,
    Fault,
    Features,
    Hello,
    Message,
    Refused,
    Report,
    Roster,
)
from p2p_labeldp.protocol.wire import Envelope, decode, encode

LEFT = (COORDINATOR, LEARNER)
RIGHT = (0, 1, 2, HOST)
Mail = list[tuple[int, Message]]


class InMemory:
    def __init__(self) -> None:
        self._trace = bytearray()
        self._network = MemoryNetwork(3, Auditor(), self._trace.extend)
        for address in (*LEFT, *RIGHT):
            self._network.boxes[address] = Mailbox()
        self.send = self._network.send

    def send_frame(self, sender: int, receiver: int, frame: bytes) -> None:
        """As a transport would that knows both ends: decode it or refuse it."""
        try:
            envelope = decode(frame)
            if (envelope.sender, envelope.receiver) != (sender, receiver):
                raise Refused(Fault.MISDIRECTED, f"the frame names {envelope.sender} and {envelope.receiver}")
        except Refused as refused:
            self._network.refuse(sender, receiver, "frame", refused)
        else:
            self.send(sender, receiver, envelope.message)

    def hold(self) -> None:
        """Nobody reads unless asked to."""

    def go_on(self) -> None:
        pass

    async def received(self, address: int, count: int) -> Mail:
        box = self._network.boxes[address]
        assert box is not None
        mail: Mail = []
        while len(mail) < count:
            await box.wait()
            mail += [(sender, message) for _, _, sender, _, message in box.take()]
        return mail

    async def refused(self, count: int) -> list[tuple[int, str]]:
        """(whose message it was, the fault)"""
        self._network.flush()
        unpacker = msgpack.Unpacker()
        unpacker.feed(bytes(self._trace))
        found = [(body[1], body[3].split(":")[0]) for *_, body in unpacker if body[0] == "refusal"]
        assert len(found) >= count
        return found


class OverTls:
    """An item is an array of envelopes; a frame that is none makes an item that is none."""

    def __init__(self, left: Any, right: Any) -> None:
        self._sides = {left.key: left, right.key: right}
        self._others = {left.key: right, right.key: left}
        self._addresses = {left.key: LEFT, right.key: RIGHT}
        self._mail: dict[int, Mail] = defaultdict(list)
        self._refused: list[tuple[int, str]] = []
        self._changed = trio.Event()
        self._reading = trio.Event()
        self._reading.set()

    def _side_of(self, address: int) -> str:
        return next((key for key, addresses in self._addresses.items() if address in addresses), "")

    def send(self, sender: int, receiver: int, message: Message) -> None:
        self.send_frame(sender, receiver, encode(Envelope(sender, receiver, message)))

    def send_frame(self, sender: int, receiver: int, frame: bytes) -> None:
        side = self._side_of(sender)
        self._sides[side].transport.post(self._others[side].key, 0, b"\x91" + frame)

    def hold(self) -> None:
        self._reading = trio.Event()

    def go_on(self) -> None:
        self._reading.set()

    async def read(self, side: str) -> None:
        """What a node does: take what arrives, check who it may be from, and hand it out."""
        node = self._sides[side]
        while True:
            await self._reading.wait()
            for arrival in await node.receive_any():
                speakers = self._addresses[arrival.key]
                try:
                    if arrival.body[:1] != b"\x91":
                        raise Refused("malformed", "not a list of envelopes")
                    envelope = decode(arrival.body[1:])
                    if envelope.sender not in speakers or envelope.receiver not in self._addresses[side]:
                        raise Refused("misdirected", "not the sender's, or not for us")
                    self._mail[envelope.receiver].append((envelope.sender, envelope.message))
                except Refused as refused:
                    self._refused.append((speakers[0], refused.fault))
            self._changed.set()
            self._changed = trio.Event()

    async def received(self, address: int, count: int) -> Mail:
        while len(self._mail[address]) < count:
            await self._changed.wait()
        return self._mail.pop(address, [])

    async def refused(self, count: int) -> list[tuple[int, str]]:
        while len(self._refused) < count:
            await self._changed.wait()
        return self._refused


Network = InMemory | OverTls


@pytest.fixture(params=["memory", "tls"])
async def network(request: pytest.FixtureRequest, nursery: trio.Nursery, new_node: Callable[..., Any]) -> Network:
    if request.param == "memory":
        return InMemory()
    left = await new_node("coordinator").start()
    right = await new_node("users-1").start(None)
    right.transport.connect(left.key, left.address)
    made = OverTls(left, right)
    nursery.start_soon(made.read, left.key)
    nursery.start_soon(made.read, right.key)
    return made


async def mail(network: Network, address: int, count: int) -> Mail:
    with trio.fail_after(60):
        found = await network.received(address, count)
    assert len(found) == count, "more than was sent"
    return found


async def faults(network: Network, count: int) -> list[str]:
    with trio.fail_after(60):
        found = await network.refused(count)
    return [fault for _, fault in found]


async def test_a_message_arrives_with_its_senders_address(network: Network) -> None:
    network.send(2, COORDINATOR, Report(0, 1))
    network.send(LEARNER, 1, Ask(5))
    assert await mail(network, COORDINATOR, 1) == [(2, Report(0, 1))]
    assert await mail(network, 1, 1) == [(LEARNER, Ask(5))]


async def test_a_message_reaches_only_the_one_it_is_for(network: Network) -> None:
    for address in RIGHT:
        network.send(COORDINATOR, address, Ask(address + 10))
    for address in RIGHT:
        assert await mail(network, address, 1) == [(COORDINATOR, Ask(address + 10))]


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
    network.hold()
    part = Roster(0, 0, bytes(8 * ROSTER_PART))
    for number in range(60):  # 30 MiB: more than the sockets and the receiver's node hold
        network.send(COORDINATOR, HOST, part)
        network.send(COORDINATOR, HOST, Ask(number))
        await trio.lowlevel.checkpoint()
    await trio.sleep(0.2)  # nothing depends on how long
    network.go_on()
    found = await mail(network, HOST, 120)
    assert [message.round for _, message in found if isinstance(message, Ask)] == list(range(60))
    assert sum(message == part for _, message in found) == 60


@pytest.mark.parametrize("address", [3, 1000, AUDITOR, -99])
async def test_a_message_to_nobody_is_refused(network: Network, address: int) -> None:
    network.send(0, address, Ask(0))
    assert await faults(network, 1) == ["misdirected"]


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (b"", "malformed"),
        (b"garbage", "malformed"),
        (encode(Envelope(0, COORDINATOR, Ask(-1))), "malformed"),
        (encode(Envelope(0, COORDINATOR, Ask(0))) + b"\x00", "malformed"),
        (encode(Envelope(LEARNER, COORDINATOR, Ask(0))), "misdirected"),
        (encode(Envelope(AUDITOR, COORDINATOR, Ask(0))), "misdirected"),
        (encode(Envelope(0, 99, Ask(0))), "misdirected"),
    ],
    ids=["empty", "garbage", "range", "too much", "forged sender", "forged auditor", "wrong receiver"],
)
async def test_a_bad_frame_reaches_nobody_and_the_next_message_is_heard(
    network: Network, frame: bytes, fault: str
) -> None:
    network.send_frame(0, COORDINATOR, frame)
    network.send(0, COORDINATOR, Ask(7))
    assert await mail(network, COORDINATOR, 1) == [(0, Ask(7))]
    assert await faults(network, 1) == [fault]
