"""One run split over worker processes beside the same run in one process.

    python benchmarks/split.py                        10^7 users over two workers: under a minute
    python benchmarks/split.py --large                10^8 users; 2 GB of disk
    python benchmarks/split.py --users N --workers W  --folder DIR for the run folder, which is removed again

Scheduler and workers are started here, with one thread and a memory limit each. The client and the single process are
processes of their own, so that the most memory each has held is its own. "At rest" is what a worker holds before any
work. The single process makes the crowd's labels, exchanges and digests them; it neither accounts for privacy nor
writes reports, which the client's time is told without, and with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from turns import apart

from p2p_labeldp.data import load_crowd
from p2p_labeldp.engines.shares import SHARES_PER_THREAD, most_users, share_bytes
from p2p_labeldp.engines.split import peak_memory
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import Rosters, SeededCoins, exchange, noisy_sha256
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import Scenario, parse_scenario

CLUSTER_SIZE = 1_000
MIB, LIMIT = 2**20, "1GiB"
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "4194304", "MALLOC_TRIM_THRESHOLD_": "16777216"}
"""For workers: Dask's own setting gives every block of coins back to the system at once, which doubles their time."""
PARAMETERS = Parameters(alpha=0.1, theta=0.5)


def scenario_of(users: int) -> Scenario:
    return parse_scenario(
        f"""
        data = {{ name = "crowd", users = {users}, groups = {max(1, users // CLUSTER_SIZE)}, rate = 0.3 }}
        clusters = {{ method = "given" }}
        mechanism = {{ alpha = {PARAMETERS.alpha}, theta = {PARAMETERS.theta} }}
        """,
        "split",
        (),
        1,
    )


def one_process(users: int) -> dict[str, Any]:
    """The whole crowd in memory: labels, exchange, digest."""
    scenario = scenario_of(users)
    began, cpu = time.perf_counter(), time.process_time()
    crowd = load_crowd(scenario.data, scenario.coins.seed)
    people = crowd.people(0, len(crowd.sizes))
    groups = people.groups()
    labels = people.labels(groups)
    rosters = Rosters(groups, None, np.cumsum(people.sizes) - people.sizes, people.sizes)
    release = next(exchange(labels, rosters, PARAMETERS, SeededCoins(scenario.coins.seed)))
    exchanged, cpu = time.perf_counter() - began, time.process_time() - cpu
    digest = noisy_sha256([(release.users, release.labels)])
    seconds = time.perf_counter() - began
    return {"exchange": exchanged, "cpu": cpu, "digest": seconds - exchanged, "sha256": digest, "peak": peak_memory()}


def split(users: int, address: str, folder: Path) -> dict[str, Any]:
    """The client of a cluster."""
    stages: dict[str, float] = {}

    def note(stage: str, done: int, total: int) -> None:
        stages.setdefault(stage, time.perf_counter())
        stages["last " + stage] = time.perf_counter()

    made = run(scenario_of(users), engine="vectorized", out=folder / "run", progress=note, dask=address)
    summary = made.summary.as_json()
    return {
        "exchange": stages["last users"] - stages["users"],
        "digest": stages["last reports"] - stages["last users"],
        "seconds": summary["seconds"],
        "sha256": summary["noisy_sha256"],
        "workers": summary["workers"],
        "reports": summary["reports"],
        "peak": peak_memory(),
        "disk": sum(path.stat().st_size for path in (folder / "run").iterdir()),
    }


def hashing_speed() -> float:
    """Bytes a second of SHA-256 here, best of 5."""
    data = bytes(32 * MIB)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        hashlib.sha256(data)
        times.append(time.perf_counter() - began)
    return len(data) / min(times)


def measure(users: int, workers: int, folder: Path | None) -> None:
    from distributed import Client, LocalCluster

    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        LocalCluster(
            n_workers=workers, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        at_rest = client.run(peak_memory)
        plain = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
        ours = apart(__file__, "split", users, cluster.scheduler_address, place, environment=plain)
    single = apart(__file__, "one", users, environment=plain)
    assert ours["sha256"] == single["sha256"], "the digests differ"
    most = most_users(users, PARAMETERS.rounds, SHARES_PER_THREAD * workers)
    bound = share_bytes(most, -(-most // CLUSTER_SIZE), PARAMETERS)
    print(f"{users:,} users in clusters of {CLUSTER_SIZE:,}, {ours['reports']:,} reports; digests equal: ", end="")
    print(f"{ours['sha256'][:16]}")
    print(f"  one process  {single['exchange']:8.1f} s exchange {single['digest']:8.1f} s digest", end="")
    print(f"  {single['peak'] / MIB:8,.0f} MiB at most")
    print(
        f"  {workers} workers    {ours['exchange']:8.1f} s exchange {ours['digest']:8.1f} s digest and reports.npz",
        end="",
    )
    print(f", {ours['seconds']:.1f} s in all; client {ours['peak'] / MIB:,.0f} MiB at most")
    whole, parts = single["cpu"] / users * 1e9, sum(worker["cpu_seconds"] for worker in ours["workers"]) / users * 1e9
    print(
        f"  exchange: {single['exchange'] / ours['exchange']:.2f} times as fast; CPU per user {whole:.1f} ns in one",
        end="",
    )
    print(f" process, {parts:.1f} ns on workers, which count labels and pack them too")
    for worker in ours["workers"]:
        rest = at_rest.get(worker["worker"], 0)
        peak = worker["peak_bytes"]
        print(
            f"  {worker['worker']}: {worker['shares']} shares, {worker['users']:,} users, "
            f"{rest / MIB:,.0f} MiB at rest, {peak / MIB:,.0f} MiB at most: {(peak - rest) / MIB:,.0f} MiB more, "
            f"{bound / MIB:,.0f} MiB by the formula for {most:,} users"
        )
    print(f"  run folder {ours['disk'] / 1e9:.2f} GB; SHA-256 {hashing_speed() / 1e6:,.0f} MB/s here", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[10**7])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the run folder is written and removed again")
    parser.add_argument("--large", action="store_true", help="10^8 users")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, users, *more = options.measure
        found = one_process(int(users)) if what == "one" else split(int(users), more[0], Path(more[1]))
        print(json.dumps(found))
        return
    for users in [10**8] if options.large else options.users:
        measure(users, options.workers, options.folder)


if __name__ == "__main__":
    main()
