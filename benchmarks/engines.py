"""How much the engines cost beside the barest code that does the same work.

    python benchmarks/engines.py            ratios, trace cost and growth with n: about three minutes
    python benchmarks/engines.py --large    3,000,000 users with a task each, 10,000,000 hosted, 10^8 vectorized

Every figure is CPU time, each measured in a process of its own, best of several; ratios are between
figures taken in turn in the same minutes, since machines are noisy. The baselines:

* the bare loop steps the very same state machines from one deque: no tasks, no mailboxes, no trace. It has
  the collector quieted like the engine, or the engine would look better than it is.
* bare numpy is the mechanism for two labels written down in one function: coins, flips, places, peers,
  keeps, in blocks of the same size.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from turns import Figures, apart, quickest

from p2p_labeldp.collector import quiet_collector
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.engines.split import peak_memory
from p2p_labeldp.mechanisms import Rosters, SeededCoins, exchange, noisy_sha256
from p2p_labeldp.mechanisms.exchange import BLOCK
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import Features
from p2p_labeldp.scenario import Network

PARAMETERS = Parameters(alpha=0.1, theta=0.5)
SEED = 1
CLUSTER_SIZE = 500


def clusters_of(users: int, dtype: type = np.int64) -> NDArray[np.integer]:
    """Clusters of five hundred users each, mixed up so that members are not neighbours in memory."""
    count = max(1, users // CLUSTER_SIZE)
    return (np.arange(users, dtype=np.int64) * 7919 % count).astype(dtype)


def population_of(users: int) -> Population:
    generator = np.random.default_rng(0)
    clusters = clusters_of(users)
    labels = (generator.random(users) < 0.3).astype(np.int64)
    features = generator.random((users, 2), dtype=np.float32)
    return Population(features, labels, lambda ids, _: clusters[ids])


def simulation_of(users: int, **options: object) -> Simulation:
    return Simulation(population_of(users), exchange_of(PARAMETERS), SeededCoins(SEED), Network(), **options)  # type: ignore[arg-type]


def bare_loop(simulation: Simulation) -> Outcome:
    """The same roles, one queue, nothing else."""
    roles = [*simulation.users, simulation.host, None, simulation.learner, simulation.coordinator]
    features = simulation.population.features
    with quiet_collector():
        queue = deque((user.id, *user.hello(Features(features[user.id]))) for user in simulation.users)
        while queue:
            sender, receiver, message = queue.popleft()
            for to, out in roles[receiver].receive(sender, message):  # type: ignore[union-attr]
                queue.append((receiver, to, out))
    return simulation.outcome()


def bare_numpy(labels: NDArray[np.uint8], rosters: Rosters) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Algorithm 2 for two labels, in blocks."""
    count = len(labels)
    noisy, kept, peers = np.empty(count, np.uint8), np.empty(count, np.bool_), np.empty(count, np.int32)
    clusters, members = rosters.clusters, rosters.members
    sizes, starts = rosters.sizes.astype(np.float64), rosters.starts.astype(np.int32)
    key = np.array([SEED, 0], dtype=np.uint64)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        u = np.random.Generator(np.random.Philox(key=key, counter=start)).random((stop - start, 4))
        noisy[start:stop] = labels[start:stop] ^ (u[:, 0] < 0.1)
        cluster = clusters[start:stop]
        place = (u[:, 1] * sizes.take(cluster)).astype(np.int32) + starts.take(cluster)
        peers[start:stop] = place if members is None else members.take(place)
        kept[start:stop] = u[:, 2] < 0.5
    reported = np.empty(count, np.uint8)
    for start in range(0, count, BLOCK):
        reported[start : start + BLOCK] = noisy.take(peers[start : start + BLOCK])
    return reported, kept


def measure(users: int, what: str) -> Figures:
    """Run one thing in this process; CPU seconds, growth of the resident set, digest of the result."""
    if what.startswith("numpy") or what == "vectorized":
        labels = (np.random.default_rng(0).random(users, dtype=np.float32) < 0.3).astype(np.uint8)
        rosters = Rosters.of(clusters_of(users, np.int32))
        began = time.process_time()
        if what == "vectorized":
            release = next(exchange(labels, rosters, PARAMETERS, SeededCoins(SEED)))
            reported, kept = release.reported, release.kept
        else:
            reported, kept = bare_numpy(labels, rosters)
        seconds = time.process_time() - began
        digest = noisy_sha256([(np.flatnonzero(kept), reported[kept])])
        return {"seconds": seconds, "digest": digest, "peak": peak_memory()}
    with tempfile.TemporaryFile() as file:
        hosting = "cluster" if what.startswith("hosted") else "user"
        write: Callable[[bytes], object] = file.write if not what.endswith("untraced") else (lambda _: None)
        before = peak_memory()
        began = time.process_time()
        simulation = simulation_of(users, hosting=hosting, write=write)
        if what.endswith("untraced"):
            simulation.network.flush = simulation.network._batch.clear  # type: ignore[method-assign]
        outcome = bare_loop(simulation) if what == "bare" else simulation.run()
        seconds = time.process_time() - began
        found = {"messages": float(sum(outcome.messages.values())), "bytes": float(file.tell())}
    return {
        "seconds": seconds,
        "digest": outcome.sha256(),
        "peak": peak_memory(),
        "grown": peak_memory() - before,
        **found,
    }


def measured(users: int, *things: str, times: int = 3) -> dict[str, Figures]:
    return quickest(times, {what: partial(apart, __file__, users, what) for what in things})


def ratios() -> None:
    print("actors beside a bare loop over the same state machines (CPU; best of 3)")
    print(f"{'users':>10} {'bare us':>8} {'hosted us':>9} {'ratio':>6} {'tasks us':>9} {'ratio':>6} {'KiB/user':>9}")
    for users in (10_000, 100_000):
        found = measured(users, "bare", "hosted", "tasks")
        bare, hosted, tasks = (found[name]["seconds"] for name in ("bare", "hosted", "tasks"))
        memory = found["tasks"]["grown"] / users / 1024
        print(
            f"{users:>10,} {bare / users * 1e6:>8.2f} {hosted / users * 1e6:>9.2f} {hosted / bare:>6.2f} "
            f"{tasks / users * 1e6:>9.2f} {tasks / bare:>6.2f} {memory:>9.2f}"
        )
    print("\ntrace (hosted users, with and without; best of 5)")
    for users in (100_000, 300_000):
        found = measured(users, "hosted", "hosted-untraced", times=5)
        messages = found["hosted"]["messages"]
        cost = (found["hosted"]["seconds"] - found["hosted-untraced"]["seconds"]) / messages
        size = found["hosted"]["bytes"] / messages
        print(f"{users:>10,} users, {messages:,.0f} messages: {cost * 1e6:.2f} us and {size:.1f} bytes each")
    print("\nvectorized beside bare numpy (CPU; best of 5)")
    for users in (1_000_000, 10_000_000):
        found = measured(users, "numpy", "vectorized", times=5)
        bare, ours = (found[name]["seconds"] / users * 1e9 for name in ("numpy", "vectorized"))
        print(f"{users:>10,} users: {bare:.1f} ns bare, {ours:.1f} ns ours, ratio {ours / bare:.2f}")


def growth() -> None:
    print("\ncost against n: CPU per user, and its ratio to the line above")
    for what, counts in (
        ("tasks", (1_000, 10_000, 100_000, 1_000_000)),
        ("hosted", (1_000, 10_000, 100_000, 1_000_000)),
        ("vectorized", (100_000, 1_000_000, 10_000_000, 100_000_000)),
    ):
        last = 0.0
        for users in counts:
            each = measured(users, what, times=1 if users >= 1_000_000 else 3)[what]["seconds"] / users
            ratio = f"{each / last:.2f}" if last else ""
            print(f"{what:>12} {users:>12,} users {each * 1e6:>10.3f} us {ratio:>6}")
            last = each


def large() -> None:
    for what, users, limit in (("tasks", 3_000_000, 10), ("hosted", 10_000_000, 6), ("vectorized", 10**8, 4)):
        found = measured(users, what, times=1)[what]
        print(
            f"{what:>12} {users:>12,} users: {found['seconds']:,.0f} s of CPU, "
            f"peak {found['peak'] / 2**30:.2f} GiB of {limit} allowed",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("USERS", "WHAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(int(options.measure[0]), options.measure[1])))
    elif options.large:
        large()
    elif options.growth:
        growth()
    else:
        ratios()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
