"""The relay: two who cannot reach each other speak through it, and it can neither read, alter nor pretend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from p2p_labeldp.network import relay as relays
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.connections import Timing
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.relay import Relay, call
from p2p_labeldp.network.sockets import TcpSockets
from p2p_labeldp.network.tls import Transport

PATIENCE = 60.0
NOWHERE = "127.0.0.1:1"
SECRET = b"a noisy label and who it is of"


class Lab:
    def __init__(self, certificates: Path, nursery: trio.Nursery) -> None:
        self.certificates, self.nursery = certificates, nursery
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.address = ""

    def log(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))

    def credentials(self, name: str) -> Credentials:
        return Credentials.load(self.certificates / name)

    async def serve(
        self, name: str = "coordinator", allowed: Any = lambda caller, called: caller.role == "users"
    ) -> None:
        made = Relay(self.credentials(name), allowed, self.log, TcpSockets())
        host, port = await self.nursery.start(made.serve, "127.0.0.1:0")
        self.address = f"{host}:{port}"

    def node(self, name: str, run: str = "a run") -> tuple[Transport, str]:
        own = self.credentials(name)
        timing = Timing(grace=0.05, pause=0.01, longest_pause=0.05, handshake=PATIENCE)
        made = Transport(own, lambda peer: (1, "digest", run), lambda peer, first: None, self.log, timing)
        self.nursery.start_soon(made.run, None)
        return made, own.identity.key


@pytest.fixture
async def lab(certificates: Path, nursery: trio.Nursery) -> Lab:
    return Lab(certificates, nursery)


async def assert_they_speak(lab: Lab) -> None:
    """Two hosts that listen nowhere say something to each other."""
    (one, its), (other, others) = lab.node("users-1"), lab.node("users-2")
    one.connect(others, NOWHERE, mutual=True, relay=lab.address)
    other.connect(its, NOWHERE, mutual=True, relay=lab.address)
    one.post(others, 0, SECRET)
    other.post(its, 0, b"thanks")
    with trio.fail_after(PATIENCE):
        (there,), (back,) = await other.receive(), await one.receive()
    assert (there.body, there.key, there.identity.name) == (SECRET, its, "users-1")
    assert (back.body, back.key, back.identity.name) == (b"thanks", others, "users-2")


async def test_two_who_listen_nowhere_speak_through_the_relay(lab: Lab) -> None:
    await lab.serve()
    await assert_they_speak(lab)
    assert not [line for line in lab.lines if line[0] == "refused"]


async def test_all_that_the_relay_sees_is_sealed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    copy_both = relays._copy_both

    class Tap:
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        async def receive_some(self, count: int) -> bytes:
            data: bytes = await self.stream.receive_some(count)
            seen.append(data)
            return data

        async def send_all(self, data: bytes) -> None:
            await self.stream.send_all(data)

    async def tapped(one: Any, other: Any) -> None:
        await copy_both(Tap(one), Tap(other))  # type: ignore[arg-type]

    monkeypatch.setattr(relays, "_copy_both", tapped)
    await lab.serve()
    await assert_they_speak(lab)
    passed = b"".join(seen)
    assert len(passed) > 1000
    # Certificates too are sealed in TLS 1.3: neither names nor words are to be found.
    for word in (SECRET, b"thanks", b"digest", b"a run", b"urn:p2p-labeldp", b"users-1"):
        assert word not in passed


@pytest.mark.parametrize("place", [8, 500, 2000])
async def test_whatever_the_relay_alters_breaks_the_connection_and_is_not_taken(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    copy_both = relays._copy_both
    attempts = 0

    class Altering:
        def __init__(self, stream: Any) -> None:
            self.stream, self.passed = stream, 0

        async def receive_some(self, count: int) -> bytes:
            data = bytearray(await self.stream.receive_some(count))
            if attempts == 1 and self.passed <= place < self.passed + len(data):
                data[place - self.passed] ^= 1
            self.passed += len(data)
            return bytes(data)

        async def send_all(self, data: bytes) -> None:
            await self.stream.send_all(data)

    async def altered(one: Any, other: Any) -> None:
        nonlocal attempts
        attempts += 1
        await copy_both(Altering(one), other)  # type: ignore[arg-type]

    monkeypatch.setattr(relays, "_copy_both", altered)
    monkeypatch.setattr(relays, "SILENCE", 4.0)  # a record that was made longer is waited for until then
    await lab.serve()
    await assert_they_speak(lab)  # at the second attempt, where the byte was one that is sent at all
    assert attempts >= 1


async def test_a_relay_that_is_not_the_coordinator_is_not_used(lab: Lab) -> None:
    await lab.serve("users-3")
    with pytest.raises(ConnectionError, match="the relay is not the coordinator"):
        await call(TcpSockets(), lab.credentials("users-1"), lab.address, "f" * 64)


async def test_whoever_is_not_of_the_run_is_refused_by_name(lab: Lab) -> None:
    def allowed(caller: Identity, called: str) -> bool:
        return caller.name == "users-1"

    await lab.serve(allowed=allowed)
    with pytest.raises((OSError, trio.BrokenResourceError)):
        await call(TcpSockets(), lab.credentials("users-2"), lab.address, "f" * 64)
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
            await call(TcpSockets(), lab.credentials("users-1"), lab.address, other)
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
        stream = TcpSockets().secure(socket, lab.credentials("users-1").client, server_side=False)
        await stream.handshake()
        if said:
            await stream.send_all(said)
    await assert_they_speak(lab)
