"""Auditing run folders: what passes, what is refused as input, and what the system's coins hide."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from recorded import read_trace, violations, write_trace
from small import sixty

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(["network.latency=0.1", "network.jitter=0.5"], id="messages overtake each other"),
        pytest.param(["mechanism.noise=fresh", "mechanism.rounds=3"], id="fresh noise"),
        pytest.param(["clusters.minimum_size=21"], id="some abstain"),
        pytest.param(["mechanism.theta=0"], id="nothing reported"),
        pytest.param(["coins.source=system"], id="the system's coins"),
        pytest.param(["data.users=1", "clusters.minimum_size=1"], id="a network of one"),
    ],
)
def test_honest_runs_pass(settings: list[str], tmp_path: Path) -> None:
    for hosting in ("user", "cluster"):
        out = tmp_path / hosting
        run(sixty(*settings), out=out, hosting=hosting)
        audit = audit_runs([out])
        assert audit.passed, audit.runs[0].violations


def test_runs_with_different_seeds_are_pooled(tmp_path: Path) -> None:
    paths = [tmp_path / str(seed) for seed in range(5)]
    for seed, path in enumerate(paths):
        run(sixty(seed=seed), out=path)
    audit = audit_runs(paths)
    assert audit.passed
    flips = next(test for test in audit.tests if test.name == "flips")
    # Sixty users in each run, of whom those who were asked showed their noisy label.
    assert 150 < int(flips.seen.split()[2]) <= 300


def test_runs_with_the_same_seed_cannot_be_pooled(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(sixty(), out=tmp_path / name)
    with pytest.raises(RequestError, match="different seeds"):
        audit_runs([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(RequestError, match="different seeds"):
        audit_runs([tmp_path / "a", tmp_path / "a"])


def test_runs_with_different_parameters_cannot_be_pooled(tmp_path: Path) -> None:
    run(sixty(), out=tmp_path / "a")
    run(sixty("mechanism.alpha=0.2", seed=1), out=tmp_path / "b")
    with pytest.raises(RequestError, match=r"alpha = 0.2, but .* has 0.3"):
        audit_runs([tmp_path / "a", tmp_path / "b"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run(sixty(), out=tmp_path / "run")
    return tmp_path / "run"


def test_a_damaged_folder_is_refused_in_one_line(folder: Path) -> None:
    for name, damage, words in (
        ("summary.json", lambda data: b"{", r"summary.json: is damaged"),
        ("trace.msgpack", lambda data: msgpack.packb({"format": "other"}), r"trace.msgpack: not a trace"),
        ("trace.msgpack", lambda data: b"", r"trace.msgpack: not a trace"),
        ("trace.msgpack", lambda data: data + b"\xc1", r"not MessagePack after \d+ messages"),
        ("trace.msgpack", lambda data: data + b"\xdb\xff\xff\xff\xff", r"cut off in the middle of message \d+"),
        ("reports.npz", lambda data: b"not an archive", r"reports.npz: is damaged"),
        ("population.npz", short_population, r"population.npz: must have one row for each of 60 users"),
    ):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(damage(whole))
        with pytest.raises(RequestError, match=words) as refused:
            audit_runs([folder])
        assert "\n" not in str(refused.value)
        (folder / name).write_bytes(whole)


def short_population(_: bytes) -> bytes:
    file = io.BytesIO()
    np.savez(file, cluster=np.zeros(3, np.int64), true_label=np.zeros(3, np.int64))
    return file.getvalue()


def test_wherever_the_last_message_is_cut_it_is_noticed(folder: Path) -> None:
    data = (folder / "trace.msgpack").read_bytes()
    for missing in range(1, 12):
        (folder / "trace.msgpack").write_bytes(data[:-missing])
        with pytest.raises(RequestError, match=r"cut off in the middle of message \d+"):
            audit_runs([folder])


def test_a_folder_that_lacks_a_file_is_refused(folder: Path) -> None:
    for name in ("reports.npz", "summary.json"):
        (folder / name).unlink()
        with pytest.raises(RequestError, match=f"{name}: is missing"):
            audit_runs([folder])


def test_a_vectorized_run_has_nothing_to_audit(tmp_path: Path) -> None:
    run(sixty(), engine="vectorized", out=tmp_path / "run")
    with pytest.raises(RequestError, match="sends no messages"):
        audit_runs([tmp_path / "run"])


def test_a_summary_that_counts_otherwise_is_caught(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    summary["messages_by_kind"]["ask"] += 1
    (folder / "summary.json").write_text(json.dumps(summary))
    assert [found.invariant for found in violations(folder)] == ["summary"]


def test_reports_that_differ_from_the_trace_are_caught(folder: Path) -> None:
    with np.load(folder / "reports.npz") as file:
        arrays: dict[str, Any] = dict(file)
    arrays["label"][0] = (arrays["label"][0] + 1) % 3
    np.savez(folder / "reports.npz", **arrays)
    assert any("reports.npz" in found.detail for found in violations(folder))


def test_with_the_systems_coins_a_consistent_lie_about_one_dropped_answer_goes_unseen(tmp_path: Path) -> None:
    """The documented limit: an answer that nobody else heard and that was not reported proves nothing."""
    run(sixty("coins.source=system", "mechanism.rounds=1", "mechanism.theta=0"), out=tmp_path / "run")
    header, records = read_trace(tmp_path / "run")
    answers = [record for record in records if record[4][0] == "answer"]
    lonely = next(a for a in answers if sum(other[2] == a[2] for other in answers) == 1)
    lonely[4][2] = (lonely[4][2] + 1) % 3
    write_trace(tmp_path / "run", header, records)
    assert audit_runs([tmp_path / "run"]).passed


def test_a_trace_of_another_version_is_refused_in_one_line(folder: Path) -> None:
    header, records = read_trace(folder)
    write_trace(folder, header | {"version": 1}, records)
    with pytest.raises(RequestError, match=r"trace\.msgpack: trace version 1; this reads 3$"):
        audit_runs([folder])
