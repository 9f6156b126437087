"""Where replicates run: in this process, in several of this machine's, or on a Dask cluster.

Each way takes jobs and gives (job, what ``replicate`` said) as they finish, in any order. A process that dies takes
no sweep with it: jobs that may have killed it are run again one at a time, and one that kills its process there too
has failed, with that as its reason.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from p2p_labeldp.errors import RunError
from p2p_labeldp.experiments.sweeps.plan import Job
from p2p_labeldp.experiments.sweeps.replicate import Needed, replicate
from p2p_labeldp.plugins import load_plugins
from p2p_labeldp.systems import interrupts_held

AHEAD = 2  # jobs sent for each worker, so that none waits for its next one
DIED = "its worker process died: killed, or out of memory"
BREAK_LIMIT = 30.0  # seconds in which a pool that has lost a process tells all jobs so
NO_WORKERS_LIMIT = 60.0  # seconds that a cluster may be without workers
ANSWER_LIMIT = 30.0  # seconds that a scheduler may take to say how many it has
LOOK = 2.0  # seconds between looks at a cluster that says nothing
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Results = Generator[tuple[Job, dict[str, Any]], None, None]


class Task:
    """What is done with a job: ``replicate`` with what all jobs of a sweep share."""

    def __init__(self, engine: str, hosting: str | None, data_dir: Path | None) -> None:
        self._shared = engine, hosting, data_dir

    def __call__(self, job: Job, needed: Needed | None = None) -> dict[str, Any]:
        return replicate(job.scenario, *self._shared, needed)


def in_this_process(task: Task, jobs: Sequence[Job]) -> Results:
    for job in jobs:
        yield job, task(job)


def in_processes(task: Task, jobs: Sequence[Job], workers: int) -> Results:
    """By joblib's pool of processes, which tells when one of them has died."""
    queue: deque[Job] = deque(jobs)
    suspects: deque[Job] = deque()
    last: deque[Job] = deque()
    while queue or suspects or last:
        unfinished: list[Job] = []
        if queue and not suspects:
            yield from _pooled(task, queue, workers, AHEAD * workers, unfinished)
            suspects.extend(unfinished)
            continue
        yield from _pooled(task, suspects or last, 1, 1, unfinished)
        for job in unfinished:
            yield job, {"reason": DIED}
            # Its other replicates would probably do the same to their neighbours.
            last.extend(other for other in queue if other.setting == job.setting)
            queue = deque(other for other in queue if other.setting != job.setting)


def _pooled(task: Task, queue: deque[Job], workers: int, ahead: int, unfinished: list[Job]) -> Results:
    """Run jobs until there are none or a process dies; what was under way then is ``unfinished``."""
    from joblib.externals.loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(workers, timeout=None, env=_ONE_THREAD, initializer=_begin, initargs=(os.getpid(),))
    pending: dict[Future[dict[str, Any]], Job] = {}
    try:
        while queue or pending:
            while queue and len(pending) < ahead:
                with _deaf_children():
                    pending[pool.submit(task, queue[0])] = queue[0]
                queue.popleft()
            wait(pending, return_when=FIRST_COMPLETED)
            for future in [future for future in pending if future.done()]:
                if not isinstance(future.exception(), BrokenExecutor):
                    yield pending.pop(future), _said(future)
            if any(future.done() for future in pending):
                raise BrokenExecutor
    except BrokenExecutor:
        wait(pending, timeout=BREAK_LIMIT)
        for future, job in pending.items():
            if not future.done() or isinstance(future.exception(), BrokenExecutor):
                unfinished.append(job)
            else:
                yield job, _said(future)
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _said(future: Any) -> dict[str, Any]:
    error = future.exception()
    if error is None:
        found: dict[str, Any] = future.result()
        return found
    return {"reason": " ".join(f"{type(error).__name__}: {error}".split())}


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C, from their first moment on: it is for the parent to handle."""
    resource_tracker.ensure_running()  # started later, it would take the mask off
    with interrupts_held():
        yield


def _begin(parent: int) -> None:
    """In a new worker: without a parent there is nothing to do, even if nobody could say so."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    load_plugins()  # scenarios that come may hold a plugin's classes


@contextlib.contextmanager
def quiet_pool() -> Iterator[None]:
    """joblib replaces a worker that has grown too large, which nobody need be told."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        yield


def on_cluster(task: Task, jobs: Sequence[Job], client: Any, needed: Needed) -> Results:
    """By Dask's futures, each told what is needed of its worker. One that dies has its jobs run elsewhere, by Dask.

    Keys are this sweep's own, so that another with the same settings on the same cluster is another one.
    """
    from distributed import KilledWorker

    queue, suspects = deque(jobs), deque[Job]()
    pending: dict[Any, Job] = {}
    name = f"sweep-{uuid.uuid4().hex}"
    crew = _Crew(client)
    try:
        while queue or pending or suspects:
            alone = not queue and not pending  # those that have been blamed for a death
            source, ahead = (suspects, 1) if alone else (queue, AHEAD * crew.count())
            while source and len(pending) < ahead:
                job = source.popleft()
                key = f"{name}-{job.setting}-{job.replicate}{'-alone' if alone else ''}"
                pending[client.submit(task, job, needed, key=key, pure=False)] = job
            for future in _finished(client, list(pending)):
                if future.status not in ("finished", "error"):
                    raise RunError("the Dask scheduler has gone")
                if future.status == "error" and isinstance(future.exception(), KilledWorker):
                    # Whoever was on a worker with the culprit is blamed with it: alone, before it counts.
                    job = pending.pop(future)
                    if future.key.endswith("-alone"):
                        yield job, {"reason": DIED}
                    else:
                        suspects.append(job)
                    continue
                try:
                    said = future.result(timeout=LOOK) if future.status == "finished" else _said(future)
                except TimeoutError:
                    continue  # its worker died with the result, which is computed again
                yield pending.pop(future), said
    finally:
        with contextlib.suppress(Exception):  # the scheduler may have gone
            client.cancel(list(pending), force=True)


def _finished(client: Any, futures: list[Any]) -> list[Any]:
    """Those that are done, after a moment at the latest."""
    library = importlib.import_module("distributed")
    with client.as_current(), contextlib.suppress(TimeoutError, CancelledError):
        library.wait(futures, timeout=LOOK, return_when="FIRST_COMPLETED")
    return [future for future in futures if future.done()]


class _Crew:
    """How many workers a cluster has, looked at now and then."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._count = 0
        self._looked = -math.inf
        self._seen = time.monotonic()

    def count(self) -> int:
        """At least 1. RunError where there have been none for long, or nobody answers."""
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            try:
                self._count = len(self._client.sync(self._client.scheduler.ncores, callback_timeout=ANSWER_LIMIT))
            except TimeoutError:
                raise RunError(f"the Dask scheduler has not answered for {ANSWER_LIMIT:g} seconds") from None
            except Exception:  # whatever a broken connection makes of it
                raise RunError("the Dask scheduler has gone") from None
            if self._count:
                self._seen = now
            elif now - self._seen > NO_WORKERS_LIMIT:
                raise RunError(f"the Dask cluster has had no workers for {NO_WORKERS_LIMIT:g} seconds")
        return max(1, self._count)
