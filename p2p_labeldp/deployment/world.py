"""What lies outside a node: the network, the disk, the clock on the wall, chance, and where long work is done.

A node reaches them through one ``World`` and in no other way, so that the same program runs on the operating system
and in a simulated world (``deployment.simulated``), where one seed decides all of it. Time that passes is trio's clock,
which a simulation replaces by itself.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import trio

from p2p_labeldp.deployment.disk import Disk, RealDisk
from p2p_labeldp.network.credentials import Credentials
from p2p_labeldp.network.sockets import Sockets, TcpSockets

Result = TypeVar("Result")


class Work(Protocol):
    """Do something that may take minutes, while the node goes on pinging its peers."""

    def __call__(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]: ...


async def in_a_thread(function: Callable[..., Result], *arguments: object) -> Result:
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


@dataclass(frozen=True)
class World:
    """The operating system's, unless something else is given."""

    sockets: Sockets = field(default_factory=TcpSockets)
    disk: Disk = field(default_factory=RealDisk)
    time: Callable[[], float] = time.time
    """Seconds since 1970, as far as this machine knows; may jump."""
    entropy: Callable[[int], bytes] = os.urandom
    """So many bytes that nobody can guess."""
    chance: Callable[[], float] = random.random
    """A number in [0, 1) on which nothing but the spread of retries depends."""
    hostname: Callable[[], str] = socket.gethostname
    work: Work = in_a_thread
    credentials: Callable[[Path], Credentials] = Credentials.load
    """A node's certificate and key, from their folder."""
