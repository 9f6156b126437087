"""``GET /healthz`` for container engines: is the node alive, and whom does it wait for? ``/readyz``: has its run begun?

``/metrics`` says the same to Prometheus.

A dozen lines of HTTP in place of a web framework: one request per connection, one KiB, two seconds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import trio

from p2p_labeldp.network.limiter import ConnectionLimiter
from p2p_labeldp.network.sockets import Sockets, TcpSockets

MAX_REQUEST = 1024  # bytes; the request line is all that is looked at
LIMIT = 2.0  # seconds a client may take
MOST = 64  # clients at once
STATES = ("waiting", "working", "over")
METRICS = {
    "connected": ("gauge", "Peers with which there is a connection."),
    "users": ("gauge", "Users of the run, 0 before it has begun."),
    "hosts": ("gauge", "User hosts of the run, 0 before it has begun."),
    "rounds": ("gauge", "Rounds that the run is to have."),
    "rounds_closed": ("gauge", "Rounds that are closed."),
    "strangers_refused": ("counter", "Connections refused before a certificate was shown."),
    "log_lines_dropped": ("counter", "Lines left out of the log, since nobody read it."),
}


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
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0].decode("latin-1")
    kind = "application/json"
    if method != b"GET":
        status, body = "405 Method Not Allowed", "only GET\n"
    elif path == "/metrics":
        status, body, kind = "200 OK", metrics(state()), "text/plain; version=0.0.4"
    elif path in ("/healthz", "/readyz"):
        found = state()
        well = found.get("status") == "ok" and (path == "/healthz" or found.get("state") == "working")
        status, body = "200 OK" if well else "503 Service Unavailable", json.dumps(found) + "\n"
    else:
        status, body = "404 Not Found", "only /healthz, /readyz and /metrics\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n"
    await stream.send_all((head + "Connection: close\r\n\r\n" + body).encode())


def metrics(found: dict[str, Any]) -> str:
    """What a node says of itself, as Prometheus reads it.

    No count of messages or bytes, no time that work took: these follow from who asked whom, which the learner, for one,
    must not know. What is here is public, or caused by unauthenticated clients.
    """
    labels = ",".join(f'{name}="{found.get(name, "")}"' for name in ("node", "role", "run", "version"))
    lines = [
        "# HELP p2p_labeldp_info Which node of which run this is.",
        "# TYPE p2p_labeldp_info gauge",
        f"p2p_labeldp_info{{{labels}}} 1",
        "# HELP p2p_labeldp_state Whether the node waits for the run to begin, works, or is done.",
        "# TYPE p2p_labeldp_state gauge",
    ]
    lines += [f'p2p_labeldp_state{{state="{name}"}} {int(found.get("state") == name)}' for name in STATES]
    for name, (kind, words) in METRICS.items():
        metric = f"p2p_labeldp_{name}" + ("_total" if kind == "counter" else "")
        lines += [f"# HELP {metric} {words}", f"# TYPE {metric} {kind}", f"{metric} {found.get(name, 0)}"]
    return "\n".join(lines) + "\n"
