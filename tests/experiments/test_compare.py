"""Comparisons: sweeps whose rows are runs, over the same users and clusters; figures that say what they show."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import Command, Refused

from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.compare import (
    AS_PRINTED,
    COMPARED,
    EPSILON,
    KIND,
    Point,
    comparison,
    parse_curve,
    points,
)
from p2p_labeldp.experiments.sweeps import Sweep, sweep
from p2p_labeldp.experiments.sweeps.tables import ROWS
from p2p_labeldp.privacy import View
from p2p_labeldp.reporting.comparison import Panel, caption, curve_label, plot_of
from p2p_labeldp.reporting.styles import LEAST_CONTRAST, PAPER, contrast, kinds, style_of
from p2p_labeldp.scenario import MECHANISMS, parse_scenario

TEXT = """
[data]
name = "synthetic"
users = 400
groups = 4
sharpness = 4.0
seed = 0
[clusters]
count = 4
[privacy]
delta = 1e-3
[learner]
l2 = 1e-3
"""
SCENARIO = parse_scenario(TEXT)
CURVES = [parse_curve(text) for text in COMPARED]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Every mechanism at one epsilon, twice."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    return sweep(comparison(SCENARIO, CURVES, [1.0], trials=2), folder, workers=1)


def test_with_a_fixed_split_trials_differ_by_the_mechanisms_coins_alone(whole: Sweep) -> None:
    assert len({row["seed"] for row in whole.rows}) == len(whole.rows)
    for name in ("nonprivate_accuracy", "majority_accuracy", "purity", "cluster_size.smallest"):
        assert len({row[name] for row in whole.rows}) == 1
    assert len({row["noisy_sha256"] for row in whole.rows}) == len(whole.rows) - 1  # dp_sgd's learner sees true labels


def test_everyone_spends_what_was_asked_and_the_printed_setting_three_times_that(whole: Sweep) -> None:
    for point in points(whole.rows, 4):
        assert point.epsilon == 1.0
        factor = 3 if point.kind == AS_PRINTED else 1
        assert 0.999 * factor <= point.spent <= factor * (1 + 1e-9)
        private = point.kind in ("peer_to_peer", "shuffle", "dp_sgd")
        assert point.delta == (1e-3 if private else 0.0)


def test_the_learners_settings_and_delta_are_those_of_the_scenario(tmp_path: Path) -> None:
    curves = [parse_curve("peer_to_peer")]
    found = {}
    looser = TEXT.replace("delta = 1e-3", "delta = 1e-2")
    for number, text in enumerate((TEXT, TEXT + "max_iterations = 1\n", looser)):
        plan = comparison(parse_scenario(text), curves, [0.3], trials=1)
        found[number] = sweep(plan, tmp_path / str(number), workers=1).rows[0]
    assert found[0]["noisy_sha256"] == found[1]["noisy_sha256"]
    assert found[0]["accuracy"] != found[1]["accuracy"]
    assert found[2]["delta.learner"] == 1e-2
    assert found[2]["alpha"] < found[0]["alpha"]


def test_users_and_clusters_are_found_once_in_a_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from p2p_labeldp.runs import shared

    calls: list[str] = []
    for name in ("load", "kmeans_clusters"):
        original = getattr(shared, name)
        monkeypatch.setattr(shared, name, lambda *a, name=name, original=original: calls.append(name) or original(*a))
    plan = comparison(
        parse_scenario(TEXT.replace("seed = 0", "seed = 77")), [parse_curve("uniform_rr")], [0.5, 1.0, 2.0], trials=2
    )
    sweep(plan, tmp_path / "out", workers=1)
    assert calls == ["load", "kmeans_clusters"]


def test_the_printed_setting_is_algorithm_1_with_the_corollarys_parameters() -> None:
    setting = parse_curve("as_printed:tau=0.05").setting(0.25)
    assert setting[KIND] == "centralized"
    assert setting[EPSILON] == 0
    assert setting["mechanism.sigma"] == 4.0
    assert setting["mechanism.lambda"] == pytest.approx(1 / (1 + np.expm1(0.25) * 0.05), rel=1e-15)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("magic", "there is no magic"),
        ("none", "there is no none"),
        ("cluster_rr:tau", "name=value"),
        ("cluster_rr:tau=x", "mechanism.tau"),
        ("cluster_rr:tau=2", "mechanism.tau"),
        ("cluster_rr:theta=.5", "theta is no option of cluster_rr"),
        ("peer_to_peer:alpha=.1", "alpha is no option of peer_to_peer"),
        ("as_printed:tau=0", "above 0"),
    ],
)
def test_a_wrong_mechanism_is_refused(text: str, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        parse_curve(text)


def test_a_missing_extra_is_said_before_anything_is_computed(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "dp_accounting" else original(name, *rest)
    )
    for command in (
        ["compare", "--dataset", "mnist"],  # whose files are not here either
        ["sweep", "quickstart", "--vary", "mechanism.kind=dp_sgd", "--set", "mechanism.epsilon=1", "--seeds", "1"],
        ["run", "quickstart", "--set", "mechanism.kind=dp_sgd", "--set", "mechanism.epsilon=1"],
    ):
        assert "dp_sgd needs dp_accounting: pip install 'p2p-labeldp[accounting]'" in refused(*command)
    assert list(tmp_path.iterdir()) == []


def make_csv(path: Path, rows: int) -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(rows, 2))
    lines = [f"{a:.4f},{b:.4f},{'yes' if a + b > 0 else 'no'}" for a, b in x]
    path.write_text("\n".join(["a,b,answer", *lines]) + "\n")


def test_a_preview_works_on_few_rows_of_a_csv_file_and_says_what_it_cut(command: Command, tmp_path: Path) -> None:
    make_csv(tmp_path / "few.csv", 250)
    options = ["--quick", "--workers", "1", "--mechanisms", "uniform_rr cluster_rr"]
    status, shown, _ = command("compare", "few.csv", "--label", "answer", *options)
    assert status == 0
    assert "few.csv" not in shown
    assert "(preview: 2 trials, 3 epsilons): 200 users to learn from; non-private accuracy" in shown
    folder = tmp_path / "runs" / "few-compare-quick"
    assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert "preview: 2 trials, 3 epsilons" in (folder / "compare.svg").read_text()
    with (folder / ROWS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == (1 + 2) * 3 * 2  # uniform_rr does not look at clusters
    assert {row["clusters.count"] for row in rows} == {"", "3", "10"}


def test_a_preview_of_many_rows_takes_some_of_them(command: Command, tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text('[data]\nname = "synthetic"\nusers = 6000\n[clusters]\ncount = 40\n')
    options = ["--quick", "--workers", "1", "--trials", "1", "--epsilons", "1", "--mechanisms", "cluster_rr"]
    shown = command("compare", "many.toml", *options)[1]
    assert "preview: 5,000 of 6,000 users, 30 of 40 clusters, 1 trial, 1 epsilon" in shown


def test_varied_clusters_are_one_curve_for_each_epsilon(command: Command, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(TEXT)
    varied = ["--vary", "clusters", "--counts", "8,2", "--epsilons", "1,2", "--mechanisms", "cluster_rr"]
    shown = command("compare", "base.toml", *varied, "--trials", "1", "--workers", "1", "--no-report", "--json")[1]
    found = json.loads(shown)["points"]
    assert [(point["clusters"], point["epsilon"]) for point in found] == [(8, 1), (8, 2), (2, 1), (2, 2)]
    panel = Panel("synthetic", [point_of(point) for point in found], "clusters")
    *lines, reference = plot_of(panel).lines
    assert [line.name.partition(":")[0] for line in lines] == ["cluster_rr, epsilon 1", "cluster_rr, epsilon 2"]
    assert [list(line.xs) for line in lines] == [[2, 8], [2, 8]]
    assert len({line.look.colour for line in lines}) == 1
    assert len({line.look for line in lines}) == 2
    assert set(reference.ys) == {1.0}


def test_a_trial_that_is_better_than_without_privacy_is_drawn_at_its_own_height() -> None:
    told = {"mechanism": "uniform_rr", "clusters": None, "spent_epsilon": 1.0, "delta": 0.0}
    trials = [point_of(told | {"epsilon": epsilon, "ratio": ratio}) for epsilon, ratio in ((1.0, 0.9), (2.0, 1.23))]
    up = plot_of(Panel("mnist", trials, "epsilon")).up
    assert up.high == 1.23
    assert [value for value, _ in up.marks()][-3:] == [1.0, 1.1, 1.2]


def point_of(told: dict[str, Any]) -> Point:
    return Point(
        curve=told["mechanism"], kind=told["mechanism"].partition(":")[0], clusters=told["clusters"],
        epsilon=told["epsilon"], spent=told["spent_epsilon"], delta=told["delta"], trial=0, seed=0, accuracy=None,
        nonprivate_accuracy=0.9, ratio=told["ratio"], purity=0.8, users=400,
    )  # fmt: skip


def test_the_caption_and_the_legend_say_what_a_reader_needs(whole: Sweep) -> None:
    panel = Panel("mnist", points(whole.rows, 4), "epsilon")
    said = caption(panel)
    truth, purity = whole.rows[0]["nonprivate_accuracy"], whole.rows[0]["purity"]
    assert f"non-private accuracy {truth:.4f}" in said
    assert f"purity of 4 clusters {purity:.2f}" in said
    assert "mean and range of 2 trials" in said
    labels = [curve_label(mine, with_epsilon=False) for mine in panel.lines().values()]
    assert labels[:4] == [
        "uniform_rr: trusts nobody; delta 0",
        "cluster_rr (tau = 0.01): trusts a curator; delta 0",
        "cluster_rr (tau = 0.05): trusts a curator; delta 0",
        "peer_to_peer: trusts peers not to collude with the learner; delta 0.001",
    ]
    assert labels[-1] == "Algorithm 1 as printed (tau = 0.01): costs 3 times the epsilon it names; trusts a curator"
    assert panel.title == "MNIST"


def test_every_mechanism_has_a_colour_of_its_own() -> None:
    assert set(kinds()) == {*MECHANISMS, AS_PRINTED}
    for ground in PAPER:
        colours = {style_of(kind).on(ground) for kind in kinds()}
        assert len(colours) == len(kinds())
        assert min(contrast(colour, PAPER[ground]) for colour in colours) >= LEAST_CONTRAST


def test_the_model_view_counts_where_the_learner_is_trusted(whole: Sweep) -> None:
    row = next(row for row in whole.rows if row[KIND] == "dp_sgd")
    assert row[f"epsilon.{View.LEARNER}"] == float("inf")
    assert points([row], 4)[0].spent == row[f"epsilon.{View.MODEL}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare"], "a scenario or --dataset"),
        (["compare", "quickstart", "--dataset", "digits"], "one of the two"),
        (["compare", "--dataset", "digitz"], "data.name"),
        (["compare", "--dataset", "digits", "--epsilons", "a"], "--epsilons"),
        (["compare", "--dataset", "digits", "--epsilons", "-1"], "--epsilons"),
        (["compare", "--dataset", "digits", "--epsilons", "1,1"], "--epsilons"),
        (["compare", "--dataset", "digits", "--trials", "0"], "--trials"),
        (["compare", "--dataset", "digits", "--vary", "alpha"], "--vary"),
        (["compare", "--dataset", "digits", "--metric", "recall"], "--metric"),
        (["compare", "--dataset", "digits", "--vary", "clusters", "--counts", "2.5"], "--counts"),
        (["compare", "--dataset", "digits", "--vary", "clusters", "--counts", "2,9999"], "--counts 9999"),
        (["compare", "--dataset", "digits", "--mechanisms", "magic"], "--mechanisms"),
        (["compare", "--dataset", "digits", "--mechanisms", "uniform_rr uniform_rr"], "--mechanisms"),
        (["compare", "--dataset", "digits", "--label", "x"], "--label"),
        (["compare", "--dataset", "digits", "--set", "coins.source=system"], "coins.source"),
        (["compare", "--dataset", "digits", "--set", "mechanism.rounds=2"], "mechanism.rounds"),
        (["compare", "--dataset", "digits", "--workers", "1", "--dask", "x:1"], "--dask"),
        (["compare", "gone.csv", "--label", "x"], "gone.csv"),
        (["compare", "few.csv", "--label", "gone"], "data.label_column is 'gone', but few.csv has the columns"),
        (["compare", "few.csv", "--label", "a"], "so that it is continuous"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line(
    arguments: list[str], words: str, refused: Refused, tmp_path: Path
) -> None:
    make_csv(tmp_path / "few.csv", 250)
    assert words in refused(*arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["few.csv"]
