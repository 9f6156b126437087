"""Sweeps on one machine: the same rows however they came about, and failures that stop nothing."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any, ClassVar

import pytest
from small import TWENTY_FOUR
from swept import VARY, everything, journaled, plan_of

from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments.sweeps import (
    Sweep,
    read_sweep,
    replicate,
    running,
    sweep,
    tables,
    workers,
)
from p2p_labeldp.privacy import View
from p2p_labeldp.reporting.sweeps import budget_note
from p2p_labeldp.scenario import parse_scenario


def test_rows_are_tidy_sorted_and_hold_their_seeds(whole: Sweep) -> None:
    plan = plan_of()
    with (whole.folder / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    places = [(setting, replicate) for setting in range(4) for replicate in range(3)]
    assert [(int(row["setting"]), int(row["replicate"])) for row in rows] == places
    assert [int(row["seed"]) for row in rows] == [plan.seed(*place) for place in places]
    assert [float(row["mechanism.theta"]) for row in rows] == [0.5] * 3 + [1.0] * 3 + [0.5] * 3 + [1.0] * 3
    assert all(float(row["alpha"]) == float(row["mechanism.alpha"]) for row in rows)
    assert all(0 <= float(row["accuracy"]) <= 1 and float(row["epsilon.learner"]) > 0 for row in rows)
    assert len({row["noisy_sha256"] for row in rows}) == len(rows)
    assert not {"seconds", "out"} & rows[0].keys()


def test_a_row_is_what_a_run_of_its_seed_says(whole: Sweep) -> None:
    from p2p_labeldp.experiments import run

    row = whole.rows[4]
    settings = [f"{key}={row[key]}" for key in whole.keys]
    summary = run(parse_scenario(TWENTY_FOUR, overrides=settings, seed=row["seed"]), engine="vectorized").summary
    for name in ("accuracy", "noisy_sha256", "reports", "psi"):
        assert row[name] == getattr(summary, name)
    assert row["epsilon.coalition"] == summary.privacy[View.COALITION].epsilon
    assert row["cluster_size.smallest"] == summary.cluster_sizes.smallest


KILLED = """
import os, signal, sys
from pathlib import Path
from p2p_labeldp.experiments.sweeps import make_plan, sweep
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import parse_scenario

def start(workers, after):
    os.setsid()
    def progress(stage, done, total):
        if done == after:
            os.killpg(0, signal.SIGKILL)
    plan = make_plan(parse_scenario(sys.argv[2]), sys.argv[3:], seeds=3)
    sweep(plan, Path(sys.argv[1]), workers=workers, progress=progress)

for line in sys.stdin:
    child = os.fork()
    if not child:
        start(*map(int, line.split()))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_killed_three_times_and_started_again_it_gives_the_same_bytes(whole: Sweep, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    journal = folder / "sweep.jsonl"
    kept = 0
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder), TWENTY_FOUR, *VARY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # joblib's tracker of semaphores tells of the kill
        text=True,
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        limit = threading.Timer(120, starter.kill)
        limit.start()
        for count, after, torn in ((1, 2, False), (2, 3, True), (1, 1, True)):
            print(count, after, file=starter.stdin, flush=True)
            assert starter.stdout.readline() == f"{-signal.SIGKILL}\n"
            if torn:  # as if the last line had been on its way to the disk
                journal.write_bytes(journal.read_bytes()[:-100])
            kept += after - torn
            assert len(read_sweep(folder).rows) == kept
            assert not (folder / "sweep.csv").exists()
        limit.cancel()
    told: list[tuple[int, int]] = []
    found = sweep(plan_of(), folder, workers=1, progress=lambda stage, done, total: told.append((done, total)))
    assert told[-1] == (12 - kept, 12 - kept)
    assert found.rows == whole.rows
    assert journaled(folder) == journaled(whole.folder)
    assert (folder / "sweep.csv").read_bytes() == (whole.folder / "sweep.csv").read_bytes()
    assert (folder / "sweep.parquet").read_bytes() == (whole.folder / "sweep.parquet").read_bytes()


def test_a_finished_sweep_started_again_computes_nothing(whole: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(whole.folder)
    monkeypatch.setattr(running, "_on_machine", lambda task, jobs, *_: (jobs.pop() for _ in jobs))
    assert sweep(plan_of(), whole.folder, workers=1, dask="127.0.0.1:1").rows == whole.rows
    assert everything(whole.folder) == before


def test_more_seeds_later_add_rows_and_fewer_are_refused(whole: Sweep, tmp_path: Path) -> None:
    sweep(plan_of(seeds=1), tmp_path / "grown", workers=1)
    assert sweep(plan_of(), tmp_path / "grown", workers=1).rows == whole.rows
    before = everything(tmp_path / "grown")
    with pytest.raises(RequestError, match=r"--seeds 2: .* has rows of 3 seeds already; it may only grow"):
        sweep(plan_of(seeds=2), tmp_path / "grown", workers=1)
    assert everything(tmp_path / "grown") == before


@pytest.mark.parametrize(
    ("vary", "options", "message"),
    [
        (("mechanism.alpha=.05,.2",), {}, r"it varies mechanism.alpha, mechanism.theta"),
        ((VARY[0], "mechanism.theta=.5,.9"), {}, r"its setting 1 .* is 0.05, 1.0 there and 0.05, 0.9 here"),
        (VARY, {"text": TWENTY_FOUR.replace("24", "25")}, r"data.users is 24 there and 25 here"),
        (VARY, {"text": TWENTY_FOUR + "[coins]\nseed = 1"}, r"coins.seed is 0 there and 1 here"),
        (VARY, {"engine": "actors"}, r"its engine is vectorized, not actors"),
        (VARY, {"text": TWENTY_FOUR + '[[adversaries]]\nkind = "collusion"\ncount = 2'}, r"its adversaries are others"),
    ],
)
def test_another_sweeps_folder_is_refused_and_left_alone(
    whole: Sweep, vary: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    before = everything(whole.folder)
    with pytest.raises(RequestError, match=f"holds another sweep: {message}"):
        sweep(plan_of(*vary, **options), whole.folder, workers=1)
    assert everything(whole.folder) == before


def test_other_versions_and_changed_data_are_another_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from p2p_labeldp.experiments.sweeps import journal

    data = tmp_path / "data.csv"
    data.write_text("a,label\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    text = f'[data]\nname = "csv"\npath = "{data}"\n[clusters]\ncount = 1\n[mechanism]\nkind = "none"\nrounds = 1'
    plan = plan_of("learner.l2=0.1", text=text, seeds=1)
    found = sweep(plan, tmp_path / "sweep", workers=1)
    assert (tmp_path / "sweep").stat().st_mode & 0o777 == 0o700, "rows hold seeds and what true labels gave"
    assert "readable by its owner alone" in budget_note(found)
    with monkeypatch.context() as patched:
        patched.setattr(journal, "versions", lambda: {"numpy": "1.0"})
        with pytest.raises(RequestError, match=r"holds another sweep: p2p-labeldp was .* rows might differ"):
            sweep(plan, tmp_path / "sweep", workers=1)
    data.write_text(data.read_text() + "20,0\n")
    with pytest.raises(RequestError, match=r"data.csv has changed since"):
        sweep(plan, tmp_path / "sweep", workers=1)


def test_changed_files_of_a_data_set_are_another_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from p2p_labeldp.data.images import IDX_FILES

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    for name in IDX_FILES:
        (tmp_path / "data" / "mnist" / name).write_bytes(b"no pictures")
    plan = plan_of("mechanism.alpha=.1", text='[data]\nname = "mnist"', seeds=1)
    for _ in range(2):
        found = sweep(plan, tmp_path / "sweep", workers=1, data_dir=tmp_path / "data")
        assert "is cut short or damaged" in found.failures[0]["reason"]
    (tmp_path / "data").rename(tmp_path / "moved")  # the same bytes elsewhere are the same data
    monkeypatch.setenv("P2P_LABELDP_DATA", str(tmp_path / "moved"))
    sweep(plan, tmp_path / "sweep", workers=1)
    (tmp_path / "moved" / "mnist" / IDX_FILES[2]).write_bytes(b"other pictures")
    with pytest.raises(RequestError, match=rf"another sweep: mnist/{IDX_FILES[2]} has changed since"):
        sweep(plan, tmp_path / "sweep", workers=1)


@pytest.mark.parametrize("content", [b"not json\n", b"{}\n", b'{"format": "p2p-labeldp sweep 9"}\n', b"some text"])
def test_a_journal_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sweep.jsonl").write_bytes(content)
    with pytest.raises(RequestError, match="journal"):
        sweep(plan_of(), tmp_path, workers=1)
    with pytest.raises(RequestError, match="journal"):
        read_sweep(tmp_path)
    assert everything(tmp_path) == {"sweep.jsonl": content}


def test_damage_in_the_middle_is_named_and_not_repaired(whole: Sweep, tmp_path: Path) -> None:
    lines = (whole.folder / "sweep.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = lines[4][:50] + b"\n"
    (tmp_path / "sweep.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(RequestError, match=r"sweep.jsonl:5: is no line"):
        sweep(plan_of(), tmp_path, workers=1)
    record = json.loads(lines[5]) | {"seed": 1}
    lines[4:6] = [json.dumps(record).encode() + b"\n"]
    (tmp_path / "sweep.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(RequestError, match="is none of this sweep"):
        sweep(plan_of(), tmp_path, workers=1)


def test_a_header_that_was_torn_begins_anew(whole: Sweep, tmp_path: Path) -> None:
    content = (whole.folder / "sweep.jsonl").read_bytes()
    for length in (0, 5, 200):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "sweep.jsonl").write_bytes(content[:length])
        plan = plan_of("mechanism.alpha=.2", seeds=1)
        assert len(sweep(plan, folder, workers=1).rows) == 1


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RequestError, match="exists already and holds no sweep"):
        sweep(plan_of(), tmp_path, workers=1)
    with pytest.raises(RequestError, match="exists already and holds no sweep"):
        sweep(plan_of(), tmp_path / "thesis.tex", workers=1)
    assert everything(tmp_path) == {"thesis.tex": b"precious"}


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path) -> None:
    plan = plan_of("mechanism.alpha=.2", seeds=1)

    def meanwhile(stage: str, done: int, total: int) -> None:
        before = everything(tmp_path / "sweep")
        with pytest.raises(RequestError, match="another sweep is at work in it"):
            sweep(plan, tmp_path / "sweep", workers=1)
        assert everything(tmp_path / "sweep") == before

    sweep(plan, tmp_path / "sweep", workers=1, progress=meanwhile)


def test_failed_settings_do_not_stop_the_rest_and_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 60 clusters of 24 users: known from the scenario. 24 clusters of 20 after the test set is taken: from the data.
    text = TWENTY_FOUR.replace('"given"', '"kmeans"').replace('"synthetic"\nusers = 24', '"breast_cancer"')
    plan = plan_of("clusters.count=2,500", "mechanism.alpha=.1", text=text, seeds=2)
    found = sweep(plan, tmp_path, workers=1)
    assert [row["setting"] for row in found.rows] == [0, 0]
    assert [(row["setting"], row["replicate"]) for row in found.failures] == [(1, 0), (1, 1)]
    assert "clusters.count = 500 is not allowed" in found.failures[0]["reason"]
    assert read_sweep(tmp_path) == found
    with (tmp_path / "failures.csv").open(newline="") as file:
        assert [row["clusters.count"] for row in csv.DictReader(file)] == ["500", "500"]
    tried = []
    monkeypatch.setattr(workers, "replicate", lambda *job: tried.append(job) or {"metrics": found.rows[0] | {}})
    assert sweep(plan, tmp_path, workers=1).failures == ()
    assert len(tried) == 2
    assert not (tmp_path / "failures.csv").exists()


def test_a_run_that_breaks_is_a_failure_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr(replicate, "run", broken)
    found = sweep(plan_of("mechanism.alpha=.2", seeds=1), tmp_path, workers=1)
    assert found.rows == ()
    assert found.failures[0]["reason"].startswith("ZeroDivisionError: a bug (test_sweep.py:")
    assert (tmp_path / "sweep.csv").read_text() == "setting,replicate,seed,mechanism.alpha\n"


def deadly(setting: int) -> Callable[..., Any]:
    """Instead of ``Task``: one setting kills the process it runs in. Sent to workers by value."""

    def make(engine: str, hosting: str | None, data_dir: Path | None) -> Callable[..., dict[str, Any]]:
        def task(job: Any, needed: object = None) -> dict[str, Any]:
            import os
            import signal

            from p2p_labeldp.experiments.sweeps.replicate import replicate

            if job.setting == setting:
                os.kill(os.getpid(), signal.SIGKILL)
            return replicate(job.scenario, engine, hosting, data_dir)

        return task

    return make


@pytest.mark.slow
def test_a_worker_that_dies_fails_its_own_job_and_no_other(
    whole: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "Task", deadly(1))
    for _ in range(2):  # the second time it is the only job, and has a process of its own all the same
        found = sweep(plan_of(VARY[0], "mechanism.theta=.5", seeds=1), tmp_path, workers=2)
        (row,) = found.rows
        assert row == whole.rows[0]
        (failure,) = found.failures
        assert (failure["setting"], failure["reason"]) == (1, workers.DIED)


class FakePool:
    """Runs jobs at once, the last one first, and breaks with what it still has when one of them is deadly."""

    started: ClassVar[list[int]] = []

    def __init__(self, count: int, **_: object) -> None:
        self.started.append(count)
        self.waiting: list[tuple[Future[Any], Any, Any]] = []
        self.broken = False

    def submit(self, task: Any, job: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor
        future: Future[Any] = Future()
        self.waiting.append((future, task, job))
        return future

    def run(self) -> None:
        """One job."""
        future, task, job = self.waiting.pop()
        if task(job) is not None:
            future.set_result({"metrics": job})
            return
        self.broken = True
        for each, _, _ in [(future, task, job), *self.waiting]:
            each.set_exception(BrokenExecutor())

    def shutdown(self, **_: object) -> None:
        pass


@pytest.mark.parametrize("deadly_settings", [{0}, {1, 3}, {0, 1, 2, 3}, set()])
def test_every_job_is_answered_once_whatever_dies(monkeypatch: pytest.MonkeyPatch, deadly_settings: set[int]) -> None:
    pools: list[FakePool] = []

    def make(count: int, **options: object) -> FakePool:
        pools.append(FakePool(count, **options))
        return pools[-1]

    def wait(pending: Any, **_: object) -> None:
        if not any(future.done() for future in pending) and pending:
            pools[-1].run()

    monkeypatch.setattr("joblib.externals.loky.ProcessPoolExecutor", make)
    monkeypatch.setattr(workers, "wait", wait)
    jobs, _ = plan_of().jobs(())
    task: Any = lambda job: None if job.setting in deadly_settings else job  # noqa: E731
    said = list(workers.in_processes(task, jobs, 3))
    assert sorted(job[:2] for job, _ in said) == sorted(job[:2] for job in jobs)
    assert {job.setting for job, answer in said if "reason" in answer} == deadly_settings
    assert all(("reason" in answer) == (job.setting in deadly_settings) for job, answer in said)


@pytest.mark.parametrize(("count", "after"), [(1, 2), pytest.param(2, 9, marks=pytest.mark.slow)])
def test_an_interrupt_keeps_its_rows_and_writes_their_table(
    whole: Sweep, tmp_path: Path, count: int, after: int
) -> None:
    made: list[int] = []
    before = children()  # those of others

    def interrupted(stage: str, done: int, total: int) -> None:
        if done == after:
            made.extend(set(children()) - set(before))
            raise KeyboardInterrupt

    with pytest.raises(RunError, match=rf"interrupted: {after} of 12 rows are kept in .*; start it again to resume"):
        sweep(plan_of(), tmp_path, workers=count, progress=interrupted)
    with (tmp_path / "sweep.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(journaled(tmp_path)) == after
    assert len(made) == (count if count > 1 else 0)
    assert not set(made) & set(children())
    sweep(plan_of(), tmp_path, workers=1)
    assert (tmp_path / "sweep.csv").read_bytes() == (whole.folder / "sweep.csv").read_bytes()
    assert journaled(tmp_path) == journaled(whole.folder)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_python_loses_is_noticed_at_the_next_row(tmp_path: Path) -> None:
    def lost(stage: str, done: int, total: int) -> None:
        if done == 2:
            with contextlib.suppress(KeyboardInterrupt):  # as where it is raised in a weak reference's callback
                signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RunError, match="interrupted: 2 of 12 rows are kept"):
        sweep(plan_of(), tmp_path, workers=1, progress=lost)
    assert signal.getsignal(signal.SIGINT) is before


def children() -> list[int]:
    """Process ids of this process's worker processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"popen_loky_posix" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (OSError, IndexError):
            continue
    return found


def test_the_engines_give_the_same_rows_but_for_messages(whole: Sweep, tmp_path: Path) -> None:
    plan = plan_of("mechanism.alpha=.05,.2", "mechanism.theta=.5,1", seeds=1, engine="actors")
    found = sweep(plan, tmp_path, workers=1)
    of_messages = {"messages", "virtual_seconds"}
    assert all(row["messages"] > 0 and row["virtual_seconds"] is not None for row in found.rows)
    for actors, arrays in zip(found.rows, whole.rows[::3], strict=True):
        assert arrays["messages"] is None
        assert {n: v for n, v in actors.items() if n not in of_messages} == {
            n: v for n, v in arrays.items() if n not in of_messages
        }


def test_mechanisms_faults_and_attacks_have_columns_of_their_own(tmp_path: Path) -> None:
    kinds = plan_of("mechanism.kind=peer_to_peer,dp_sgd,none", "mechanism.epsilon=2", seeds=1)
    found = sweep(kinds, tmp_path / "kinds", workers=1)
    assert [row["epsilon.model"] is None for row in found.rows] == [True, False, True]
    assert 1.998 <= found.rows[1]["epsilon.model"] <= 2.0
    assert found.rows[0]["epsilon.learner"] <= 2
    assert found.rows[2]["epsilon.learner"] == float("inf")
    with (tmp_path / "kinds" / "sweep.csv").open(newline="") as file:
        assert [row["epsilon.learner"] for row in csv.DictReader(file)][1:] == ["inf", "inf"]
    entries = '[[faults]]\nrule = "loss"\nprobability = 0.1\n[[adversaries]]\nkind = "collusion"\ncount = 4\n'
    text = TWENTY_FOUR + entries
    row = sweep(plan_of("mechanism.alpha=.2", text=text, seeds=1), tmp_path / "entries", workers=1).rows[0]
    assert -1 <= row["attack1.collusion.advantage"] <= row["attack1.collusion.advantage_high"]
    assert row["fault1.loss.fired"] == row["delivery.sent_again"] + row["delivery.lost_for_good"]
    names = replicate.numbers_of(parse_scenario(text))
    # How many labels there are, and so recalls, no scenario says.
    numbers = {name for name, value in row.items() if isinstance(value, int | float) and name[:7] != "recall."}
    assert numbers - {"setting", "replicate", "seed", "mechanism.alpha"} <= set(names)


def test_parquet_reads_back_equal_to_csv(whole: Sweep) -> None:
    pandas = pytest.importorskip("pandas")
    from_csv = pandas.read_csv(whole.folder / "sweep.csv")
    from_parquet = pandas.read_parquet(whole.folder / "sweep.parquet")
    assert list(from_csv) == list(from_parquet) == list(whole.columns)
    for name in from_csv:
        for mine, theirs, row in zip(from_csv[name], from_parquet[name], whole.rows, strict=True):
            assert (pandas.isna(mine) and pandas.isna(theirs) and row[name] is None) or mine == theirs == row[name]


def test_without_pyarrow_there_is_no_parquet_and_no_stale_one(
    whole: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("mechanism.alpha=.2", seeds=1)
    sweep(plan, tmp_path, workers=1)
    assert (tmp_path / "sweep.parquet").exists()
    monkeypatch.setattr(tables, "has_parquet", lambda: False)
    sweep(plan, tmp_path, workers=1)
    assert sorted(everything(tmp_path)) == ["sweep.csv", "sweep.jsonl"]


def test_runs_in_one_process_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    both = threading.Barrier(2)

    def watched(*_: object, **__: object) -> None:
        inside.append(1)
        assert len(inside) == 1
        threading.Event().wait(0.05)
        inside.pop()
        raise RunError("seen")

    monkeypatch.setattr(replicate, "run", watched)
    said: list[dict[str, Any]] = []

    def run() -> None:
        both.wait(10)
        said.append(replicate.replicate(parse_scenario(""), "vectorized", None, None))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert said == [{"reason": "seen"}] * 2


def test_a_run_has_one_thread_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    from threadpoolctl import threadpool_info

    seen: list[int] = []

    def watched(*_: object, **__: object) -> None:
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        raise RunError("seen")

    monkeypatch.setattr(replicate, "run", watched)
    replicate.replicate(parse_scenario(""), "vectorized", None, None)
    assert seen
    assert set(seen) == {1}
