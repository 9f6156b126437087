"""How each kind of disaster comes about, and when: one function each, told of a scene and of what is to happen.

What fired is counted with the state that the victim's role was in, so that gaps show. While it lasts, a disaster
stands in ``Scene.troubles`` with all whom it keeps from being reached.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import trio

from p2p_labeldp.deployment.coordinating import CoordinatorPart
from p2p_labeldp.deployment.items import Over, encode_item, encode_mail
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.deployment.simulated.machine import Fleet, Machine, Process
from p2p_labeldp.deployment.simulated.network import Cut
from p2p_labeldp.deployment.simulated.plan import OPENED, Disaster, Plan
from p2p_labeldp.deployment.simulated.strangers import visit
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.protocol.messages import COORDINATOR, VERSION, Features, Goodbye, Hello
from p2p_labeldp.protocol.relay import Relay, Stage
from p2p_labeldp.protocol.wire import Envelope

FLOOD_FEATURES, FLOOD_ITEMS = 20_000, 40  # 80 kB each, 3 MB for each of three nodes
STRANGERS = 12  # that come at once


@dataclass
class Trouble:
    """Between ``start`` and ``end`` these could not do their work; with ``others``, not between each other."""

    machine: str
    others: tuple[str, ...]
    start: float
    end: float


@dataclass
class Scene:
    plan: Plan
    fleet: Fleet
    nodes: dict[str, Node] = field(default_factory=dict)
    """The living."""
    fired: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(kind, role, its state) to how often."""
    troubles: list[Trouble] = field(default_factory=list)
    down_until: dict[str, float] = field(default_factory=dict)
    """When a machine that is down comes up again; infinite for those that do not."""
    wiped: set[str] = field(default_factory=set)
    """Machines that have lost their disk."""
    liars: set[str] = field(default_factory=set)
    """Machines whose programs say what the shipped ones would not."""
    false_ackers: set[str] = field(default_factory=set)
    """Machines whose programs acknowledge what they were never sent, and say nothing else amiss."""
    on_wipe: Callable[[str], None] = lambda name: None
    heard: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(machine, event) to how often; a step is an event without a name."""
    _entered: set[tuple[str, int, tuple[int, int, int], Stage]] = field(default_factory=set)
    """(machine, relay, attempt, stage) of the mixed exchange, as far as relays have come."""
    _moments: dict[tuple[str, str, int], list[Callable[[], None]]] = field(default_factory=dict)
    """(machine, event, its number) to what happens in that very step."""
    _nursery: trio.Nursery = field(init=False)

    @property
    def traitors(self) -> set[str]:
        return self.liars | self.false_ackers

    def stepped(self, process: Process, what: str) -> None:
        """A process is about to do something that others could notice."""
        name = process.machine.name
        self.said(name, "")
        if what == "sync":
            self.said(name, "syncs")
        if self.plan.relayed:
            self._look_at_relays(name)

    def _look_at_relays(self, name: str) -> None:
        """A relay's new stage is a moment: the first step after it, when nobody else has heard of it."""
        for relay in self._relays_of(name):
            entered = (name, relay.me, relay.session.name, relay.stage)
            if entered not in self._entered:
                self._entered.add(entered)
                self.said(name, relay.stage.name.lower())

    def _relays_of(self, name: str) -> list[Relay]:
        node = self.nodes.get(name)
        if node is None or not isinstance(node._part, UsersPart) or node._part.over:
            return []
        return [relay for user in node._part.users if (relay := getattr(user, "relay", None)) is not None]

    def said(self, name: str, event: str) -> None:
        self.heard[name, event] += 1
        for happen in self._moments.pop((name, event, self.heard[name, event]), ()):
            happen()

    def _at(self, disaster: Disaster, happen: Callable[[], None]) -> None:
        self._moments.setdefault((disaster.machine, disaster.event, disaster.count), []).append(happen)

    def prepare(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        for disaster in self.plan.disasters:
            if disaster.kind == "late":
                self.down_until[disaster.machine] = disaster.seconds
                self.strike(disaster, disaster.seconds)
            elif disaster.count and disaster.kind in SUDDEN and not disaster.after:
                # In the very step, and not when another task has its turn.
                self._at(disaster, partial(SUDDEN[disaster.kind], self, disaster))
            else:
                nursery.start_soon(self._await, disaster)

    async def _await(self, disaster: Disaster) -> None:
        if disaster.count:
            moment = trio.Event()
            self._at(disaster, moment.set)
            await moment.wait()
        else:
            await trio.sleep_until(disaster.at)
        await trio.sleep(disaster.after)
        if disaster.kind in SUDDEN:
            SUDDEN[disaster.kind](self, disaster)
        else:
            await LASTING[disaster.kind](self, disaster)

    def machine(self, disaster: Disaster) -> Machine:
        return self.fleet.by_name[disaster.machine]

    def strike(self, disaster: Disaster, trouble: float = 0.0) -> None:
        """It happens now, and is trouble for so many seconds."""
        role = disaster.machine.partition("-")[0]
        state = self.state_of(disaster.machine)
        self.fired[disaster.kind, role, state] += 1
        self.fleet.history.note(disaster.machine, "DISASTER", what=str(disaster), state=state)
        now = trio.current_time()
        self.troubles.append(Trouble(disaster.machine, disaster.others, now, now + trouble))

    def state_of(self, name: str) -> str:
        process = self.fleet.by_name[name].process
        if process is None or not process.alive or name not in self.nodes:
            return "down"
        part = self.nodes[name]._part
        if isinstance(part, CoordinatorPart):
            return _coordinating(part)
        if isinstance(part, UsersPart) and not part.over:
            stages = [relay.stage for relay in self._relays_of(name)]
            if stages:  # of several the one that has come furthest, of those that are not done
                furthest = max((stage for stage in stages if stage < Stage.DEALT), default=min(stages))
                return f"{part.waits_for}, a relay that is {furthest.name.lower()}"
        return "over" if part.over else part.waits_for

    def visited(self, name: str, number: int) -> None:
        """By a stranger."""
        self._nursery.start_soon(visit, self.fleet, name, number)

    def opened(self, name: str, peer: str) -> None:
        """A machine introduces itself to another on a new connection: what was held on an old one arrives now."""
        for connection in self.fleet.network.connections:
            for end in (connection.client, connection.server):
                if (end.machine.name, end.other.machine.name) == (peer, name):
                    end.let_go()


def _coordinating(part: CoordinatorPart) -> str:
    if part.phase != "running" or part.role is None:
        return str(part.phase)
    assemblies = getattr(part.role, "_assemblies", {}).values()
    stages = sorted({str(assembly.stage) for assembly in assemblies}) if part.role.phase == "exchange" else []
    return f"running: {part.role.phase}{', ' if stages else ''}{' and '.join(stages)}"


# Sudden ones.


def kill(scene: Scene, disaster: Disaster) -> None:
    machine = _down(scene, disaster)
    if machine.process is not None and machine.process.alive:
        machine.process.kill()


def power(scene: Scene, disaster: Disaster) -> None:
    machine = _down(scene, disaster)
    said = machine.lose_power()
    scene.fleet.history.note(machine.name, "lost", files=",".join(said))


def wipe(scene: Scene, disaster: Disaster) -> None:
    kill(scene, disaster)
    scene.wiped.add(disaster.machine)
    scene.machine(disaster).disk.erase()
    scene.on_wipe(disaster.machine)


def clock_jump(scene: Scene, disaster: Disaster) -> None:
    scene.strike(disaster)
    scene.machine(disaster).offset += disaster.amount


def sever(scene: Scene, disaster: Disaster) -> None:
    """Both ends are told in a reset. Where a connection is left half open one is, and what was on its way to the other
    arrives later than usual."""
    scene.strike(disaster, 3.0)
    for connection in scene.fleet.network.connections:
        ends = (connection.client, connection.server)
        for mine, its in (ends, ends[::-1]):
            if mine.machine.name == disaster.machine and its.machine.name in disaster.others:
                mine.reset()
                mine.hold(math.inf if disaster.amount == OPENED else trio.current_time() + disaster.amount)
                if disaster.kind == "reset":
                    its.reset()


def _down(scene: Scene, disaster: Disaster) -> Machine:
    """A machine that comes up again when the disaster is over, though not with what it has lost."""
    scene.strike(disaster, math.inf if disaster.kind == "wipe" else disaster.seconds)
    until = trio.current_time() + disaster.seconds
    scene.down_until[disaster.machine] = max(scene.down_until.get(disaster.machine, 0.0), until)
    return scene.machine(disaster)


def _betray(scene: Scene, disaster: Disaster) -> Node | None:
    """From now on this machine's program is not the shipped one; None where none is running."""
    node = scene.nodes.get(disaster.machine)
    if node is None or not isinstance(node._part, UsersPart):
        return None
    scene.strike(disaster, math.inf)
    (scene.false_ackers if disaster.kind == "false_acks" else scene.liars).add(disaster.machine)
    return node


def flood(scene: Scene, disaster: Disaster) -> None:
    """A user host says to everyone what it said before, at length and again and again."""
    node = _betray(scene, disaster)
    if node is None:
        return
    part, transport = node._part, node._transport
    mine = None if part.shares is None else part.shares.by_key.get(part.key)
    features = Features(np.zeros(FLOOD_FEATURES, dtype=np.float32))
    user = 0 if mine is None else mine.first
    (hello,) = encode_mail([Envelope(user, COORDINATOR, Hello(VERSION, features))])
    for key in ("coordinator", "learner", "auditor"):
        for _ in range(FLOOD_ITEMS):
            transport.post(key, part.clock, hello)


def garbage(scene: Scene, disaster: Disaster) -> None:
    """A user host says what nobody can read, or what is not its to say, to everyone that it knows."""
    node = _betray(scene, disaster)
    if node is None:
        return
    chance = random.Random(f"garbage/{disaster}")
    (stolen,) = encode_mail([Envelope(COORDINATOR, 0, Goodbye(True))])
    said = [bytes(20), chance.randbytes(300), b"\x91" * 2000, stolen, stolen[:-1], encode_item(Over())]
    for key in list(node._transport._peers):
        for _ in range(30):
            node._transport.post(key, chance.choice((0, node._part.clock, 1 << 60)), chance.choice(said))


def false_acks(scene: Scene, disaster: Disaster) -> None:
    """A user host says that it has what nobody has sent it."""
    node = _betray(scene, disaster)
    if node is None:
        return
    for peer in node._transport._peers.values():
        peer.link.taken += 1000
        peer.link.committed = peer.link.taken
        if peer.connection is not None:
            peer.connection.wake.set()


def stranger(scene: Scene, disaster: Disaster) -> None:
    """Somebody without a certificate dials a node, again and again, and says nothing, or nonsense."""
    scene.strike(disaster)
    for number in range(STRANGERS):
        scene.visited(disaster.machine, number)


# Those that last.


async def freeze(scene: Scene, disaster: Disaster) -> None:
    process = scene.machine(disaster).process
    if process is None or not process.alive:
        return
    scene.strike(disaster, disaster.seconds)
    process.freeze()
    await trio.sleep(disaster.seconds)
    process.thaw()


async def cut(scene: Scene, disaster: Disaster) -> None:
    network = scene.fleet.network
    scene.strike(disaster, disaster.seconds + 1.0)
    mine, others = frozenset((disaster.machine,)), frozenset(disaster.others)
    cuts = [Cut(mine, others)] if disaster.amount != 2 else []
    cuts += [Cut(others, mine)] if disaster.amount != 1 else []
    network.cuts += cuts
    await trio.sleep(disaster.seconds)
    for each in cuts:
        network.cuts.remove(each)
    network.mended()


async def slow_path(scene: Scene, disaster: Disaster) -> None:
    slowed = scene.fleet.network.slowed
    scene.strike(disaster, disaster.seconds)
    pairs = [pair for other in disaster.others for pair in ((disaster.machine, other), (other, disaster.machine))]
    for pair in pairs:
        slowed[pair] = disaster.amount
    await trio.sleep(disaster.seconds)
    for pair in pairs:
        slowed.pop(pair, None)


async def slow_disk(scene: Scene, disaster: Disaster) -> None:
    disk = scene.machine(disaster).disk
    scene.strike(disaster, disaster.seconds + disaster.amount)
    disk.delays.append(disaster.amount)
    await trio.sleep(disaster.seconds)
    disk.delays.remove(disaster.amount)


async def full_disk(scene: Scene, disaster: Disaster) -> None:
    disk = scene.machine(disaster).disk
    scene.strike(disaster, disaster.seconds + 5.0)
    disk.room = int(disaster.amount)
    await trio.sleep(disaster.seconds)
    disk.room = None


async def failing_disk(scene: Scene, disaster: Disaster) -> None:
    disk = scene.machine(disaster).disk
    scene.strike(disaster, disaster.seconds + 5.0)
    disk.failing = True
    await trio.sleep(disaster.seconds)
    disk.failing = False


SUDDEN: dict[str, Callable[[Scene, Disaster], None]] = {
    "kill": kill, "power": power, "wipe": wipe, "gone": power, "reset": sever, "half_open": sever,
    "clock_jump": clock_jump, "flood": flood, "garbage": garbage, "false_acks": false_acks, "stranger": stranger,
}  # fmt: skip
LASTING: dict[str, Callable[[Scene, Disaster], Awaitable[None]]] = {
    "freeze": freeze, "cut": cut, "slow_path": slow_path, "slow_disk": slow_disk, "full_disk": full_disk,
    "failing_disk": failing_disk,
}  # fmt: skip
