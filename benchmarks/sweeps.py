"""How much faster a sweep is on two workers than on one, by joblib and by Dask.

    python benchmarks/sweeps.py                 about three minutes on two idle cores
    python benchmarks/sweeps.py --runs 60 --times 3

The runs take a second or more each, with one thread of BLAS on either side. Every figure is the wall time of a whole
``sweep``, with starting its processes and writing its tables, on folders of their own; a Dask cluster is up before the
clock starts, as a cluster is. One and two workers are measured in turn, since machines are noisy, and the best of
each counts. Where others use the machine, wall times say little: CPU times beside them show what the second worker
costs. The tables must be the same, byte for byte, or it stops.

``--seeds`` takes several runs of each setting instead of a setting for each run. ``--ideal`` also runs half of the
sweep in one process and then in two at once that share nothing: what two cores of this machine give at most.
"""

from __future__ import annotations

import argparse
import logging
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from p2p_labeldp.experiments.sweeps import Plan, make_plan, sweep
from p2p_labeldp.scenario import parse_scenario

SCENARIO = """
[data]
name = "synthetic"
users = 6000
groups = 30
dimensions = 30
[clusters]
method = "given"
[learner]
max_iterations = 60
"""


def plan_of(runs: int, seeds: int = 1) -> Plan:
    """Settings that differ in theta alone, ``seeds`` runs of each."""
    count = runs // seeds
    thetas = ",".join(f"{0.5 + 0.5 * number / count:g}" for number in range(count))
    return make_plan(parse_scenario(SCENARIO), [f"mechanism.theta={thetas}"], seeds=seeds)


def timed(plan: Plan, folder: Path, **where: object) -> tuple[float, bytes]:
    began = time.perf_counter()
    found = sweep(plan, folder, **where)  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    if found.failures:
        raise SystemExit(f"a run failed: {found.failures[0]['reason']}")
    return seconds, (folder / "sweep.csv").read_bytes()


def measure(runs: int, seeds: int, times: int, engines: list[str]) -> None:
    plan = plan_of(runs, seeds)
    tables: set[bytes] = set()
    best: dict[tuple[str, int], tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(times):
            for engine in engines:
                for workers in (1, 2):
                    folder = Path(scratch) / f"{engine}-{workers}-{turn}"
                    before = cpu()
                    if engine == "joblib":
                        seconds, table = timed(plan, folder, workers=workers)
                    else:
                        seconds, table = on_dask(plan, folder, workers)
                    tables.add(table)
                    found = seconds, cpu() - before
                    best[engine, workers] = min(found, best.get((engine, workers), found))
                    print(f"  {engine:>6} on {workers}: {found[0]:.2f} s, CPU {found[1]:.2f} s", file=sys.stderr)
    assert len(tables) == 1, "the tables differ"
    print(f"{runs} runs, best of {times}; the same table each time, byte for byte")
    print(f"{'':>8} {'one worker':>12} {'a run':>8} {'two workers':>12} {'ratio':>7} {'CPU, one':>10} {'CPU, two':>10}")
    for engine in engines:
        (one, one_cpu), (two, two_cpu) = best[engine, 1], best[engine, 2]
        walls = f"{one:>10.2f} s {one / runs:>6.2f} s {two:>10.2f} s {one / two:>7.2f}"
        print(f"{engine:>8} {walls} {one_cpu:>8.2f} s {two_cpu:>8.2f} s")


def cpu() -> float:
    """CPU seconds of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def on_dask(plan: Plan, folder: Path, workers: int) -> tuple[float, bytes]:
    from distributed import LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, protocol="tcp://") as cluster:
        return timed(plan, folder, dask=cluster.scheduler_address)


def ideal(runs: int) -> None:
    """The same work in two processes at once, that share nothing, against twice the time of one of them alone."""
    seconds = []
    for processes in (1, 2):
        command = [sys.executable, __file__, "--alone", str(runs // 2)]
        began = time.perf_counter()
        started = [subprocess.Popen(command) for _ in range(processes)]
        if any(process.wait() for process in started):
            raise SystemExit("a process failed")
        seconds.append(time.perf_counter() - began)
    alone, both = 2 * seconds[0], seconds[1]
    print(f"{'ideal':>8} {alone:>10.2f} s {alone / runs:>6.2f} s {both:>10.2f} s {alone / both:>7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=1, help="runs of each setting; must divide --runs")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--engines", nargs="+", choices=("joblib", "dask"), default=["joblib", "dask"])
    parser.add_argument("--ideal", action="store_true", help="also what two processes give that share nothing")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        with tempfile.TemporaryDirectory() as scratch:
            timed(plan_of(options.alone), Path(scratch) / "alone", workers=1)
        return
    measure(options.runs, options.seeds, options.times, options.engines)
    if options.ideal:
        ideal(options.runs)


if __name__ == "__main__":
    main()
