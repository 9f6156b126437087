"""Links over TLS: who gets in, what survives a broken connection, and what a hostile or broken peer can do."""

from __future__ import annotations

import contextlib
import random
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives import hashes, serialization
from intruding import Raw, context_of, enrolled_in, forge

from p2p_labeldp.deployment.certificates import init_certificates, renew
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network import tls
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.connections import Timing
from p2p_labeldp.network.credentials import Credentials
from p2p_labeldp.network.cuttable import CuttableSockets
from p2p_labeldp.network.frames import Ack, Bye, Frame, Item, Open, Parting, Ping, decode, pack

NewNode = Callable[..., Any]
OPEN = Open(1, "digest", "run", 0)


def bodies(arrivals: list[Any]) -> list[bytes]:
    return [arrival.body for arrival in arrivals]


@pytest.fixture
def dial_raw(certificates: Path) -> Callable[..., Any]:
    @contextlib.asynccontextmanager
    async def dial(node: Any, name: str = "users-1", *first: Frame | bytes) -> AsyncIterator[Raw]:
        with trio.fail_after(60):
            socket = await trio.open_tcp_stream(*parse_address(node.address))
            context = context_of(certificates / name)
            stream = trio.SSLStream(socket, context, https_compatible=True)
            raw = Raw(stream)
            await raw.say(*first)
            yield raw
            await trio.aclose_forcefully(stream)

    return dial


async def pair(new_node: NewNode, **settings: Any) -> tuple[Any, Any]:
    """A coordinator and a user host that dials it, both connected."""
    server = await new_node("coordinator", **settings).start()
    client = await new_node("users-1", **settings).start(None)
    client.transport.connect("coordinator", server.address)
    await client.saw("connected")
    await server.saw("connected")
    return server, client


# Credentials


def test_a_certificate_says_who_its_holder_is(certificates: Path) -> None:
    coordinator = Credentials.load(certificates / "coordinator").identity
    host = Credentials.load(certificates / "users-2").identity
    assert (coordinator.role, coordinator.name, coordinator.key) == ("coordinator", "coordinator", "coordinator")
    assert (host.role, host.name, host.key) == ("users", "users-2", host.fingerprint)
    der = ssl.PEM_cert_to_DER_cert((certificates / "users-2" / "cert.pem").read_text())
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    assert host.fingerprint == digest.finalize().hex()


@pytest.fixture
def spoilt(certificates: Path, tmp_path: Path) -> Path:
    """A copy of a node's folder to do damage to."""
    return Path(shutil.copytree(certificates / "users-1", tmp_path / "spoilt"))


PEM = "-----BEGIN {0}-----\nAAAA\n-----END {0}-----\n"


@pytest.mark.parametrize("name", ["ca.pem", "cert.pem", "key.pem"])
@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\xff\xfe", PEM.format("CERTIFICATE").encode()])
def test_a_file_that_is_missing_or_spoilt_is_named(spoilt: Path, name: str, content: bytes | None) -> None:
    (spoilt / name).unlink()
    if content is not None:
        (spoilt / name).write_bytes(content)
        (spoilt / name).chmod(0o600)
    with pytest.raises(RequestError) as error:
        Credentials.load(spoilt)
    assert str(error.value).startswith(f"{spoilt / name}: ")
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="nowhere"):
        Credentials.load(tmp_path / "nowhere")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_key_that_others_may_touch_is_refused(spoilt: Path, mode: int) -> None:
    (spoilt / "key.pem").chmod(mode)
    with pytest.raises(RequestError, match=r"key\.pem: others may"):
        Credentials.load(spoilt)


def test_a_key_of_another_certificate_is_refused(spoilt: Path, certificates: Path) -> None:
    shutil.copy(certificates / "users-2" / "key.pem", spoilt / "key.pem")
    with pytest.raises(RequestError, match=r"key\.pem: not the key of cert\.pem"):
        Credentials.load(spoilt)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(spoilt: Path) -> None:
    key = serialization.load_pem_private_key((spoilt / "key.pem").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (spoilt / "key.pem").write_bytes(key.private_bytes(*form, locked))
    with pytest.raises(RequestError, match=r"key\.pem: .*passphrase"):
        Credentials.load(spoilt)


def test_a_certificate_of_another_authority_than_ca_pem_is_refused(spoilt: Path, tmp_path: Path) -> None:
    init_certificates(tmp_path / "others")
    shutil.copy(tmp_path / "others" / "coordinator" / "ca.pem", spoilt / "ca.pem")
    with pytest.raises(RequestError, match=r"cert\.pem: peers would not accept it"):
        Credentials.load(spoilt)


def test_an_expired_certificate_is_refused(certificates: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(certificates, tmp_path / "expired"))
    renew(folder, days=1, now=datetime.now(UTC) - timedelta(days=9))
    with pytest.raises(RequestError, match=r"cert\.pem: .*expired"):
        Credentials.load(folder / "users-1")


COORDINATOR_URI, USERS_URI = "urn:p2p-labeldp:coordinator:coordinator", "urn:p2p-labeldp:users:users-7"


@pytest.mark.parametrize(
    "uris",
    [
        (),
        ("https://example.org",),
        ("urn:p2p-labeldp:keeper:keeper",),
        ("urn:p2p-labeldp:users:",),
        ("urn:p2p-labeldp:users:Users 1",),
        (USERS_URI, COORDINATOR_URI),
        (COORDINATOR_URI + ":users",),
    ],
)
def test_a_certificate_must_name_one_known_role(tmp_path: Path, certificates: Path, uris: tuple[str, ...]) -> None:
    folder = forge(tmp_path / "forged", certificates, "authority", *uris)
    with pytest.raises(RequestError, match=r"cert\.pem: .*does not say who it is for"):
        Credentials.load(folder)


def test_what_the_enrolment_authority_signs_speaks_for_a_users_host(certificates: Path, tmp_path: Path) -> None:
    assert Credentials.load(enrolled_in(certificates, tmp_path / "enrolled")).identity.role == "users"


@pytest.mark.parametrize("role", ["coordinator", "learner", "auditor"])
def test_what_the_enrolment_authority_signs_speaks_for_nobody_else(
    tmp_path: Path, certificates: Path, role: str
) -> None:
    folder = forge(tmp_path / "forged", certificates, "enrolment", f"urn:p2p-labeldp:{role}:{role}")
    with pytest.raises(RequestError, match="the root authority did not sign itself"):
        Credentials.load(folder)
    assert Credentials.load(forge(tmp_path / "fine", certificates, "enrolment", USERS_URI)).identity.role == "users"


# Streams that survive


async def test_both_sides_hear_each_other(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    assert (server.transport.connected, client.transport.connected) == ({client.key}, {"coordinator"})
    for number in range(5):
        server.transport.post(client.key, number, b"down %d" % number)
        client.transport.post("coordinator", number, b"up %d" % number)
    up, down = await server.receive(5), await client.receive(5)
    assert bodies(up) == [b"up %d" % number for number in range(5)]
    assert [(one.key, one.identity.name, one.number, one.clock) for one in up] == [
        (client.key, "users-1", number, number) for number in range(5)
    ]
    assert bodies(down) == [b"down %d" % number for number in range(5)]
    await server.acknowledged(client.key)
    await client.acknowledged("coordinator")


async def test_nothing_is_acknowledged_before_the_node_says_so(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    for _ in range(3):
        client.transport.post("coordinator", 0, b"item")
    await server.receive(3, commit=False)
    server.transport.post(client.key, 0, b"marker")
    await client.receive(1)
    assert client.transport.unacknowledged("coordinator") == 3
    server.transport.acknowledge(client.key)
    await client.acknowledged("coordinator")


async def test_what_has_arrived_but_was_not_received_is_not_acknowledged(new_node: NewNode, dial_raw: Any) -> None:
    server = await new_node("coordinator").start()
    async with dial_raw(server, "users-1", OPEN, Ack(0), Item(0, 0, b"0")) as raw:
        assert isinstance(await raw.hear(), Open)
        assert await raw.hear() == Ack(0)
        (arrival,) = await server.receive(1, commit=False)
        await raw.say(Item(1, 0, b"1"), Ack(7))  # the refusal of the second says that the first has arrived
        assert "7 items acknowledged" in await raw.goodbye()
        server.transport.acknowledge(arrival.key)
    async with dial_raw(server, "users-1", OPEN, Ack(0)) as raw:
        assert await raw.hear() == replace_received(OPEN, 2)
        assert await raw.hear() == Ack(1)


def replace_received(opening: Open, received: int) -> Open:
    return Open(opening.version, opening.digest, opening.run, received)


async def test_thirty_cuts_lose_nothing_repeat_nothing_and_change_no_order(new_node: NewNode) -> None:
    chance = random.Random(11)
    server, client, wire = await new_node("coordinator").start(), new_node("users-1"), CuttableSockets()
    client.transport._sockets = wire
    await client.start(None)
    client.transport.connect("coordinator", server.address)
    count = 3000
    expected = [b"%d:" % number + bytes(chance.randrange(2000)) for number in range(count)]
    heard: dict[str, list[bytes]] = {server.key: [], client.key: []}

    async def speak(node: Any, key: str, pause: random.Random) -> None:
        for number, body in enumerate(expected):
            node.transport.post(key, number, body)
            if pause.random() < 0.2:
                await trio.sleep(0.0005)

    async def listen(node: Any) -> None:
        while len(heard[node.key]) < count:
            heard[node.key] += bodies(await node.receive_any())

    async def cut() -> None:
        for number in range(30):
            await client.saw("connected", number + 1)
            await trio.sleep(chance.random() * 0.02)
            wire.cut()
            wire.mend()

    with trio.fail_after(120):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(speak, server, client.key, random.Random(1))
            tasks.start_soon(speak, client, server.key, random.Random(2))
            tasks.start_soon(listen, server)
            tasks.start_soon(listen, client)
            tasks.start_soon(cut)
    assert heard == {server.key: expected, client.key: expected}
    assert len(client.logged("connected")) >= 30
    await client.acknowledged("coordinator")
    await server.acknowledged(client.key)


async def test_a_node_that_starts_again_goes_on_from_its_journal(new_node: NewNode) -> None:
    """The receiver is killed with 6 items received and 4 in its journal; the others are sent again."""
    server, client = await pair(new_node)
    for number in range(4):
        client.transport.post("coordinator", 0, b"%d" % number)
    await server.receive(4)
    await client.acknowledged("coordinator")
    for number in range(4, 6):
        client.transport.post("coordinator", 0, b"%d" % number)
    await server.receive(2, commit=False)
    await server.stop()
    client.transport.post("coordinator", 0, b"6")
    assert client.transport.unacknowledged("coordinator") == 3
    again = new_node("coordinator")
    again.transport.restore(client.key, 4)
    await again.start(server.address)
    arrivals = await again.receive(3)
    assert [(one.number, one.body) for one in arrivals] == [(4, b"4"), (5, b"5"), (6, b"6")]
    await client.acknowledged("coordinator")


async def test_a_sender_that_starts_again_repeats_itself_to_nobody(new_node: NewNode) -> None:
    """Its journal makes it say everything again with the same numbers; the peer has some of it already."""
    server, client = await pair(new_node)
    for number in range(5):
        server.transport.post(client.key, 0, b"%d" % number)
    await client.receive(5)
    await server.acknowledged(client.key)
    await server.stop()
    again = new_node("coordinator")
    for number in range(8):
        again.transport.post(client.key, 0, b"%d" % number)
    await again.start(server.address)
    assert bodies(await client.receive(3)) == [b"5", b"6", b"7"]
    await again.acknowledged(client.key)
    assert not client.logged("duplicate")


async def test_a_peer_that_lost_its_journal_is_refused_and_told_so(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    server.transport.post(client.key, 0, b"0")
    await client.receive(1)
    await server.acknowledged(client.key)
    await client.stop()
    fresh = await new_node("users-1").start(None)
    fresh.transport.connect("coordinator", server.address)
    facts = await fresh.saw("bye")
    assert "has lost its journal" in facts["reason"]
    assert fresh.transport.refusals["coordinator"].reason == facts["reason"]
    assert (await server.saw("refused"))["fault"] == "out_of_order"
    assert fresh.transport.connected == server.transport.connected == set()


async def test_words_that_were_long_on_their_way_are_not_taken_for_those_of_a_peer_that_lost_its_journal(
    new_node: NewNode, dial_raw: Any
) -> None:
    """A peer gives a slow connection up and goes on with another; then what it said on the first arrives."""
    server = await new_node("coordinator").start()
    async with dial_raw(server, "users-1") as slow:
        await slow.stream.do_handshake()
        client = await new_node("users-1").start(None)
        client.transport.connect("coordinator", server.address)
        await server.saw("connected")
        server.transport.post(client.key, 0, b"0")
        await client.receive(1)
        await server.acknowledged(client.key)
        await slow.say(OPEN)
        assert await slow.goodbye() == "duplicate: a newer connection has come first"
    assert server.transport.refusals == {}
    assert server.transport.connected == {client.key}


async def test_a_node_that_lost_its_own_journal_refuses_those_who_know_more(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    server.transport.post(client.key, 0, b"0")
    await client.receive(1)
    await server.stop()
    fresh = await new_node("coordinator").start(server.address)
    assert "a journal was lost" in (await fresh.saw("refused", peer=client.key))["reason"]
    assert "a journal was lost" in (await client.saw("bye"))["reason"]


async def test_a_newer_connection_of_a_peer_replaces_the_old_one(new_node: NewNode, dial_raw: Any) -> None:
    server = await new_node("coordinator").start()
    async with dial_raw(server, "users-1", OPEN, Ack(0), Item(0, 0, b"0")) as old:
        (arrival,) = await server.receive(1)
        async with dial_raw(server, "users-1", OPEN, Ack(0), Item(0, 0, b"0"), Item(1, 0, b"1")) as new:
            assert bodies(await server.receive(1)) == [b"1"]
            assert "newer connection" in await old.goodbye()
            assert server.transport.connected == {arrival.key}
            server.transport.post(arrival.key, 0, b"to the new one")
            while not isinstance(item := await new.hear(), Item):
                assert item is not None
            assert item.body == b"to the new one"


# Who gets in


@pytest.mark.parametrize("opening", [(2, "digest", "run"), (1, "other", "run"), (1, "digest", "other")])
async def test_whoever_is_not_admitted_is_told_why(new_node: NewNode, opening: tuple[int, str, str]) -> None:
    server = await new_node("coordinator").start()
    client = new_node("users-1", opening=opening)
    client.rule = lambda identity, opened: None
    client.transport.connect("coordinator", server.address)
    await client.start(None)
    await server.saw("refused", count=3, fault="misdirected", peer=client.key)  # it tries again
    facts = await client.saw("bye")
    assert "is spoken here" in facts["reason"]
    assert {key: bye.reason for key, bye in client.transport.refusals.items()} == {"coordinator": facts["reason"]}
    assert len(client.logged("bye")) == 1  # and says so once
    server.opening = opening
    await client.saw("connected")
    assert client.transport.refusals == {}


async def test_the_dialling_side_may_refuse_too(new_node: NewNode) -> None:
    server = new_node("coordinator", opening=(1, "other", "run"))
    server.rule = lambda identity, opened: None
    await server.start()
    client = await new_node("users-1").start(None)
    client.transport.connect("coordinator", server.address)
    await client.saw("refused", peer="coordinator", fault="misdirected")
    await server.saw("bye", peer=client.key)
    assert "is spoken here" in server.transport.refusals[client.key].reason


async def test_a_peer_with_another_key_than_the_one_dialled_is_refused(new_node: NewNode) -> None:
    learner = await new_node("learner").start()
    client = await new_node("users-1").start(None)
    client.transport.connect("coordinator", learner.address)
    facts = await client.saw("refused", count=2, fault="misdirected")
    assert "here is learner" in facts["reason"]
    assert client.transport.connected == set()
    client.transport.connect("learner", learner.address)
    await client.saw("connected", peer="learner")


async def hang_up_of(stream: Any) -> None:
    """Read until the node has closed the connection; whatever it says first is none of our business here."""
    with trio.fail_after(30), contextlib.suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers") / "certificates"
    init_certificates(folder, hosts=1)
    return folder


async def test_whoever_is_rejected_learns_the_reason(
    new_node: NewNode, certificates: Path, strangers: Path, credentials: Any
) -> None:
    """In TLS 1.3 the handshake is over for the client before the server has looked at its certificate."""
    server = await new_node("coordinator").start()
    context = context_of(strangers / "users-1")
    context.load_verify_locations(certificates / "users-1" / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    mixed = replace(credentials("users-1"), client=context)
    client = await new_node("users-1", credentials=mixed).start(None)
    client.transport.connect("coordinator", server.address)
    assert "unknown ca" in (await client.saw("unreachable"))["reason"]
    await server.saw("refused", count=2)
    assert not client.logged("connected")


async def test_a_server_with_another_authority_is_not_spoken_to(
    new_node: NewNode, strangers: Path, dial_raw: Any
) -> None:
    server = await new_node("coordinator", credentials=Credentials.load(strangers / "coordinator")).start()
    client = await new_node("users-1").start(None)
    client.transport.connect("coordinator", server.address)
    assert "certificate" in (await client.saw("unreachable"))["reason"]
    assert "unknown ca" in (await server.saw("refused"))["reason"]


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(100), bytes(70_000)])
async def test_what_is_not_tls_is_refused(new_node: NewNode, data: bytes) -> None:
    server = await new_node("coordinator").start()
    socket = await trio.open_tcp_stream(*parse_address(server.address))
    with contextlib.suppress(trio.BrokenResourceError):
        await socket.send_all(data)
        await socket.send_eof()
    await hang_up_of(socket)
    assert set(await server.saw("refused")) == {"address", "reason"}
    await trio.aclose_forcefully(socket)


# What a peer with a certificate may do


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ([Ping()], "out_of_order"),
        ([Item(0, 0, b"")], "out_of_order"),
        ([b"\xff\xff\xff\xff"], "oversized"),
        ([OPEN, Ack(0), b"\xff\xff\xff\xff"], "oversized"),
        ([OPEN, Ack(0), b"\x00\x00\x00\x07garbage"], "malformed"),
        ([OPEN, OPEN], "out_of_order"),
        ([OPEN, Ack(1)], "out_of_order"),
        ([OPEN, Ack(0), Item(1, 0, b"")], "out_of_order"),
        ([Open(1, "digest", "run", 1)], "out_of_order"),
    ],
    ids=[
        "no open", "no open but an item", "4 GiB at once", "4 GiB", "garbage", "two opens",
        "acknowledges what was not sent", "gap", "has what was not sent",
    ],
)  # fmt: skip
async def test_whoever_breaks_the_rules_is_told_and_dropped_and_nobody_else_notices(
    new_node: NewNode, dial_raw: Any, said: list[Frame | bytes], fault: str
) -> None:
    server = await new_node("coordinator").start()
    honest = await new_node("users-2").start(None)
    honest.transport.connect("coordinator", server.address)
    await honest.saw("connected")
    async with dial_raw(server, "users-1", *said) as raw:
        assert (await raw.goodbye()).startswith(fault)
    assert (await server.saw("refused"))["fault"] == fault
    honest.transport.post("coordinator", 0, b"still here")
    assert bodies(await server.receive(1)) == [b"still here"]
    assert len(honest.logged("connected")) == 1


async def test_a_replayed_item_is_dropped(new_node: NewNode, dial_raw: Any) -> None:
    server = await new_node("coordinator").start()
    said = [Item(0, 0, b"0"), Item(1, 0, b"1")]
    async with dial_raw(server, "users-1", OPEN, Ack(0), *said, *said, *said, Item(2, 0, b"2")):
        assert bodies(await server.receive(3)) == [b"0", b"1", b"2"]
    assert (await server.saw("disconnected"))["duplicates"] == 4
    assert len(server.logged("duplicate", number=0)) == 1


SHORT = Timing(handshake=20, ping=0.02, silence=0.3, frame=0.3, pause=0.002, longest_pause=0.02)


@pytest.mark.parametrize(
    ("said", "reason"), [(pack(Item(0, 0, b"item"))[:-1], "half a frame"), (b"", "nothing was heard")]
)
async def test_silence_ends_a_connection(new_node: NewNode, dial_raw: Any, said: bytes, reason: str) -> None:
    server = await new_node("coordinator", timing=SHORT).start()
    async with dial_raw(server, "users-1", OPEN, Ack(0), said) as raw:
        await hang_up_of(raw.stream)
    assert reason in (await server.saw("disconnected"))["reason"]


async def test_whoever_has_nothing_to_say_says_so(new_node: NewNode, dial_raw: Any) -> None:
    server = await new_node("coordinator", timing=SHORT).start()
    async with dial_raw(server, "users-1", OPEN, Ack(0)) as raw:
        heard: list[Any] = []
        with trio.fail_after(30):
            while heard.count(Ping()) < 3:
                heard += [decode(frame) for frame in await raw.reader.read()]
                await raw.say(Ping())
        assert all(isinstance(frame, Open | Ack | Ping) for frame in heard)


@pytest.mark.parametrize("said", [b"", pack(OPEN)[:-1]], ids=["nothing", "half an open"])
async def test_a_peer_that_does_not_introduce_itself_in_time_is_dropped(
    new_node: NewNode, dial_raw: Any, said: bytes
) -> None:
    server = await new_node("coordinator", timing=replace(SHORT, longest_handshake=0.5, silence=20, frame=20)).start()
    async with dial_raw(server, "users-1") as raw:
        await raw.stream.do_handshake()
        await raw.say(said)
        await hang_up_of(raw.stream)
    assert "no introduction within 0.5 s" in (await server.saw("refused"))["reason"]


async def test_a_thousand_idle_connections_do_not_lock_an_honest_peer_out(new_node: NewNode) -> None:
    server = await new_node("coordinator").start()
    idle: list[trio.SocketStream] = []
    with trio.fail_after(60):
        for _ in range(1000):
            idle.append(await trio.open_tcp_stream(*parse_address(server.address)))
        await server.saw("refused", count=20)
        client = await new_node("users-1").start(None)
        client.transport.connect("coordinator", server.address)
        await client.saw("connected")
        client.transport.post("coordinator", 0, b"here I am")
        assert bodies(await server.receive(1)) == [b"here I am"]
    assert len(server.transport._limiter._open) <= Timing.max_pending
    assert all("made room" in facts["reason"] for facts in server.logged("refused"))
    for socket in idle:
        await trio.aclose_forcefully(socket)


async def test_a_peer_that_asks_and_does_not_listen_is_dropped_before_it_fills_our_memory(
    new_node: NewNode, dial_raw: Any
) -> None:
    """Every item of the peer is answered with a large one, which it never reads."""
    most = 8 << 20
    server = await new_node("coordinator", timing=replace(Timing(), max_waiting=most)).start()
    answers = 0
    async with dial_raw(server, "users-1", OPEN, Ack(0), *(Item(number, 0, b"?") for number in range(1000))):
        while not server.logged("slow"):
            for arrival in await server.transport.receive():
                key = arrival.key
                if not server.logged("slow"):
                    server.transport.post(key, 0, bytes(100_000))
                    answers += 1
    assert most < server.logged("slow")[0]["waiting"] < most + 200_000
    assert server.transport.unacknowledged(key) == answers
    assert server.transport.connected == set()


async def test_as_much_may_wait_besides_as_a_peer_has_taken(new_node: NewNode) -> None:
    server, client = await pair(new_node, timing=replace(Timing(), max_waiting=1 << 20))
    for size in (900_000, 1_900_000, 3_800_000):  # each nearly 1 MiB and all before it
        for _ in range(size // 100_000):
            server.transport.post(client.key, 0, bytes(100_000 - 200))
        await client.receive(size // 100_000)
        await server.acknowledged(client.key)
    assert not server.logged("slow")


async def test_a_peer_that_was_too_slow_may_come_back_and_catch_up(new_node: NewNode) -> None:
    server, client = await pair(new_node, timing=replace(Timing(), max_waiting=1 << 20, pause=0.01))
    expected = [b"%d:" % number + bytes(50_000) for number in range(100)]  # five times as much as may wait
    for body in expected:
        server.transport.post(client.key, 0, body)
    assert len(server.logged("slow")) == 1
    assert bodies(await client.receive(len(expected))) == expected
    await server.acknowledged(client.key)


async def test_a_node_that_does_not_receive_slows_its_peers_down(
    new_node: NewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "MAX_HELD", 1 << 20)
    server, client = await pair(new_node)
    expected = [b"%d:" % number + bytes(50_000) for number in range(600)]  # more than sockets can hold
    for body in expected:
        client.transport.post("coordinator", 0, body)
    first = await server.transport.receive()
    await trio.sleep(0.3)  # nothing depends on how long; only that the sender has had its chance
    assert server.transport._held < (1 << 20) + 200_000
    rest = await server.receive(len(expected) - len(first))
    assert bodies(first + rest) == expected
    await client.acknowledged("coordinator")


# Faults of our own, and the end


async def test_a_fault_of_ours_on_one_connection_does_not_end_the_node(new_node: NewNode, dial_raw: Any) -> None:
    server = new_node("coordinator")

    def stumble(identity: Any, opened: Open) -> None:
        if identity.name == "users-1":
            raise KeyError("a label, for instance")

    server.rule = stumble
    await server.start()
    async with dial_raw(server, "users-1", OPEN) as raw:
        await hang_up_of(raw.stream)
    reason = (await server.saw("failed"))["reason"]
    assert reason.startswith("KeyError at test_tls.py:")
    assert "label" not in reason
    async with dial_raw(server, "users-2", OPEN, Ack(0), Item(0, 0, b"fine")):
        assert bodies(await server.receive(1)) == [b"fine"]


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:port", "host:65536", "host:-1", "host:1.5"])
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(RequestError, match="HOST:PORT"):
        parse_address(address)


def test_addresses_of_both_kinds_are_read() -> None:
    assert parse_address("example.org:80") == ("example.org", 80)
    assert parse_address("[::1]:0") == ("::1", 0)


async def test_a_port_in_use_is_named(new_node: NewNode) -> None:
    server = await new_node("coordinator").start()
    with pytest.raises(RequestError, match=f"cannot listen on {server.address}: .*in use"):
        await new_node("learner").transport.run(server.address)


async def test_a_peer_that_nobody_answers_for_is_tried_again_and_logged_once(new_node: NewNode) -> None:
    server = await new_node("coordinator").start()
    await server.stop()
    client = await new_node("users-1").start(None)
    client.transport.connect("coordinator", server.address)
    assert "refused" in (await client.saw("unreachable", peer="coordinator"))["reason"].lower()
    await trio.sleep(0.05)
    assert len(client.logged("unreachable")) == 1
    await new_node("coordinator").start(server.address)
    await client.saw("connected")


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "nul\0", "256.256.256.256", "..", " "])
async def test_a_name_that_cannot_exist_is_unreachable_like_any_other(new_node: NewNode, host: str) -> None:
    client = await new_node("users-1").start(None)
    client.transport.connect("coordinator", f"{host}:1")
    assert (await client.saw("unreachable", peer="coordinator"))["reason"]


@pytest.mark.parametrize("reason", ["the run is over", ""])
async def test_a_peer_that_is_closed_hears_the_reason_and_what_is_safe(new_node: NewNode, reason: str) -> None:
    server, client = await pair(new_node)
    client.transport.post("coordinator", 0, b"last words")
    await server.receive(1)
    server.transport.close_peer(client.key, reason)
    await client.saw("bye", reason=reason)
    assert client.transport.refusals["coordinator"] == Bye(Parting.CLOSED, reason)
    assert client.transport.unacknowledged("coordinator") == 0


async def test_who_closes_a_peer_dials_it_no_more(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    client.transport.close_peer("coordinator", "enough")
    await server.saw("bye", peer=client.key, reason="enough")
    await client.saw("disconnected")
    await trio.sleep(0.05)
    assert len(client.logged("connected")) == 1
    client.transport.connect("coordinator", server.address)
    await client.saw("connected", count=2)


async def test_closing_everyone_waits_until_they_have_heard(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    with trio.fail_after(30):
        await server.transport.close("the end")
    assert server.transport.connected == set()
    await client.saw("bye", reason="the end")


async def test_a_peer_that_was_forgotten_begins_anew(new_node: NewNode) -> None:
    server, client = await pair(new_node)
    client.transport.post("coordinator", 0, b"before")
    await server.receive(1)
    await client.acknowledged("coordinator")
    await client.stop()
    server.transport.forget(client.key)
    assert server.transport.unacknowledged(client.key) == 0
    fresh = await new_node("users-1").start(None)
    fresh.transport.connect("coordinator", server.address)
    fresh.transport.post("coordinator", 0, b"after")
    (arrival,) = await server.receive(1)
    assert (arrival.number, arrival.body) == (0, b"after")


async def test_what_a_forgotten_peer_sent_is_not_received_any_more(new_node: NewNode, dial_raw: Any) -> None:
    server = await new_node("coordinator").start()
    async with dial_raw(server, "users-1", OPEN, Ack(0), Item(0, 0, b"one"), Ack(9)) as raw:
        await raw.goodbye()
        (key,) = server.transport._peers
        server.transport.forget(key)
    async with dial_raw(server, "users-2", OPEN, Ack(0), Item(0, 0, b"two")):
        assert bodies(await server.receive(1)) == [b"two"]
