"""A run of a crowd that is never in one place: neither its users nor its reports.

Workers make the users of their shares, the client writes what they reported to disk as it comes and reads it once in
order at the end. What a summary says of the whole is found from the shares: counts add up, the worst cluster is that
of some share, and the sizes of groups are known beforehand.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit import folder as files
from p2p_labeldp.data import Crowd, load_crowd
from p2p_labeldp.engines.shares import (
    MOST_USERS,
    SHARES_PER_THREAD,
    CrowdShare,
    crowd_shares,
    most_users,
    run_share,
    share_bytes,
)
from p2p_labeldp.engines.split import Done, Record, Workers
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import make_coins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.runs.curves import curves
from p2p_labeldp.runs.execute import Progress
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.runs.guarantees import Circumstances, guarantees, headline
from p2p_labeldp.runs.resolve import Resolved, resolve
from p2p_labeldp.runs.results import stated, write_manifest, write_summary
from p2p_labeldp.runs.spool import PIECE, Spool, spool_bytes
from p2p_labeldp.runs.summary import Sizes, Summary, Worker
from p2p_labeldp.scenario import Engine, Scenario

UNLEARNED = "nobody holds everyone's features, so nothing was learned"
REPORT_BYTES = 24  # in reports.npz: round, user and label


def run_crowd(
    scenario: Scenario, workers: Workers, folder: RunFolder | None, tell: Progress, most: int = 0
) -> tuple[Resolved, Summary]:
    """The scenario as resolved, and the summary. ``most``: how many users a share may have; 0 chooses."""
    began = time.perf_counter()
    tell("data", 0, 0)
    crowd = load_crowd(scenario.data, scenario.data_seed)
    sizes = crowd.sizes
    resolved = resolve(scenario, labels=crowd.labels, users=crowd.users, sizes=sizes.tolist())
    scenario, parameters = resolved.scenario, resolved.plan.parameters
    most = most or most_users(crowd.users, parameters.rounds, SHARES_PER_THREAD * workers.threads())
    with contextlib.ExitStack() as stack:
        place = folder.path if folder is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _check_room(crowd.users, parameters, place, folder)
        if folder is not None:
            folder.write_scenario(scenario)
        found = _Found()
        path = folder.path / files.REPORTS if folder is not None else None
        try:
            spool = stack.enter_context(Spool(place, parameters.rounds, crowd.labels))
            _exchange(scenario, crowd, parameters, workers, spool, found, tell, most)
            digest = spool.finish(path, lambda done, total: tell("reports", done, total))
        except KeyboardInterrupt:
            so_far = f"{found.record.users:,} of {crowd.users:,} users"
            raise RunError(f"interrupted after {so_far}; nothing was kept") from None
        except OSError as error:
            where = f"--out {folder.place}" if folder is not None else str(place)
            raise RunError(f"{where}: cannot be written: {error.strerror or error}; nothing was kept") from None
        reported = spool.reported
    circumstances = Circumstances(_distinct(sizes, parameters), resolved.delta)
    table = guarantees(resolved.plan, circumstances)
    summary = Summary(
        **stated(resolved, _warnings(scenario, sizes, parameters)),
        users=crowd.users,
        labels=crowd.labels,
        clusters=len(sizes),
        reports=sum(reported),
        messages=0,
        engine=Engine.VECTORIZED.value,
        noisy_sha256=digest,
        accuracy_reason=UNLEARNED,
        privacy=table,
        headline=headline(table),
        curves={} if folder is None else curves(resolved.plan, circumstances, table),
        cluster_sizes=Sizes(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        phi=0.0,  # everyone of a group has the group's p(y|x)
        psi=found.psi,
        outcomes_by_round=tuple(
            {"reported": count, "dropped": crowd.users - found.abstained - count, "abstained": found.abstained}
            for count in reported
        ),
        virtual_seconds=0.0,
        workers=tuple(Worker(**done) for done in found.record.by_worker()),
        seconds=round(time.perf_counter() - began, 3),
        out=str(folder.place) if folder is not None else None,
    )
    if folder is not None:
        write_manifest(
            folder,
            scenario,
            packages=("distributed",),
            engine=Engine.VECTORIZED.value,
            hosting=None,
            assignment_sha256=found.assignment.hexdigest(),
            labels=crowd.labels,
            classes=list(crowd.classes),
            features=crowd.centres.shape[1],
        )
        write_summary(folder, summary)
    return resolved, summary


class _Found:
    """What the shares told, put together."""

    def __init__(self) -> None:
        self.record = Record()
        self.abstained = 0
        self.psi: float | None = 0.0
        self.assignment = hashlib.sha256()

    def note(self, done: Done) -> None:
        self.record.note(done)
        self.abstained += done.result.abstained
        worst = done.result.psi
        self.psi = None if self.psi is None or worst is None else max(self.psi, worst)


def _exchange(
    scenario: Scenario,
    crowd: Crowd,
    parameters: Parameters,
    workers: Workers,
    spool: Spool,
    found: _Found,
    tell: Progress,
    most: int,
) -> None:
    def shares() -> Iterator[CrowdShare]:
        cluster = 0
        for share in crowd_shares(crowd, most):
            # While workers are busy: the digest of everyone's cluster takes as long as a tenth of a share's exchange.
            for piece in _assignment(cluster, share.people.sizes):
                found.assignment.update(piece.astype("<i8", copy=False).data)
            cluster += len(share.people.sizes)
            yield share

    coins = make_coins(scenario.coins.source, scenario.coins.seed)
    task = partial(run_share, parameters=parameters, coins=coins, distortion=True)
    tell("users", 0, crowd.users)
    with contextlib.closing(workers.work(shares(), task)) as results:
        for done in results:
            spool.put(done.number, done.result)
            found.note(done)
            tell("users", found.record.users, crowd.users)


def _distinct(sizes: NDArray[np.int64], parameters: Parameters) -> dict[int, int]:
    """The sizes of clusters that take part; nobody goes missing in arrays."""
    return {int(size): 0 for size in np.unique(sizes) if size >= parameters.minimum_size}


def _assignment(first: int, sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Everyone's cluster, piece by piece."""
    edges = np.concatenate([[0], np.cumsum(sizes)])
    for start in range(0, int(edges[-1]), PIECE):
        yield np.repeat(np.arange(first, first + len(sizes)), np.diff(np.clip(edges, start, start + PIECE)))


def _check_room(users: int, parameters: Parameters, place: Path, folder: RunFolder | None) -> None:
    """Hours of work should not end at a full disk."""
    expected = users * parameters.rounds * parameters.theta
    need = spool_bytes(users, parameters) + (REPORT_BYTES * expected if folder is not None else 0)
    free = shutil.disk_usage(place).free
    if need > free:
        where = f"--out {folder.place}" if folder is not None else f"the folder for temporary files, {place.parent}"
        raise RequestError(f"{where}: needs about {need / 1e9:.3g} GB, but {free / 1e9:.3g} GB are free there")


def _warnings(scenario: Scenario, sizes: NDArray[np.int64], parameters: Parameters) -> list[str]:
    found = []
    if scenario.faults:
        found.append("the scenario's faults were left out: the vectorized engine sends no messages")
    largest = int(sizes.max())
    if largest > MOST_USERS:
        need = share_bytes(largest, 1, parameters) / 2**30
        found.append(
            f"the largest cluster has {largest:,} users, more than a share: a worker took {need:.2g} GiB for it"
        )
    return found
