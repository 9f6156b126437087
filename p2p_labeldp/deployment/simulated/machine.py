"""A machine of the simulated world: its clock, its disk, and the program that lives and dies on it.

A process is killed between two steps of its tasks, or in the middle of a step where it reaches for the disk: from then
on nothing it does has any effect, whatever its tasks do while trio takes them down. One that is frozen neither sends,
receives nor writes until it is thawed; its limits have run on when it is.
"""

from __future__ import annotations

import hashlib
import random
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import trio

from p2p_labeldp.deployment.simulated.disk import Disk, MountedDisk
from p2p_labeldp.deployment.simulated.history import History
from p2p_labeldp.deployment.simulated.meeting import SecureEnd
from p2p_labeldp.deployment.simulated.network import End, Listener, Network
from p2p_labeldp.deployment.simulated.papers import credentials
from p2p_labeldp.deployment.world import World
from p2p_labeldp.errors import leaves
from p2p_labeldp.network.addresses import Address
from p2p_labeldp.network.sockets import Secured

Result = TypeVar("Result")
EPOCH = 1_780_000_000.0  # what clocks on the wall show when a simulation begins: in May 2026


class Killed(BaseException):
    """Unwinds a step of a process that was killed in it."""


@dataclass
class Fleet:
    """All machines, and what they share."""

    network: Network
    history: History
    by_name: dict[str, Machine]


class Machine:
    def __init__(self, fleet: Fleet, name: str, address: str, disk: Disk, seed: str) -> None:
        self.fleet, self.name, self.address, self.disk = fleet, name, address, disk
        self.offset = 0.0
        """Seconds by which its clock is ahead of the others."""
        self.powered = True
        self.process: Process | None = None
        self.incarnations = 0
        self._seed = seed
        fleet.by_name[name] = fleet.network.machines[address] = self

    def time(self) -> float:
        return EPOCH + trio.current_time() + self.offset

    def boot(self) -> Process:
        self.powered = True
        self.incarnations += 1
        self.process = Process(self, f"{self._seed}/{self.name}/{self.incarnations}")
        return self.process

    def lose_power(self) -> list[str]:
        """The process ends, what was not synced is gone, and nobody hears of it."""
        self.powered = False
        if self.process is not None:
            self.process.kill(silently=True)
        return self.disk.lose_power()


class Process:
    """One life of a program. ``strikes`` are asked at every step whether it ends here."""

    def __init__(self, machine: Machine, seed: str) -> None:
        self.machine = machine
        self.alive = True
        self.killed = False
        """Whether it was, and did not end by itself."""
        self.ends: dict[End, None] = {}
        self.delay = 0.0
        """Seconds that the disk takes for what the present step does."""
        self.scope = trio.CancelScope()
        self.on_step: Callable[[Process, str], None] = lambda process, what: None
        self._thawed: trio.Event | None = None
        self._afterwards: list[Callable[[], None]] = []
        self._working = False
        self._bytes = _stream(seed)
        self._chance = random.Random(f"{seed}/chance")
        self.world = World(
            sockets=ProcessSockets(self),
            disk=MountedDisk(machine.disk, self),
            time=machine.time,
            entropy=self._entropy,
            chance=self._chance.random,
            hostname=lambda: machine.address,
            work=self.work,
            credentials=credentials,
        )

    async def run(self, program: Callable[[], Awaitable[None]]) -> None:
        """Returns when the program has ended or was killed; its errors are its own."""
        try:
            with self.scope:
                await program()
        except BaseException as error:
            expected = (Killed, trio.Cancelled, Exception)
            if self.alive or not all(isinstance(each, expected) for each in leaves(error)):
                raise
        finally:
            if self.alive:
                self.kill()
                self.killed = False

    # What disasters do.

    def kill(self, silently: bool = False) -> None:
        self.alive, self.killed = False, True
        network = self.machine.fleet.network
        for address in [key for key, listener in network.listeners.items() if listener.process is self]:
            del network.listeners[address]
        for end in list(self.ends):
            if silently:
                end.vanish()
            else:
                end.close()
        self._afterwards.clear()
        self.thaw()
        self.scope.cancel()

    def freeze(self) -> None:
        if self._thawed is None:
            self._thawed = trio.Event()

    def thaw(self) -> None:
        if self._thawed is not None:
            self._thawed.set()
            self._thawed = None

    # What a program does passes here.

    async def step(self, what: str) -> None:
        """Before anything that others could notice."""
        self.on_step(self, what)
        await self.awake()

    async def awake(self) -> None:
        await trio.lowlevel.checkpoint()
        while self._thawed is not None:
            await self._thawed.wait()
        if not self.alive:
            await trio.sleep_forever()  # until it is cancelled, which it is

    def strike(self, what: str) -> None:
        """The same in the middle of a step: what it has synced before is done."""
        self._finish()
        self.on_step(self, what)
        if not self.alive:
            raise Killed

    def after_work(self, seconds: float, action: Callable[[], None]) -> None:
        """When the step goes on, and where this is its end, so many seconds later; at once where there is none."""
        if self._working:
            self.delay += seconds
            self._afterwards.append(action)
        else:
            action()

    async def work(self, function: Callable[..., Result], *arguments: object) -> Result:
        """A step, in no thread: its time is that of the disk."""
        await self.awake()
        self._working, self.delay = True, 0.0
        try:
            result = function(*arguments)
        finally:
            self._working = False
        if self.delay:
            await trio.sleep(self.delay)
            await self.awake()
        self._finish()
        return result

    def _finish(self) -> None:
        afterwards, self._afterwards = self._afterwards, []
        for action in afterwards:
            action()

    def _entropy(self, size: int) -> bytes:
        return b"".join(next(self._bytes) for _ in range(-(-size // 32)))[:size]


def _stream(seed: str) -> Any:
    number = 0
    while True:
        yield hashlib.sha256(f"{seed}/{number}".encode()).digest()
        number += 1


class ProcessSockets:
    """The network as one program reaches it (``network.sockets.Sockets``)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def listen(self, host: str, port: int) -> list[trio.abc.Listener[Any]]:
        await self._process.step("listen")
        network = self._process.machine.fleet.network
        address = (host, port)
        if host != self._process.machine.address or address in network.listeners:
            raise OSError(98, "Address already in use")
        network.listeners[address] = Listener(network, self._process, address)
        return [network.listeners[address]]

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await self._process.step("connect")
        end = await self._process.machine.fleet.network.connect(self._process, host, port)
        await self._process.awake()
        return end

    def place_of(self, listener: Listener) -> Address:
        return listener.address

    def origin_of(self, stream: End) -> Address:
        other = stream.other.machine
        assert isinstance(other, Machine)
        return other.address, 40_000 + stream.connection.number

    def secure(self, stream: End, context: ssl.SSLContext, server_side: bool) -> Secured:
        return SecureEnd(stream, context, server_side)
