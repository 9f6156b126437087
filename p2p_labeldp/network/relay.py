"""A relay for nodes that cannot reach each other: it passes on bytes that it cannot read.

Both call the relay, each with its own certificate over TLS, and name the other; when both are there the relay joins the
two connections and copies bytes. Inside them the two shake hands as if they were connected directly: end to end
TLS, so that who they are, and what they refuse, is decided by them and not by the relay, which sees what the network
sees: who talks to whom, when, and how many bytes.

Bounds: a connection that waits for the other side, or says nothing, is ended; a node that names the same peer again
replaces its earlier call; what one side does not read, the relay does not read from the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.frames import CHUNK
from p2p_labeldp.network.limiter import ConnectionLimiter, LineLimiter
from p2p_labeldp.network.sockets import Secured, Sockets, words_for_origin
from p2p_labeldp.network.words import plain, why
from p2p_labeldp.protocol.messages import Refused

INTRODUCTION = 5.0  # seconds from the first packet to the name of the peer
MOST = 256  # calls not introduced yet
WAIT = 20.0  # seconds for the other side to come; it may have to find out first that it cannot reach us
SILENCE = 30.0  # seconds; nodes ping every two
WRITE = 15.0  # seconds for one piece, as long as a node has for one write
MAX_CALL = 1024  # bytes

_GONE = (OSError, ValueError, RecursionError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)

Allowed = Callable[[Identity, str], bool]
"""(who calls, the key of the peer that is named): whether the relay serves it."""


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call", forbid_unknown_fields=True):
    """The key of the peer that the caller wants to meet."""

    peer: str


_JOINED = b"\x01"  # from the relay, before the first byte of the other side


class _Waiting:
    def __init__(self, stream: Secured) -> None:
        self.stream = stream
        self.scope = trio.CancelScope()
        self.joined = trio.Event()
        self.over = trio.Event()
        self.other: Secured | None = None


class Relay:
    def __init__(self, credentials: Credentials, allowed: Allowed, log: Callable[..., None], sockets: Sockets) -> None:
        self._credentials, self._allowed, self._log, self._sockets = credentials, allowed, log, sockets
        self._limiter = ConnectionLimiter(INTRODUCTION, MOST)
        self._strangers = LineLimiter(log)
        self._waiting: dict[tuple[str, str], _Waiting] = {}

    async def serve(self, address: str, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. OSError where the address is taken."""
        listeners = await self._sockets.listen(*parse_address(address))
        task_status.started(self._sockets.place_of(listeners[0]))
        await trio.serve_listeners(self._answer, listeners)

    async def _answer(self, socket: trio.abc.Stream) -> None:
        where = words_for_origin(self._sockets, socket)
        stream = self._sockets.secure(socket, self._credentials.server, server_side=True)
        try:
            with self._limiter.admitted():
                await stream.handshake()
                caller = self._credentials.require_current(stream.identity())
                called = msgspec.msgpack.decode(await _read_call(stream), type=Call).peer
            if caller.key == called or not self._allowed(caller, called):
                self._log("refused", address=where, peer=caller.key, kind="relay", reason="not a pair of this run")
                return
            await self._join(caller.key, called, stream)
        except Refused as refused:
            self._strangers("refused", address=where, kind="relay", reason=plain(str(refused)))
        except _GONE as error:
            self._strangers("refused", address=where, kind="relay", reason=why(error))
        finally:
            await trio.aclose_forcefully(socket)

    async def _join(self, caller: str, called: str, stream: Secured) -> None:
        other = self._waiting.pop((called, caller), None)
        if other is not None:
            other.other = stream
            other.joined.set()
            await other.over.wait()  # the one who was first does the copying
            return
        mine = _Waiting(stream)
        if earlier := self._waiting.get((caller, called)):
            earlier.scope.cancel()
        self._waiting[caller, called] = mine
        try:
            with mine.scope:
                with trio.move_on_after(WAIT):
                    await mine.joined.wait()
                if mine.other is not None:
                    await _copy_both(stream, mine.other)
        finally:
            mine.over.set()
            if self._waiting.get((caller, called)) is mine:
                del self._waiting[caller, called]


async def _copy_both(one: Secured, other: Secured) -> None:
    with contextlib.suppress(*_GONE):
        await one.send_all(_JOINED)
        await other.send_all(_JOINED)
        async with trio.open_nursery() as nursery:

            async def copy(source: Secured, sink: Secured) -> None:
                with contextlib.suppress(*_GONE):
                    while True:
                        with trio.fail_after(SILENCE):
                            data = await source.receive_some(CHUNK)
                        if not data:
                            break
                        with trio.fail_after(WRITE):
                            await sink.send_all(data)
                nursery.cancel_scope.cancel()

            nursery.start_soon(copy, one, other)
            nursery.start_soon(copy, other, one)


async def call(sockets: Sockets, credentials: Credentials, address: str, peer: str) -> trio.abc.Stream:
    """A stream to a peer that calls the relay too; OSError, ValueError, Refused or TooSlowError where there is none."""
    with trio.fail_after(INTRODUCTION):
        socket = await sockets.connect(*parse_address(address))
    try:
        stream = sockets.secure(socket, credentials.client, server_side=False)
        with trio.fail_after(INTRODUCTION):
            await stream.handshake()
            if credentials.require_current(stream.identity()).role != "coordinator":
                raise ConnectionError("the relay is not the coordinator")
            data = msgspec.msgpack.encode(Call(peer))
            await stream.send_all(len(data).to_bytes(2, "big") + data)
        with trio.fail_after(2 * WAIT):
            first = await stream.receive_some(1)
        if first != _JOINED:
            raise ConnectionError("the peer did not come to the relay")
        return _Relayed(socket, stream)
    except BaseException:
        await trio.aclose_forcefully(socket)
        raise


async def _read_call(stream: Secured) -> bytes:
    data = b""
    while len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2], "big"):
        if len(data) >= 2 and int.from_bytes(data[:2], "big") > MAX_CALL:
            raise ValueError("a call takes fewer bytes")
        # No more than the call: the caller's first words to the peer come after the answer.
        part = await stream.receive_some(1 if len(data) < 2 else 2 + int.from_bytes(data[:2], "big") - len(data))
        if not part:
            raise ValueError("the caller stopped in the middle")
        data += part
    return data[2:]


class _Relayed(trio.abc.Stream):
    """The bytes of the other side, as if they came from a socket."""

    def __init__(self, socket: trio.abc.Stream, stream: Secured) -> None:
        self._socket, self._stream = socket, stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(bytes(data))

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._stream.receive_some(max_bytes or CHUNK)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._socket)
