"""Running a plan: what is not in the journal yet is run, wherever there are workers, and journaled as it finishes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from p2p_labeldp.engines.dask_cluster import connect
from p2p_labeldp.engines.runner import Progress
from p2p_labeldp.engines.sweeps import journal
from p2p_labeldp.engines.sweeps.plan import Failure, Job, Plan
from p2p_labeldp.engines.sweeps.tables import Sweep, assemble, write_tables
from p2p_labeldp.engines.sweeps.workers import Results, Task, in_processes, in_this_process, on_cluster, quiet_pool
from p2p_labeldp.errors import RequestError, RunError
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
    Ctrl-C it writes the tables of what there is and raises RunError; called again it goes on.
    """
    if workers != -1 and workers < 1:
        raise RequestError(f"--workers {workers} is not allowed; it must be at least 1, or -1 for every core")
    tell = progress or (lambda stage, done, total: None)
    kept = journal.check(out, plan)
    jobs, failures = plan.jobs(kept)
    task = Task(plan.engine, plan.hosting, None if data_dir is None else data_dir.resolve())
    stage = f"runs, {len(kept)} kept from before" if kept else "runs"
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(dask)) if dask is not None and jobs else None
        book = stack.enter_context(contextlib.closing(journal.Journal(out, plan)))
        jobs = [job for job in jobs if (job.setting, job.replicate) not in book.rows]
        stack.enter_context(quiet_pool())
        results = _results(task, jobs, workers, client)
        stopped = ""
        try:
            with contextlib.closing(results):
                tell(stage, 0, len(jobs))
                for done, (job, said) in enumerate(results, 1):
                    if "metrics" in said:
                        place = {"setting": job.setting, "replicate": job.replicate, "seed": job.seed}
                        book.append({**place, "metrics": said["metrics"]})
                    else:
                        failures.append(Failure(job.setting, job.replicate, said["reason"]))
                    tell(stage, done, len(jobs))
        except KeyboardInterrupt:
            stopped = "interrupted"
        except RunError as error:
            stopped = str(error)
        except OSError as error:  # no process, or no memory for one
            stopped = f"a worker could not be started: {error.strerror or error}"
        found = _written(out, failures)
    if stopped:
        total = len(plan.settings) * plan.seeds
        how_far = f"{len(found.rows)} of {total} rows are kept in {out}; start it again to go on"
        raise RunError(f"{stopped}: {how_far}")
    return found


def _results(task: Task, jobs: list[Job], workers: int, client: Any) -> Results:
    if client is not None:
        # A worker's present folder is another one.
        return on_cluster(task, [job._replace(scenario=_found_anywhere(job)) for job in jobs], client)
    count = _cores() if workers == -1 else workers
    # A single job that is left may be one that kills its process.
    return in_processes(task, jobs, min(count, len(jobs))) if count > 1 else in_this_process(task, jobs)


def _found_anywhere(job: Job) -> Any:
    path = job.scenario.data.path
    return replace(job.scenario, data__path=str(Path(path).resolve())) if path else job.scenario


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _written(out: Path, failures: list[Failure]) -> Sweep:
    header, records, _ = journal.read(out / journal.FILE)
    found = assemble(out, header, records, failures)
    write_tables(found)
    return found
