"""The page's server: HTTP on loopback in a thread and an event loop of its own, server-sent events and no framework.

Other programs of this machine can reach loopback, and so can any web page that a browser here has open. So the address
has a token in it that nobody can guess; a request must name this host, and not a stranger's that resolves to it (DNS
rebinding); and what a browser says comes from another page is refused. One request per connection, all of it bounded.

Whatever happens here, the run is not held up: it is told nothing and asked for nothing.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import parse_qs

import trio

from p2p_labeldp.errors import RequestError
from p2p_labeldp.reporting.page import asset, fill, style_of_reports
from p2p_labeldp.reporting.watching.watched import Watched

HOST = "127.0.0.1"
MAX_HEAD, MAX_BODY = 16 << 10, 1 << 10  # bytes of a request; a browser's headers are 1 KiB
READ_LIMIT = 5.0  # seconds for a request to come
WRITE_LIMIT = 20.0  # seconds for a page to take what it is sent
MOST = 32  # connections at once: a browser opens six
TICK = 0.1  # seconds between looks for something new
BEAT = 10.0  # seconds after which a page hears that the run is still there
LAST = 3.0  # seconds for open pages to take the end of the run and its report
NO_STORE = (
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    "X-Frame-Options: DENY\r\n"
)
_gone = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)


class _Refused(Exception):
    """A request that is not answered with what it asks for."""


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class WatchServer:
    """Context manager: serves ``watched`` until it is left. RequestError where the port is taken."""

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self._watched = watched
        self._token = secrets.token_urlsafe(16)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, port))
            self._socket.listen(MOST)
        except OSError as error:
            self._socket.close()
            raise RequestError(f"--watch-port {port}: cannot listen there: {error.strerror}") from None
        self.port: int = self._socket.getsockname()[1]
        self._hosts = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        self._page = _page(watched).encode()
        self._closing = False
        self._connections = 0
        self._behind: dict[int, int] = {}  # of each open page, the version that it has
        self._handed_over = 0  # reports
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self._token}/"

    @property
    def pages(self) -> int:
        """How many are open."""
        return len(self._behind)

    def __enter__(self) -> WatchServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._watched.gate.release()
        with contextlib.suppress(KeyboardInterrupt):
            self._hand_over()
        self._closing = True
        self._thread.join(2 * TICK + 1)

    def _hand_over(self) -> None:
        """Wait until every open page has what there is, for a moment."""
        end = time.monotonic() + LAST
        open_now = len(self._behind)
        wanted = open_now if self._watched.report is not None else 0
        while time.monotonic() < end and self._behind and self._thread.is_alive():
            late = any(version != self._watched.version for version in self._behind.copy().values())
            if not late and self._handed_over >= wanted:
                break
            time.sleep(TICK / 5)

    # In the server's own thread.

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except Exception as error:  # a fault of ours, and no reason to end the run
            print(f"p2p-labeldp: the live page has ended, and the run goes on: {error!r}", file=sys.stderr, flush=True)
        finally:
            self._watched.gate.release()

    async def _serve(self) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._socket))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watched.look)
            nursery.start_soon(trio.serve_listeners, self._answer, [listener])
            while not self._closing:  # noqa: ASYNC110 - set by another thread
                await trio.sleep(TICK)
            nursery.cancel_scope.cancel()

    async def _answer(self, stream: trio.SocketStream) -> None:
        async with stream:
            if self._connections >= MOST:
                return
            self._connections += 1
            try:
                with contextlib.suppress(*_gone):
                    await self._respond(stream)
            finally:
                self._connections -= 1

    async def _respond(self, stream: trio.SocketStream) -> None:
        try:
            with trio.fail_after(READ_LIMIT):
                request = await _read(stream)
            await self._route(stream, request)
        except _Refused as refused:
            with trio.fail_after(WRITE_LIMIT):
                await stream.send_all(_response(str(refused), b"", "text/plain"))

    async def _route(self, stream: trio.SocketStream, request: _Request) -> None:
        token, _, name = request.path.removeprefix("/").partition("/")
        self._require_ours(request)
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise _Refused("404 Not Found")
        wanted = {"": "GET", "events": "GET", "report": "GET", "control": "POST"}.get(name)
        if wanted is None or (name == "report" and self._watched.report is None):
            raise _Refused("404 Not Found")
        if request.method != wanted:
            raise _Refused("405 Method Not Allowed")
        if name == "events":
            await self._stream_events(stream, request)
            return
        body, kind = self._page, "text/html; charset=utf-8"
        if name == "control":
            body, kind = self._control(request), "application/json"
        elif name == "report":
            assert self._watched.report is not None
            body = await trio.to_thread.run_sync(self._watched.report.read_bytes)
        with trio.fail_after(WRITE_LIMIT):
            await stream.send_all(_response("200 OK", body, kind))
        self._handed_over += name == "report"

    def _require_ours(self, request: _Request) -> None:
        """A browser says to whom it believes to speak and, but for a link that was followed, for which page."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._hosts:
            raise _Refused("421 Misdirected Request")
        navigation = request.method == "GET" and request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        foreign = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if origin not in (None, f"http://{host}") or (foreign and not navigation):
            raise _Refused("403 Forbidden")

    def _control(self, request: _Request) -> bytes:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise _Refused("415 Unsupported Media Type")
        try:
            command = json.loads(request.body)
            if not isinstance(command, dict):
                raise RequestError("an object is expected")
            self._watched.order(command)
        except RequestError as error:
            return json.dumps({"error": str(error)}).encode()
        except (ValueError, RecursionError):
            raise _Refused("400 Bad Request") from None
        return b"{}"

    async def _stream_events(self, stream: trio.SocketStream, request: _Request) -> None:
        chosen = parse_qs(request.query).get("cluster", [""])[0]
        cluster = int(chosen) if chosen.isdecimal() and len(chosen) < 9 else None
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{NO_STORE}Connection: close\r\n\r\n"
        with self._page_open() as place:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_closed, stream, nursery.cancel_scope)
                with trio.fail_after(WRITE_LIMIT):
                    await stream.send_all((head + "retry: 1000\n\n").encode())
                drawing: object = None
                beat = -BEAT
                while True:
                    now, version = trio.current_time(), self._watched.version
                    if version != self._behind[place] or now - beat >= BEAT:
                        beat = now
                        events = [("state", self._watched.state())]
                        figure = self._watched.diagram(cluster)
                        if figure is not None and figure is not drawing:
                            drawing = figure
                            events.append(("diagram", figure))
                        with trio.fail_after(WRITE_LIMIT):
                            await stream.send_all(b"".join(_event(*event) for event in events))
                        self._behind[place] = version
                    await trio.sleep(TICK)

    @contextlib.contextmanager
    def _page_open(self) -> Iterator[int]:
        place = max(self._behind, default=0) + 1
        self._behind[place] = -1
        self._watched.gate.page_opened()
        try:
            yield place
        finally:
            del self._behind[place]
            self._watched.gate.page_closed()


async def _until_closed(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """A page says nothing more; when it is closed, the connection is."""
    with contextlib.suppress(*_gone):
        while await stream.receive_some(MAX_BODY):
            pass
    scope.cancel()


async def _read(stream: trio.SocketStream) -> _Request:
    data = b""
    while b"\r\n\r\n" not in data and len(data) <= MAX_HEAD:
        part = await stream.receive_some(MAX_HEAD)
        if not part:
            raise trio.BrokenResourceError
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    if len(head) > MAX_HEAD:
        raise _Refused("431 Request Header Fields Too Large")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    words = first.split(" ")
    length = headers.get("content-length", "0")
    if len(words) != 3 or not length.isdecimal() or "transfer-encoding" in headers:
        raise _Refused("400 Bad Request")
    if len(length) > 6 or int(length) > MAX_BODY:
        raise _Refused("413 Content Too Large")
    while len(body) < int(length):
        part = await stream.receive_some(MAX_BODY)
        if not part:
            raise trio.BrokenResourceError
        body += part
    path, _, query = words[1].partition("?")
    return _Request(words[0], path, query, headers, body[: int(length)])


def _response(status: str, body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{NO_STORE}"
    return (head + "Connection: close\r\n\r\n").encode() + body


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, allow_nan=False)}\n\n".encode()


def _page(watched: Watched) -> str:
    """The page, empty. The report that it opens from memory inherits its policy, so that this has to allow both."""
    style, script = style_of_reports(), asset("script.js")
    return fill(
        "watch.html.j2",
        style + asset("watch.css"),
        asset("watch.js"),
        beside=(style, script),
        also="; connect-src 'self'",
        watched=watched,
    )
