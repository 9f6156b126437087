"""Which setting is best: paired over trials, ties marked, the same answer from compare, sweep and a grid search."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from p2p_labeldp.cli import main
from p2p_labeldp.data import load
from p2p_labeldp.estimator import LabelPrivateClassifier
from p2p_labeldp.experiments.compare import comparison, counts_for, delta_for, parse_curve
from p2p_labeldp.experiments.sweeps import Plan, Sweep, read_sweep
from p2p_labeldp.reporting.ranking import rankings, tuning, verdict
from p2p_labeldp.scenario import Scenario, parse_scenario

TRIALS = 4
METRICS = ("accuracy", "balanced_accuracy", "auc", "log_loss")


def make_csv(path: Path, rows: int = 200) -> None:
    """Two numbers, of which one in three rows is an answer of yes."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(rows, 2)).round(3)
    lines = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0.6 else 'no'}" for a, b in x]
    path.write_text("\n".join(["a,b,answer", *lines]) + "\n")


def scores(values: dict[str, list[float]], *, paired: bool = True, epsilon: float = 1.0) -> Sweep:
    """A sweep whose mechanisms had these scores."""
    keys = ("mechanism.kind", "mechanism.epsilon")
    rows: list[dict[str, Any]] = []
    for setting, (kind, known) in enumerate(values.items()):
        for replicate, score in enumerate(known):
            row: dict[str, Any] = dict.fromkeys(METRICS, score) | {"log_loss": 1 - score}
            row |= {"setting": setting, "replicate": replicate, "seed": 0, keys[0]: kind, keys[1]: epsilon}
            row |= {"nonprivate_accuracy": 0.9, "accuracy_ratio": 1.0, "purity": None, "users": 10}
            row |= {f"{whose}_balanced_accuracy": share for whose, share in (("nonprivate", 0.95), ("majority", 0.5))}
            spent = 3 * epsilon if kind == "shuffle" else epsilon
            rows.append(row | {"epsilon.learner": spent, "delta.learner": 0.0})
    settings = tuple((kind, epsilon) for kind in values)
    text = parse_scenario("").to_toml()
    return Sweep(Path(), keys, settings, TRIALS, tuple(rows), (), "vectorized", None, text, False, paired)


HARD, EASY = [0.60, 0.70, 0.80, 0.90], [0.62, 0.72, 0.82, 0.921]


def test_differences_are_taken_within_a_trial_so_that_hard_splits_hide_nothing() -> None:
    (paired,) = rankings(scores({"uniform_rr": HARD, "cluster_rr": EASY}))
    assert [entry.kind for entry in paired.entries] == ["cluster_rr", "uniform_rr"]
    assert [entry.tied for entry in paired.entries] == [True, False]
    behind = paired.entries[1].behind
    assert behind is not None
    assert behind.mean == pytest.approx(0.02025)
    (apart,) = rankings(scores({"uniform_rr": HARD, "cluster_rr": EASY}, paired=False))
    assert [entry.tied for entry in apart.entries] == [True, True]


def test_welch_s_interval_is_scipy_s() -> None:
    from scipy.stats import ttest_ind

    (found,) = rankings(scores({"uniform_rr": HARD, "cluster_rr": EASY}, paired=False))
    behind = found.entries[1].behind
    assert behind is not None
    low, high = ttest_ind(EASY, HARD, equal_var=False).confidence_interval(0.95)
    assert (behind.low, behind.high) == (pytest.approx(low), pytest.approx(high))


def test_a_paired_interval_is_scipy_s_at_the_level_that_all_of_them_share() -> None:
    from scipy.stats import ttest_rel

    third = [0.5, 0.66, 0.7, 0.85]
    (found,) = rankings(scores({"uniform_rr": HARD, "cluster_rr": EASY, "lp_2st": third}))
    behind = found.entries[2].behind
    assert behind is not None
    low, high = ttest_rel(EASY, third).confidence_interval(1 - 0.05 / 2)
    assert (behind.low, behind.high) == (pytest.approx(low), pytest.approx(high))


def test_whoever_spends_more_than_was_asked_is_not_ranked() -> None:
    (found,) = rankings(scores({"uniform_rr": HARD, "shuffle": EASY}))
    assert [(entry.kind, entry.rank) for entry in found.entries] == [("uniform_rr", 1), ("shuffle", None)]


def test_less_log_loss_is_better() -> None:
    (found,) = rankings(scores({"uniform_rr": HARD, "cluster_rr": EASY}), "log_loss")
    assert found.entries[0].kind == "cluster_rr"
    assert found.entries[1].behind is not None
    assert found.entries[1].behind.mean > 0


def test_one_trial_says_nothing_of_ties() -> None:
    (found,) = rankings(scores({"uniform_rr": [0.6], "cluster_rr": [0.7]}))
    assert [entry.tied for entry in found.entries] == [True, False]
    assert "One trial tells nothing of ties" in verdict(found)


def test_what_tuning_costs_and_how_to_do_without_is_said() -> None:
    said = " ".join(tuning(scores({"uniform_rr": HARD, "cluster_rr": EASY})))
    assert "all 8 runs together would cost: epsilon 8" in said
    assert "computed from true labels, which no epsilon covers" in said
    assert "To tune without spending" in said


@pytest.mark.parametrize("users", [1, 19, 20, 455, 4_000, 100_000, 10**7])
def test_the_grid_follows_from_the_number_of_rows_alone(users: int) -> None:
    counts = counts_for(users)
    assert counts == tuple(sorted(set(counts)))
    assert 1 <= len(counts) <= 5
    assert max(counts) <= max(1, users // 15)
    assert delta_for(users) < 1 / users


GRID = {"peer_to_peer": (1, 6), "uniform_rr": (None,), "cluster_rr": (1, 6)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answer of the command, in its folder."""
    place = tmp_path_factory.mktemp("asked")
    make_csv(place / "mine.csv")
    mechanisms = " ".join(GRID)
    status = main(
        ["compare", str(place / "mine.csv"), "--label", "answer", "--epsilons", "1", "--mechanisms", mechanisms,
         "--counts", "1,6", "--trials", f"{TRIALS}", "--workers", "1", "--out", str(place / "out")]
    )  # fmt: skip
    assert status == 0
    return place


def test_all_settings_of_a_trial_have_one_split_and_one_seed(folder: Path) -> None:
    found = read_sweep(folder / "out")
    assert found.paired
    for trial in range(TRIALS):
        rows = [row for row in found.rows if row["replicate"] == trial]
        assert len(rows) == 5
        for name in ("seed", "nonprivate_accuracy", "majority_accuracy", "nonprivate_log_loss"):
            assert len({row[name] for row in rows}) == 1
    assert len({row["seed"] for row in found.rows}) == TRIALS


def test_a_sweep_of_the_same_settings_gives_the_same_answer_digit_for_digit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_sweep(folder / "out")
    (folder / "mine.toml").write_text(found.scenario)
    with (folder / "settings.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(found.keys)
        writer.writerows(["" if value is None else value for value in setting] for setting in found.settings)
    status = main(
        ["sweep", str(folder / "mine.toml"), "--settings", str(folder / "settings.csv"), "--seeds", f"{TRIALS}",
         "--paired", "--workers", "1", "--no-report", "--json", "--out", str(folder / "swept")]
    )  # fmt: skip
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert status == 0
    assert read_sweep(folder / "swept").rows == found.rows
    (mine,) = rankings(found)
    (theirs,) = told["ranking"]
    assert [each["setting"] for each in theirs["settings"]] == [entry.setting for entry in mine.entries]
    assert theirs["verdict"] == verdict(mine)


def test_a_grid_search_over_the_estimator_gives_the_same_scores(folder: Path) -> None:
    """One search for each trial, on its split, with its seed: the rows' scores, digit for digit."""
    found = read_sweep(folder / "out")
    scenario = parse_scenario(found.scenario, "")
    plan = Plan(scenario, found.keys, found.settings, TRIALS, "vectorized", None, paired=True)
    for trial in range(TRIALS):
        seed = plan.seed(0, trial)
        data = load(scenario.data, seed)
        users, tests = len(data.labels), len(data.test_labels)
        search = GridSearchCV(
            LabelPrivateClassifier(
                epsilon=1.0, delta=scenario.privacy.delta, random_state=seed,
                min_cluster_size=scenario.clusters.minimum_size,
            ),
            [
                {"mechanism": [kind], "clusterer": [count for count in counts if count] or [None]}
                for kind, counts in GRID.items()
            ],
            scoring="balanced_accuracy", refit=False, cv=[(np.arange(users), users + np.arange(tests))],
        )  # fmt: skip
        search.fit(np.concatenate([data.features, data.test_features]), np.concatenate([data.labels, data.test_labels]))
        scores = {
            (tried["mechanism"], tried["clusterer"]): score
            for tried, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
        }
        rows = {
            (row["mechanism.kind"], row["clusters.count"]): row["balanced_accuracy"]
            for row in found.rows
            if row["replicate"] == trial
        }
        assert scores == rows


def test_the_terminal_fits_eighty_columns_and_marks_the_best(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from p2p_labeldp.cli import output, ranking

    monkeypatch.setattr(output.console, "_width", 80)
    ranking.print_ranking(read_sweep(folder / "out"), "balanced_accuracy")
    lines = capsys.readouterr().out.splitlines()
    head = next(place for place, line in enumerate(lines) if "mechanism" in line and "trusts" in line)
    table = lines[head : lines.index("", head)]
    assert max(map(len, table)) <= 80
    assert sum("±" in line for line in table) == 5 + 2
    assert any(line.split()[0] == "1" for line in table[1:])
    assert any("commonest label" in line for line in table)


def test_comparing_a_scenario_that_says_how_many_clusters_there_are_tries_that_number_alone() -> None:
    scenario: Scenario = parse_scenario("[clusters]\ncount = 7\n")
    plan = comparison(scenario, [parse_curve("peer_to_peer")], [1.0], trials=1)
    assert plan.keys == ("mechanism.kind", "mechanism.epsilon")
