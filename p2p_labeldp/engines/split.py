"""One run split by clusters: shares go out to workers, results come back in any order.

A share's outcome is the same bits wherever it is computed (``shares``), so neither the number of workers nor the
order in which they finish changes a result, and a share whose worker died is simply computed again elsewhere. With
the operating system's coins a share that is computed again draws new ones; only one result of a share is ever used.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.engines.shares import (
    MOST_HELD,
    SHARES_PER_THREAD,
    Share,
    ShareResult,
    held_shares,
    most_users,
    run_share,
)
from p2p_labeldp.errors import RunError
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.exchange import Rosters
from p2p_labeldp.privacy import Parameters

Task = Callable[[Share], ShareResult]
AHEAD = 2  # shares on their way per thread: the next is there when one is done
LOOK = 2.0  # seconds between looks at the cluster while nothing comes back
RESULT_LIMIT = 60.0  # seconds for a result to travel, or to be computed again where its worker died with it
ALONE_LIMIT = 60.0  # seconds without any worker until a run is given up


@dataclass(frozen=True)
class Done:
    """A share's result, and who worked on it."""

    number: int
    result: ShareResult
    worker: str
    peak: int
    """The most memory its process has held so far, in bytes; 0 where the system does not tell."""
    cpu: float
    """Seconds of CPU that the share took."""


class Workers(Protocol):
    """Who computes shares."""

    def threads(self) -> int:
        """How many shares are computed at a time."""
        ...

    def work(self, shares: Iterable[Share], task: Task) -> Generator[Done]:
        """Every share's result, as they come; of the shares no more than a few are taken ahead."""
        ...


class DaskWorkers:
    """The workers of a Dask cluster, given a ``distributed.Client``. They may come and go while a run is on."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._shown = f"--dask {address}"
        self._threads, self._looked = 0, -LOOK
        self._seen = time.monotonic()

    def threads(self) -> int:
        self._look()
        return max(1, self._threads)

    def work(self, shares: Iterable[Share], task: Task) -> Generator[Done, None, None]:
        finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        run = f"p2p-labeldp-share-{uuid.uuid4().hex[:12]}"
        under_way: dict[str, Any] = {}
        coming = enumerate(shares)
        try:
            while True:
                while len(under_way) < AHEAD * self.threads() and (following := next(coming, None)) is not None:
                    future = self._submit(run, task, *following)
                    under_way[future.key] = future
                    future.add_done_callback(finished.put)
                if not under_way:
                    return
                future = self._next(finished)
                done = self._result(future)
                del under_way[future.key], future  # the worker forgets the result with it
                yield done
        finally:
            if under_way:
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    self._client.cancel([*under_way.values()], force=True)

    def _submit(self, run: str, task: Task, number: int, share: Share) -> Any:
        with warnings.catch_warnings():
            # A cluster larger than a share is a large task, and there is no other way to send it.
            warnings.filterwarnings("ignore", "Sending large graph")
            try:
                return self._client.submit(_compute, task, number, share, key=f"{run}-{number}", pure=False)
            except Exception as error:
                raise self._gone(error) from None

    def _next(self, finished: queue.SimpleQueue[Any]) -> Any:
        while True:
            try:
                return finished.get(timeout=LOOK)
            except queue.Empty:
                self._look()

    def _result(self, future: Any) -> Done:
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        while True:
            try:
                found: Done = future.result(timeout=RESULT_LIMIT)
                return found
            except TimeoutError:
                self._look()
            except FutureCancelledError as error:
                raise self._gone(error) from None
            except KilledWorker:
                raise RunError(
                    f"{self._shown}: several workers died over the same share; a worker's memory limit may be too low"
                ) from None
            except MemoryError:
                raise RunError(f"{self._shown}: a worker has too little memory for a share") from None

    def _look(self) -> None:
        """How many threads there are; RunError if there have been none for long, or nobody can tell."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        try:
            self._threads = sum(self._client.nthreads().values())
        except Exception as error:
            raise self._gone(error) from None
        self._looked = now
        if self._threads:
            self._seen = now
        elif now - self._seen > ALONE_LIMIT:
            raise RunError(f"{self._shown}: the scheduler has had no workers for {ALONE_LIMIT:g} seconds")

    def _gone(self, error: Exception) -> RunError:
        return RunError(f"{self._shown}: the scheduler has gone, and the run with it ({type(error).__name__})")


def _compute(task: Task, number: int, share: Share) -> Done:
    """On a worker."""
    from distributed import get_worker

    began = time.thread_time()
    result = task(share)
    return Done(number, result, get_worker().address, peak_memory(), time.thread_time() - began)


def peak_memory() -> int:
    """The most memory this process has held so far, in bytes; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


class Record:
    """Who did how much of a run."""

    def __init__(self) -> None:
        self.users = 0
        self._workers: dict[str, dict[str, Any]] = {}

    def note(self, done: Done) -> None:
        self.users += done.result.users
        nothing = {"worker": done.worker, "shares": 0, "users": 0, "cpu_seconds": 0.0, "peak_bytes": 0}
        mine = self._workers.setdefault(done.worker, nothing)
        mine["shares"] += 1
        mine["users"] += done.result.users
        mine["cpu_seconds"] = round(mine["cpu_seconds"] + done.cpu, 3)
        mine["peak_bytes"] = max(mine["peak_bytes"], done.peak)

    def by_worker(self) -> list[dict[str, Any]]:
        return [self._workers[name] for name in sorted(self._workers)]


def run_split(
    population: Population,
    parameters: Parameters,
    coins: Coins,
    workers: Workers,
    *,
    most: int = 0,
    tell: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> tuple[Outcome, Record]:
    """As ``run_vectorized`` for peer-to-peer, with the exchange of a population in memory split over workers.

    ``most``: how many users a share may have at most; 0 chooses.
    """
    users = len(population.labels)
    clusters = np.asarray(population.cluster(np.arange(users), population.features), dtype=np.int64)
    rosters = Rosters.of(clusters)
    # Where clusters' ids are mixed each share draws most of everyone's coins, so there are no more than there must be.
    several = SHARES_PER_THREAD if rosters.members is None else 1
    most = most or most_users(users, parameters.rounds, several * workers.threads(), MOST_HELD)
    small = np.min_scalar_type(parameters.labels - 1)
    kept = np.zeros((parameters.rounds, users), dtype=np.bool_)
    reported = np.zeros((parameters.rounds, users), dtype=small)
    abstained = 0
    record = Record()
    where: dict[int, Any] = {}

    def cut() -> Iterator[Share]:
        for number, share in enumerate(held_shares(population.labels, rosters, parameters.labels, most)):
            where[number] = slice(share.ids.start, share.ids.stop) if isinstance(share.ids, range) else share.ids
            yield share

    with contextlib.closing(workers.work(cut(), partial(run_share, parameters=parameters, coins=coins))) as results:
        for done in results:
            here, result = where.pop(done.number), done.result
            abstained += result.abstained
            for round_ in range(parameters.rounds):
                bits = np.unpackbits(result.kept[round_], count=result.users).astype(np.bool_)
                labels = np.zeros(result.users, dtype=small)
                found = result.labels[round_]
                labels[bits] = np.unpackbits(found, count=result.reported[round_]) if parameters.labels == 2 else found
                kept[round_, here], reported[round_, here] = bits, labels
            record.note(done)
            tell("users", record.users, users)
    rounds = [(np.flatnonzero(bits), labels[bits]) for bits, labels in zip(kept, reported, strict=True)]
    outcomes = [
        {"reported": len(ids), "dropped": users - abstained - len(ids), "abstained": abstained} for ids, _ in rounds
    ]
    return Outcome(clusters=clusters, rounds=rounds, outcomes=outcomes), record
