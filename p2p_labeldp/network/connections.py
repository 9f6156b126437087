"""What a transport knows of its peers and of its connections with them: plain state, and the limits it keeps to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import trio

from p2p_labeldp.network.addresses import Address
from p2p_labeldp.network.credentials import Identity
from p2p_labeldp.network.frames import Bye, FrameReader
from p2p_labeldp.network.links import Link
from p2p_labeldp.network.sockets import Secured

LINGER = 1.0  # seconds for a goodbye: one exchange with a peer that is there, lost on one that is not


@dataclass(frozen=True)
class Timing:
    """Timeouts of a node, in seconds, and its limits."""

    handshake: float = 5.0  # from the first packet to being admitted; a few round trips to anywhere on Earth
    longest_handshake: float = 20.0  # for whoever dials us, and where we dial: it doubles while that is too short
    ping: float = 2.0  # how often someone with nothing to say says so
    silence: float = 10.0  # several pings lost
    frame: float = 10.0  # for the largest frame, 1 MiB, this asks for 100 kB a second
    write: float = 15.0  # for one batch; longer than a frame, so that the receiver is the one to complain
    grace: float = 1.0  # that the one of two hosts with the larger key gives the other
    pause: float = 0.05  # before dialling again; doubles while that is no use, and is cut by up to half at random
    longest_pause: float = 2.0
    max_pending: int = 256  # connections not admitted yet, the oldest of which makes room for one more
    max_waiting: int = 1 << 26  # bytes not acknowledged by one peer: some seconds of a fast network


class Arrival(NamedTuple):
    """One item, and who sent it."""

    key: str
    identity: Identity
    number: int
    clock: int
    body: bytes


class Connection:
    """One connection with a peer that has been admitted."""

    def __init__(self, peer: Peer, dialler: str, stream: Secured, reader: FrameReader, frames: list[bytes]) -> None:
        self.peer, self.stream, self.reader = peer, stream, reader
        self.dialler = dialler  # the key of whoever has dialled
        self.frames = frames  # that came in one piece with the peer's Open
        self.up = False  # whether it has admitted us too
        self.ended = ""  # why it is over
        self.farewell: Bye | None = None  # what to tell the peer then
        self.duplicates = 0
        self.scope = trio.CancelScope()
        self.wake = trio.Event()
        self.over = trio.Event()

    def end(self, reason: str, farewell: Bye | None = None) -> None:
        """Stop at once, or, with something to tell the peer, as soon as what is being written is written."""
        if self.ended:
            return
        self.ended, self.farewell = reason, farewell
        self.wake.set()
        if farewell is not None:
            self.scope.deadline = trio.current_time() + LINGER
        else:
            self.scope.cancel()


class Peer:
    """What is known of a peer, connected or not."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.identity: Identity | None = None
        self.link = Link()
        self.received = 0  # items that the node has received: all that were taken, up to the last time it asked
        self.address: Address | None = None  # where to dial
        self.grace = 0.0  # seconds that the peer has to dial us first
        self.patience = 0.0  # seconds, of a path that was too slow for the usual handshake
        self.relay = ""  # where to meet it otherwise
        self.connection: Connection | None = None
        self.admitted = 0  # which admission of all the last of this peer was
        self.noted: tuple[str, str] | None = None  # what was last logged of attempts, so as not to repeat it
