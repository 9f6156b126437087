"""The same exchange in what people would pick instead: SimPy, Mesa, gossipy, asyncio queues, stock trio channels.

    python benchmarks/peers.py                    10,000 users, about a minute
    python benchmarks/peers.py --users 100000
    python benchmarks/peers.py --accounts         epsilons beside other accountants', seconds

Every contestant runs the very same users, coordinator, host and learner (``p2p_labeldp.protocol``), which know nothing
of how messages travel, and delivers what they send its own way: as many messages, and the same noisy data set, which
is asserted. So the figures are what delivery costs, with the roles' own work, which the bare loop shows, in each of
them. None of the others writes a trace; ours writes every message to disk. Mesa has no messages: agents find what they
were sent in a list at their next step.

gossipy (on PyPI gossipy-dfl, 0.0.1) is made for models that nodes train and send to each other, but its simulator
delivers any payload. In each time step it asks every node for at most one message: with the coordinator as one node the
n assignments take n steps of n nodes each (4.6, 10.9 and 32 s of CPU at 1,000, 2,000 and 4,000 users), so the
coordinator is listed once more for each user, and all of them leave within one step. Its modules import torchvision,
which they use for pictures alone; an empty module takes its place.

CPU time of a process for each, best of several taken in turn; ratios are to the bare loop. What is not installed is
left out, with a line that says so: ``pip install simpy mesa torch gossipy-dfl``.

``--accounts`` asks others for an epsilon wherever they answer the same question. dp-accounting knows randomized
response and its composition, which is a cluster of one user who flips anew in every round. The clones of Feldman,
McMillan and Talwar know the shuffled view of any local randomizer: put their ``computeamplification.py`` (from the
repository apple/ml-shuffling-amplification) on PYTHONPATH. Neither knows what the learner sees; ours is there to show
what that is worth.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import importlib.util
import io
import json
import math
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import trio
from engines import bare_loop, simulation_of
from turns import apart, quickest

from p2p_labeldp.collector import quiet_collector
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.mechanisms import noisy_sha256
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.protocol.messages import Features

Sent = tuple[int, int, Any]
"""Sender, receiver, message."""


class Exchange:
    """The roles by address, what they say first, and how many messages are on their way."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.roles = [*simulation.users, simulation.host, None, simulation.learner, simulation.coordinator]
        self.flying = self.delivered = 0

    @property
    def addresses(self) -> Iterable[int]:
        return [*range(len(self.simulation.users)), -1, -2, -4]

    def hellos(self) -> list[Sent]:
        features = self.simulation.population.features
        found = [(user.id, *user.hello(Features(features[user.id]))) for user in self.simulation.users]
        self.flying = len(found)
        return found

    def take(self, sender: int, receiver: int, message: Any) -> list[Sent]:
        """One message taken; what its receiver sends."""
        said = [(receiver, to, out) for to, out in self.roles[receiver].receive(sender, message)]  # type: ignore[union-attr]
        self.flying += len(said) - 1
        self.delivered += 1
        return said


def by_asyncio(exchange: Exchange) -> None:
    """A task and a queue for each party."""

    async def main() -> None:
        queues: dict[int, asyncio.Queue[Sent]] = {address: asyncio.Queue() for address in exchange.addresses}
        over = asyncio.Event()

        async def party(address: int) -> None:
            mine = queues[address]
            while True:
                for sent in exchange.take(*await mine.get()):
                    await queues[sent[1]].put(sent)
                if exchange.flying == 0:
                    over.set()

        tasks = [asyncio.create_task(party(address)) for address in exchange.addresses]
        for sent in exchange.hellos():
            await queues[sent[1]].put(sent)
        await over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def by_trio(exchange: Exchange) -> None:
    """A task and a memory channel for each party."""

    async def main() -> None:
        channels = {address: trio.open_memory_channel[Sent](float("inf")) for address in exchange.addresses}

        async def party(address: int, nursery: trio.Nursery) -> None:
            async for sent in channels[address][1]:
                for out in exchange.take(*sent):
                    await channels[out[1]][0].send(out)
                if exchange.flying == 0:
                    nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for address in exchange.addresses:
                nursery.start_soon(party, address, nursery)
            for sent in exchange.hellos():
                await channels[sent[1]][0].send(sent)

    trio.run(main)


def by_simpy(exchange: Exchange) -> None:
    """A process and a store for each party."""
    import simpy

    environment = simpy.Environment()
    stores = {address: simpy.Store(environment) for address in exchange.addresses}

    def party(address: int) -> Any:
        mine = stores[address]
        while True:
            sent = yield mine.get()
            for out in exchange.take(*sent):
                yield stores[out[1]].put(out)

    for address in exchange.addresses:
        environment.process(party(address))
    for sent in exchange.hellos():
        stores[sent[1]].put(sent)
    environment.run()  # until nobody has anything to do


def by_mesa(exchange: Exchange) -> None:
    """An agent for each party; at each step everyone reads what came since the last one."""
    import mesa

    class Party(mesa.Agent):  # type: ignore[misc]
        def __init__(self, model: Any, address: int) -> None:
            super().__init__(model)
            self.mail: deque[Sent] = deque()
            self.address = address

        def step(self) -> None:
            for _ in range(len(self.mail)):
                for out in exchange.take(*self.mail.popleft()):
                    parties[out[1]].mail.append(out)

    model = mesa.Model()
    parties = {address: Party(model, address) for address in exchange.addresses}
    for sent in exchange.hellos():
        parties[sent[1]].mail.append(sent)
    while exchange.flying:
        model.agents.do("step")


def by_gossipy(exchange: Exchange) -> None:
    """A node for each party. A node sends one message a step, so the coordinator is listed once more for each user."""
    from gossipy.core import AntiEntropyProtocol, Message, MessageType
    from gossipy.node import GossipNode
    from gossipy.simul import GossipSimulator

    class Party(GossipNode):  # type: ignore[misc]
        def __init__(self, address: int) -> None:
            super().__init__(address, (None, None), 1, None, None)
            self.mail: deque[Sent] = deque()

        def init_model(self, *_: Any, **__: Any) -> None: ...

        def timed_out(self, t: int) -> bool:
            return bool(self.mail)

        def get_peer(self) -> int:
            return place[self.mail[0][1]]

        def send(self, t: int, peer: int, protocol: Any) -> Any:
            return Message(t, self.idx, peer, MessageType.PUSH, (self.mail.popleft()[2],))

        def receive(self, t: int, msg: Any) -> None:
            self.mail.extend(exchange.take(msg.sender, self.idx, msg.value[0]))

    class NoTestSet:
        def has_test(self) -> bool:
            return False

    addresses = list(exchange.addresses)
    place = {address: number for number, address in enumerate(addresses)}
    parties = {number: Party(address) for address, number in place.items()}
    parties |= {len(parties) + user: parties[place[-1]] for user in range(len(exchange.simulation.users))}
    for sent in exchange.hellos():
        parties[place[sent[0]]].mail.append(sent)
    simulator = GossipSimulator(parties, NoTestSet(), 1, AntiEntropyProtocol.PUSH)
    simulator.init_nodes()
    with contextlib.redirect_stdout(io.StringIO()):  # where it shows its progress
        while exchange.flying:
            simulator.start(n_rounds=1)


OTHERS: dict[str, tuple[str, str, Callable[[Exchange], None]]] = {
    "asyncio queues": ("asyncio", "", by_asyncio),
    "SimPy": ("simpy", "simpy", by_simpy),
    "Mesa (no messages in flight)": ("mesa", "mesa", by_mesa),
    "stock trio channels": ("trio", "trio", by_trio),
    "gossipy": ("gossipy.simul", "torch gossipy-dfl", by_gossipy),
}
"""The module that does it, what to install for it, how it is done."""
BARE = "bare loop"
OURS = {"ours, a task for each user, traced": "user", "ours, users hosted together, traced": "cluster"}


def contest(name: str, users: int) -> dict[str, Any]:
    """CPU seconds, messages and the digest of what the learner received."""
    if name in OURS:
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "trace").open("wb") as file:
            simulation = simulation_of(users, hosting=OURS[name], seed=1, write=file.write)
            began = time.process_time()
            outcome = simulation.run()
            seconds = time.process_time() - began
        return {"seconds": seconds, "messages": sum(outcome.messages.values()), "digest": noisy_sha256(outcome.rounds)}
    simulation = simulation_of(users)
    exchange = Exchange(simulation)
    if name in OTHERS:
        sys.modules.setdefault("torchvision", ModuleType("torchvision"))  # gossipy needs it for pictures alone
        importlib.import_module(OTHERS[name][0])  # which is not what is measured
    began = time.process_time()
    if name == BARE:
        outcome = bare_loop(simulation)
        return {"seconds": time.process_time() - began, "messages": None, "digest": noisy_sha256(outcome.rounds)}
    with quiet_collector():  # for everyone, since it costs whoever has many objects a factor of two
        OTHERS[name][2](exchange)
    seconds = time.process_time() - began
    return {"seconds": seconds, "messages": exchange.delivered, "digest": noisy_sha256(simulation.outcome().rounds)}


COMPOSED = ((0.1, 1), (0.1, 4), (0.3, 16))
"""alpha, rounds with fresh noise, two labels."""
SHUFFLED = ((500, 2, 0.1), (1000, 2, 0.3), (200, 10, 0.6), (1000, 10, 0.3))
"""Users, labels, alpha; delta is 1/users^2."""


def accounts() -> None:
    """One line for each question: ours, theirs, and how long both took."""
    print(f"{'randomized response, fresh rounds':<40} {'ours':>9} {'dp-accounting':>14}  seconds")
    for alpha, rounds in COMPOSED:
        flips = Parameters(alpha=alpha, rounds=rounds, noise="fresh")
        ours, took = timed(lambda flips=flips: answered("learner", flips, 1, 1e-6))
        theirs, longer = timed(lambda alpha=alpha, rounds=rounds: composed_elsewhere(alpha, rounds, 1e-6))
        print(f"alpha {alpha:g}, {rounds} rounds{'':<20} {ours:>9.5f} {theirs:>14.5f}  {took:.2f}, {longer:.2f}")
    clones = importlib.util.find_spec("computeamplification") is not None
    print(f"{'shuffled view':<40} {'ours':>9} {'clones':>14}  seconds; the learner's, ours")
    for users, labels, alpha in SHUFFLED:
        flips, delta = Parameters(alpha=alpha, labels=labels), 1 / users**2
        ours, took = timed(lambda given=(flips, users, delta): answered("shuffle", *given))
        theirs, longer = timed(lambda given=(flips, users, delta): cloned(*given)) if clones else (math.nan, 0.0)
        learner = answered("learner", flips, users, delta)
        named = f"{users} users, {labels} labels, alpha {alpha:g}"
        print(f"{named:<40} {ours:>9.5f} {theirs:>14.5f}  {took:.2f}, {longer:.2f}; {learner:.5f}")
    if not clones:
        print("clones: computeamplification.py is not on PYTHONPATH")


def answered(view: str, flips: Parameters, users: int, delta: float) -> float:
    return account(view, flips, cluster_size=users).get_epsilon(delta).epsilon


def timed(work: Callable[[], float]) -> tuple[float, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def composed_elsewhere(alpha: float, rounds: int, delta: float) -> float:
    from dp_accounting.pld.privacy_loss_distribution import from_randomized_response

    # Theirs replaces a label by a uniform one, which may be the same.
    one = from_randomized_response(2 * alpha, 2, value_discretization_interval=1e-4)
    return float(one.self_compose(rounds).get_epsilon_for_delta(delta))


def cloned(flips: Parameters, users: int, delta: float) -> float:
    library = importlib.import_module("computeamplification")
    local = math.log((1 - flips.alpha) / (flips.alpha / (flips.labels - 1)))
    return float(library.numericalanalysis(users, local, delta, 20, 1, True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=3, help="the best of so many")
    parser.add_argument("--accounts", action="store_true", help="epsilons instead")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.accounts:
        accounts()
        return
    if arguments.measure:
        print(json.dumps(contest(arguments.measure, arguments.users)))
        return
    names = [BARE, *OTHERS, *OURS]
    missing = [name for name in OTHERS if importlib.util.find_spec(OTHERS[name][0].partition(".")[0]) is None]
    once = {name: partial(apart, __file__, name, "--users", arguments.users) for name in names if name not in missing}
    best = quickest(arguments.times, once)
    counts = {found["messages"] for found in best.values()} - {None}
    assert len(counts) == 1, f"not as many messages: {counts}"
    print(f"{arguments.users:,} users, {counts.pop():,} messages, the same noisy data set from everyone")
    for name, found in best.items():
        ratio, each = found["seconds"] / best[BARE]["seconds"], found["seconds"] / arguments.users * 1e6
        print(f"{name:<38} {ratio:>6.2f} times the bare loop, {each:6.1f} us a user")
    for name in missing:
        print(f"{name:<38} not installed: pip install {OTHERS[name][1]}")


if __name__ == "__main__":
    main()
