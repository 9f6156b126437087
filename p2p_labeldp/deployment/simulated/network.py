"""Connections between machines: ordered streams of bytes over paths that are slow, cut, or lie about who is there.

As with TCP, what is sent on one connection arrives in order or not at all, and nothing orders two connections. While a
path is cut bytes wait, as the sender's kernel would repeat them, and come when it is whole again. A machine that
loses its power says nothing to anyone; one that is there answers a stranger's bytes with a reset. Who does not read
holds up who writes.

Everything that happens later stands in one heap, ordered by (time, number): there is one task for the whole network.
"""

from __future__ import annotations

import heapq
import random
from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

import trio

from p2p_labeldp.deployment.simulated.history import History
from p2p_labeldp.network.addresses import Address

WINDOW = 1 << 16  # bytes on their way or not yet read, after which a writer waits; the smallest of real kernels
RETRY = 0.4  # seconds until bytes that were lost on a cut path are sent again


class Place(Protocol):
    """A machine, as far as connections know it."""

    name: str
    powered: bool


class Program(Protocol):
    """What runs on it: whatever it does here is a step of it, and waits while it is frozen."""

    @property
    def machine(self) -> Place: ...

    ends: dict[End, None]

    async def step(self, what: str) -> None: ...

    async def awake(self) -> None: ...


@dataclass(eq=False)
class Cut:
    """No byte passes from any of ``sources`` to any of ``targets``."""

    sources: frozenset[str]
    targets: frozenset[str]


@dataclass
class Weather:
    """How paths are: seconds that bytes take, up to so many more, and how finely they are cut up."""

    latency: float = 0.001
    jitter: float = 0.0
    pieces: float = 0.0
    """Chance that what is written arrives in more than one piece."""
    detours: float = 0.0
    """Chance that a connection takes a longer way,"""
    detour: float = 10.0
    """which is so many times as long."""


class Network:
    def __init__(self, history: History, chance: random.Random, weather: Weather) -> None:
        self.history = history
        self.weather = weather
        self.wrote: Callable[[End, bytes], None] = lambda end, data: None
        """Told what programs say on connections, as it is written."""
        self.machines: dict[str, Place] = {}
        """By address."""
        self.listeners: dict[Address, Listener] = {}
        self.cuts: list[Cut] = []
        self.slowed: dict[tuple[str, str], float] = {}
        """Bytes a second from one machine to another, where that is few."""
        self.connections: list[Connection] = []
        self.chance = chance
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._changed = trio.Event()

    async def pump(self) -> None:
        """Make happen what is due."""
        while True:
            while self._heap and self._heap[0][0] <= trio.current_time():
                heapq.heappop(self._heap)[2]()
            self._changed = trio.Event()
            due = self._heap[0][0] if self._heap else float("inf")
            with trio.move_on_at(due):
                await self._changed.wait()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(trio.current_time() + seconds, action)

    def at(self, due: float, action: Callable[[], None]) -> None:
        """What is due at one moment happens in the order in which it was put here."""
        self._count += 1
        if not self._heap or due < self._heap[0][0]:
            self._changed.set()
        heapq.heappush(self._heap, (due, self._count, action))

    def passes(self, source: str, target: str) -> bool:
        return not any(source in cut.sources and target in cut.targets for cut in self.cuts)

    def delay(self) -> float:
        return self.weather.latency + self.weather.jitter * self.chance.random()

    def pieces(self, data: bytes) -> list[bytes]:
        if len(data) < 2 or self.chance.random() >= self.weather.pieces:
            return [data]
        place = self.chance.randrange(1, len(data))
        return [data[:place], *self.pieces(data[place:])]

    def mended(self) -> None:
        """Some path is whole again: what waited goes out, when the kernels have noticed."""
        for connection in self.connections:
            for end in (connection.client, connection.server):
                if end.waiting:
                    self.later(RETRY * self.chance.random(), end.mended)

    async def connect(self, process: Program, host: str, port: int) -> End:
        """As a kernel does: the other's kernel answers, whether or not its program is awake."""
        source = process.machine
        while True:
            target = self.machines.get(host)
            if target is None:
                await trio.lowlevel.checkpoint()
                raise OSError(113, "No route to host")
            there = self.passes(source.name, target.name) and self.passes(target.name, source.name)
            await trio.sleep(self.delay() + self.delay())
            if there and target.powered:
                break
            await trio.sleep(1.0)  # nobody answers; another try
        listener = self.listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(111, "Connection refused")
        connection = Connection(self, source, target, port)
        connection.client.process, connection.server.process = process, listener.process
        process.ends[connection.client] = None
        listener.process.ends[connection.server] = None
        self.connections.append(connection)
        self.history.note(source.name, "connects", to=target.name, port=port, number=connection.number)
        listener.offer(connection.server)
        return connection.client


class Connection:
    """Two ends, and what they know of each other once they have shaken hands."""

    def __init__(self, network: Network, source: Place, target: Place, port: int) -> None:
        self.network = network
        self.port = port
        self.number = len(network.connections)
        self.client, self.server = End(self, source), End(self, target)
        self.client.other, self.server.other = self.server, self.client
        self.contexts: dict[bool, Any] = {}  # by whether the server's
        self.slower = network.weather.detour if network.chance.random() < network.weather.detours else 1.0
        """How many times longer than usual its way is: another connection overtakes it."""


class End(trio.abc.Stream):
    """One machine's end of a connection: what has come, and what is on its way from here."""

    other: End

    def __init__(self, connection: Connection, machine: Place) -> None:
        self.connection, self.machine = connection, machine
        self.process: Program | None = None
        self.gone = False  # its program has no more to do with it
        self.broken = False
        self._held_until = 0.0  # before then nothing that left here arrives: it waits in some queue on the way
        self._held: list[tuple[int, bytes | None]] = []
        self._network = connection.network
        self._busy = 0.0  # until when the last piece leaves, on a slow path
        self._due = 0.0  # when it arrives, so that none overtakes it
        self._sent = 0  # pieces
        # Lost on a cut path, to be sent again: (number, piece), in the order of numbers; a piece of None is the end.
        self.waiting: list[tuple[int, bytes | None]] = []
        self._load = 0  # bytes sent from here that nobody has read
        self._room = trio.Event()
        self._buffer = bytearray()
        self._ended = False
        self._arrived = trio.Event()

    # What a program does.

    async def send_all(self, data: bytes | bytearray | memoryview, spoken: bool = False) -> None:
        """``spoken`` is what programs say to each other, behind the handshake."""
        data = bytes(data)
        assert self.process is not None
        await self.process.step("send")
        self._require()
        while self._load > WINDOW:
            self._room = trio.Event()
            await self._room.wait()
            await self.process.awake()
            self._require()
        self._load += len(data)
        for piece in self._network.pieces(data):
            self._send(piece)
        if spoken:
            self._network.wrote(self, data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        assert self.process is not None
        await self.process.awake()
        while not self._buffer:
            if self.gone:
                raise trio.ClosedResourceError
            if self.broken:
                raise trio.BrokenResourceError from ConnectionResetError(104, "Connection reset by peer")
            if self._ended:
                return b""
            self._arrived = trio.Event()
            await self._arrived.wait()
            await self.process.step("receive")
        data = bytes(self._buffer[:max_bytes])
        del self._buffer[:max_bytes]
        self.other.was_read(len(data))
        return data

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if not self.gone:
            self.gone = True
            if self.process is not None:
                self.process.ends.pop(self, None)
            self._send(None)
            self._wake()

    # What kernels and cables do.

    def vanish(self) -> None:
        """Without a word: the power failed."""
        self.gone = True
        self.waiting.clear()

    def reset(self) -> None:
        """The other's kernel, or someone between, says that there is no such connection."""
        if not self.gone:
            self.broken = True
            self._wake()

    def was_read(self, count: int) -> None:
        self._load -= count
        if self._load <= WINDOW:
            self._room.set()

    def hold(self, until: float) -> None:
        """Nothing that is on its way from here arrives before then."""
        self._held_until = until
        if until < float("inf"):
            self._network.later(until - trio.current_time(), self.let_go)

    def let_go(self) -> None:
        self._held_until = 0.0
        held, self._held = self._held, []
        for number, piece in held:
            self._arrive(number, piece)

    def mended(self) -> None:
        """The path from here is whole again."""
        if self.waiting and self._network.passes(self.machine.name, self.other.machine.name):
            waiting, self.waiting = self.waiting, []
            for number, piece in waiting:
                self._send_again(number, piece)

    def _require(self) -> None:
        if self.gone:
            raise trio.ClosedResourceError
        if self.broken:
            raise trio.BrokenResourceError from ConnectionResetError(104, "Connection reset by peer")

    def _wake(self) -> None:
        self._arrived.set()
        self._room.set()

    def _send(self, piece: bytes | None) -> None:
        self._sent += 1
        self._send_again(self._sent, piece)

    def _wait(self, number: int, piece: bytes | None) -> None:
        """What was sent before the cut and is lost in it comes before what was sent later."""
        insort(self.waiting, (number, piece), key=itemgetter(0))

    def _send_again(self, number: int, piece: bytes | None) -> None:
        network, names = self._network, (self.machine.name, self.other.machine.name)
        if self.waiting or not network.passes(*names):
            self._wait(number, piece)
            return
        now = trio.current_time()
        rate = network.slowed.get(names)
        self._busy = max(self._busy, now) + (len(piece or b"") / rate if rate else 0.0)
        self._due = max(self._due, self._busy + self.connection.slower * network.delay())
        network.at(self._due, lambda: self._arrive(number, piece))

    def _arrive(self, number: int, piece: bytes | None) -> None:
        other, network = self.other, self._network
        if trio.current_time() < self._held_until:
            self._held.append((number, piece))
            return
        if self.waiting or not network.passes(self.machine.name, other.machine.name):
            self._wait(number, piece)  # cut while it was on its way
            return
        if other.gone:
            if other.machine.powered and not self.gone:
                network.later(network.delay(), self.reset)
            return
        if piece is None:
            other._ended = True
        else:
            other._buffer += piece
        other._arrived.set()


class Listener(trio.abc.Listener[End]):
    def __init__(self, network: Network, process: Program, address: Address) -> None:
        self.process, self.address = process, address
        self._network = network
        self._offered: deque[End] = deque()
        self._came = trio.Event()

    def offer(self, end: End) -> None:
        self._offered.append(end)
        self._came.set()

    async def accept(self) -> End:
        await self.process.awake()
        while not self._offered:
            self._came = trio.Event()
            await self._came.wait()
            await self.process.step("accept")
        return self._offered.popleft()

    async def aclose(self) -> None:
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]
        await trio.lowlevel.checkpoint()
