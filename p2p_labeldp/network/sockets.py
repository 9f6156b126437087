"""What a node needs of a network: to listen, to connect, and to know by a certificate who is at the other end.

Everything that a node says or hears passes through one ``Sockets``. ``TcpSockets`` is the operating system's, with TLS;
a simulated network has the same few methods, so that the program which is tried there is the one that ships.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Any, Protocol

import trio

from p2p_labeldp.network.addresses import Address, format_address
from p2p_labeldp.network.credentials import Identity, identity_of
from p2p_labeldp.network.frames import CHUNK


class Secured(Protocol):
    """A connection on which both sides know who the other is, once they have shaken hands."""

    whole: bool
    """Whether more may be sent: not after a write that was given up in the middle."""

    async def handshake(self) -> None: ...

    def identity(self) -> Identity:
        """Who is at the other end; Refused where its certificate does not say."""
        ...

    async def send_all(self, data: bytes) -> None: ...

    async def receive_some(self, max_bytes: int) -> bytes: ...


class Sockets(Protocol):
    async def listen(self, host: str, port: int) -> list[trio.abc.Listener[Any]]:
        """OSError where that is not possible; port 0 is any that is free."""
        ...

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        """OSError where nobody listens; ValueError where no such name can exist."""
        ...

    def place_of(self, listener: Any) -> Address:
        """Where it listens."""
        ...

    def origin_of(self, stream: Any) -> Address:
        """From where a connection comes; OSError where it is gone already."""
        ...

    def secure(self, stream: Any, context: ssl.SSLContext, server_side: bool) -> Secured: ...


def words_for_origin(sockets: Sockets, stream: Any) -> str:
    """From where a connection comes, for a log."""
    try:
        return format_address(*sockets.origin_of(stream))
    except OSError:
        return "someone who is gone"


class TcpSockets:
    """The operating system's network."""

    async def listen(self, host: str, port: int) -> list[trio.abc.Listener[Any]]:
        _raise_file_limit()
        listeners = await trio.open_tcp_listeners(port, host=host)
        if port == 0:  # a name with several addresses would get a different free port for each
            for listener in listeners[1:]:
                await listener.aclose()
            del listeners[1:]
        return [*listeners]

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, port)

    def place_of(self, listener: Any) -> Address:
        host, port = listener.socket.getsockname()[:2]
        return host, port

    def origin_of(self, stream: Any) -> Address:
        host, port = stream.socket.getpeername()[:2]
        return host, port

    def secure(self, stream: Any, context: ssl.SSLContext, server_side: bool) -> Secured:
        return TlsStream(stream, context, server_side)


def _raise_file_limit() -> None:
    """As many connections as the system allows; the usual soft limit of 1,024 files is too low."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class TlsStream:
    """TLS over a socket.

    Not trio.SSLStream: that keeps to itself the alert which tells a peer what is wrong with its certificate,
    and wakes its reader for every record, of which a busy connection has several in each packet.
    """

    def __init__(self, socket: trio.SocketStream, context: ssl.SSLContext, server_side: bool) -> None:
        self._socket = socket
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self.whole = True
        """Whether more may be sent: not after a write that was given up in the middle."""

    async def handshake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except ssl.SSLError:
                with contextlib.suppress(trio.BrokenResourceError):
                    await self._flush()
                raise
            else:
                return await self._flush()

    def identity(self) -> Identity:
        """Who is at the other end; Refused where its certificate does not say."""
        return identity_of(self.tls)

    async def send_all(self, data: bytes) -> None:
        self.whole = False
        self.tls.write(data)
        await self._flush()
        self.whole = True

    async def receive_some(self, max_bytes: int) -> bytes:
        """All that can be decrypted without waiting, or else what comes next; no more than about ``max_bytes``."""
        parts: list[bytes] = []
        while max_bytes > 0:
            try:
                part = self.tls.read(max_bytes)
            except ssl.SSLWantReadError:
                if parts:
                    break
                await self._fill()
                continue
            except ssl.SSLError:
                if parts:  # what came before is good; the next call will fail again
                    break
                raise
            if not part:
                break
            parts.append(part)
            max_bytes -= len(part)
        return b"".join(parts)

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self._socket.send_all(data)

    async def _fill(self) -> None:
        # Keys may be changed on request, and the reply goes out with our next words. One is enough.
        if self._outgoing.pending > CHUNK:
            raise ConnectionError("the peer asks for new keys again and again")
        if data := await self._socket.receive_some(CHUNK):
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
