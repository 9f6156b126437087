"""What the protocol costs over TLS on loopback, beside the same messages in memory.

    python benchmarks/deployment.py                      about three minutes
    python benchmarks/deployment.py --users 1000 10000   other numbers of users
    python benchmarks/deployment.py --roles 300000 1000000   what each role takes of a large run over four hosts

Two tables:

* the deployment: coordinator, learner, auditor and two user hosts as processes, every message journaled, traced
  and sent over mutual TLS. Time runs from the coordinator's word to begin until everyone is done, which ends the
  exchange, and on until every report has arrived, and every record of the trace; clusters are given. Messages are all
  that the trace holds, and counted until then. Beside it the CPU of the actors engine for the same users.
* the transport alone: two processes, one sends mail of a hundred messages an item, the other decodes it, journals
  nothing and acknowledges.

``--roles`` gives another one: of coordinator, learner, auditor and the largest of four user hosts, CPU seconds from
start to end and the most memory it had (VmHWM, its program and libraries included).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import trio

USERS = (1_000, 3_000, 10_000, 30_000)
HOSTS = 2
ROLE_HOSTS = 4
LOOK = 0.2  # seconds between two looks at a process
ITEMS = 20_000
PER_ITEM = 100


def scenario(users: int):  # type: ignore[no-untyped-def]
    from p2p_labeldp.scenario import parse_scenario

    return parse_scenario(
        f"""
        [data]
        name = "synthetic"
        users = {users}
        groups = {max(2, users // 250)}
        [clusters]
        method = "given"
        minimum_size = 1
        [learner]
        max_iterations = 1
        [coins]
        source = "seeded"
        [network]
        hello_limit = 600
        round_limit = 600
        """
    )


class Watch(threading.Thread):
    """Looks at the processes of a deployment while they run: CPU seconds and most bytes of each, by name."""

    def __init__(self, children) -> None:  # type: ignore[no-untyped-def]
        super().__init__(daemon=True)
        self.taken: dict[str, tuple[float, int]] = {}
        self._children = children
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(LOOK):
            for name, child in list(self._children.items()):
                folder = Path(f"/proc/{child.process.pid}")
                try:
                    ticks = sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13]))
                    peak = int((folder / "status").read_text().split("VmHWM:")[1].split()[0]) << 10
                except (OSError, IndexError):  # it has ended
                    continue
                self.taken[name] = ticks / os.sysconf("SC_CLK_TCK"), peak

    def end(self) -> None:
        self._over.set()
        self.join()


def deployed(users: int, hosts: int = HOSTS) -> dict[str, Any]:
    """Seconds of the exchange over TLS, how many messages it took, and what every process took."""
    from p2p_labeldp.deployment.local import LocalDeployment

    work = Path(tempfile.mkdtemp(prefix="p2p-labeldp-"))
    try:
        deployment = LocalDeployment(scenario(users), hosts, work)
        deployment.prepare()
        watch = Watch(deployment.children)
        watch.start()
        trio.run(deployment.run)
        watch.end()
        summary = json.loads((work / "learner" / "summary.json").read_text())
        at: dict[str, float] = {}
        for line in (work / "logs" / "coordinator.jsonl").read_text().splitlines():
            event = json.loads(line)
            at.setdefault(event["event"], datetime.fromisoformat(event["time"]).timestamp())
            if event["event"] == "progress":
                at.setdefault(event["phase"], datetime.fromisoformat(event["time"]).timestamp())
        return {
            "messages": summary["messages"],
            "exchange": at["exchanged"] - at["begun"],
            "arrived": at["tracing"] - at["begun"],
            "whole": at["left"] - at["begun"],
            "digest": summary["noisy_sha256"],
            "taken": watch.taken,
        }
    finally:
        shutil.rmtree(work, ignore_errors=True)


def tell_roles(everyone: list[int]) -> None:
    """One row for each number of users."""
    roles = ("coordinator", "learner", "auditor", "a host")
    print(
        f"{'users':>9} {'exchange':>9} {'arrived':>9} {'whole':>7} {'CPU':>7}"
        + "".join(f"{role:>18}" for role in roles)
    )
    for users in everyone:
        found = deployed(users, ROLE_HOSTS)
        taken = found["taken"]
        hosts = [value for name, value in taken.items() if name.startswith("users")]
        shown = [taken[role] for role in roles[:3]] + [(max(cpu for cpu, _ in hosts), max(most for _, most in hosts))]
        cpu = sum(seconds for seconds, _ in taken.values())
        moments = f"{found['exchange']:>7.1f} s {found['arrived']:>7.1f} s {found['whole']:>5.1f} s"
        print(f"{users:>9} {moments} {cpu:>5.0f} s", end="")
        print("".join(f"{f'{seconds:.0f} s, {most >> 20} MB':>18}" for seconds, most in shown), flush=True)


def in_memory(users: int) -> tuple[float, str]:
    """CPU seconds of the same exchange with one task per cluster, and the data set it gives."""
    from p2p_labeldp.data import load
    from p2p_labeldp.engines.actors import Simulation
    from p2p_labeldp.engines.outcome import Population
    from p2p_labeldp.mechanisms.coins import make_coins
    from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
    from p2p_labeldp.protocol.beforehand import parameters_of
    from p2p_labeldp.runs.clusters import ClusterPlan

    chosen = scenario(users)
    dataset = load(chosen.data, 0)
    plan = ClusterPlan(chosen, users, dataset.given_clusters)
    simulation = Simulation(
        Population(dataset.features, dataset.labels, plan),
        exchange_of(parameters_of(chosen, 2)),
        make_coins("seeded", 0),
        chosen.network,
        hosting="cluster",
    )
    began = time.process_time()
    outcome = simulation.run()
    return time.process_time() - began, outcome.sha256()


async def _transport(role: str, folder: Path, port: int) -> None:
    """One end of a connection: the sender posts everything at once, the receiver acknowledges it."""
    from p2p_labeldp.deployment.items import decode_item, encode_mail
    from p2p_labeldp.network.credentials import Credentials
    from p2p_labeldp.network.tls import Transport
    from p2p_labeldp.protocol.messages import Ask
    from p2p_labeldp.protocol.wire import Envelope

    credentials = Credentials.load(folder / role)
    transport = Transport(credentials, lambda peer: (1, "", ""), lambda peer, opening: None, lambda *_, **__: None)
    async with trio.open_nursery() as nursery:
        if role == "coordinator":
            await nursery.start(transport.run, f"127.0.0.1:{port}")
            print("ready", flush=True)
            received, began = 0, 0.0
            while received < ITEMS:
                arrivals = await transport.receive()
                began = began or time.perf_counter()
                for arrival in arrivals:
                    decode_item(arrival.body)
                    transport.acknowledge(arrival.key)
                received += len(arrivals)
            print(msgspec.json.encode({"seconds": time.perf_counter() - began}).decode(), flush=True)
            await trio.sleep(0.5)
        else:
            transport.connect("coordinator", f"127.0.0.1:{port}")
            await nursery.start(transport.run, None)
            envelopes = [Envelope(user, user + 1, Ask(0)) for user in range(PER_ITEM)]
            for _ in range(ITEMS):
                (body,) = encode_mail(envelopes)
                transport.post("coordinator", 1, body)
                if transport.unacknowledged("coordinator") > 2_000:
                    await trio.sleep(0.001)
            while transport.unacknowledged("coordinator"):  # noqa: ASYNC110 - once, when all is measured
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


def transport_rate() -> float:
    """Messages a second between two processes, encoding and decoding included."""
    from p2p_labeldp.deployment.certificates import init_certificates
    from p2p_labeldp.deployment.local import _free_ports

    folder = Path(tempfile.mkdtemp(prefix="p2p-labeldp-"))
    try:
        init_certificates(folder / "certs", 1)
        (port,) = _free_ports(1)
        command = [sys.executable, __file__, "--end", str(folder / "certs"), str(port)]
        with subprocess.Popen([*command, "coordinator"], stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            receiver.stdout.readline()
            with subprocess.Popen([*command, "users-1"]):
                seconds = json.loads(receiver.stdout.readline())["seconds"]
        return ITEMS * PER_ITEM / float(seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=USERS)
    parser.add_argument("--roles", type=int, nargs="+", metavar="USERS")
    parser.add_argument("--end", nargs=3, metavar=("CERTS", "PORT", "ROLE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.end:
        folder, port, role = options.end
        trio.run(_transport, role, Path(folder), int(port))
        return
    if options.roles:
        tell_roles(options.roles)
        return
    titles = ("users", "messages", "exchange", "us/user", "arrived", "us/user", "messages/s", "in memory", "ratio")
    print(" ".join(f"{title:>{width}}" for title, width in zip(titles, (7, 9, 8, 8, 8, 8, 11, 10, 6), strict=True)))
    for users in options.users:
        found, (memory, digest) = deployed(users), in_memory(users)
        assert found["digest"] == digest, "the deployment and the engine disagree"
        exchange, arrived = found["exchange"], found["arrived"]
        print(
            f"{users:>7} {found['messages']:>9.0f} {exchange:>8.2f} {1e6 * exchange / users:>8.0f} "
            f"{arrived:>8.2f} {1e6 * arrived / users:>8.0f} {found['messages'] / arrived:>11.0f} "
            f"{memory:>10.2f} {arrived / memory:>6.1f}"
        )
    print(f"transport alone, {PER_ITEM} messages an item: {transport_rate():,.0f} messages/s")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
