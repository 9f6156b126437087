"""TLS over a socket."""

from __future__ import annotations

import contextlib
import ssl

import trio

from p2p_labeldp.network.credentials import Identity, identity_of
from p2p_labeldp.network.frames import CHUNK


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
