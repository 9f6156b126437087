"""A run in shares is the same run: bit for bit, and in memory that a share bounds."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Case, cases
from small import population_of

from p2p_labeldp.engines import split
from p2p_labeldp.engines.shares import (
    GAP,
    MOST_CELLS,
    MOST_REPORTS,
    MOST_USERS,
    CoinsOf,
    CrowdShare,
    HeldShare,
    Share,
    cut,
    held_shares,
    most_users,
    run_share,
    share_bytes,
)
from p2p_labeldp.engines.split import DaskWorkers, Done, Task, run_split
from p2p_labeldp.engines.vectorized import run_vectorized
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import Rosters, SeededCoins
from p2p_labeldp.mechanisms.coins import SystemCoins
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.runs import Summary, read_summary
from p2p_labeldp.runs import crowd as module
from p2p_labeldp.runs.crowd import run_crowd
from p2p_labeldp.runs.folder import RunFolder
from p2p_labeldp.scenario import MAX_SEED, Scenario, parse_scenario

CROWD = """
[data]
name = "crowd"
users = 403
groups = 10
[clusters]
method = "given"
minimum_size = 20
[mechanism]
alpha = 0.3
theta = 0.7
rounds = 2
"""


def crowd(*settings: str, seed: int = 3) -> Scenario:
    return parse_scenario(CROWD, "crowd", settings, seed)


def silent(stage: str, done: int, total: int) -> None:
    pass


class InProcess:
    """This process by itself, one share after the other."""

    def threads(self) -> int:
        return 1

    def work(self, shares: Iterable[Share], task: Task) -> Generator[Done, None, None]:
        for number, share in enumerate(shares):
            yield Done(number, task(share), "this process", 1 << 20, 0.5)


class Travelling(InProcess):
    """Everything goes through pickle, as on a cluster, and the last share is done first."""

    def work(self, shares: Iterable[Share], task: Task) -> Generator[Done, None, None]:
        sent = pickle.dumps((task, list(shares)))
        task, arrived = pickle.loads(sent)
        for number in reversed(range(len(arrived))):
            yield Done(number, pickle.loads(pickle.dumps(task(arrived[number]))), f"worker {number % 2}", 1 << 20, 0.5)


def in_shares(scenario: Scenario, out: Path, most: int, workers: Any = None) -> Summary:
    with RunFolder(out) as folder:
        return run_crowd(scenario, workers or Travelling(), folder, silent, most)[1]


@given(cases(), st.integers(0, MAX_SEED), st.integers(1, 25))
@settings(max_examples=120, deadline=None)
def test_shares_of_a_population_in_memory_give_what_one_process_gives(case: Case, seed: int, most: int) -> None:
    labels, clusters, parameters = case
    population = population_of(labels, clusters)
    whole = run_vectorized(population, exchange_of(parameters), SeededCoins(seed))
    parts, record = run_split(population, parameters, SeededCoins(seed), Travelling(), most=most)
    assert parts.sha256() == whole.sha256()
    assert parts.outcomes == whole.outcomes
    assert np.array_equal(parts.clusters, whole.clusters)
    assert record.users == len(population.labels)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(any),
    st.integers(1, 60),
    st.sampled_from([2, 10, 1000]),
)
@settings(max_examples=60, deadline=None)
def test_cutting_takes_every_cluster_once_and_keeps_to_the_limit(sizes: list[int], most: int, labels: int) -> None:
    pieces = list(cut(np.array(sizes), most, labels))
    assert [cluster for low, high in pieces for cluster in range(low, high)] == list(range(len(sizes)))
    for low, high in pieces:
        assert sum(sizes[low:high]) <= most or high == low + 1


def test_shares_are_as_small_as_memory_asks_and_as_large_as_work_allows() -> None:
    assert most_users(10**10, 1, 100) == MOST_USERS
    assert most_users(10**10, 64, 100) == MOST_REPORTS // 64
    assert most_users(800_000, 1, 8) == 100_000
    assert most_users(10**10, 10**9, 1) == 1
    assert next(cut(np.full(MOST_CELLS, 1), MOST_USERS, 1000)) == (0, MOST_CELLS // 1000)


def test_ids_far_apart_and_near_each_other_get_their_own_coins() -> None:
    generator = np.random.default_rng(1)
    near = generator.choice(3 * GAP, 200, replace=False)
    far = generator.integers(10**6, 10**12, 40)
    edge = 10**13 + np.array([0, GAP, 2 * GAP + 1, 1 << 15, (1 << 15) + 1, 1 << 16])
    ids = np.unique(np.concatenate([near, far, edge]))
    coins = SeededCoins(5)
    found = CoinsOf(ids, coins).block(2, 10, 230)
    alone = np.concatenate([coins.block(2, user, user + 1) for user in ids[10:230].tolist()])
    assert np.array_equal(found, alone)


def test_sticky_noise_of_the_systems_coins_is_drawn_once_for_all_rounds() -> None:
    """Alone in her cluster a user reports her own noisy label: the same one every round. By chance: 2^-200."""
    users = 200
    parameters = Parameters(0.5, 1.0, rounds=3)
    alone = Rosters.of(np.arange(users))
    share = next(held_shares(np.zeros(users, np.int64), alone, 2, users))
    first, second, third = run_share(share, parameters, SystemCoins()).labels
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)
    again = run_share(share, parameters, SystemCoins()).labels[0]
    assert not np.array_equal(first, again)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["mechanism.rounds=1"],
        ["data.labels=10", "mechanism.rounds=3", "mechanism.noise=fresh"],
        ["data.labels=300"],
        ["clusters.minimum_size=41"],
        ["clusters.minimum_size=2000"],
        ["mechanism.theta=0"],
        ["mechanism.epsilon=2", "data.groups=5", "mechanism.rounds=1"],
        ["data.groups=1", "privacy.delta=1e-4", "mechanism.rounds=1"],
        ["data.groups=403", "clusters.minimum_size=1"],
    ],
    ids=lambda settings: " ".join(settings) or "as it is",
)
def test_a_crowd_in_shares_says_what_one_process_says(settings: list[str], tmp_path: Path) -> None:
    scenario = crowd(*settings)
    whole = run(scenario, engine="vectorized", out=tmp_path / "whole").summary
    learned = {"accuracy", "accuracy_reason", "nonprivate_accuracy", "majority_accuracy", "purity"}
    learned |= {"metrics", "nonprivate_metrics", "majority_metrics"}
    for most in (100,) if settings else (1, 100):
        parts = in_shares(scenario, tmp_path / f"parts-{most}", most)
        for name in parts.__struct_fields__:
            if name not in learned | {"seconds", "out", "workers"}:
                assert getattr(parts, name) == getattr(whole, name), name
        assert parts.workers is not None
        assert sum(worker.users for worker in parts.workers) == scenario.data.users
        assert parts.accuracy is None
        assert read_summary(tmp_path / f"parts-{most}" / "summary.json") == parts
        same_files(tmp_path / "whole", tmp_path / f"parts-{most}")


def same_files(whole: Path, parts: Path) -> None:
    assert sorted(path.name for path in parts.iterdir()) == [
        "manifest.json", "reports.npz", "scenario.toml", "summary.json",
    ]  # fmt: skip
    assert (whole / "scenario.toml").read_text() == (parts / "scenario.toml").read_text()
    with np.load(whole / "reports.npz") as one, np.load(parts / "reports.npz") as other:
        assert sorted(other.files) == sorted(one.files)
        for name in one.files:
            assert one[name].dtype == other[name].dtype
            assert np.array_equal(one[name], other[name])
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (whole, parts)]
    assert len({manifest["assignment_sha256"] for manifest in manifests}) == 1
    assert manifests[0].keys() - {"model_sha256"} == manifests[1].keys()  # nothing is learned from a crowd in shares


def test_actors_agree_with_a_crowd_in_shares() -> None:
    scenario = crowd("data.users=301")
    digests = {
        run(scenario, hosting="cluster").summary.noisy_sha256,
        run_crowd(scenario, Travelling(), None, silent, 70)[1].noisy_sha256,
    }
    assert len(digests) == 1


def test_without_a_folder_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_crowd(crowd(), Travelling(), None, silent, 100)[1].out is None
    assert list(tmp_path.iterdir()) == []


class Measured(InProcess):
    """Notes the most memory that a share took beyond what was there before."""

    def __init__(self) -> None:
        self.peaks: list[int] = []

    def work(self, shares: Iterable[Share], task: Task) -> Generator[Done, None, None]:
        for number, share in enumerate(shares):
            tracemalloc.start()  # for the share alone: an account takes ten times as long while it is traced
            try:
                result = task(share)
                self.peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            yield Done(number, result, "here", 0, 0.0)


@pytest.mark.parametrize("changes", [[], ["data.labels=10", "mechanism.theta=1", "mechanism.rounds=1"]])
def test_memory_is_bounded_by_a_share_however_large_the_run(changes: list[str], tmp_path: Path) -> None:
    most, peaks = 1 << 14, {}
    for users in (1 << 15, 1 << 17):
        scenario = crowd(*changes, f"data.users={users}", f"data.groups={users >> 8}")
        workers = Measured()
        in_shares(scenario, tmp_path / str(users), most, workers)
        mechanism = scenario.mechanism
        parameters = Parameters(mechanism.alpha, mechanism.theta, scenario.data.labels, rounds=mechanism.rounds)
        assert len(workers.peaks) == users // most
        peaks[users] = max(workers.peaks)
        assert peaks[users] <= share_bytes(most, most >> 8, parameters)
    assert max(peaks.values()) < 1.1 * min(peaks.values())


def test_a_share_of_ids_far_apart_keeps_to_its_bound_too() -> None:
    users, clusters = 1 << 17, 64
    parameters = Parameters(0.1, 1.0, rounds=2, noise="fresh")
    share = next(held_shares(np.zeros(users, np.int64), Rosters.of(np.arange(users) % clusters), 2, users))
    assert isinstance(share.ids, np.ndarray)
    tracemalloc.start()
    try:
        run_share(share, parameters, SeededCoins(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    held = share.ids.nbytes + share.labels.nbytes + share.clusters.nbytes
    assert peak + held <= share_bytes(users, clusters, parameters, spread=True)


def test_a_full_disk_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Little:
        free = 10_000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Little)
    with pytest.raises(RequestError, match=r"--out .*run: needs about 1.37e-05 GB, but 1e-05 GB are free there"):
        in_shares(crowd(), tmp_path / "run", 100)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_larger_than_a_share_is_worked_on_whole_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_USERS", 50)
    summary = run_crowd(crowd("data.groups=2"), Travelling(), None, silent, 50)[1]
    assert [worker.shares for worker in summary.workers] == [1, 1]
    assert "the largest cluster has 202 users, more than a share" in summary.warnings[0]


def test_an_interrupt_closes_the_workers_and_leaves_nothing(tmp_path: Path) -> None:
    closed = []

    class Stopped(InProcess):
        def work(self, shares: Iterable[Share], task: Task) -> Generator[Done, None, None]:
            try:
                yield from super().work(shares, task)
            finally:
                closed.append(True)

    def interrupt(stage: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with (
        pytest.raises(RunError, match="interrupted after 40 of 403 users; nothing was kept"),
        RunFolder(tmp_path / "run") as folder,
    ):
        run_crowd(crowd(), Stopped(), folder, interrupt, 50)
    assert closed == [True]
    assert list(tmp_path.iterdir()) == []


class Lost:
    """A client whose scheduler has workers for a while, or is gone."""

    def __init__(self, threads: Any) -> None:
        self._threads = threads
        self.cancelled: list[Any] = []

    def nthreads(self) -> dict[str, int]:
        if isinstance(self._threads, Exception):
            raise self._threads
        return {"worker": next(self._threads)}

    def submit(self, *arguments: Any, key: str, pure: bool) -> Any:
        class Never:
            def add_done_callback(self, _: Any) -> None:
                pass

        never = Never()
        never.key = key
        return never

    def cancel(self, futures: list[Any], force: bool) -> None:
        self.cancelled += futures


def test_a_cluster_without_workers_or_scheduler_ends_the_run_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LOOK", 0.01)
    monkeypatch.setattr(split, "ALONE_LIMIT", 0.05)
    share = HeldShare(range(2), np.zeros(2, np.uint8), np.zeros(2, np.int32))
    deserted = Lost(iter([2] + [0] * 1000))
    with pytest.raises(RunError, match=r"--dask host:1: the scheduler has had no workers for 0.05 seconds"):
        list(DaskWorkers(deserted, "host:1").work([share], run_share))
    assert len(deserted.cancelled) == 1
    with pytest.raises(RunError, match=r"--dask host:1: the scheduler has gone, .*\(OSError\)"):
        DaskWorkers(Lost(OSError()), "host:1").threads()


def test_a_share_that_travels_is_small() -> None:
    from p2p_labeldp.data import load_crowd

    recipe = load_crowd(crowd("data.users=100000000", "data.groups=100000").data, 1)
    share = CrowdShare(recipe.people(0, 4_000))
    assert share.users == 4_000_000
    assert len(pickle.dumps(share)) < 100_000
