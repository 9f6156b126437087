"""The page of a sweep: what it says of guarantees, of runs that are missing, and how to repeat it."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from p2p_labeldp.cli import main
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.sweeps import Plan, inputs, make_plan, sweep
from p2p_labeldp.experiments.sweeps.journal import Journal
from p2p_labeldp.reporting.blocks import Chooser, Code, Figure, Page, Table
from p2p_labeldp.reporting.sweep_page import sweep_page
from p2p_labeldp.scenario import parse_scenario


def leave(folder: Path, plan: Plan, metrics: Sequence[dict[str, Any]]) -> Page:
    """The page of a sweep whose runs gave this, all settings once before any comes again."""
    book = Journal(folder, plan, inputs.digests(plan.data_sets(), None))
    for job, said in zip(plan.jobs(())[0], metrics, strict=False):
        plain = {name: "inf" if value == math.inf else value for name, value in said.items()}
        place = {"setting": job.setting, "replicate": job.replicate, "seed": job.seed}
        book.append(place | {"metrics": plain | {"noisy_sha256": "", "warnings": None}})
    book.close()
    return sweep_page(folder)


def told(epsilon: float, delta: float, method: str, accuracy: float | None = 0.5) -> dict[str, Any]:
    guarantee = {"epsilon.learner": epsilon, "delta.learner": delta, "method.learner": method}
    return {"accuracy": accuracy, **guarantee}


def block(page: Page, section: str, kind: type) -> Any:
    (found,) = (each for part in page.sections if part.name == section for each in part.blocks if type(each) is kind)
    return found


def figure(page: Page, panel: str) -> Figure:
    """The figure of a metric and a key, by their places in the lists."""
    chooser: Chooser = block(page, "charts", Chooser)
    return dict(chooser.panels)[panel]


def codes(page: Page) -> dict[str, str]:
    return {each.title: each.text for part in page.sections for each in part.blocks if isinstance(each, Code)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Two runs each of three settings: of the second one is without accuracy, the third has no privacy."""
    plan = make_plan(parse_scenario(""), ["mechanism.kind=peer_to_peer,shuffle,none", "data.users=50"], seeds=2)
    return leave(
        tmp_path_factory.mktemp("page") / "sweep",
        plan,
        [
            told(1.27502, 6.25e-8, "exact"), told(0.5, 2.5e-4, "exact"), told(math.inf, 1e-3, "exact"),
            told(2.19722, 6.25e-8, "upper_bound"), told(0.6, 2.5e-4, "exact", None), told(math.inf, 1e-3, "exact"),
        ],
    )  # fmt: skip


def test_a_settings_epsilon_is_the_largest_rounded_up_with_its_delta_and_method(page: Page) -> None:
    table: Table = block(page, "settings", Table)
    assert table.head[3:] == ("runs", "accuracy", "largest epsilon, learner", "delta, learner", "found as")
    assert [row[3:] for row in table.rows] == [
        ("2", "0.5000 ± 0.0000", "2.198", "6.25e-08", "proved bound (exact in some runs)"),
        ("2", "0.5000 (1 of 2 runs)", "0.6", "0.00025", "exact"),
        ("2", "0.5000 ± 0.0000", "infinite", "0.001", "exact"),
    ]
    assert "of epsilon the largest of its runs, rounded up" in table.title


def test_epsilons_at_different_deltas_are_warned_of_above_all(page: Page) -> None:
    warning = "epsilons at different deltas (6.25e-08 to 0.00025) cannot be compared; set privacy.delta"
    assert f"View learner: {warning}." in page.warnings


def test_a_chart_of_epsilon_has_the_largest_and_no_interval(page: Page) -> None:
    chart = figure(page, "1 0")
    assert chart.title == "epsilon.learner against mechanism.kind"
    assert chart.data is not None
    assert chart.data.head == ("mechanism.kind", "data.users", "largest epsilon.learner", "runs")
    assert chart.data.rows[0] == ("peer_to_peer", "50", "2.198", "2")
    assert 'class="interval' not in chart.drawing
    assert 'class="interval' in figure(page, "0 0").drawing


def test_a_line_that_is_infinite_everywhere_is_named_and_in_the_table(page: Page) -> None:
    chart = figure(page, "1 1")  # against data.users, a line for each kind
    assert chart.caption.endswith("Infinite everywhere, and not drawn: none.")
    assert chart.data is not None
    assert ("50", "none", "infinite", "2") in chart.data.rows


def test_a_mean_of_some_runs_says_of_how_many(page: Page) -> None:
    chart = figure(page, "0 0")
    assert "Means over 1 to 2 runs each" in chart.caption
    assert "Runs without a value are left out." in chart.caption
    assert chart.data is not None
    assert ("shuffle", "50", "0.5", "–", "1 of 2") in chart.data.rows


def test_the_verdict_says_how_many_runs_there_are(page: Page, tmp_path: Path) -> None:
    assert page.verdict.endswith("Every setting was run 2 times, each time with a seed of its own.")
    plan = make_plan(parse_scenario(""), ["mechanism.alpha=.1,.2,.3"], seeds=2)
    part = leave(tmp_path / "sweep", plan, [told(1.0, 1e-3, "exact"), told(1.0, 1e-3, "exact")])
    assert part.verdict == (
        "Varied: mechanism.alpha. Every setting is to be run 2 times, each time with a seed of its own; "
        "2 of 6 runs are there; 1 of 3 settings have none."
    )


NASTY = ("a b.csv", 'it\'s, "so".csv', "$(touch x);`id` & #.csv", " x ", "\u00e9\x7f\n\t.csv", "plain-1.csv", '"', ",")


@pytest.mark.parametrize("way", ["vary", "settings"])
def test_the_printed_commands_give_the_same_sweep_and_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = '[data]\nname = "csv"\npath = "x.csv"\n[clusters]\ncount = 3'
    if way == "vary":
        vary = ["data.path=" + ",".join('"""' + json.dumps(each)[1:-1].replace('"', '""') + '"""' for each in NASTY)]
        plan = make_plan(
            parse_scenario(text), [*vary, "learner.l2=1e-4,.1"], seeds=1, engine="actors", hosting="cluster"
        )
        assert {setting[0] for setting in plan.settings} == set(NASTY)
    else:
        Path("listed.csv").write_text('data.label_column,mechanism.alpha,mechanism.epsilon\n"a, b",.1,\nc d,,2\n')
        plan = make_plan(parse_scenario(text), (), Path("listed.csv"), seeds=1)
        assert plan.settings == (("a, b", 0.1, None), ("c d", None, 2.0))
    count = len(plan.settings)
    shown = codes(leave(Path("sweep"), plan, [told(1.0, 1e-3, "exact", None)] * count))
    Path("scenario.toml").write_text(shown["The scenario that was varied"])
    Path("settings.csv").write_text(shown.get("settings.csv", ""))
    program, *arguments = shlex.split(shown["Command"])
    assert program == "p2p-labeldp"
    # Another plan would be refused in this folder; of the same one everything is there already.
    assert main([*arguments, "--out", "sweep", "--no-report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == count
    words = shlex.split(shown["A run"])
    overrides = [word for before, word in itertools.pairwise(words) if before == "--set"]
    seed = int(words[words.index("--seed") + 1])
    again = parse_scenario(Path("scenario.toml").read_text(), overrides=overrides, seed=seed)
    assert again == plan.jobs(())[0][0].scenario.settled()
    assert words[-4:] == ["--engine", "actors", "--hosting", "cluster"] or way == "settings"


@pytest.mark.parametrize("change", [{"engine": "x; rm -rf ~"}, {"hosting": "<b>"}])
def test_an_engine_that_is_none_is_no_sweep(tmp_path: Path, change: dict[str, str]) -> None:
    plan = make_plan(parse_scenario(""), ["mechanism.alpha=.1"], seeds=1)
    leave(tmp_path, plan, [told(1.0, 1e-3, "exact")])
    first, *rest = (tmp_path / "sweep.jsonl").read_text().splitlines()
    (tmp_path / "sweep.jsonl").write_text("\n".join([json.dumps(json.loads(first) | change), *rest, ""]))
    with pytest.raises(RequestError, match="no line of a sweep's journal"):
        sweep_page(tmp_path)
    with pytest.raises(RequestError, match="no line of a sweep's journal"):
        sweep(plan, tmp_path, workers=1)
