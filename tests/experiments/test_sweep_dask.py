"""Sweeps on a Dask cluster of two processes: the same rows, whoever dies on the way."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dask_clusters import local_cluster
from processes import until
from swept import journaled, plan_of

from p2p_labeldp.engines import dask_cluster
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments.sweeps import Sweep, inputs, make_plan, replicate, running, sweep, workers
from p2p_labeldp.scenario import parse_scenario

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_cluster(n_workers=2) as made:
        yield made


def table(folder: Path) -> bytes:
    return (folder / "sweep.csv").read_bytes()


def test_a_cluster_gives_the_same_bytes_though_a_worker_is_killed(cluster: Any, whole: Sweep, tmp_path: Path) -> None:
    killed: list[int] = []
    cluster.workers[0].auto_restart = False  # nobody stands in for it

    def kill_one(stage: str, done: int, total: int) -> None:
        if done == 3:
            killed.append(cluster.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    sweep(plan_of(), tmp_path, dask=cluster.scheduler_address, progress=kill_one)
    assert killed
    assert table(tmp_path) == table(whole.folder)
    assert journaled(tmp_path) == journaled(whole.folder)


def test_two_equal_sweeps_on_one_cluster_leave_each_other_alone(cluster: Any, whole: Sweep, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    both = threading.Barrier(2)

    def start(folder: Path) -> None:
        def together(stage: str, done: int, total: int) -> None:
            if done == 1:
                both.wait(60)

        sweep(plan_of(), folder, dask=cluster.scheduler_address, progress=together)

    threads = [threading.Thread(target=start, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [table(folder) for folder in folders] == [table(whole.folder)] * 2


def test_an_interrupt_cancels_what_is_queued_there(cluster: Any, whole: Sweep, tmp_path: Path) -> None:
    def interrupted(stage: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(RunError, match="interrupted: 2 of 12 rows are kept"):
        sweep(plan_of(), tmp_path, dask=cluster.scheduler_address, progress=interrupted)
    assert len(table(tmp_path).splitlines()) == 3
    until(lambda: not cluster.scheduler.tasks)
    sweep(plan_of(), tmp_path, workers=1)
    assert table(tmp_path) == table(whole.folder)


def test_a_setting_that_kills_every_worker_fails_and_whoever_was_blamed_with_it_does_not(
    whole: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = tmp_path / "tried"  # jobs travel by value, so that a list would be another one there

    def make(*shared: Any) -> Callable[..., dict[str, Any]]:
        def task(job: Any, needed: replicate.Needed) -> dict[str, Any]:
            with tried.open("a") as file:
                file.write(f"{job.setting}")
            if job.setting == 1 or (job.setting == 2 and tried.read_text().count("2") == 1):
                # What Dask says of a job whose workers have died, several of them in turn.
                raise distributed.KilledWorker("job", SimpleNamespace(address="tcp://gone:1"), 3)
            return replicate.replicate(job.scenario, *shared, needed)

        return task

    monkeypatch.setattr(running, "Task", make)
    with local_cluster(n_workers=1, processes=False) as cluster:
        found = sweep(plan_of(seeds=1), tmp_path / "sweep", dask=cluster.scheduler_address)
    assert sorted(tried.read_text()) == list("011223")
    assert found.rows == tuple(row for row in whole.rows if row["replicate"] == 0 and row["setting"] != 1)
    assert [(failure["setting"], failure["reason"]) for failure in found.failures] == [(1, workers.DIED)]


def test_a_worker_with_other_versions_is_refused(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = dask_cluster.versions()
    monkeypatch.setattr(dask_cluster, "versions", lambda: mine | {"numpy": "1.0"})
    with pytest.raises(
        RequestError, match=r"worker tcp://\S+ has numpy .*, but 1.0 is used here; results might differ"
    ):
        sweep(plan_of(), tmp_path / "sweep", dask=cluster.scheduler_address)
    assert not (tmp_path / "sweep").exists()


def test_a_worker_with_other_versions_that_comes_later_computes_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = dask_cluster.versions()
    monkeypatch.setattr(running, "versions", lambda: mine | {"scipy": "1.0"})
    found = sweep(plan_of("mechanism.alpha=.2", seeds=1), tmp_path, dask=cluster.scheduler_address)
    assert found.rows == ()
    assert found.failures[0]["reason"].startswith("a worker that came later has scipy ")


def test_a_worker_whose_data_file_is_another_one_computes_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.csv").write_text("a,ward,label\n" + "".join(f"{i},w,{i % 2}\n" for i in range(20)))
    text = '[data]\nname = "csv"\npath = "data.csv"\ncluster_column = "ward"\n[clusters]\nmethod = "given"'
    plan = make_plan(parse_scenario(text), ["mechanism.alpha=.2"], seeds=1)
    options: dict[str, Any] = {"dask": cluster.scheduler_address, "data_dir": tmp_path}
    assert len(sweep(plan, tmp_path / "same", **options).rows) == 1
    monkeypatch.setattr(inputs, "_digest", lambda place: "0" * 64)
    found = sweep(plan, tmp_path / "other", **options)
    assert found.rows == ()
    assert found.failures[0]["reason"].startswith(f"{tmp_path / 'data.csv'}: a worker's file is another one")


def test_files_are_compared_by_name_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("P2P_LABELDP_DATA", raising=False)
    data = parse_scenario('[data]\nname = "adult"').data
    assert inputs.difference(data, None, {"adult/adult.data": None}) == ""
    assert inputs.difference(data, None, {"adult/adult.data": "1"}) == "adult/adult.data: a worker has no such file"
    folder = tmp_path / "p2p_labeldp" / "adult"
    folder.mkdir(parents=True)
    for name in ("adult.data", "adult.test"):
        (folder / name).write_text(name)
    mine = inputs.digests([("adult", ""), ("digits", "")], None)
    assert sorted(mine) == ["adult/adult.data", "adult/adult.test"]
    assert inputs.difference(data, None, mine) == ""
    (folder / "adult.test").write_text("another length")
    assert inputs.difference(data, None, mine).startswith(f"{folder / 'adult.test'}: a worker's file is another one")
    assert inputs.difference(parse_scenario("").data, None, mine) == ""


def test_a_scheduler_that_goes_away_leaves_the_rows(whole: Sweep, tmp_path: Path) -> None:
    with local_cluster(n_workers=1, processes=False) as cluster:

        def close(stage: str, done: int, total: int) -> None:
            if done == 2:
                cluster.close()

        with pytest.raises(
            RunError, match=r"the Dask scheduler has gone: \d+ of 12 rows are kept in .*; start it again"
        ):
            sweep(plan_of(), tmp_path, dask=cluster.scheduler_address, progress=close)
    assert len(table(tmp_path).splitlines()) >= 3
    sweep(plan_of(), tmp_path, workers=1)
    assert table(tmp_path) == table(whole.folder)


def test_a_cluster_that_has_lost_its_workers_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "NO_WORKERS_LIMIT", 0.5)
    monkeypatch.setattr(workers, "LOOK", 0.1)
    with local_cluster(n_workers=1, processes=False) as cluster:

        def dismiss(stage: str, done: int, total: int) -> None:
            if done == 1:
                cluster.scale(0)

        with pytest.raises(RunError, match=r"had no workers for 0.5 seconds: \d+ of 12 rows are kept"):
            sweep(plan_of(), tmp_path, dask=cluster.scheduler_address, progress=dismiss)


def test_a_scheduler_without_workers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "WORKERS_LIMIT", 0.3)
    with (
        local_cluster(n_workers=0, processes=False) as cluster,
        pytest.raises(RequestError, match=r"the scheduler has no workers after 0.3 seconds"),
    ):
        sweep(plan_of(), tmp_path / "sweep", dask=cluster.scheduler_address)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("listening", [False, True], ids=["nobody", "a mute one"])
def test_a_scheduler_that_does_not_answer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listening: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_LIMIT", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listening:
            taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            RequestError, match=rf"--dask {address}: no Dask scheduler answers there within 0.5 seconds"
        ):
            sweep(plan_of(), tmp_path / "sweep", dask=address)
    assert not (tmp_path / "sweep").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("address", ["", "nowhere", "host:port", "http://127.0.0.1:8786", "127.0.0.1:99999", "tcp://:"])
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(RequestError, match="not an address; write it as host:port"):
        sweep(plan_of(), tmp_path / "sweep", dask=address)


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.import_module

    def missing(name: str) -> Any:
        if name.startswith("distributed"):
            raise ImportError(name)
        return whole(name)

    monkeypatch.setattr(dask_cluster.importlib, "import_module", missing)
    with pytest.raises(RequestError, match=r"pip install 'p2p-labeldp\[dask\]'"):
        sweep(plan_of(), tmp_path / "sweep", dask="127.0.0.1:8786")
    assert not (tmp_path / "sweep").exists()
