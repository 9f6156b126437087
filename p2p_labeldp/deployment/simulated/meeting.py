"""Who meets whom: TLS's handshake with real certificates, without its bytes.

Two sides shake hands in memory, by OpenSSL and with the contexts that the nodes have made; what each finds out of the
other, or refuses it for, is what it would find out on a socket. Only then do they speak in clear. What stands in
for the handshake takes as many turns as TLS 1.3 does: a server refuses a certificate when its client has gone on.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache

from p2p_labeldp.deployment.simulated.network import End
from p2p_labeldp.network.credentials import Identity, identity_of, shake_hands

HELLO, REPLY, FINISHED, WELCOME, ALERT = b"H", b"R", b"F", b"W", b"A"


@dataclass(frozen=True)
class Meeting:
    client: ssl.SSLObject
    server: ssl.SSLObject
    client_error: ssl.SSLError | None
    """Why the client does not go on, having seen the server's certificate."""
    server_error: ssl.SSLError | None
    late_error: ssl.SSLError | None
    """What the client reads when the server has refused it."""


@cache
def meeting_of(client: ssl.SSLContext, server: ssl.SSLContext) -> Meeting:
    """How two who meet find each other: the same two contexts find the same again, in all runs of a process."""
    ours, theirs, errors = shake_hands(client, server)
    late: ssl.SSLError | None = None
    if [*errors] == [theirs]:
        try:
            ours.read(1)
        except ssl.SSLError as error:
            late = error
    return Meeting(ours, theirs, errors.get(ours), errors.get(theirs), late)


class SecureEnd:
    """An end whose sides know each other (``network.sockets.Secured``)."""

    def __init__(self, end: End, context: ssl.SSLContext, server_side: bool) -> None:
        self.end = end
        self.whole = True
        self._server_side = server_side
        self._welcomed = server_side
        end.connection.contexts[server_side] = context

    async def handshake(self) -> None:
        if self._server_side:
            await self._turn(HELLO)
            await self.end.send_all(REPLY)
            await self._turn(FINISHED)
            last, error = WELCOME, self._meeting.server_error
        else:
            await self.end.send_all(HELLO)
            await self._turn(REPLY)
            last, error = FINISHED, self._meeting.client_error
        await self.end.send_all(ALERT if error else last)
        if error:
            raise error

    def identity(self) -> Identity:
        return identity_of(self._meeting.server if self._server_side else self._meeting.client)

    async def send_all(self, data: bytes) -> None:
        self.whole = False
        await self.end.send_all(data, spoken=True)
        self.whole = True

    async def receive_some(self, max_bytes: int) -> bytes:
        if not self._welcomed:
            await self._turn(WELCOME)
            self._welcomed = True
        return await self._read(max_bytes)

    @property
    def _meeting(self) -> Meeting:
        contexts = self.end.connection.contexts
        return meeting_of(contexts[False], contexts[True])

    async def _read(self, max_bytes: int) -> bytes:
        data = await self.end.receive_some(max_bytes)
        if not data:
            raise ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
        return data

    async def _turn(self, wanted: bytes) -> None:
        found = await self._read(1)
        if found == ALERT:
            error = self._meeting.server_error if self._server_side else self._meeting.late_error
            raise error or ssl.SSLError("the handshake failed")
        if found != wanted:
            raise ssl.SSLError(1, "unexpected message")
