"""``GET /healthz``: one answer to one question, whatever else is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from live_deployment import Live, free_addresses
from small import ONE_CLUSTER

from p2p_labeldp.deployment import health
from p2p_labeldp.deployment.admission import PROGRAM
from p2p_labeldp.deployment.health import MAX_REQUEST, serve_health
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.scenario import parse_scenario

PATIENCE = 60.0
SMALL = parse_scenario(ONE_CLUSTER, overrides=["data.users=40"])
GET = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n"


@pytest.fixture
def state() -> dict[str, Any]:
    return {"status": "ok", "waits_for": 'users "hosts"\n'}


@pytest.fixture
async def port(state: dict[str, Any], nursery: trio.Nursery) -> int:
    _, found = await nursery.start(serve_health, "127.0.0.1", 0, lambda: state)
    return int(found)


async def ask(port: int, request: bytes) -> tuple[int, str]:
    """The status and the body of the answer; 0 where there is none."""
    with trio.fail_after(PATIENCE):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(request)
            return parse(await read(stream))


async def read(stream: trio.SocketStream) -> bytes:
    answer = b""
    try:
        while part := await stream.receive_some():
            answer += part
    except trio.BrokenResourceError:  # closed on what was not read
        pass
    return answer


def parse(answer: bytes) -> tuple[int, str]:
    if not answer:
        return 0, ""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ") for line in lines[1:])
    assert headers["Content-Length"] == str(len(body))
    assert headers["Connection"] == "close"
    return int(lines[0].split(" ")[1]), body.decode()


async def test_a_node_says_whether_it_is_well(port: int, state: dict[str, Any]) -> None:
    status, body = await ask(port, GET)
    assert (status, json.loads(body)) == (200, state)
    assert body.count("\n") == 1
    state["status"] = "stuck"
    assert (await ask(port, GET))[0] == 503


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz?probe=1 HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz\n\n", 404),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /healthz/../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET  /healthz HTTP/1.1\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        (b"get /healthz HTTP/1.1\r\n\r\n", 405),
        (b"\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00" + b"\xff" * 600 + b"\n\n", 405),
        (b"\0" * MAX_REQUEST, 405),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_anything_else_is_answered_with_a_status_that_says_so(port: int, request_: bytes, status: int) -> None:
    assert (await ask(port, request_))[0] == status
    assert (await ask(port, GET))[0] == 200


async def test_a_request_without_end_is_read_no_further_than_it_must_be(port: int) -> None:
    request = b"GET /healthz HTTP/1.1\r\n" + b"X-Filler: y\r\n" * 10_000
    status, _ = await ask(port, request)
    assert status in (0, 200)  # the answer may be lost where the connection is closed on unread bytes
    assert (await ask(port, GET))[0] == 200


async def test_a_client_in_pieces_is_understood(port: int) -> None:
    with trio.fail_after(PATIENCE):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            for byte in GET:
                await stream.send_all(bytes([byte]))
            assert parse(await read(stream))[0] == 200


@pytest.mark.parametrize(("limit", "most"), [(0.1, 64), (1000.0, 1)], ids=["time", "room"])
async def test_a_client_that_takes_too_long_is_dropped_and_makes_room_for_others(
    limit: float, most: int, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LIMIT", limit)
    monkeypatch.setattr(health, "MOST", most)
    _, port = await nursery.start(serve_health, "127.0.0.1", 0, lambda: {"status": "ok"})
    with trio.fail_after(PATIENCE):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(GET[:9])
            assert (await ask(port, GET))[0] == 200
            assert await read(stream) == b""


async def test_clients_who_hang_up_do_no_harm(port: int) -> None:
    for said in (b"", GET[:5], GET):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        if said:
            await stream.send_all(said)
        stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset
        await trio.aclose_forcefully(stream)
    assert (await ask(port, GET))[0] == 200


async def test_a_port_in_use_is_an_os_error(port: int) -> None:
    with pytest.raises(OSError):
        await serve_health("127.0.0.1", port, dict)


async def test_a_node_says_whom_it_waits_for_and_whether_its_run_has_begun(tmp_path: Path) -> None:
    live = Live(tmp_path / "live", SMALL, hosts=1)
    (address,) = free_addresses(1)
    port = parse_address(address)[1]

    async def get(path: str) -> tuple[int, str]:
        return await ask(port, f"GET {path} HTTP/1.1\r\n\r\n".encode())

    async with live.running():
        node = await live.start("coordinator", deployment__health=address)
        assert (await get("/readyz"))[0] == 503
        status, body = await get("/healthz")
        found = json.loads(body)
        assert (status, found["waits_for"]) == (200, "user hosts: 0 came of 1")
        assert (found["role"], found["node"], found["connected"]) == ("coordinator", "coordinator", 0)
        page = (await get("/metrics"))[1]
        assert 'p2p_labeldp_state{state="waiting"} 1\n' in page
        assert f'version="{PROGRAM}"' in page
        await live.start("auditor", "users-1")
        await live.saw("coordinator", "dealt")
        while node.health()["state"] == "waiting":  # noqa: ASYNC110 - a page wakes nobody
            await trio.sleep(0.01)
        # The run has begun, and stands still for want of a learner.
        assert (await get("/readyz"))[0] == 200
        assert 'p2p_labeldp_state{state="working"} 1\n' in (await get("/metrics"))[1]
        await live.start("learner")
        await live.finish()
        assert node.health()["state"] == "over"
