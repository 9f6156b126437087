"""Deployments of real processes that tests can kill, freeze, cut off and start again.

A ``Machine`` starts processes (by forking, see ``spawner``) and can be asked for network namespaces; a ``Fleet`` is
one deployment on it, its nodes known by name. Every wait has a limit and, when that passes, says what the nodes said
last. Nothing outlives the ``Machine``: its nodes die with its spawner, and that with the tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from p2p_labeldp.audit.runs import Audit, audit_runs
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.deployment.local import LocalDeployment, collect
from p2p_labeldp.experiments.run import run
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.scenario import Scenario, replace

PATIENCE = 120.0  # seconds for anything at all; what is waited for takes a few on a machine with nothing else to do
LOOK = 0.002  # seconds between two looks at a file
SUBNET = "10.77.0"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"  # where ip and nft are, which not every user has in the path
PORTS = {"coordinator": 7400, "learner": 7410, "auditor": 7420}

Facts = dict[str, Any]


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command line in a process of its own, which is gone afterwards."""
    with subprocess.Popen(
        [sys.executable, "-m", "p2p_labeldp", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], Any], limit: float = PATIENCE) -> Any:
    """What the condition gives when it gives something."""
    deadline = time.monotonic() + limit
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit:g} seconds")
        time.sleep(LOOK)
    return found


class Unavailable(Exception):
    """This machine does not let tests make networks, and why."""


class Machine:
    """Where nodes run: this machine or, with ``networks``, namespaces in which tests may do as they like."""

    def __init__(self, networks: bool = False) -> None:
        self._namespaces: set[str] = set()
        self._process = subprocess.Popen(
            [*(_prefix() if networks else []), sys.executable, str(Path(__file__).with_name("spawner.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests, which end this one
            env=os.environ | {"PATH": PATH, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            self._answer()
            if networks:
                self._prepare_networks()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        if not self._selector.select(PATIENCE):
            raise TimeoutError(f"the spawner said nothing for {PATIENCE:g} seconds")
        line = self._process.stdout.readline()
        if not line:
            raise EOFError("the spawner has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer["answer"]

    def ask(self, what: str, **facts: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **facts}).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """The spawner ends when nobody asks any more, and takes all nodes with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._selector.close()
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Networks: every node in a namespace of its own, joined by a bridge.

    def _prepare_networks(self) -> None:
        try:
            self.ask("run", words=["mount", "-t", "tmpfs", "tmpfs", "/run"])  # where ip keeps the names of namespaces
            self.ask("run", words=["ip", "link", "add", "bridge0", "type", "bridge"])
            self.ask("run", words=["ip", "link", "set", "bridge0", "up"])
            self.namespace("trial", 250)
            self.filter("trial", "input meta mark 1 drop")
        except OSError as error:
            raise Unavailable(f"no network namespaces here: {error}") from None

    def namespace(self, name: str, number: int) -> None:
        """One more namespace, with address ``SUBNET.number``."""
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        for line in (
            f"ip netns add {name}",
            f"ip link add to{number} type veth peer name eth0 netns {name}",
            f"ip link set to{number} master bridge0 up",
            f"ip -n {name} address add {SUBNET}.{number}/24 dev eth0",
            f"ip -n {name} link set eth0 up",
            f"ip -n {name} link set lo up",
        ):
            self.ask("run", words=line.split())

    def filter(self, name: str, *rules: str) -> None:
        """Filter what a namespace gets and sends by nft's rules, ``input ...`` or ``output ...``; without, all pass."""
        lines = ["add table inet faults", "delete table inet faults", "add table inet faults"]
        for hook in ("input", "output"):
            lines.append(f"add chain inet faults {hook} {{ type filter hook {hook} priority 0; policy accept; }}")
        for rule in rules:
            hook, _, rest = rule.partition(" ")
            lines.append(f"add rule inet faults {hook} {rest}")
        self.ask("run", words=["ip", "netns", "exec", name, "nft", "; ".join(lines)])


def _prefix() -> list[str]:
    """How to get namespaces: as anybody where that is allowed, else as root."""
    for tool in ("unshare", "ip", "nft", "mount"):
        if shutil.which(tool, path=PATH) is None:
            raise Unavailable(f"no network namespaces here: the program {tool} is missing")
    for flags in ("-Urnm", "-nm"):
        tried = subprocess.run(["unshare", flags, "true"], capture_output=True, text=True, timeout=PATIENCE)
        if tried.returncode == 0:
            return ["unshare", flags]
    raise Unavailable(f"no network namespaces here: {' '.join(tried.stderr.split())}")


class Fleet:
    """The nodes of one deployment. ``work`` is filled as by ``deploy``: certificates, states, logs, results."""

    def __init__(self, machine: Machine, scenario: Scenario, hosts: int, work: Path, networks: bool = False) -> None:
        self.machine = machine
        self.work = work
        self._local = LocalDeployment(scenario, hosts, work)
        self.names = self._local.names
        self._networks = networks
        if networks:
            for number, name in enumerate(self.names, 1):
                machine.namespace(name, number)
                machine.filter(name)
            addresses = {f"deployment__{role}": f"{self.address(role)}:{port}" for role, port in PORTS.items()}
            self._local.scenario = replace(self._local.scenario, **addresses)
        self.scenario = self._local.scenario
        work.mkdir(exist_ok=True)
        (work / "logs").mkdir()
        self._local.prepare()
        self.pids: dict[str, int] = {}

    def address(self, name: str) -> str:
        return f"{SUBNET}.{self.names.index(name) + 1}"

    # Doing things to nodes.

    def start(self, *names: str, more: tuple[str, ...] = (), **how: Any) -> None:
        """Start nodes, or all of them, with ``more`` words on the command line; ``how`` is for the spawner."""
        for name in names or self.names:
            words = self._local.command(name)[3:]  # without the interpreter
            if self._networks and name.startswith("users"):
                words += ["--listen", f"{self.address(name)}:0"]
            self.pids[name] = self.machine.ask(
                "start",
                words=[*words, *more],
                log=str(self.log(name)),
                namespace=name if self._networks else "",
                **how,
            )

    def send(self, name: str, number: int) -> bool:
        return bool(self.machine.ask("signal", pid=self.pids[name], number=int(number)))

    def kill(self, name: str) -> bool:
        """As kill -9 does; False where it was gone already."""
        return self.send(name, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        assert self.send(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        assert self.send(name, signal.SIGCONT)

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    def end(self) -> None:
        for name in self.pids:
            self.kill(name)

    # Watching them.

    def log(self, name: str) -> Path:
        return self.work / "logs" / f"{name}.jsonl"

    def said(self, name: str) -> list[Facts]:
        """Every line of a node's log; what is no JSON is under ``text``."""
        try:
            lines = self.log(name).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [_facts(line) for line in lines]

    def heard(self, node: str, event: str, /, **facts: Any) -> list[Facts]:
        """The lines of an event with these facts."""
        wanted = {"event": event, **facts}
        return [line for line in self.said(node) if all(line.get(key) == value for key, value in wanted.items())]

    def status(self, name: str) -> int | None:
        found: int | None = self.machine.ask("status", pid=self.pids[name])
        return found

    def until(self, what: str, condition: Callable[[], Any], limit: float = PATIENCE) -> Any:
        """What the condition gives when it gives something."""
        try:
            return until(condition, limit)
        except TimeoutError as late:
            raise AssertionError(f"{what}: {late}\n{self.last_words()}") from None

    def wait_for(self, node: str, event: str, /, **facts: Any) -> Facts:
        """Until a node has logged an event, now or before; that line."""
        lines: list[Facts] = self.until_of(node, event, lambda: self.heard(node, event, **facts))
        return lines[0]

    def until_of(self, name: str, what: str, condition: Callable[[], Any]) -> Any:
        """As ``until``, for what a node does while it runs."""

        def found() -> Any:
            status = self.status(name)
            found = condition()
            if not found and status is not None:
                raise AssertionError(f"{name} ended with {status} before this: {what}\n{self.last_words()}")
            return found

        return self.until(f"{name}: {what}", found)

    def wait(self, *names: str, limit: float = PATIENCE) -> dict[str, int]:
        """How these nodes ended, once they have."""
        ended: dict[str, int] = {}

        def over() -> bool:
            for name in names:
                if name not in ended and (status := self.status(name)) is not None:
                    ended[name] = status
            return len(ended) == len(names)

        self.until(f"the end of {', '.join(names)}", over, limit)
        return ended

    def finish(self) -> None:
        """Until every node has left as it should, or one has not."""
        left: set[str] = set()

        def over() -> bool:
            for name in self.names:
                if name not in left and (status := self.status(name)) is not None:
                    assert status == 0, f"{name} ended with {status}\n{self.last_words()}"
                    left.add(name)
            return len(left) == len(self.names)

        self.until("everyone to leave", over)

    def wait_for_more(self, name: str) -> None:
        """Until there is more in a node's journal than now."""
        size = self.journal(name)
        self.until_of(name, "more in the journal", lambda: self.journal(name) > size)

    def wait_for_return(self, name: str) -> None:
        """Until a node that was started again has a connection."""

        def returned() -> bool:
            events = [line["event"] for line in self.said(name)]
            return "replayed" in events and "connected" in events[-1 - events[::-1].index("replayed") :]

        self.until_of(name, "a connection", returned)

    def journal(self, name: str) -> int:
        """Bytes of a node's journal so far."""
        return _size(self.work / "state" / name / FILE)

    def last_words(self) -> str:
        lines = []
        for name in self.names:
            log = self.log(name)
            text = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
            lines += [f"{name}: {line}" for line in text[-6:]]
        return "\n".join(lines)

    # What they leave.

    def collect(self, out: Path) -> Facts:
        with RunFolder(out) as folder:
            return collect(self.work, folder)


@contextlib.contextmanager
def fleet(machine: Machine, scenario: Scenario, hosts: int, work: Path, networks: bool = False) -> Iterator[Fleet]:
    """A deployment, not started yet, whose nodes are gone afterwards."""
    made = Fleet(machine, scenario, hosts, work, networks)
    try:
        yield made
    finally:
        made.end()


def nodes_of(parent: int) -> dict[int, bytes]:
    """The nodes that a process has started and that still run: their numbers and command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it may end while it is looked at
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes()
            if int(after_name[1]) == parent and after_name[0] != "Z" and b"p2p_labeldp\0node" in words:
                found[int(folder.name)] = words
    return found


class Watch(threading.Thread):
    """Looks at what the system tells of a process's nodes while they run: command lines and environments."""

    def __init__(self, parent: int) -> None:
        super().__init__(daemon=True)
        self.words: dict[int, bytes] = {}
        self.environments: dict[int, bytes] = {}
        self._parent = parent
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.2):
            for pid, words in nodes_of(self._parent).items():
                with contextlib.suppress(OSError):
                    self.environments[pid] = Path(f"/proc/{pid}/environ").read_bytes()
                    self.words[pid] = words

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(10)


def _facts(line: str) -> Facts:
    try:
        found: Facts = json.loads(line)
    except ValueError:
        return {"event": "", "text": line}
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def expected_sha256(scenario: Scenario) -> str:
    """The noisy data set as the vectorized engine makes it."""
    return str(run(scenario, engine="vectorized").summary.noisy_sha256)


def audited(place: Path) -> Audit:
    """What an audit of a run folder finds."""
    return audit_runs([place])
