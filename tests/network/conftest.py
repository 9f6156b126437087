"""What tests of real connections share: certificates, and nodes that write down what happens to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from p2p_labeldp.deployment.certificates import init_certificates
from p2p_labeldp.network.connections import Arrival, Timing
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.frames import Open
from p2p_labeldp.network.tls import Address, Transport
from p2p_labeldp.protocol.messages import Refused

# Patient where patience costs nothing, so that a busy machine changes no outcome; quick to dial again.
QUICK = Timing(handshake=20, ping=0.5, silence=20, frame=20, write=20, pause=0.002, longest_pause=0.02)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates") / "made"
    init_certificates(folder, hosts=3)
    return folder


@pytest.fixture(scope="session")
def credentials(certificates: Path) -> Callable[[str], Credentials]:
    return lambda name: Credentials.load(certificates / name)


class Node:
    """A transport, its log, and what it has received."""

    def __init__(self, nursery: trio.Nursery, credentials: Credentials, timing: Timing, opening: tuple[int, str, str]):
        self.key = credentials.identity.key
        self.opening = opening
        self.rule: Callable[[Identity, Open], None] = self.same_opening
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.transport = Transport(credentials, self.greet, lambda *who: self.rule(*who), self.log, timing)
        self.address = ""
        self._logged = trio.Event()
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._stopped = trio.Event()

    def greet(self, identity: Identity) -> tuple[int, str, str]:
        return self.opening

    def same_opening(self, identity: Identity, opened: Open) -> None:
        theirs = (opened.version, opened.digest, opened.run)
        if theirs != self.opening:
            raise Refused("misdirected", f"{self.opening} is spoken here and not {theirs}")

    def log(self, event: str, **facts: Any) -> None:
        assert all(isinstance(fact, str | int | float) for fact in facts.values())
        self.events.append((event, facts))
        self._logged.set()
        self._logged = trio.Event()

    def logged(self, event: str, **facts: Any) -> list[dict[str, Any]]:
        """The facts of all events of that name that have these among them."""
        return [found for name, found in self.events if name == event and facts.items() <= found.items()]

    async def saw(self, event: str, count: int = 1, **facts: Any) -> dict[str, Any]:
        """Wait until such an event has been logged so many times; the last one's facts."""
        with trio.fail_after(30):
            while len(found := self.logged(event, **facts)) < count:
                await self._logged.wait()
        return found[-1]

    async def start(self, listen: str | None = "127.0.0.1:0") -> Node:
        address: Address | None = await self._nursery.start(self._run, listen)
        self.address = "{}:{}".format(*address) if address else ""
        return self

    async def _run(self, listen: str | None, task_status: Any) -> None:
        with self._scope:
            await self.transport.run(listen, task_status=task_status)
        self._stopped.set()

    async def stop(self) -> None:
        """As a kill would: no goodbyes."""
        self._scope.cancel()
        await self._stopped.wait()

    async def receive_any(self) -> list[Arrival]:
        """What there is, and acknowledge it."""
        arrivals = await self.transport.receive()
        for key in {arrival.key for arrival in arrivals}:
            self.transport.acknowledge(key)
        return arrivals

    async def receive(self, count: int, commit: bool = True) -> list[Arrival]:
        """Exactly so many items, whoever sent them, and acknowledge them."""
        arrivals: list[Arrival] = []
        with trio.fail_after(60):
            while len(arrivals) < count:
                arrivals += await (self.receive_any() if commit else self.transport.receive())
        assert len(arrivals) == count
        return arrivals

    async def acknowledged(self, key: str) -> None:
        """Wait until nothing posted to that peer is still waiting."""
        with trio.fail_after(30):
            while self.transport.unacknowledged(key):  # noqa: ASYNC110 - acknowledgements wake nobody
                await trio.sleep(0.001)


@pytest.fixture
def new_node(nursery: trio.Nursery, credentials: Callable[[str], Credentials]) -> Callable[..., Node]:
    """Makes nodes that end with the test."""

    def make(
        name: str, timing: Timing = QUICK, opening: tuple[int, str, str] = (1, "digest", "run"), **own: Credentials
    ) -> Node:
        return Node(nursery, own.get("credentials") or credentials(name), timing, opening)

    return make
