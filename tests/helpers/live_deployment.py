"""A deployment of honest nodes inside one trio loop, and an intruder's tools: raw TLS, frames, a host in its hand.

Nodes are real: certificates, journals, sockets. Their log lines are kept, so that a test can wait for them.
"""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import trio
from intruding import PATIENCE, Raw

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.admission import PROGRAM
from p2p_labeldp.deployment.certificates import init_certificates
from p2p_labeldp.deployment.dividing import rows_of, study_of
from p2p_labeldp.deployment.items import Item, Mail, encode_item
from p2p_labeldp.deployment.journal import SETTLED, Entry
from p2p_labeldp.deployment.local import _free_ports
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.credentials import Credentials
from p2p_labeldp.network.frames import Frame, Open
from p2p_labeldp.network.sockets import TlsStream
from p2p_labeldp.protocol.messages import VERSION, Message
from p2p_labeldp.protocol.user import JOINING
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import Scenario, replace

SINGLES = ("coordinator", "learner", "auditor")
LOOK = 0.005


class Live:
    """``hosts`` user hosts are waited for, each with its share of the data set's rows.

    Certificates are made for one more, which an intruder may hold; its rows are those of the first.
    """

    def __init__(
        self, folder: Path, scenario: Scenario, hosts: int = 2, *, dataset: Dataset | None = None, **settings: Any
    ) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.certificates = folder / "certificates"
        init_certificates(self.certificates, hosts + 1)
        self.address = dict(zip(SINGLES, free_addresses(3), strict=True))
        places = {f"deployment__{role}": address for role, address in self.address.items()}
        self.dataset = dataset or load(scenario.data, scenario.data_seed)
        self.hosts = hosts
        self.scenario = replace(study_of(scenario, self.dataset, hosts), **places, **settings)
        self.nodes: dict[str, Node] = {}
        self.ended: dict[str, trio.Event] = {}
        self._streams: dict[str, io.StringIO] = {}
        self._nursery: trio.Nursery | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Live]:
        """Everything in here ends with the block, whatever happens."""
        try:
            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    yield self
                    nursery.cancel_scope.cancel()
        finally:
            for node in self.nodes.values():
                node.journal.close()

    async def start(self, *names: str, kind: type[Node] = Node, folder: Path | None = None, **settings: Any) -> Node:
        """Start nodes, one after the other, and wait until each listens; returns the last."""
        assert self._nursery is not None
        for name in names:
            node = self.make(name, kind, folder, **settings)
            self.ended[name] = trio.Event()
            listening = trio.Event()

            def started(address: str, name: str = name, event: trio.Event = listening) -> None:
                self.address[name] = address
                event.set()

            self._nursery.start_soon(self._run, name, node, started)
            await listening.wait()
        return node

    def make(self, name: str, kind: type[Node] = Node, folder: Path | None = None, **settings: Any) -> Node:
        """A node that is not started yet."""
        stream = self._streams[name] = io.StringIO()
        role = name.partition("-")[0]
        node = self.nodes[name] = kind(
            role,
            replace(self.scenario, **settings) if settings else self.scenario,
            certificates=folder or self.certificates / name,
            state=self.folder / "state" / name,
            place=self.folder / role if role in ("learner", "auditor") else None,
            rows=self.rows(name),
            enrolment=self.certificates / "enrolment" if self.scenario.deployment.authority else None,
            logger=Logger(name, stream),
        )
        return node

    def rows(self, name: str) -> Rows | None:
        """A node's own: a host's share, or the learner's test examples."""
        role, _, number = name.partition("-")
        if role == "learner":
            return Rows(self.dataset.test_features, self.dataset.test_labels)
        if role != "users":
            return None
        users, place = len(self.dataset.labels), (int(number) - 1) % self.hosts
        return rows_of(self.dataset, np.arange(users * place // self.hosts, users * (place + 1) // self.hosts))

    async def _run(self, name: str, node: Node, started: Any) -> None:
        await node.run(started)
        self.ended[name].set()

    def key(self, name: str) -> str:
        return Credentials.load(self.certificates / name).identity.key

    # What nodes say in their logs.

    def lines(self, node: str, event: str, **facts: Any) -> list[dict[str, Any]]:
        """The lines of a node about such an event that have these facts among theirs; of a reason, a part will do."""
        reason = facts.pop("reason", "")
        found = [json.loads(line) for line in self._streams[node].getvalue().splitlines()]
        found = [line for line in found if line["event"] == event and facts.items() <= line.items()]
        return [line for line in found if reason in line.get("reason", "")]

    async def saw(self, node: str, event: str, count: int = 1, **facts: Any) -> dict[str, Any]:
        """Wait until a node has logged this so many times; the last of them."""
        while len(found := self.lines(node, event, **facts)) < count:  # noqa: ASYNC110 - a line wakes nobody
            await trio.sleep(LOOK)
        return found[-1]

    async def finish(self, *names: str) -> dict[str, Any]:
        """Wait until these nodes have left, all that there are unless told; the summary that the learner wrote."""
        for name in names or self.nodes:
            await self.ended[name].wait()
            assert self.lines(name, "left"), f"{name} has not said goodbye"
        summary: dict[str, Any] = json.loads((self.folder / "learner" / "summary.json").read_text(encoding="utf-8"))
        return summary

    # What an intruder does.

    @asynccontextmanager
    async def dial(self, name: str, context: ssl.SSLContext | str, *first: Frame | bytes) -> AsyncIterator[Raw]:
        """A connection to a node with the certificate of that name, or with any context."""
        if isinstance(context, str):
            context = Credentials.load(self.certificates / context).client
        async with await trio.open_tcp_stream(*parse_address(self.address[name])) as stream:
            raw = Raw(TlsStream(stream, context, server_side=False))
            with suppress(trio.BrokenResourceError, ssl.SSLError):
                await raw.stream.handshake()
                if first:
                    await raw.say(*first)
            yield raw

    def opening(self, run: str = "", received: int = 0) -> Open:
        """What an honest node of this scenario says first."""
        digest = ",".join(f"{name}={value}" for name, value in self.scenario.shared_digests().items())
        return Open(VERSION, digest, run, received, PROGRAM)


class Held(Node):
    """A user host that does as it should, but stops twice for as long as the test likes.

    First when its users are assigned, so that the exchange cannot end; then before it says that it is done.
    In between its certificate, and its streams to everyone, are the intruder's to use.
    """

    def __init__(self, *facts: Any, **settings: Any) -> None:
        super().__init__(*facts, **settings)
        self.assigned, self.exchange = trio.Event(), trio.Event()
        self.settled, self.leave = trio.Event(), trio.Event()

    async def _take(self, arrivals: list[Any]) -> None:
        await super()._take(arrivals)
        if any(user.state != JOINING for user in self._part.users) and not self.assigned.is_set():
            self.assigned.set()
            await self.exchange.wait()

    async def _do(self, entries: list[Entry]) -> None:
        if entries[0].kind == SETTLED:
            self.settled.set()
            await self.leave.wait()
        await super()._do(entries)

    async def inject(self, key: str, *said: Item | bytes, clock: int | None = None) -> None:
        """Put items of the intruder's own into the stream to a peer, and wait until they are in its journal."""
        for item in said:
            body = item if isinstance(item, bytes) else encode_item(item)
            self._transport.post(key, self._part.clock if clock is None else clock, body)
        while self._transport.unacknowledged(key):  # noqa: ASYNC110 - acknowledgements wake nobody
            await trio.sleep(LOOK)

    @property
    def share(self) -> range:
        assert self._part.shares is not None
        holder = self._part.shares.by_key[self._part.key]
        return range(holder.first, holder.last)


def mail(*messages: tuple[int, int, Message]) -> Mail:
    """(sender, receiver, message) each."""
    return Mail([Envelope(*each) for each in messages])


def free_addresses(count: int) -> list[str]:
    """Addresses of loopback that nobody has now, and no outgoing connection is given."""
    return [f"127.0.0.1:{port}" for port in _free_ports(count)]
