"""``p2p-labeldp report``, and the report that ``run`` leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asking import Command, Refused
from small import ONE_CLUSTER
from swept import everything

from p2p_labeldp.reporting import page

SCENARIO = ONE_CLUSTER.replace("users = 80", "users = 40")


@pytest.fixture
def command(command: Command, tmp_path: Path) -> Command:
    """In a folder with a scenario."""
    (tmp_path / "small.toml").write_text(SCENARIO)
    return command


def test_run_leaves_the_report_that_report_makes(command: Command) -> None:
    assert command("run", "small.toml", "--out", "run", "--json")[0] == 0
    left = Path("run/report.html").read_bytes()
    assert command("report", "run") == (0, "run/report.html\n", "")
    assert Path("run/report.html").read_bytes() == left
    status, out, err = command("report", "run", "--out", "elsewhere.html", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {"report": "elsewhere.html", "kind": "run", "bytes": len(left)}
    assert Path("elsewhere.html").read_bytes() == left


def test_run_can_leave_it_out(command: Command) -> None:
    assert command("run", "small.toml", "--out", "run", "--no-report", "--engine", "vectorized")[0] == 0
    assert Path("run/summary.json").exists()
    assert not Path("run/report.html").exists()


def test_if_the_report_fails_the_run_stands(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(page, "write_report", fail)
    status, out, err = command("run", "small.toml", "--out", "run", "--engine", "vectorized", "--json")
    assert status == 0
    assert json.loads(out)["users"] == 40
    assert err.count("\n") == 1
    assert "the report was not written: oops; everything else is in run, and `p2p-labeldp report run` makes it" in err
    assert Path("run/summary.json").exists()


def test_if_it_is_interrupted_the_run_stands_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(page, "write_page", stop)
        status, _, err = command("run", "small.toml", "--out", "run", "--engine", "vectorized")
    assert status == 3
    assert "interrupted while the report was made; everything else is in run" in err
    assert not list(Path("run").glob("*.html"))
    assert command("report", "run")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nowhere"], "nowhere: not a run folder"),
        (["report", "small.toml"], "small.toml: not a run folder"),
        (["report", "."], "summary.json is missing"),
        (["report", "run", "--out", "run/summary.json"], "--out run/summary.json: the page's name must end in .html"),
        (["report", "run", "--out", "nowhere/page.html"], "nowhere/page.html: cannot be written"),
        (["report"], "RUN"),
    ],
)
def test_bad_input_is_answered_in_one_line_and_touches_nothing(
    command: Command, refused: Refused, arguments: list[str], words: str, tmp_path: Path
) -> None:
    command("run", "small.toml", "--out", "run", "--engine", "vectorized", "--json")
    before = everything(tmp_path)
    assert words in refused(*arguments)
    assert everything(tmp_path) == before


def test_a_sweep_has_a_page_too(command: Command) -> None:
    varied = ["--vary", "mechanism.alpha=0.1,0.3", "--vary", "mechanism.theta=0.5,0.9", "--workers", "1"]
    assert command("sweep", "small.toml", *varied, "--seeds", "2", "--out", "sweep")[0] == 0
    status, out, _ = command("report", "sweep", "--json")
    assert (status, json.loads(out)["kind"]) == (0, "sweep")
    html = Path("sweep/report.html").read_text(encoding="utf-8")
    for said in (
        "4 settings, 2 seeds each",
        "--vary mechanism.alpha=0.1,0.3 --vary mechanism.theta=0.5,0.9 --seeds 2 --engine vectorized",
        "test accuracy (share of examples) against mechanism.alpha",
        "95% interval",
    ):
        assert said in html, said
    assert command("report", "sweep")[0] == 0
    assert Path("sweep/report.html").read_text(encoding="utf-8") == html


@pytest.mark.parametrize("content", ["", "{}\n", '{"format": "p2p-labeldp sweep 1"}\n'])
def test_a_damaged_sweep_is_refused(refused: Refused, content: str) -> None:
    Path("sweep").mkdir()
    Path("sweep/sweep.jsonl").write_text(content)
    assert "sweep" in refused("report", "sweep")
    assert [path.name for path in Path("sweep").iterdir()] == ["sweep.jsonl"]
