"""What it costs a run to be watched: CPU time with a page open beside the same run without it.

    python benchmarks/watch.py [--users 20000] [--pairs 9] [--whole]

The exchange of actors alone, traced to disk, at full speed; with ``--whole`` the command ``p2p-labeldp run`` from its
start to its end, report included. Runs with and without take turns, so that both see the same machine, and the ratio is
that of the least of each: whatever else the machine does only adds. A process that reads every event stands for the
browser and is not counted; the page's server, a thread in the run's own process, is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

import numpy as np

from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.mechanisms.coins import SeededCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.reporting.watching.server import WatchServer
from p2p_labeldp.reporting.watching.simulated import WatchedSimulation
from p2p_labeldp.scenario import Network, parse_scenario

CLUSTER = 100
READER = "import sys, urllib.request as r\nfor line in r.urlopen(sys.argv[1] + 'events'): pass"
TARGET = 1.05


@contextmanager
def page(users: int, clusters: int) -> Iterator[WatchedSimulation]:
    """Someone who watches, and whose users' messages are drawn."""
    watched = WatchedSimulation(parse_scenario('[data]\nname = "crowd"'), "benchmark")
    watched.follow(np.arange(users) % clusters, ("0", "1"), np.arange(users) % 2)
    with WatchServer(watched) as server:
        reader = subprocess.Popen([sys.executable, "-c", READER, server.address], stderr=subprocess.DEVNULL)
        try:
            while not server.pages:
                time.sleep(0.01)
            yield watched
            watched.broke("over")
        finally:
            reader.kill()
            reader.wait()


def exchange(users: int, hosting: str, watched: WatchedSimulation | None, trace: Path) -> tuple[float, str]:
    """Seconds of CPU, and the digest of what came out."""
    clusters = max(2, users // CLUSTER)
    people = Population(np.zeros((users, 1), dtype=np.float32), np.arange(users) % 2, lambda ids, _: ids % clusters)
    with trace.open("wb") as file:
        simulation = Simulation(
            people,
            exchange_of(Parameters(0.1)),
            SeededCoins(1),
            Network(),
            hosting=hosting,
            write=file.write,
            on_batch=None if watched is None else lambda batch: watched.see(simulation, batch),
        )
        began = time.process_time()
        outcome = simulation.run()
        return time.process_time() - began, outcome.sha256()


def command(users: int, hosting: str, watch: bool, folder: Path) -> tuple[float, str]:
    """Seconds of CPU of a whole run, and its digest."""
    scenario = folder / "watched.toml"
    scenario.write_text(f'[data]\nname = "synthetic"\nusers = {users}\n[clusters]\ncount = {max(2, users // 1000)}\n')
    words = ["run", str(scenario), "--json", "--hosting", hosting, "--out", str(folder / f"{time.monotonic_ns()}")]
    words += ["--watch"] if watch else []
    run = subprocess.Popen(
        [sys.executable, "-m", "p2p_labeldp", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stderr is not None
    reader = None
    if watch:
        address = run.stderr.readline().split()[-1]
        reader = subprocess.Popen([sys.executable, "-c", READER, address], stderr=subprocess.DEVNULL)
    digest = json.loads(run.stdout.read())["noisy_sha256"]
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if reader is not None:
        reader.kill()
        reader.wait()
    return used.ru_utime + used.ru_stime, digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    for hosting in ("user", "cluster"):
        times: dict[bool, list[float]] = {False: [], True: []}
        digests = set()
        with tempfile.TemporaryDirectory() as folder:
            for pair in range(2 * asked.pairs):
                watch = (pair + pair // 2) % 2 == 0  # either comes first as often
                if asked.whole:
                    seconds, digest = command(asked.users, hosting, watch, Path(folder))
                else:
                    with page(asked.users, max(2, asked.users // CLUSTER)) if watch else nullcontext() as watched:
                        seconds, digest = exchange(asked.users, hosting, watched, Path(folder) / "trace")
                times[watch].append(seconds)
                digests.add(digest)
        assert len(digests) == 1, "watching has changed an outcome"
        each = median(watched / alone for alone, watched in zip(times[False], times[True], strict=True))
        ratio = min(times[True]) / min(times[False])
        a_user = 1e6 * min(times[False]) / asked.users
        print(
            f"{asked.users:,} users, hosting {hosting}: {ratio:.3f} times the CPU with a page open (median of pairs "
            f"{each:.3f}; target {TARGET}); {a_user:.1f} µs a user without"
        )


if __name__ == "__main__":
    main()
