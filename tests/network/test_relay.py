"""The relay: two who cannot reach each other speak through it, and it can neither read, alter nor pretend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from p2p_labeldp.network import relay as relays
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.connections import Timing
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.relay import Relay, call
from p2p_labeldp.network.sockets import TcpSockets

PATIENCE = 60.0
NOWHERE = "127.0.0.1:1"
SOCKETS = TcpSockets()
SECRET = b"a noisy label and who it is of"
CALLING = Timing(grace=0.05, pause=0.01, longest_pause=0.05, handshake=PATIENCE)


class Lab:
    """A relay, its log, and those who meet there."""

    def __init__(self, new_node: Any, credentials: Callable[[str], Credentials], nursery: trio.Nursery) -> None:
        self.new_node, self.credentials, self.nursery = new_node, credentials, nursery
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.address = ""

    async def serve(
        self, name: str = "coordinator", allowed: Any = lambda caller, called: caller.role == "users"
    ) -> None:
        made = Relay(self.credentials(name), allowed, lambda event, **facts: self.lines.append((event, facts)), SOCKETS)
        self.address = "{}:{}".format(*await self.nursery.start(made.serve, "127.0.0.1:0"))

    async def call(self, name: str, peer: str) -> Any:
        return await call(SOCKETS, self.credentials(name), self.address, peer)

    async def they_speak(self) -> list[Any]:
        """Two hosts that listen nowhere say something to each other."""
        one, other = self.new_node("users-1", CALLING), self.new_node("users-2", CALLING)
        for node, peer in ((one, other), (other, one)):
            await node.start(None)
            node.transport.connect(peer.key, NOWHERE, mutual=True, relay=self.address)
        one.transport.post(other.key, 0, SECRET)
        other.transport.post(one.key, 0, b"thanks")
        (there,), (back,) = await other.receive(1), await one.receive(1)
        assert (there.body, there.key, there.identity.name) == (SECRET, one.key, "users-1")
        assert (back.body, back.key, back.identity.name) == (b"thanks", other.key, "users-2")
        return [one, other]


@pytest.fixture
async def lab(new_node: Any, credentials: Callable[[str], Credentials], nursery: trio.Nursery) -> Lab:
    return Lab(new_node, credentials, nursery)


class Through:
    """What one side says, as the relay passes it on after ``change``."""

    def __init__(self, stream: Any, change: Callable[[bytes], bytes]) -> None:
        self.stream, self.change = stream, change

    async def receive_some(self, count: int) -> bytes:
        return self.change(await self.stream.receive_some(count))

    async def send_all(self, data: bytes) -> None:
        await self.stream.send_all(data)


async def test_two_who_listen_nowhere_speak_through_the_relay(lab: Lab) -> None:
    await lab.serve()
    assert not any(node.logged("refused") for node in await lab.they_speak())
    assert not [line for line in lab.lines if line[0] == "refused"]


async def test_all_that_the_relay_sees_is_sealed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    copy_both = relays._copy_both

    def see(data: bytes) -> bytes:
        seen.append(data)
        return data

    monkeypatch.setattr(relays, "_copy_both", lambda one, other: copy_both(Through(one, see), Through(other, see)))
    await lab.serve()
    await lab.they_speak()
    passed = b"".join(seen)
    assert len(passed) > 1000
    # Certificates too are sealed in TLS 1.3: neither names nor words are to be found.
    for word in (SECRET, b"thanks", b"digest", b"urn:p2p-labeldp", b"users-1"):
        assert word not in passed


@pytest.mark.parametrize("place", [8, 500, 2000])
async def test_whatever_the_relay_alters_breaks_the_connection_and_is_not_taken(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    copy_both = relays._copy_both
    attempts = passed = 0

    def alter(data: bytes) -> bytes:
        nonlocal passed
        begin, passed = passed, passed + len(data)
        if attempts > 1 or not begin <= place < passed:
            return data
        at = place - begin
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    async def altered(one: Any, other: Any) -> None:
        nonlocal attempts
        attempts += 1
        await copy_both(Through(one, alter), other)

    monkeypatch.setattr(relays, "_copy_both", altered)
    monkeypatch.setattr(relays, "SILENCE", 4.0)  # a record that was made longer is waited for until then
    await lab.serve()
    await lab.they_speak()  # at the second attempt, where the byte was one that is sent at all
    assert attempts >= 1


async def test_a_relay_that_is_not_the_coordinator_is_not_used(lab: Lab) -> None:
    await lab.serve("users-3")
    with pytest.raises(ConnectionError, match="the relay is not the coordinator"):
        await lab.call("users-1", "f" * 64)


async def test_whoever_is_not_of_the_run_is_refused_by_name(lab: Lab) -> None:
    def allowed(caller: Identity, called: str) -> bool:
        return caller.name == "users-1"

    await lab.serve(allowed=allowed)
    with pytest.raises((OSError, trio.BrokenResourceError)):
        await lab.call("users-2", "f" * 64)
    own = lab.credentials("users-2").identity.key
    assert [facts for event, facts in lab.lines if event == "refused" and facts["peer"] == own]


async def test_whoever_calls_again_replaces_its_earlier_call_and_waits_no_longer_than_the_limit(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "WAIT", 0.2)
    await lab.serve()
    other = lab.credentials("users-2").identity.key
    failed = []

    async def calls() -> None:
        try:
            await lab.call("users-1", other)
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            failed.append(error)

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(calls)
    assert len(failed) == 3


@pytest.mark.parametrize("said", [b"", b"\x00", b"\xff\xff", b"\x00\x05hello", b"\x00\x01\x90"])
async def test_nonsense_at_the_relay_ends_nothing(lab: Lab, said: bytes) -> None:
    await lab.serve()
    async with await trio.open_tcp_stream(*parse_address(lab.address)) as socket:
        stream = SOCKETS.secure(socket, lab.credentials("users-1").client, server_side=False)
        await stream.handshake()
        if said:
            await stream.send_all(said)
    await lab.they_speak()
