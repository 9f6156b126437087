"""Who meets whom: TLS's handshake with real certificates, without its bytes.

Two sides shake hands in memory, by OpenSSL and with the contexts that the nodes have made; what each finds out of the
other, or refuses it for, is what it would find out on a socket. Only then do they speak in clear. What stands in
for the handshake takes as many turns as TLS 1.3 does: a server refuses a certificate when its client has gone on.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from p2p_labeldp.network.credentials import Identity, identity_of

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

    @property
    def server_identity(self) -> Identity:
        return identity_of(self.client)

    @property
    def client_identity(self) -> Identity:
        return identity_of(self.server)


class Meetings:
    """Remembers how those who have met found each other: the same two contexts find the same again."""

    def __init__(self) -> None:
        self._met: dict[tuple[ssl.SSLContext, ssl.SSLContext], Meeting] = {}

    def of(self, client: ssl.SSLContext, server: ssl.SSLContext) -> Meeting:
        found = self._met.get((client, server))
        if found is None:
            found = self._met[client, server] = _shake_hands(client, server)
        return found


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> Meeting:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there)
    theirs = server.wrap_bio(there, back, server_side=True)
    first: ssl.SSLError | None = None
    second: ssl.SSLError | None = None
    for _ in range(2):
        first = first or _try(ours)
        second = second or _try(theirs)
    late: ssl.SSLError | None = None
    if first is None and second is not None:
        try:
            ours.read(1)
        except ssl.SSLError as error:
            late = error
    return Meeting(ours, theirs, first, second, late)


def _try(end: ssl.SSLObject) -> ssl.SSLError | None:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError as error:
        return error
    return None
