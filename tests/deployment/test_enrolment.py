"""Enrolment: a token admits a user host, and nothing that anyone sends keeps others out."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from p2p_labeldp.deployment import enrolment
from p2p_labeldp.deployment.certificates import init_certificates
from p2p_labeldp.deployment.enrolment import (
    MAX_REQUEST,
    Answer,
    Desk,
    Enrol,
    Rejected,
    enrol,
    serve_enrolment,
)
from p2p_labeldp.deployment.invitations import invite, read_token
from p2p_labeldp.deployment.signing import make_request
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.network.credentials import Credentials
from p2p_labeldp.network.sockets import TlsStream

PATIENCE = 60.0


class Server:
    """Where hosts enrol, and what it logs."""

    def __init__(self, certificates: Path, name: str, authority: Path) -> None:
        self.certificates, self.name, self.authority = certificates, name, authority
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def invite(self, site: str = "clinic") -> Path:
        """The join folder of an invitation that nobody has used."""
        place = self.certificates / f"join-{site}"
        shutil.rmtree(place, ignore_errors=True)
        return invite(self.certificates, site)

    def log(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))

    async def start(self, nursery: trio.Nursery) -> None:
        own = self.certificates / self.name
        address = f"127.0.0.1:{self.port}"
        _, self.port = await nursery.start(serve_enrolment, address, Desk(self.authority), own, self.log)

    async def logged(self, event: str, count: int = 1, **facts: Any) -> dict[str, Any]:
        """Wait until it has said so as often."""

        def found() -> list[dict[str, Any]]:
            return [its for name, its in self.lines if name == event and facts.items() <= its.items()]

        with trio.fail_after(PATIENCE):
            while len(found()) < count:  # noqa: ASYNC110 - a line wakes nobody
                await trio.sleep(0.005)
        return found()[-1]

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[TlsStream]:
        context = ssl.create_default_context(cafile=str(self.certificates / "authority" / "ca.pem"))
        context.check_hostname = False
        with trio.fail_after(PATIENCE):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as socket:
                stream = TlsStream(socket, context, server_side=False)
                await stream.handshake()
                yield stream


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    init_certificates(tmp_path / "certificates", hosts=1)
    return tmp_path / "certificates"


@pytest.fixture
async def server(certificates: Path, nursery: trio.Nursery) -> Server:
    made = Server(certificates, "coordinator", certificates / "enrolment")
    await made.start(nursery)
    return made


async def ask(server: Server, token: str, request: bytes) -> Answer:
    async with server.dial() as stream:
        await enrolment._write(stream, msgspec.msgpack.encode(Enrol(token, request)))
        return enrolment._answers.decode(await enrolment._read(stream))


async def get_in(server: Server, folder: Path) -> Credentials:
    """An honest host gets its certificate."""
    with trio.fail_after(PATIENCE):
        await enrol(folder, server.invite(), server.address, PATIENCE, server.log)
    return Credentials.load(folder)


# Honest hosts


async def test_the_right_token_gets_a_certificate_of_a_users_host(server: Server, tmp_path: Path) -> None:
    identity = (await get_in(server, tmp_path / "host")).identity
    assert identity.role == "users"
    assert identity.name == "clinic"
    assert [event for event, _ in server.lines] == ["enrolled", "enrolled"]  # of both sides
    assert (tmp_path / "host" / "key.pem").stat().st_mode & 0o777 == 0o600


async def test_a_wrong_token_is_told_and_not_tried_again(server: Server, tmp_path: Path) -> None:
    join = tmp_path / "join"
    join.mkdir()
    (join / "ca.pem").write_bytes((server.certificates / "authority" / "ca.pem").read_bytes())
    (join / "token").write_text("wrong")
    (join / "token").chmod(0o600)
    with pytest.raises(RequestError, match=f"{server.address}: the join token is wrong"):
        await enrol(tmp_path / "host", join, server.address, PATIENCE, server.log)
    assert not (tmp_path / "host" / "cert.pem").exists()
    assert await server.logged("refused", kind="enrolment", reason="the join token is wrong")
    assert 'wrong"' not in str(server.lines[0][1].get("token", ""))


async def test_a_host_knocks_until_the_coordinator_is_there(
    certificates: Path, tmp_path: Path, nursery: trio.Nursery
) -> None:
    server = Server(certificates, "coordinator", certificates / "enrolment")
    async with trio.open_nursery() as brief:
        await server.start(brief)
        brief.cancel_scope.cancel()
    async with trio.open_nursery() as knocking:
        knocking.start_soon(get_in, server, tmp_path / "host")
        await server.logged("unreachable", kind="enrolment")
        await server.start(nursery)
    assert Credentials.load(tmp_path / "host").identity.role == "users"
    assert [event for event, _ in server.lines].count("unreachable") == 1


async def test_nobody_there_is_an_error_in_one_line(certificates: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(RunError, match=r"nobody enrolled this host at 127\.0\.0\.1:1 within 0\.3 seconds"):
        await enrol(
            tmp_path / "host",
            invite(certificates, "clinic"),
            "127.0.0.1:1",
            0.3,
            lambda event, **_: lines.append(event),
        )
    assert lines == ["unreachable"]


@pytest.mark.parametrize("spoilt", ["ca.pem", "token"])
async def test_a_join_folder_that_is_spoilt_is_named(certificates: Path, tmp_path: Path, spoilt: str) -> None:
    join = invite(certificates, "clinic")
    (join / spoilt).write_text("")
    with pytest.raises(RequestError, match=str(join)) as error:
        await enrol(tmp_path / "host", join, "127.0.0.1:1", 1.0, lambda *_, **__: None)
    assert "\n" not in str(error.value)


# Someone else in the coordinator's place


@pytest.mark.parametrize(
    ("root", "name", "reason"),
    [("certificates", "users-1", "not the coordinator"), ("others", "coordinator", "certificate verify failed")],
)
async def test_whoever_is_not_this_root_s_coordinator_gets_no_token(
    root: str, name: str, reason: str, certificates: Path, tmp_path: Path, nursery: trio.Nursery
) -> None:
    init_certificates(tmp_path / "others")
    posing = Server(tmp_path / root, name, tmp_path / root / "enrolment")
    await posing.start(nursery)
    with pytest.raises(RunError, match="nobody enrolled this host"):
        await enrol(tmp_path / "host", invite(certificates, "clinic"), posing.address, 0.3, posing.log)
    assert reason in (await posing.logged("unreachable"))["reason"]
    assert await posing.logged("refused", kind="enrolment")
    assert not any(event == "enrolled" for event, _ in posing.lines)


@pytest.mark.parametrize("answer", [b"", b"?", b"\x91" * 5000, b"\xff" * 9, msgspec.msgpack.encode(["enrolled", b"?"])])
async def test_an_answer_that_makes_no_sense_is_survived(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    folder = tmp_path / "host"
    write = enrolment._write

    async def nonsense(stream: TlsStream, data: bytes) -> None:
        await write(stream, answer if b"enrolled" in data[:10] else data)

    monkeypatch.setattr(enrolment, "_write", nonsense)
    with pytest.raises(RunError) as error:
        await enrol(folder, server.invite(), server.address, 0.3, lambda *_, **__: None)
    assert "\n" not in str(error.value)
    assert not (folder / "cert.pem").exists()


# Strangers at the server


async def test_without_a_token_a_certificate_must_be_shown(server: Server, tmp_path: Path) -> None:
    assert await ask(server, "", make_request(tmp_path / "host")) == Rejected("no certificate was shown")


async def test_whoever_speaks_no_tls_is_dropped(server: Server, tmp_path: Path) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        with trio.fail_after(PATIENCE):
            while await stream.receive_some():
                pass
    assert await server.logged("refused", kind="enrolment")
    await get_in(server, tmp_path / "host")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ((MAX_REQUEST + 1).to_bytes(4, "big"), "ValueError"),
        (b"\xff\xff\xff\xff", "ValueError"),
        (b"\0\0\0\3abc", "ValidationError"),
        (b"\0\0\x20\0" + b"\x91" * 0x2000, "ValidationError"),
        (b"\0\0\0\x09\x93\xa5enrol\xa0\x01", "ValidationError"),
        (b"\0\0\0\0", "DecodeError"),
        (b"\0\0\0\x0d\x93\xa5enrol\xa3\xed\xa0\x80\xc4\x00", "UnicodeDecodeError"),
    ],
)
async def test_nonsense_within_tls_is_refused_and_the_next_is_served(
    server: Server, tmp_path: Path, said: bytes, fault: str
) -> None:
    async with server.dial() as stream:
        await stream.send_all(said)
        assert await read_to_the_end(stream) == b""
    assert await server.logged("refused", kind="enrolment", fault=fault)
    await get_in(server, tmp_path / "host")


async def read_to_the_end(stream: TlsStream) -> bytes:
    try:
        return await stream.receive_some(100)
    except (OSError, trio.BrokenResourceError):
        return b""


@pytest.mark.parametrize(("limit", "most"), [(0.3, 64), (1000.0, 1)], ids=["time", "room"])
async def test_whoever_takes_too_long_is_dropped_and_makes_room_for_others(
    limit: float, most: int, certificates: Path, tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrolment, "LIMIT", limit)
    monkeypatch.setattr(enrolment, "MOST", most)
    server = Server(certificates, "coordinator", certificates / "enrolment")
    await server.start(nursery)
    monkeypatch.undo()
    async with server.dial() as stream:
        await stream.send_all(b"\0\0\1")
        await get_in(server, tmp_path / "host")
        assert await read_to_the_end(stream) == b""
    assert await server.logged("refused", kind="enrolment", fault="TooSlowError")


async def test_whoever_hangs_up_at_once_does_no_harm(server: Server, tmp_path: Path) -> None:
    for _ in range(20):
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset
        await trio.aclose_forcefully(stream)
    await server.logged("refused", count=20, kind="enrolment")
    assert (await get_in(server, tmp_path / "host")).identity.role == "users"


async def test_an_authority_that_cannot_sign_ends_nothing(server: Server, tmp_path: Path) -> None:
    kept = (server.authority / "key.pem").read_bytes()
    (server.authority / "key.pem").write_bytes(b"?")
    request = Enrol(read_token(server.invite()), make_request(tmp_path / "host"))
    async with server.dial() as stream:
        await enrolment._write(stream, msgspec.msgpack.encode(request))
        assert "key.pem" in (await server.logged("failed", kind="enrolment"))["reason"]
    (server.authority / "key.pem").write_bytes(kept)
    assert (await get_in(server, tmp_path / "host")).identity.role == "users"
