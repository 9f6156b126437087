"""The operating system's network, whose links can be cut: for partitions that happen to running nodes.

SIGUSR1 cuts: every connection is shut down in both directions, none can be made, and whoever dials is hung up on before
a word is said. SIGUSR2 mends. The node itself goes on meanwhile, and dials again as after any broken connection.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import ssl
from typing import Any
from weakref import WeakSet

import trio

from p2p_labeldp.network.sockets import Secured, TcpSockets
from p2p_labeldp.systems import cutting_signals


class CuttableSockets(TcpSockets):
    def __init__(self) -> None:
        self._cut = False
        self._live: WeakSet[Any] = WeakSet()

    def obey_signals(self) -> None:
        """Cut and mend as this process is told to."""
        cut, mend = cutting_signals("--cuttable")
        signal.signal(cut, lambda *_: self.cut())
        signal.signal(mend, lambda *_: self.mend())

    def cut(self) -> None:
        """At any moment: sockets are shut down, and those who read or write find out by themselves."""
        self._cut = True
        for each in list(self._live):
            _shut(each)

    def mend(self) -> None:
        self._cut = False

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        if self._cut:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        return await super().connect(host, port)

    def secure(self, stream: Any, context: ssl.SSLContext, server_side: bool) -> Secured:
        """Every connection comes through here before anything is said on it."""
        link = getattr(stream, "socket", None)
        if link is not None:  # else it runs inside another one, that of a relay
            self._live.add(link)
            if self._cut:
                _shut(link)
        return super().secure(stream, context, server_side)


def _shut(link: Any) -> None:
    with contextlib.suppress(OSError):  # it is gone already
        link.shutdown(socket.SHUT_RDWR)
