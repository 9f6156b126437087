"""``p2p-labeldp run --dask``: one run over the workers of a real cluster, and what is refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import Command, Refused
from dask_clusters import local_cluster

from p2p_labeldp.experiments import run
from p2p_labeldp.scenario import parse_scenario

CROWD = """
[data]
name = "crowd"
users = 300000
groups = 300
[clusters]
method = "given"
[mechanism]
theta = 0.5
"""
MIXED = """
[data]
name = "synthetic"
users = 2000
groups = 5
[clusters]
method = "given"
minimum_size = 5
[mechanism]
rounds = 2
"""


ARRAYS = ["--engine", "vectorized"]


@pytest.mark.slow
def test_a_worker_killed_on_the_way_changes_nothing(tmp_path: Path) -> None:
    scenario = parse_scenario(CROWD, "crowd")
    killed: list[int] = []

    def kill(stage: str, done: int, total: int) -> None:
        if stage == "users" and done and not killed:
            assert done < total
            killed.append(cluster.workers[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    with local_cluster(n_workers=2, memory_limit="1GB") as cluster:  # processes with one thread each
        address = cluster.scheduler_address
        summary = run(scenario, engine="vectorized", out=tmp_path / "run", progress=kill, dask=address).summary
    assert killed
    whole = run(scenario, engine="vectorized").summary
    for key in ("noisy_sha256", "privacy", "phi", "psi", "reports", "outcomes_by_round", "cluster_sizes"):
        assert getattr(summary, key) == getattr(whole, key), key
    assert sum(worker.users for worker in summary.workers or ()) == 300_000
    with np.load(tmp_path / "run" / "reports.npz") as reports:
        assert len(reports["user"]) == summary.reports
    assert not list(tmp_path.glob("run/*.spool"))


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two workers in this process: they are spoken to as any others."""
    with local_cluster(n_workers=2, processes=False) as started:
        yield started


def test_a_data_set_in_memory_is_split_too(cluster: Any, command: Command, tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(MIXED)
    found = []
    for options in ([], ["--dask", cluster.scheduler_address]):
        status, out, err = command("run", "mixed.toml", "--no-report", "--engine", "vectorized", "--json", *options)
        assert (status, err) == (0, "")
        found.append(json.loads(out))
    whole, parts = found
    assert parts["workers"]
    assert whole["workers"] is None
    for key in whole.keys() - {"seconds", "out", "workers"}:
        assert parts[key] == whole[key], key


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["crowd.toml"], "--dask is not allowed with --engine actors; it must be vectorized"),
        (["crowd.toml", *ARRAYS, "--set", "mechanism.kind=none"], "--dask is not allowed with none"),
        (["crowd.toml", *ARRAYS, "--set", "clusters.method=kmeans"], 'clusters.method = "kmeans" is not allowed'),
        (["crowd.toml", *ARRAYS, "--dask", "nowhere"], "--dask nowhere: not an address"),
        (["eavesdropper", *ARRAYS], "--dask is not allowed with adversaries"),
    ],
)
def test_what_cannot_be_split_is_refused_in_a_line(
    arguments: list[str], words: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "crowd.toml").write_text(CROWD)
    assert words in refused("run", "--dask", "127.0.0.1:1", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["crowd.toml"]
