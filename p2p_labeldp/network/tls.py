"""Streams of items between nodes over mutual TLS 1.3.

Who a peer is comes from its certificate and from nothing it says: a certificate that the authority in
``ca.pem`` signed names a role, and a peer is known by that role or, of user hosts, which are many, by the
certificate's fingerprint. Host names play no part.

Of two user hosts either may dial, since either may be behind a firewall or an address translation; the one with the
larger key gives the other a moment first. Where both fail and there is a relay (``network.relay``) they meet there.
Of two connections at the same time the one that the smaller key has dialled stays, so that both agree.

A connection is a passing thing, a link (``network.links``) is not. Both sides open with how much of the
other's stream they have and go on from there; so the answer to anything odd (a gap, garbage, silence, a peer
too slow to keep up with) is always the same: say why, drop the connection, and let whoever dialled try again.
Nothing that happens on one connection ends the node.

Bounds, for peers that mean harm or are merely broken: how long each step may take and how many may be in
the middle of introducing themselves (``Timing``), what has arrived and was not yet received (``MAX_HELD``),
what waits for one peer (``Timing.max_waiting``). A reader who is held up stops reading, and TCP slows the
sender down.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any

import trio

from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.addresses import Address, format_address, parse_address
from p2p_labeldp.network.connections import LINGER, Arrival, Connection, Peer, Timing
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.frames import (
    CHUNK,
    MAX_FIRST,
    Ack,
    Barred,
    Bye,
    FrameReader,
    Item,
    Open,
    Parting,
    Ping,
    decode,
    pack,
)
from p2p_labeldp.network.limiter import ConnectionLimiter, LineLimiter
from p2p_labeldp.network.links import OVERHEAD
from p2p_labeldp.network.relay import call
from p2p_labeldp.network.sockets import Secured, Sockets, TcpSockets, words_for_origin
from p2p_labeldp.network.words import plain, whence, why
from p2p_labeldp.protocol.messages import MAX_FRAME, Fault, Refused

BATCH = 1 << 18  # bytes per write: 16 TLS records, enough to make the cost of a write small
MAX_HELD = 1 << 24  # bytes arrived and not yet received: sixteen of the largest frames

_LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
_PING = pack(Ping())


class Transport:
    """The links of one node, and the connections that serve them."""

    def __init__(
        self,
        credentials: Credentials,
        greeting: Callable[[Identity], tuple[int, str, str]],
        admit: Callable[[Identity, Open], None],
        log: Callable[..., None],
        timing: Timing | None = None,
        sockets: Sockets | None = None,
        chance: Callable[[], float] = random.random,
        program: str = "",
    ) -> None:
        """``program`` is the version that peers are told."""
        self.refusals: dict[str, Bye] = {}
        """Why a peer left or would not have us, until it does."""
        self._credentials = credentials
        self._greeting = greeting
        self._admit = admit
        self._log = log
        self.strangers = LineLimiter(log)
        """The log of those who have not shown a certificate."""
        self._timing = timing or Timing()
        self._limiter = ConnectionLimiter(self._timing.longest_handshake, self._timing.max_pending)
        self._sockets = sockets or TcpSockets()
        self._chance = chance
        self._program = program
        self._peers: dict[str, Peer] = {}
        self._admissions = 0
        self._callers: dict[trio.abc.Stream, None] = {}  # that we do not know yet, or have just refused
        self._arrivals: list[Arrival] = []
        self._held = 0
        self._all_acknowledged = False  # by some peer, since somebody waits for arrivals
        self._arrived, self._room = trio.Event(), trio.Event()
        self._nursery: trio.Nursery | None = None

    # What a node does

    async def run(
        self, listen: str | None, *, task_status: trio.TaskStatus[Address | None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve and dial until cancelled; a node that nobody dials need not listen."""
        listeners = await self._open_listeners(listen) if listen is not None else []
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for peer in self._peers.values():
                if peer.address is not None:
                    nursery.start_soon(self._dial, peer, peer.address)
            if not listeners:
                task_status.started(None)
                await trio.sleep_forever()
            task_status.started(self._sockets.place_of(listeners[0]))
            await trio.serve_listeners(self._answer, listeners)

    def connect(self, key: str, address: str, *, mutual: bool = False, relay: str = "") -> None:
        """Keep a connection to that peer up from our side; ``mutual`` says that it does the same from its own."""
        peer, place = self._peer(key), parse_address(address)
        if mutual:
            peer.grace = 0.0 if self._credentials.identity.key < key else self._timing.grace
            peer.relay = relay
        if peer.address != place:
            peer.address = place
            if self._nursery is not None:
                self._nursery.start_soon(self._dial, peer, place)

    def restore(self, key: str, received: int) -> None:
        """So many of the peer's items were found in the journal."""
        peer = self._peer(key)
        peer.link.restore(received)
        peer.received = received

    def begin_at(self, key: str, made: int) -> None:
        """So many items were made for the peer before, and it will not ask for them again."""
        self._peer(key).link.begin_at(made)

    def made(self) -> dict[str, int]:
        """By peer, how many items were made for it."""
        return {key: peer.link.made for key, peer in self._peers.items() if peer.link.made}

    def all_acknowledged(self, made: Mapping[str, int]) -> bool:
        """Whether every peer has acknowledged so many."""
        return all(key in self._peers and self._peers[key].link.dropped >= count for key, count in made.items())

    def post(self, key: str, clock: int, body: bytes) -> None:
        """Put an item at the end of the stream to a peer. It goes out when there is a connection."""
        peer = self._peer(key)
        peer.link.append(clock, body)
        connection = peer.connection
        if connection is None or connection.ended:
            return
        # Who takes in as much as it makes us keep is not the one to fear, so that much may wait besides.
        if connection.up and peer.link.waiting > self._timing.max_waiting + peer.link.released:
            self._log("slow", peer=key, waiting=peer.link.waiting)
            connection.end("too much waits for the peer")
        else:
            connection.wake.set()

    async def receive(self, or_acknowledged: bool = False) -> list[Arrival]:
        """Everything that has arrived, at least one item; in order, of each peer. One task alone may wait here.

        ``or_acknowledged``: or nothing, as soon as some peer has acknowledged all that there is for it.
        """
        self._all_acknowledged = False
        await trio.lowlevel.checkpoint()
        while not self._arrivals and not (or_acknowledged and self._all_acknowledged):
            self._arrived = trio.Event()
            await self._arrived.wait()
        arrivals, self._arrivals = self._arrivals, []
        self._make_room()
        for key in {arrival.key for arrival in arrivals}:
            self._peers[key].received = self._peers[key].link.taken
        return arrivals

    def acknowledge(self, key: str) -> None:
        """All that was received from this peer is in the journal."""
        if peer := self._peers.get(key):
            peer.link.committed = peer.received
            if peer.connection is not None:
                peer.connection.wake.set()

    def unacknowledged(self, key: str) -> int:
        return self._peers[key].link.unacknowledged if key in self._peers else 0

    @property
    def connected(self) -> frozenset[str]:
        """The peers that have admitted us and we them."""
        return frozenset(
            key
            for key, peer in self._peers.items()
            if peer.connection is not None and peer.connection.up and not peer.connection.ended
        )

    @property
    def callers(self) -> int:
        """How many have dialled us and are neither admitted nor told why not."""
        return len(self._callers)

    def forget(self, key: str) -> None:
        """Drop a peer and its link; if it comes again, both streams begin at 0."""
        peer = self._peers.pop(key, None)
        if peer is None:
            return
        peer.address = None
        self.refusals.pop(key, None)
        self._arrivals = [arrival for arrival in self._arrivals if arrival.key != key]
        if not self._arrivals:
            self._make_room()
        if peer.connection is not None:
            peer.connection.end("forgotten")

    def drop_revoked(self) -> None:
        """End connections whose certificate is on a list of revoked ones that has come since they were made."""
        try:
            if not self._credentials.revoked.refresh():
                return
        except RequestError as error:
            self._log("warning", warning=str(error))
            return
        for key, peer in self._peers.items():
            if peer.identity is not None and peer.identity in self._credentials.revoked:
                self._log("revoked", peer=key, name=peer.identity.name)
                self.close_peer(key, f"the certificate of {peer.identity.name} was revoked", Parting.CERTIFICATE)

    def close_peer(self, key: str, reason: str, code: Parting = Parting.CLOSED) -> None:
        """Acknowledge what is committed, say why it ends, drop the connection, dial no more; keep the link."""
        if peer := self._peers.get(key):
            peer.address = None
            if peer.connection is not None:
                peer.connection.end(reason or "closed", farewell=Bye(code, reason))

    async def close(self, reason: str) -> None:
        """Close every peer, and wait until the last has been told or has had the time to listen."""
        for key in self._peers:
            self.close_peer(key, reason)
        for peer in list(self._peers.values()):
            if peer.connection is not None:
                await peer.connection.over.wait()

    # What becomes of connections

    def _peer(self, key: str) -> Peer:
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = Peer(key)
        return peer

    def _make_room(self) -> None:
        self._held = 0
        self._room.set()
        self._room = trio.Event()

    async def _open_listeners(self, listen: str) -> list[trio.abc.Listener[Any]]:
        try:
            return await self._sockets.listen(*parse_address(listen))
        except OSError as error:
            raise RequestError(f"cannot listen on {listen}: {why(error)}") from None

    async def _answer(self, socket: trio.abc.Stream) -> None:
        self._callers[socket] = None
        try:
            await self._attend(socket, words_for_origin(self._sockets, socket), None, server_side=True)
        finally:
            self._callers.pop(socket, None)

    async def _dial(self, peer: Peer, address: Address) -> None:
        """Keep trying for as long as this is the address to dial."""
        timing, where = self._timing, format_address(*address)
        pause = timing.pause
        await trio.sleep(peer.grace)
        while peer.address is address:
            if peer.connection is not None:  # the peer was first
                await peer.connection.over.wait()
                await trio.sleep(peer.grace)
                continue
            useful = False
            try:
                with trio.fail_after(timing.handshake):
                    socket = await self._sockets.connect(*address)
            except (OSError, ValueError, trio.TooSlowError) as error:  # ValueError: no such name can exist
                self._note(peer, "unreachable", where, why(error))
            else:
                useful = await self._attend(socket, where, peer, server_side=False)
            if not useful and peer.relay and peer.address is address and peer.connection is None:
                useful = await self._meet_at_relay(peer)
            pause = timing.pause if useful else min(2 * pause, timing.longest_pause)
            await trio.sleep(pause * (0.5 + 0.5 * self._chance()))

    async def _meet_at_relay(self, peer: Peer) -> bool:
        """Of two who meet there the one with the smaller key is the client."""
        try:
            stream = await call(self._sockets, self._credentials, peer.relay, peer.key)
        except (*_LOST, ValueError, Refused) as error:
            self._note(peer, "unreachable", peer.relay, f"at the relay: {why(error)}")
            return False
        if peer.connection is not None:  # it came by itself meanwhile
            await trio.aclose_forcefully(stream)
            return True
        server_side = peer.key < self._credentials.identity.key
        return await self._attend(stream, f"{peer.relay} (relay)", peer, server_side)

    async def _attend(self, socket: trio.abc.Stream, where: str, dialled: Peer | None, server_side: bool) -> bool:
        """One connection, from the handshake to its end; whether it was of use."""
        context = self._credentials.server if server_side else self._credentials.client
        stream = self._sockets.secure(socket, context, server_side)
        facts, before = {"address": where}, self._admissions
        try:
            connection = await self._meet(stream, facts, dialled, server_side, before)
            self._callers.pop(socket, None)
            return await self._converse(connection, facts)
        except Refused as refused:
            if not isinstance(refused, Barred) or refused.code != Parting.BESIDE:
                self._log_of(facts)("refused", fault=refused.fault, reason=plain(str(refused)), **facts)
            await _say_goodbye(stream, _parting(refused))
        except _LOST as error:
            if dialled is None:
                self._log_of(facts)("refused", reason=why(error), **facts)
            else:
                self._note(dialled, "unreachable", where, why(error))
        except Exception as error:  # a fault of ours, which must not take the other connections with it
            self._log("failed", reason=whence(error), **facts)
        finally:
            await trio.aclose_forcefully(socket)
        return False

    async def _meet(
        self, stream: Secured, facts: dict[str, str], dialled: Peer | None, server_side: bool, before: int
    ) -> Connection:
        """Get to know the peer, within limits: nobody keeps others out by being slow about it."""
        if dialled is None:
            with self._limiter.admitted():
                return await self._introduce(stream, facts, dialled, server_side, before)
        seconds = max(self._timing.handshake, dialled.patience)
        with trio.move_on_after(seconds):
            return await self._introduce(stream, facts, dialled, server_side, before)
        dialled.patience = min(2 * seconds, self._timing.longest_handshake)
        raise trio.TooSlowError(f"no introduction within {seconds:g} s")

    async def _introduce(
        self, stream: Secured, facts: dict[str, str], dialled: Peer | None, server_side: bool, before: int
    ) -> Connection:
        """``before`` is how many were admitted when this connection began."""
        await stream.handshake()
        identity = self._credentials.require_current(stream.identity())
        if dialled is not None and identity.key != dialled.key:
            raise Refused(Fault.MISDIRECTED, f"here is {identity.name}, known as {identity.key}, and not {dialled.key}")
        key = facts["peer"] = identity.key
        version, digest, run = self._greeting(identity)
        received = self._peers[key].link.taken if key in self._peers else 0
        with contextlib.suppress(trio.BrokenResourceError):  # what can still be read will say why
            await stream.send_all(pack(Open(version, digest, run, received, self._program)))
        reader = FrameReader(stream, silence=self._timing.silence, frame=self._timing.frame, largest=MAX_FIRST)
        frames = await reader.read()
        if not frames:
            raise ConnectionError("the peer hung up")
        first = decode(frames[0])
        if isinstance(first, Bye):
            if key in self._peers and first.code != Parting.BESIDE:
                self._left(self._peers[key], facts["address"], first)
            raise ConnectionError(plain(first.reason))
        if not isinstance(first, Open):
            raise Refused(Fault.OUT_OF_ORDER, "the first frame must be an Open")
        self._admit(identity, first)
        if dialled is not None and dialled.address is None:
            raise ConnectionError("nobody wants it any more")
        peer = self._peer(key)
        dialler = key if server_side else self._credentials.identity.key
        if peer.connection is not None and peer.connection.dialler < dialler and not peer.connection.ended:
            raise Barred(Parting.BESIDE, Fault.DUPLICATE, "another connection stands")
        try:
            peer.link.resume(first.received)
        except Refused as refused:
            if peer.admitted > before:  # its words were on their way while the two went on elsewhere
                raise Barred(Parting.BESIDE, Fault.DUPLICATE, "a newer connection has come first") from None
            barred = Barred(Parting.JOURNAL, refused.fault, refused.detail)
            self.refusals[key] = Bye(barred.code, plain(refused.detail))  # whoever of the two says it first
            raise barred from None
        peer.identity, peer.patience = identity, 0.0
        reader.largest = MAX_FRAME
        connection = Connection(peer, dialler, stream, reader, frames[1:])
        if peer.connection is not None:
            self._log("replaced", **facts)
            farewell = Bye(Parting.REPLACED, "a newer connection has replaced this one")
            peer.connection.end("replaced by a newer connection", farewell)
        peer.connection = connection
        self._admissions += 1
        peer.admitted = self._admissions
        return connection

    async def _converse(self, connection: Connection, facts: dict[str, str]) -> bool:
        peer = connection.peer
        try:
            with connection.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._listen, connection, facts)
                    await self._speak(connection)
                    nursery.cancel_scope.cancel()
            if connection.up:
                self._log("disconnected", reason=connection.ended, duplicates=connection.duplicates, **facts)
            elif peer.key not in self.refusals:
                self._note(peer, "unreachable", facts["address"], connection.ended)
            if connection.farewell is not None:
                await _say_goodbye(connection.stream, connection.farewell, peer.link.committed)
        finally:
            if peer.connection is connection:
                peer.connection = None
            connection.over.set()
        return connection.up and connection.farewell is None and peer.key not in self.refusals

    async def _speak(self, connection: Connection) -> None:
        """Write what there is to say, much at a time, until the connection has ended."""
        link, timing = connection.peer.link, self._timing
        acknowledged = -1  # so that an Ack comes first, be it of nothing: it says that the peer is admitted
        try:
            while not connection.ended:
                connection.wake = trio.Event()
                data = link.take(BATCH)
                if link.committed > acknowledged:
                    acknowledged = link.committed
                    data = pack(Ack(acknowledged)) + data
                if not data:
                    with trio.move_on_after(timing.ping) as quiet:
                        await connection.wake.wait()
                    if not quiet.cancelled_caught:
                        continue
                    data = _PING
                with trio.move_on_after(timing.write) as limit:
                    await connection.stream.send_all(data)
                if limit.cancelled_caught:
                    connection.end(f"a write took longer than {timing.write:g} s")
        except _LOST as error:
            connection.end(why(error))

    async def _listen(self, connection: Connection, facts: dict[str, str]) -> None:
        frames = connection.frames
        try:
            while not connection.ended:
                self._take_in(connection, frames, facts)
                if self._held > MAX_HELD:
                    await self._room.wait()
                frames = await connection.reader.read()
                if not frames:
                    connection.end("the peer hung up")
        except Refused as refused:
            self._log("refused", fault=refused.fault, reason=plain(str(refused)), **facts)
            connection.end(plain(str(refused)), _parting(refused))
        except _LOST as error:
            connection.end(why(error))

    def _take_in(self, connection: Connection, frames: list[bytes], facts: dict[str, str]) -> None:
        peer = connection.peer
        assert peer.identity is not None
        for data in frames:
            frame = decode(data)
            if isinstance(frame, Bye):
                if frame.code != Parting.BESIDE:
                    self._left(peer, facts["address"], frame)
                connection.end(plain(frame.reason) or "the peer said goodbye")
                return
            if not connection.up:
                connection.up = True
                peer.noted = None
                self.refusals.pop(peer.key, None)
                self._log("connected", name=peer.identity.name, **facts)
            if isinstance(frame, Item):
                if peer.link.accept(frame.number):
                    self._arrivals.append(Arrival(peer.key, peer.identity, frame.number, frame.clock, frame.body))
                    self._held += len(frame.body) + OVERHEAD
                    self._arrived.set()
                    continue
                connection.duplicates += 1
                if connection.duplicates == 1:  # the number of all is told when the connection ends
                    self._log("duplicate", number=frame.number, **facts)
            elif isinstance(frame, Ack):
                peer.link.acknowledged(frame.received)
                if not peer.link.unacknowledged:
                    self._all_acknowledged = True
                    self._arrived.set()
            elif isinstance(frame, Open):
                raise Refused(Fault.OUT_OF_ORDER, "an Open comes once, at the beginning")

    def _left(self, peer: Peer, where: str, bye: Bye) -> None:
        self.refusals[peer.key] = Bye(bye.code, plain(bye.reason))
        self._note(peer, "bye", where, plain(bye.reason))

    def _log_of(self, facts: dict[str, str]) -> Callable[..., None]:
        """Peers that have not shown a certificate are limited in what they may cause to be logged."""
        return self._log if "peer" in facts else self.strangers

    def _note(self, peer: Peer, event: str, where: str, reason: str) -> None:
        """Log what came of an attempt, unless the one before ended in the same way."""
        if peer.noted != (event, reason):
            peer.noted = (event, reason)
            self._log(event, peer=peer.key, address=where, reason=reason)


def _parting(refused: Refused) -> Bye:
    return Bye(refused.code if isinstance(refused, Barred) else Parting.FAULT, plain(str(refused)))


async def _say_goodbye(stream: Secured, bye: Bye, committed: int | None = None) -> None:
    """Say why, then read on until the peer hangs up: to close on unread bytes would cut off our own words."""
    if not stream.whole:
        return
    last = b"" if committed is None else pack(Ack(committed))
    with trio.move_on_after(LINGER), contextlib.suppress(*_LOST):
        await stream.send_all(last + pack(Bye(bye.code, plain(bye.reason))))
        while await stream.receive_some(CHUNK):
            pass
