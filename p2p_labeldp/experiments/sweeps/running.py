"""Running a plan: what is not in the journal yet is run, wherever there are workers, and journaled as it finishes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import joblib

from p2p_labeldp.data.sets import places
from p2p_labeldp.engines.dask_cluster import connect, versions
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments.sweeps import inputs, journal
from p2p_labeldp.experiments.sweeps.plan import Failure, Job, Plan
from p2p_labeldp.experiments.sweeps.replicate import Needed
from p2p_labeldp.experiments.sweeps.tables import Sweep, assemble, write_tables
from p2p_labeldp.experiments.sweeps.workers import Results, Task, in_processes, in_this_process, on_cluster, quiet_pool
from p2p_labeldp.runs.execute import Progress
from p2p_labeldp.scenario import replace


def sweep(
    plan: Plan,
    out: Path,
    *,
    workers: int = -1,
    dask: str | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Every row of the plan, those of earlier starts in ``out`` included, and its tables written.

    ``workers`` processes (-1: one for each core; 1: this one), or the Dask cluster at the address ``dask``. Stopped by
    Ctrl-C it writes the tables of what there is and raises RunError; called again it resumes.
    """
    if workers != -1 and workers < 1:
        raise RequestError(f"--workers {workers} is not allowed; it must be at least 1, or -1 for every core")
    tell = progress or (lambda stage, done, total: None)
    files = inputs.digests(plan.data_sets(), data_dir)
    kept = journal.check(out, plan, files)
    jobs, failures = plan.jobs(kept)
    folder = None if data_dir is None else data_dir.resolve()
    task = Task(plan.engine, plan.hosting, folder)
    stage = f"runs, {len(kept)} kept from before" if kept else "runs"
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(dask)) if dask is not None and jobs else None
        book = stack.enter_context(contextlib.closing(journal.Journal(out, plan, files)))
        jobs = [job for job in jobs if (job.setting, job.replicate) not in book.rows]
        stack.enter_context(quiet_pool())
        results = _on_machine(task, jobs, workers) if client is None else _on_cluster(task, jobs, client, folder, files)
        stopped = ""
        try:
            with _interrupts() as heard, contextlib.closing(results):
                tell(stage, 0, len(jobs))
                for done, (job, said) in enumerate(results, 1):
                    if "metrics" in said:
                        place = {"setting": job.setting, "replicate": job.replicate, "seed": job.seed}
                        book.append({**place, "metrics": said["metrics"]})
                    else:
                        failures.append(Failure(job.setting, job.replicate, said["reason"]))
                    tell(stage, done, len(jobs))
                    if heard:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            stopped = "interrupted"
        except RunError as error:
            stopped = str(error)
        except OSError as error:  # no process, or no memory for one
            stopped = f"a worker could not be started: {error.strerror or error}"
        found = _written(out, failures)
    if stopped:
        total = len(plan.settings) * plan.seeds
        how_far = f"{len(found.rows)} of {total} rows are kept in {out}; start it again to resume"
        raise RunError(f"{stopped}: {how_far}")
    return found


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Those that came: one that Python loses, being raised where a library forgets something, is noticed too."""
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):  # ignored by wish, perhaps
        yield heard
        return

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)


def _on_machine(task: Task, jobs: list[Job], workers: int) -> Results:
    count = joblib.cpu_count() if workers == -1 else workers  # those that this process may use
    # A single job that is left may be one that kills its process.
    return in_processes(task, jobs, min(count, len(jobs))) if count > 1 else in_this_process(task, jobs)


def _on_cluster(task: Task, jobs: list[Job], client: Any, data_dir: Path | None, files: inputs.Digests) -> Results:
    """A worker's present folder is another one, so that paths go there whole."""
    whole: dict[str, str] = {}
    for path in {job.scenario.data.path for job in jobs if job.scenario.data.name == "csv"}:
        place = places("csv", path, data_dir)[path]
        whole[path] = path if place is None else str(place.resolve())
    sent = [
        job._replace(scenario=replace(job.scenario, data__path=whole[job.scenario.data.path]))
        if job.scenario.data.name == "csv"
        else job
        for job in jobs
    ]
    needed = Needed(versions(), {whole.get(name, name): digest for name, digest in files.items()})
    return on_cluster(task, sent, client, needed)


def _written(out: Path, failures: list[Failure]) -> Sweep:
    header, records, _ = journal.read(out / journal.FILE)
    found = assemble(out, header, records, failures)
    write_tables(found)
    return found
