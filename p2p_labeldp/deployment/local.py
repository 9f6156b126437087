"""The whole deployment on one machine: certificates, a process for every node, TLS over loopback, one run folder."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import trio

from p2p_labeldp.audit.folder import PRIVATE, SUMMARY, TRACE, find
from p2p_labeldp.deployment.certificates import FURTHER_ROLES, init_certificates
from p2p_labeldp.deployment.disk import RealDisk
from p2p_labeldp.deployment.disturbing import DONE_TO_PROCESSES, Blow, Disturbance, disturbances, fired
from p2p_labeldp.deployment.dividing import STUDY, divide, host_names
from p2p_labeldp.deployment.misbehaving import POOLED, Pool
from p2p_labeldp.deployment.roles import require_deployable, singles_of
from p2p_labeldp.errors import CheckError, RequestError, RunError, first_of
from p2p_labeldp.learning import require_model
from p2p_labeldp.runs.folder import RunFolder, free_name
from p2p_labeldp.runs.results import write_summary
from p2p_labeldp.runs.summary import Summary, read_summary
from p2p_labeldp.scenario import Scenario, replace
from p2p_labeldp.scenario.entries import Partition
from p2p_labeldp.systems import cutting_signals

LAST_LINES = 5  # of a node that died
PATIENCE = 5.0  # seconds between asking a process to stop and stopping it
WITHHELD = 1  # status of a learner to which some clusters released nothing: results are there, the target is not kept
WRONG = 2  # status of a node whose request was wrong
ENDED = "the coordinator ended the run: "  # the last words of whoever is told so
SHORT = 1  # status of any other node where hosts or users are too few
LISTENING = range(10_240, 32_768)  # ports; Linux, macOS and Windows give outgoing connections higher ones
MAX_LINE = 1 << 16  # bytes of a log line; nodes write shorter ones

COUNTS = ("counted", "filled")  # events that are for whoever watches, and not for the log

Progress = Callable[[str, int, int], None]
Told = Callable[[str, dict[str, object]], None]
"""Hears what happens to a node (started, killed, cut, mended, ended) and what it logs, under ``event``."""


@dataclass
class _Child:
    name: str
    process: trio.Process
    log: Path
    downed: bool = False
    """Killed by a fault of the scenario, and not to be wondered at."""
    spoke: trio.Event = field(default_factory=trio.Event)
    """Set once it has said anything: it hears signals by then."""
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))


class LocalDeployment:
    """One process per node below ``work``, a folder that only its owner can read."""

    def __init__(
        self, scenario: Scenario, hosts: int, work: Path, data_dir: Path | None = None, told: Told | None = None
    ) -> None:
        if not 1 <= hosts <= 256:
            raise RequestError(f"--hosts {hosts} is not allowed; it must be from 1 to 256")
        require_deployable(scenario)
        require_model(scenario.learner)
        roles = singles_of(scenario)
        ports = _free_ports(len(roles))
        self.hosts = hosts
        self.work = work
        self.scenario = replace(
            scenario,
            deployment__hosts=hosts,
            deployment__listen="",
            deployment__advertise="",
            deployment__health="",
            deployment__join="",
            deployment__authority="",
            deployment__counts=told is not None,
            **{f"deployment__{role}": f"127.0.0.1:{port}" for role, port in zip(roles, ports, strict=True)},
        )
        self._data_dir = data_dir
        self._told: Told = told or (lambda node, event: None)
        self.names = [*reversed(roles), *host_names(hosts)]
        self.rows: dict[str, Path] = {}
        """The file of each node that has one."""
        self.children: dict[str, _Child] = {}
        self.done: list[Disturbance] = []
        """What the scenario's faults did to processes."""
        self.warnings: list[str] = []
        self.users = 0
        """As the coordinator has counted them."""
        self._dealt = trio.Event()

    def prepare(self) -> None:
        """Certificates, and every node's own rows; the scenario they get names no file."""
        further = [name for name in self.names if name in FURTHER_ROLES]
        init_certificates(self.work / "certs", self.hosts, roles=further)
        self.rows = divide(self.scenario, self.hosts, self.work / "study", self._data_dir)

    def command(self, name: str) -> list[str]:
        """How a node is started; nothing in it depends on a label."""
        role = name.partition("-")[0]
        words = [sys.executable, "-m", "p2p_labeldp", "node", role, str(self.work / "study" / STUDY)]
        words += ["--certs", str(self.work / "certs" / name), "--state", str(self.work / "state" / name)]
        if role in ("learner", "auditor"):
            words += ["--out", str(self.work / role)]
        if role == "users" and any(isinstance(entry, Partition) for entry in self.scenario.faults):
            words += ["--cuttable"]
        if name in self.rows:
            words += ["--test" if role == "learner" else "--rows", str(self.rows[name])]
        return words

    async def run(self, progress: Progress | None = None) -> None:
        """Start everyone, and return when everyone has left. RunError names a node that died, and what it said."""
        try:
            async with trio.open_nursery() as nursery:
                for name in self.names:
                    child = await self._start(name)
                    nursery.start_soon(self._follow, child, progress)
                if self.scenario.faults:
                    nursery.start_soon(self._disturb, nursery, progress)
        except BaseExceptionGroup as group:
            raise first_of(group, KeyboardInterrupt, RequestError, CheckError, RunError) or group from None
        finally:
            with trio.CancelScope(shield=True):
                await self._stop_all()

    async def _disturb(self, nursery: trio.Nursery, progress: Progress | None) -> None:
        """Do to the processes what the scenario's faults say, from the moment at which shares are dealt."""
        await self._dealt.wait()
        began = trio.current_time()
        blows, self.warnings = disturbances(self.scenario, self.hosts, self.users)
        cut, mend = cutting_signals("a partition of a deployment")

        async def strike(blow: Disturbance) -> None:
            name = host_names(self.hosts)[blow.host]
            await trio.sleep_until(began + blow.start)
            child = self.children[name]
            await child.spoke.wait()
            if child.process.returncode is not None or self.children["coordinator"].process.returncode is not None:
                return  # too late
            self.done.append(blow)
            if blow.blow is Blow.KILL:
                child.downed = True
                child.process.kill()
                await child.process.wait()
            else:
                child.process.send_signal(cut)
                self._told(name, {"event": "cut"})
            if blow.seconds is None:
                return
            await self._sleep_while_running(blow.seconds)
            if blow.blow is Blow.CUT:
                if child.process.returncode is None:
                    child.process.send_signal(mend)
                    self._told(name, {"event": "mended"})
            elif self.children["coordinator"].process.returncode is None:
                nursery.start_soon(self._follow, await self._start(name), progress)

        async with trio.open_nursery() as struck:
            for blow in blows:
                struck.start_soon(strike, blow)

    async def _sleep_while_running(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.children["coordinator"].process.wait()

    async def _start(self, name: str) -> _Child:
        logs = self.work / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        # Settings of the caller's environment are for it, not for the nodes: theirs are in the scenario.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("P2P_LABELDP_")}
        process = await trio.lowlevel.open_process(
            self.command(name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process, which sees to the others
        )
        child = _Child(name, process, logs / f"{name}.jsonl")
        self.children[name] = child
        self._told(name, {"event": "started"})
        return child

    async def _follow(self, child: _Child, progress: Progress | None) -> None:
        """Keep a node's log, and say what it said when it died."""
        assert child.process.stderr is not None
        rest = b""
        with child.log.open("ab", buffering=0) as file:  # to be read while the node runs
            async for chunk in child.process.stderr:
                child.spoke.set()
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[-MAX_LINE:]
                kept = [line for line in lines if self._read(child, line.decode("utf-8", "replace"), progress)]
                file.write(b"".join(line + b"\n" for line in kept))
            file.write(rest)
        child.spoke.set()
        status = await child.process.wait()
        self._told(child.name, {"event": "killed" if child.downed else "ended", "status": status})
        if child.downed:
            return
        if status == SHORT and child.name != "learner":
            raise CheckError(child.last[-1].removeprefix("p2p-labeldp: "))
        if status == WRONG and (ENDED in child.last[-1] or (child.name == "coordinator" and self._dealt.is_set())):
            # Known only once there are clusters.
            raise RequestError(child.last[-1].removeprefix("p2p-labeldp: ").removeprefix(ENDED))
        if status != 0 and not (child.name == "learner" and status == WITHHELD):
            await trio.sleep(0.2)  # others may be about to say more of the same cause
            said = " | ".join(child.last) or "nothing"
            raise RunError(f"{child.name} died with status {status}; it last said: {said}")

    def _read(self, child: _Child, line: str, progress: Progress | None) -> bool:
        """Whether a line belongs into the log."""
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            child.last.append(line.strip())
            return True
        self._told(child.name, event)
        if event.get("event") in COUNTS:
            return False
        if event.get("event") == "dealt":
            self.users = int(event.get("users", 0))
            self._dealt.set()
        if event.get("event") == "progress":
            if progress is not None and child.name == "coordinator":
                progress(str(event.get("phase")), int(event.get("done", 0)), int(event.get("total", 0)))
            return True
        child.last.append(
            " ".join(str(value) for name, value in event.items() if name not in ("time", "node", "level"))
        )
        return True

    async def _stop_all(self) -> None:
        running = [child.process for child in self.children.values() if child.process.returncode is None]
        for process in running:
            process.terminate()
        with trio.move_on_after(PATIENCE):
            for process in running:
                await process.wait()
        for process in running:
            if process.returncode is None:
                process.kill()
                await process.wait()


def deploy(
    scenario: Scenario,
    *,
    hosts: int,
    out: Path,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    told: Told | None = None,
) -> Summary:
    """Run a scenario as processes on this machine; leaves a run folder at ``out`` and returns its summary.

    ``told`` hears what nodes do and say while they run.
    """
    with RunFolder(out, private=not scenario.ships) as folder:
        work = Path(tempfile.mkdtemp(prefix="p2p-labeldp-"))
        try:
            deployment = LocalDeployment(scenario, hosts, work, data_dir, told)
            deployment.prepare()
            try:
                trio.run(deployment.run, progress)
            except KeyboardInterrupt:
                raise RunError("interrupted; nothing was kept") from None
            except RunError as error:
                raise _with_logs(error, work, out) from None
            summary = collect(work, folder)
            if scenario.faults:
                summary = _with_faults(summary, deployment)
            if scenario.adversaries:
                summary = _with_attacks(summary, deployment, folder, data_dir)
            if scenario.faults or scenario.adversaries:
                write_summary(folder, summary)
            return summary
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _with_faults(summary: Summary, deployment: LocalDeployment) -> Summary:
    """What the faults did, and a word on those that did nothing."""
    entries = deployment.scenario.faults
    faults = fired(entries, deployment.done)
    idle = [
        f"faults[{number}] ({entry.name}) never fired: the run was over"
        for number, (entry, fault) in enumerate(zip(entries, faults, strict=True), 1)
        if not fault.fired and isinstance(entry, DONE_TO_PROCESSES)
    ]
    warnings = (*summary.warnings, *deployment.warnings, *idle)
    return msgspec.structs.replace(summary, faults=faults, warnings=warnings)


def _with_attacks(summary: Summary, deployment: LocalDeployment, folder: RunFolder, data_dir: Path | None) -> Summary:
    """The table of attacks; what colluders pooled goes into the folder's private part."""
    from p2p_labeldp.deployment.attacked import attacked

    files = [deployment.work / "state" / name / POOLED for name in deployment.names]
    pooled = [file.read_bytes() for file in files if file.exists()]
    if pooled:
        place = folder.path / PRIVATE
        place.mkdir(mode=0o700, exist_ok=True)
        RealDisk().write(place / POOLED, [Pool.merged(pooled).to_json()])
    return attacked(summary, folder.path, deployment.scenario.settled(deployed=True), pooled, data_dir)


def _with_logs(error: RunError, work: Path, out: Path) -> RunError:
    """What a node said before it died, kept beside where the run would be: the last lines are seldom all it takes."""
    place = free_name(out.with_name(f"{out.name}-logs"))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "logs", place)
    except OSError:
        return error
    return type(error)(f"{error}; all logs are in {place}")


def collect(work: Path, folder: RunFolder) -> Summary:
    """Bring together what the nodes have left: the learner's folder, the auditor's trace, the logs."""
    try:
        for path in sorted((work / "learner").iterdir()):
            shutil.move(path, folder.path / path.name)
        shutil.move(work / "auditor" / TRACE, folder.kept(TRACE))
        shutil.move(work / "logs", folder.path / "logs")
        summary = msgspec.structs.replace(read_summary(find(folder.path, SUMMARY)), out=str(folder.place))
    except OSError as error:
        raise RunError(f"results are missing: {error.filename}: {error.strerror}") from None
    except RequestError as error:
        raise RunError(f"results are missing: {error}") from None
    write_summary(folder, summary)
    return summary


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now, and that kernels give to no outgoing connection: one of these might take a
    port before its node listens there, or while the node is down."""
    found: list[int] = []
    draws = random.SystemRandom()
    with contextlib.ExitStack() as stack:
        for port in draws.sample(LISTENING, len(LISTENING)):
            if len(found) == count:
                return found
            each = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                each.bind(("127.0.0.1", port))
                found.append(port)
    raise RunError(f"no {count} free ports from {LISTENING.start} to {LISTENING.stop - 1} on 127.0.0.1")
