"""``GET /healthz`` for container engines: is the node alive, and whom does it wait for?

A dozen lines of HTTP in place of a web framework: one request per connection, one KiB, two seconds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import trio

from p2p_labeldp.deployment.limiter import ConnectionLimiter
from p2p_labeldp.network.sockets import Sockets, TcpSockets

MAX_REQUEST = 1024  # bytes; the request line is all that is looked at
LIMIT = 2.0  # seconds a client may take
MOST = 64  # clients at once


async def serve_health(
    host: str,
    port: int,
    state: Callable[[], dict[str, Any]],
    sockets: Sockets | None = None,
    *,
    task_status: Any = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer until cancelled. OSError where the address is taken."""

    limiter = ConnectionLimiter(LIMIT, MOST)
    gone = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)

    async def answer(stream: trio.abc.Stream) -> None:
        with contextlib.suppress(*gone), limiter.admitted():
            await _answer(stream, state)
        await trio.aclose_forcefully(stream)

    sockets = sockets or TcpSockets()
    listeners = await sockets.listen(host, port)
    task_status.started(sockets.place_of(listeners[0]))
    await trio.serve_listeners(answer, listeners)


async def _answer(stream: trio.abc.Stream, state: Callable[[], dict[str, Any]]) -> None:
    request = b""
    while b"\r\n\r\n" not in request and b"\n\n" not in request and len(request) < MAX_REQUEST:
        part = await stream.receive_some(MAX_REQUEST)
        if not part:
            break
        request += part
    method, _, rest = request.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method != b"GET":
        status, body = "405 Method Not Allowed", "only GET\n"
    elif path != b"/healthz":
        status, body = "404 Not Found", "only /healthz\n"
    else:
        found = state()
        status = "200 OK" if found.get("status") == "ok" else "503 Service Unavailable"
        body = json.dumps(found) + "\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n"
    await stream.send_all((head + "Connection: close\r\n\r\n" + body).encode())
