"""Comparisons: rows that resume, seeds of their own, and figures that can be opened."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from p2p_labeldp.cli import main
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.compare import ROWS, Plan, compare, parse_mechanism, summarise
from p2p_labeldp.scenario import parse_scenario

SCENARIO = parse_scenario('[data]\nname = "synthetic"\nusers = 400\ngroups = 4\nsharpness = 4.0\n[clusters]\ncount = 4')
PLAN = Plan(SCENARIO, ("uniform_rr", "cluster_rr:tau=0.05"), (0.5, 4.0), trials=2)


def lines(folder: Path) -> list[str]:
    """Rows without the time they took."""
    return [line.rpartition(",")[0] for line in (folder / ROWS).read_text().splitlines()]


def test_there_is_a_row_for_every_point_and_trial_with_a_seed_of_its_own(tmp_path: Path) -> None:
    rows = compare(PLAN, tmp_path / "out", workers=1)
    assert len(rows) == 2 * 2 * 2
    assert len({row.seed for row in rows}) == len(rows)
    assert all(0.999 * row.epsilon <= row.spent_epsilon <= row.epsilon for row in rows)
    points = summarise(rows)
    assert [point["trials"] for point in points] == [2] * 4
    assert points[1]["ratio"] > points[0]["ratio"]


def test_a_comparison_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    compare(PLAN, tmp_path / "whole", workers=1)
    compare(PLAN, tmp_path / "cut", workers=1)
    kept = (tmp_path / "cut" / ROWS).read_text().splitlines()[:4]
    (tmp_path / "cut" / ROWS).write_text("\n".join(kept) + "\nsynthetic,unif")
    compare(PLAN, tmp_path / "cut", workers=1)
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")


def test_two_workers_give_the_same_rows(tmp_path: Path) -> None:
    compare(PLAN, tmp_path / "one", workers=1)
    compare(PLAN, tmp_path / "two", workers=2)
    assert lines(tmp_path / "one") == lines(tmp_path / "two")


def test_rows_of_another_comparison_are_refused_and_left_alone(tmp_path: Path) -> None:
    compare(PLAN, tmp_path / "out", workers=1)
    before = (tmp_path / "out" / ROWS).read_bytes()
    with pytest.raises(RequestError, match="other settings"):
        compare(Plan(SCENARIO, ("uniform_rr",), (0.5,), trials=2), tmp_path / "out", workers=1)
    assert (tmp_path / "out" / ROWS).read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RequestError, match="holds no comparison"):
        compare(PLAN, tmp_path / "other", workers=1)


@pytest.mark.parametrize("spec", ["magic", "cluster_rr:tau", "cluster_rr:tau=x"])
def test_a_wrong_mechanism_is_refused(spec: str) -> None:
    with pytest.raises(RequestError, match="--mechanisms"):
        parse_mechanism(spec)


def test_the_command_writes_a_table_rows_and_two_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--epsilons", "1,4", "--trials", "1", "--workers", "1", "--mechanisms", "uniform_rr peer_to_peer dp_sgd"]
    assert main(["compare", "--dataset", "breast_cancer", "--set", "clusters.count=4", *options]) == 0
    assert "peer_to_peer" in capsys.readouterr().out
    folder = tmp_path / "runs" / "breast_cancer-compare"
    assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "compare.svg").read_text().startswith("<?xml")
    with (folder / ROWS).open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_the_number_of_clusters_can_be_varied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--vary", "clusters", "--counts", "2,8", "--trials", "1", "--workers", "1", "--json"]
    assert main(["compare", "--dataset", "breast_cancer", "--mechanisms", "cluster_rr", *options]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [(point["clusters"], point["epsilon"]) for point in points] == [(2, 0.5), (8, 0.5)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare"], "a scenario or --dataset"),
        (["compare", "quickstart", "--dataset", "digits"], "one of the two"),
        (["compare", "--dataset", "digitz"], "data.name"),
        (["compare", "--dataset", "digits", "--epsilons", "a"], "--epsilons"),
        (["compare", "--dataset", "digits", "--epsilons", "-1"], "--epsilons"),
        (["compare", "--dataset", "digits", "--trials", "0"], "--trials"),
        (["compare", "--dataset", "digits", "--vary", "alpha"], "--vary"),
        (["compare", "--dataset", "digits", "--mechanisms", "magic"], "--mechanisms"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert list(tmp_path.iterdir()) == []
