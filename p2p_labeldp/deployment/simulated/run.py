"""One seed from its plan to its verdict: machines, the programs on them, who starts those again, and who watches.

A machine's program is started again after a kill or a loss of power, and up to six times after it died of its disk,
as a container engine would. The run is over when every program has ended for good.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import trio

from p2p_labeldp.deployment.logs import FACTS, Logger
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.deployment.simulated import clockwork
from p2p_labeldp.deployment.simulated.disasters import Scene
from p2p_labeldp.deployment.simulated.disk import Disk
from p2p_labeldp.deployment.simulated.history import History, Outcome
from p2p_labeldp.deployment.simulated.machine import Fleet, Killed, Machine, Process
from p2p_labeldp.deployment.simulated.network import Network, Weather
from p2p_labeldp.deployment.simulated.papers import papers
from p2p_labeldp.deployment.simulated.people import own_rows, study
from p2p_labeldp.deployment.simulated.plan import SINGLES, Plan, draw
from p2p_labeldp.deployment.simulated.verdict import judge
from p2p_labeldp.deployment.simulated.watch import Broken, Watch
from p2p_labeldp.errors import RequestError, RunError, leaves
from p2p_labeldp.scenario import Scenario, replace

UNWRITTEN = "cannot be written"
"""In the last words of a program that died of its disk."""
RESTARTS = 6
PAUSE = 1.0  # seconds until a program that died of its disk is started again
PORTS = {"coordinator": 7400, "learner": 7410, "auditor": 7420, "users": 7430}


def simulate(plan: Plan | int) -> Outcome:
    """Run a plan, or a seed's."""
    plan = draw(plan) if isinstance(plan, int) else plan
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="p2p-labeldp-simulated-", dir=memory if memory.is_dir() else None))
    try:
        return clockwork.run(_Simulation(plan, root).run, seed=plan.seed)
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Log(Logger):
    """A node's log lines as part of the history, while it lives."""

    def __init__(self, simulation: _Simulation, process: Process) -> None:
        super().__init__(process.machine.name)
        self._simulation, self._process = simulation, process

    def __call__(self, event: str, **facts: object) -> None:
        assert facts.keys() <= FACTS, facts
        if self.muted or not self._process.alive:
            return
        self._simulation.heard(self._process.machine.name, event, facts)


class _Simulation:
    def __init__(self, plan: Plan, root: Path) -> None:
        self.plan, self.root = plan, root
        self.history = History()
        self.endings: dict[str, str] = {}
        chance = random.Random(f"network/{plan.seed}")
        weather = Weather(plan.latency, plan.jitter, plan.pieces, plan.detours, plan.detour)
        network = Network(self.history, chance, weather)
        self.fleet = Fleet(network, self.history, {})
        self.scene = Scene(plan, self.fleet)
        base = study(plan)
        addresses = {name: f"10.0.0.{number + 1}" for number, name in enumerate(plan.names)}
        places = {f"deployment__{role}": f"{addresses[role]}:{PORTS[role]}" for role in SINGLES}
        self.base = replace(base, **places)
        for name, address in addresses.items():
            (root / name).mkdir()
            disk = Disk(root / name, random.Random(f"disk/{plan.seed}/{name}"))
            Machine(self.fleet, name, address, disk, f"machine/{plan.seed}")
        for name, offset in plan.skews:
            self.fleet.by_name[name].offset = offset
        scenarios = {name: self.scenario_of(name) for name in plan.names}
        self.watch = Watch(self.scene, scenarios, tuple(PORTS.values()))
        self.scene.on_wipe = self.watch.wiped
        network.wrote = self.watch.wrote

    def scenario_of(self, name: str) -> Scenario:
        role = name.partition("-")[0]
        address = self.fleet.by_name[name].address
        return replace(self.base, deployment__listen=f"{address}:{PORTS[role]}")

    async def run(self) -> Outcome:
        late = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.fleet.network.pump)
                self.scene.prepare(nursery)
                with trio.move_on_after(self._horizon()) as horizon:
                    async with trio.open_nursery() as lives:
                        for name in self.plan.names:
                            lives.start_soon(self._live, self.fleet.by_name[name])
                late = horizon.cancelled_caught
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            broken, rest = group.split(Broken)
            if rest is not None or broken is None:
                raise
        if late:
            waiting = [name for name in self.plan.names if name not in self.endings]
            self.watch.failures.append(f"a run must end: {', '.join(waiting)} did not")
        machines = self.fleet.by_name.items()
        outcome = Outcome(
            self.plan,
            self.history,
            self.watch.failures,
            self.endings,
            self.scene.fired,
            trio.current_time(),
            {name: sum(len(file.content) for file in machine.disk.files.values()) for name, machine in machines},
        )
        if not self.watch.failures:
            judge(outcome, self.scene, self.watch, self.root)
        return outcome

    def _horizon(self) -> float:
        """Longer than all limits together, once for every disaster that may start them anew."""
        scenario = self.base
        limits = (
            10 * scenario.deployment.away_limit
            + scenario.network.hello_limit
            + 2 * scenario.mechanism.rounds * scenario.network.round_limit
        )
        return limits * (1 + len(self.plan.disasters))

    async def _live(self, machine: Machine) -> None:
        name, deaths = machine.name, 0
        while True:
            while (until := self.scene.down_until.get(name, 0.0)) > trio.current_time():
                if until == float("inf"):
                    self.endings[name] = "gone"
                    return
                await trio.sleep_until(until)
            process = machine.boot()
            process.on_step = self.scene.stepped
            self.history.note(name, "starts", life=machine.incarnations)
            ending = await self._life(machine, process)
            self.scene.nodes.pop(name, None)
            self.history.note(name, "ends", how=ending)
            if ending == "killed":
                continue
            deaths += 1
            if UNWRITTEN not in ending or deaths > RESTARTS:
                self.endings[name] = ending
                return
            await trio.sleep(PAUSE)

    async def _life(self, machine: Machine, process: Process) -> str:
        name = machine.name

        async def program() -> None:
            node = Node(
                name.partition("-")[0],
                self.scenario_of(name),
                certificates=papers() / name,
                state=Path("/state") / name,
                place=machine.disk.root / "results" if name in ("learner", "auditor") else None,
                rows=own_rows(self.plan, name),
                logger=_Log(self, process),
                world=process.world,
            )
            self.scene.nodes[name] = node

            def listens(_: object) -> None:
                if process.alive:  # not killed, and its disk not erased, by what struck as it began to listen
                    self.watch.started(name, node)

            await node.run(listens)

        try:
            await process.run(program)
        except (Exception, BaseExceptionGroup, Broken) as error:
            if any(isinstance(leaf, trio.Cancelled) for leaf in leaves(error)):
                raise  # the whole simulation is taken down
            return self._last_words(name, error)
        return "killed" if process.killed else "done"

    def _last_words(self, name: str, error: BaseException) -> str:
        found = leaves(error)
        for leaf in found:
            if isinstance(leaf, Broken):
                raise leaf
        ours = [leaf for leaf in found if isinstance(leaf, RequestError | RunError)]
        if ours:
            kind = type(ours[0]).__name__
            return f"{kind}: {ours[0]}".replace(str(self.root), "")
        system = [leaf for leaf in found if isinstance(leaf, OSError)]
        if system:
            return f"OSError: {UNWRITTEN}: {system[0].strerror}"
        if not any(isinstance(leaf, Killed) for leaf in found):
            self.watch.broke(f"{name} has a fault of its own: {found[0]!r}", found[0])
        return "killed"

    def heard(self, name: str, event: str, facts: dict[str, object]) -> None:
        self.history.note(name, event, **{key: _plain(value) for key, value in facts.items()})
        if event == "failed":
            self.watch.broke(f"{name} has a fault of its own: {facts.get('reason')}")
        if event == "progress":
            event = str(facts["phase"])
        self.scene.said(name, event)


def _plain(value: object) -> object:
    return value if isinstance(value, int | float) else str(value)
