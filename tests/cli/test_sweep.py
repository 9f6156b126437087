"""``p2p-labeldp sweep`` as a person or a program meets it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from asking import Command, Refused
from small import TWENTY_FOUR
from swept import everything

from p2p_labeldp.cli import main
from p2p_labeldp.experiments.sweeps import read_sweep, tables, workers

VARY = ("--vary", "mechanism.alpha=.05,.2", "--vary", "learner.correct_flips=true,false")


@pytest.fixture
def command(command: Command, tmp_path: Path) -> Command:
    """``sweep small.toml`` in a folder with that file alone."""
    (tmp_path / "small.toml").write_text(TWENTY_FOUR)
    return partial(command, "sweep", "small.toml")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenario and a finished sweep of it."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "small.toml").write_text(TWENTY_FOUR)
    place = str(folder / "runs" / "small-sweep")
    arguments = ["--vary", "mechanism.alpha=.1", "--seeds", "2", "--workers", "1", "--out", place]
    assert main(["sweep", str(folder / "small.toml"), *arguments]) == 0
    return folder


def test_a_sweep_prints_a_table_and_leaves_tables_and_a_figure(command: Command, tmp_path: Path) -> None:
    status, out, err = command(*VARY, "--seeds", "2", "--workers", "1")
    assert (status, err) == (0, "")
    for word in ("mechanism.alpha", "learner.correct", "accuracy", "epsilon", "delta", "0.05", "false", " ± "):
        assert word in out
    assert sorted(path.name for path in (tmp_path / "runs" / "small-sweep").iterdir()) == [
        "accuracy-by-mechanism.alpha.png", "accuracy-by-mechanism.alpha.svg",
        "report.html", "sweep.csv", "sweep.jsonl", "sweep.parquet",
    ]  # fmt: skip


def test_json_is_one_object(command: Command, tmp_path: Path) -> None:
    arguments = ("--vary", "mechanism.kind=peer_to_peer,none", "--seeds", "2", "--workers", "1", "--out", "here")
    status, out, err = command(*arguments, "--json")
    found = json.loads(out)
    assert (status, err, found["rows"], found["failures"], found["engine"]) == (0, "", 4, [], "vectorized")
    assert [one["values"] for one in found["settings"]] == [
        {"mechanism.kind": "peer_to_peer"},
        {"mechanism.kind": "none"},
    ]
    assert found["settings"][0]["accuracy"]["low"] <= found["settings"][0]["accuracy"]["mean"]
    rows = read_sweep(tmp_path / "here").rows
    assert found["settings"][0]["epsilon.learner"] == {
        "largest": max(row["epsilon.learner"] for row in rows if row["setting"] == 0),
        "delta": {"smallest": 0.001, "largest": 0.001}, "method": "exact", "count": 2,
    }  # fmt: skip
    assert found["settings"][1]["epsilon.learner"]["largest"] == "inf"
    assert found["warnings"] == []
    assert all((tmp_path / path).exists() for path in found["files"])
    assert "here/accuracy-by-mechanism.kind.png" in found["files"]


def test_a_table_shows_the_largest_epsilon_and_how_many_runs_a_mean_has(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter(
        {"accuracy": accuracy, "epsilon.learner": epsilon, "delta.learner": delta, "method.learner": method}
        for accuracy, epsilon, delta, method in [
            (0.5, 0.1, 1e-3, "exact"), (0.5, 1.0, 6.25e-8, "exact"), (None, 2.19722, 2.5e-4, "upper_bound"),
            (0.75, 1.0, 6.25e-8, "exact"), (0.5, 1.0, 2.5e-4, "exact"), (0.75, 1.0, 6.25e-8, "exact"),
        ]
    )  # fmt: skip
    empty = {"noisy_sha256": "", "warnings": None}
    monkeypatch.setattr(workers, "replicate", lambda *_: {"metrics": next(told) | empty})
    arguments = ("--vary", "mechanism.alpha=.1,.2", "--seeds", "3", "--no-report", "--plot", "phi")
    out = command(*arguments, "--workers", "1")[1]
    lines = [line.split() for line in out.splitlines()]
    assert ["0.1", "3", "0.5000", "±", "0.0000", "(2", "of", "3", "runs)", "2.198", "0.00025", "to", "0.001"] in lines
    assert ["0.2", "3", "0.6667", "±", "0.3586", "1", "6.25e-08"] in lines
    assert "the largest of the runs, rounded up (proved bound, where some runs are that and others exact)" in out
    warning = "epsilons at different deltas (6.25e-08 to 0.001) cannot be compared; set privacy.delta"
    assert f"warning: {warning}\n" in out
    found = json.loads(command(*arguments, "--json")[1])
    assert found["warnings"] == [warning]
    assert found["settings"][0]["accuracy"]["count"] == 2
    spent = {"epsilon": pytest.approx(0.1 + 2.19722 + 4 * 1.0), "delta": pytest.approx(1e-3 + 2 * 2.5e-4 + 3 * 6.25e-8)}
    assert found["all_runs"] == {"runs": 6, **spent}
    assert found["settings"][0]["epsilon.learner"] == {
        "largest": 2.19722, "delta": {"smallest": 2.5e-4, "largest": 1e-3}, "method": "upper_bound", "count": 3,
    }  # fmt: skip


def test_any_plot_can_be_had_later_without_computing_anything(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command(*VARY, "--seeds", "2", "--workers", "1")[0] == 0
    rows = everything(tmp_path)["runs/small-sweep/sweep.jsonl"]
    monkeypatch.setattr("p2p_labeldp.experiments.sweeps.workers.replicate", None)
    plots = ("--plot", "epsilon.learner:learner.correct_flips", "--plot", "psi", "--plot", "messages")
    status, out, _ = command(*VARY, "--seeds", "2", *plots)
    assert status == 0
    assert "no figure of messages: no row has a number for it" in out
    left = everything(tmp_path)
    assert left["runs/small-sweep/sweep.jsonl"] == rows
    assert left["runs/small-sweep/epsilon.learner-by-learner.correct_flips.png"].startswith(b"\x89PNG")
    assert "runs/small-sweep/psi-by-mechanism.alpha.svg" in left


def test_failed_settings_are_told_with_their_reason_and_the_rest_is_there(command: Command, tmp_path: Path) -> None:
    vary = ("--vary", "clusters.count=2,30", "--set", "clusters.method=kmeans", "--set", "data.name=breast_cancer")
    arguments = (*vary, "--set", "data.users=0", "--vary", "data.users=20,40", "--seeds", "2", "--workers", "1")
    status, out, err = command(*arguments)
    assert status == 3
    assert err == "p2p-labeldp: 1 of 4 settings failed; runs/small-sweep/failures.csv says why\n"
    assert out.count("failed: ") == 1
    assert "failed: clusters.count=30, data.users=20: 2 of 2 runs: clusters.count = 30 is not allowed" in out
    status, out, err = command(*arguments, "--json")
    assert (status, json.loads(out)["rows"]) == (3, 6)
    assert json.loads(out)["failures"][0]["replicates"] == 2


def test_without_pyarrow_it_says_how_to_get_parquet(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "has_parquet", lambda: False)
    out = command("--vary", "mechanism.alpha=.2", "--seeds", "1", "--workers", "1")[1]
    assert "pip install 'p2p-labeldp[parquet]'" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vary", "mechanism.alpha=.1,.2", "--seeds", "2"), "runs/small-sweep: holds another sweep"),
        (("--vary", "mechanism.alpha=.1", "--seeds", "3", "--dask", "h:1", "--workers", "1"), "exclude each other"),
        (("--vary", "mechanism.alpha=.1", "--seeds", "3", "--workers", "0"), "--workers 0 is not allowed"),
        (("--vary", "mechanism.alpha=.1"), "--seeds"),
        (("--vary", "mechanism.alpha=.1", "--seeds", "3", "--plot", "acuracy"), "did you mean accuracy?"),
        (
            ("--vary", "mechanism.alpha=.1", "--seeds", "3", "--plot", "psi:mechanism.theta"),
            "varied are mechanism.alpha",
        ),
        (("--vary", "mechanism.alpha=.1", "--seeds", "3", "--engine", "quantum"), "--engine quantum is not allowed"),
        (("--vary", "mechanism.alpha=.1", "--seeds", "3", "--hosting", "cloud"), "--hosting cloud is not allowed"),
        (("--settings", "nothing.csv", "--seeds", "3"), "nothing.csv: cannot be read as CSV"),
        (("--seeds", "3", "--plot", "psi"), "nothing is varied"),
    ],
)
def test_bad_input_is_one_line_and_touches_nothing(
    swept: Path, arguments: tuple[str, ...], message: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swept)
    before = everything(swept)
    assert message in refused(*arguments)
    assert everything(swept) == before
