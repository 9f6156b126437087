"""``account``, ``calibrate`` and ``threats`` as a person or a program meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]

KEYS = {
    "epsilon", "delta", "view", "method", "local_epsilon", "paper_epsilon", "shuffle_epsilon", "searched_epsilon",
    "attained_epsilon", "attained_by", "worst_ones", "error_bound",
}  # fmt: skip


def account(command: Command, size: int, alpha: float, theta: float, delta: float, *more: str) -> dict[str, object]:
    options = ["--cluster-size", size, "--alpha", alpha, "--theta", theta, "--delta", delta]
    status, out, err = command("account", *map(str, options), "--json", *more)
    assert (status, err) == (0, "")
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("size", "alpha", "theta", "delta", "epsilon"),
    [
        (500, 0.1, 1, 4e-6, 0.3400),
        (200, 0.02, 1, 2.5e-5, 0.9706),
        (200, 0.1, 0.5, 2.5e-5, 0.3609),
        (200, 0.1, 1, 2.5e-5, 0.5148),
        (1000, 0.1, 1, 1e-6, 0.2488),
        (500, 0.1, 0.05, 4e-6, 0.1008),
    ],
)
def test_account_gives_the_known_figures(
    size: int, alpha: float, theta: float, delta: float, epsilon: float, command: Command
) -> None:
    found = account(command, size, alpha, theta, delta)
    assert found.keys() >= KEYS
    assert round(float(str(found["epsilon"])), 4) == epsilon
    assert found["method"] == "exact"


def test_the_worst_case_is_not_always_without_ones(command: Command) -> None:
    assert account(command, 200, 0.02, 1, 2.5e-5)["worst_ones"] in (3, 196)


def test_the_papers_lemma_stands_beside_or_does_not_apply(command: Command) -> None:
    assert account(command, 500, 0.1, 1, 4e-6)["paper_epsilon"] is None
    assert account(command, 1000, 0.1, 1, 1e-6)["paper_epsilon"] == pytest.approx(2.87, abs=0.01)


def test_infinity_is_a_word_with_its_reason(command: Command) -> None:
    """Three labels, and a flip that never keeps the label: noise, but some label is ruled out."""
    found = account(command, 10, 1, 1, 1e-6, "--labels", "3")
    assert found["epsilon"] == "inf"
    assert "alpha = 1" in str(found["reason"])
    wanted = ["account", "--cluster-size", "10", "--alpha", "1", "--labels", "3", "--theta", "1", "--delta", "1e-6"]
    status, out, _ = command(*wanted)
    assert status == 0
    assert "infinite" in out


@pytest.mark.parametrize(
    ("alpha", "labels", "left"),
    [("0", 2, "no noise"), ("1", 2, "no noise"), ("0", 10, "no noise"), ("0.5", 2, "only noise"), ("0.9", 10, "only")],
)
def test_flips_that_leave_no_noise_or_only_noise_are_refused(
    alpha: str, labels: int, left: str, refused: Refused
) -> None:
    wanted = ["account", "--cluster-size", "10", "--theta", "1", "--delta", "1e-6"]
    err = refused(*wanted, "--alpha", alpha, "--labels", str(labels))
    assert f"alpha = {alpha} with {labels} labels leaves {left}" in err


def test_one_colluder_takes_the_guarantee_almost_to_the_local_one_and_that_is_said(command: Command) -> None:
    found = account(command, 500, 0.1, 1, 4e-6, "--view", "coalition", "--colluders", "1")
    assert 2.18 < float(str(found["epsilon"])) < 2.1973
    assert "fallen to the local one" in str(found["reason"])


def test_more_labels_say_what_is_attained_and_by_which_data_set(command: Command) -> None:
    found = account(command, 200, 0.6, 1, 2.5e-5, "--labels", "10")
    assert found["attained_epsilon"] == pytest.approx(0.2826, abs=1e-4)
    assert found["epsilon"] == pytest.approx(0.2846, abs=2e-4)
    options = ["--cluster-size", "200", "--alpha", "0.6", "--theta", "1", "--delta", "2.5e-5", "--labels", "10"]
    status, out, _ = command("account", *options)
    assert status == 0
    assert "attained" in out
    assert "all others hold one label" in out


def test_the_trade_off_is_printed_and_drawn(command: Command, tmp_path: Path) -> None:
    found = account(command, 30, 0.3, 0.2, 1e-3, "--labels", "4", "--trade-off", "--out", "curve.svg")
    rates, errors = found["trade_off"]["false_positive_rate"], found["trade_off"]["false_negative_rate"]
    assert len(rates) == len(errors) == 101
    assert all(0 <= error <= 1 - rate + 1e-12 for rate, error in zip(rates, errors, strict=True))
    assert found["renyi"]["divergence"] == sorted(found["renyi"]["divergence"])
    assert (tmp_path / "curve.svg").stat().st_size > 10_000
    options = ["--cluster-size", "30", "--alpha", "1", "--theta", "1", "--delta", "1e-3", "--labels", "3"]
    status, out, err = command("account", *options, "--trade-off")
    assert (status, err) == (0, "")
    assert "infinite" in out
    assert (tmp_path / "runs" / "learner-trade-off.png").stat().st_size > 10_000


def test_the_mixed_exchange_is_accounted_for_with_what_is_averaged(command: Command, refused: Refused) -> None:
    mixed = ["--exchange", "mixed", "--relays", "3"]
    found = account(command, 500, 0.1, 1, 4e-6, "--view", "coalition", "--colluders", "1", *mixed)
    assert found["epsilon"] == pytest.approx(0.351, abs=1e-3)
    assert found["no_relay_epsilon"] == pytest.approx(0.3402, abs=1e-4)
    assert found["relay_epsilon"] == pytest.approx(0.5298, abs=1e-4)
    wanted = ["account", "--cluster-size", "50", "--alpha", "0.1", "--theta", "1", "--delta", "1e-4", *mixed]
    status, out, _ = command(*wanted, "--view", "coalition", "--colluders", "4")
    assert status == 0
    assert "some relays collude" in out
    assert "relays must be at least 1 and at most the cluster size 50, not 51" in refused(*wanted, "--relays", "51")
    options = ["--cluster-size", "60", "--epsilon", "1", "--delta", "1e-3", "--theta", "1", *mixed]
    chosen = json.loads(command("calibrate", *options, "--view", "coalition", "--colluders", "2", "--json")[1])
    assert 0.99 < chosen["epsilon"] <= 1


def test_one_member_who_tells_the_learner_undoes_the_permutation(command: Command) -> None:
    permuted = ["--exchange", "permutation"]
    assert account(command, 500, 0.1, 1, 4e-6, *permuted)["epsilon"] == pytest.approx(0.5288, abs=1e-4)
    found = account(command, 500, 0.1, 1, 4e-6, "--view", "coalition", "--colluders", "1", *permuted)
    assert (found["view"], found["method"]) == ("coalition", "exact")
    assert found["epsilon"] == pytest.approx(2.1972, abs=1e-4)
    assert "fallen to the local one" in found["reason"]


def test_calibrate_meets_its_target_and_account_agrees(command: Command) -> None:
    options = ["--cluster-size", "300", "--epsilon", "0.4", "--delta", "1e-5"]
    for theta in ([], ["--theta", "0.3"]):
        found = json.loads(command("calibrate", *options, *theta, "--json")[1])
        again = account(command, 300, found["alpha"], found["theta"], 1e-5)
        assert 0.399 < float(str(again["epsilon"])) <= 0.4


COALITION = [
    "--cluster-size", "9", "--alpha", ".1", "--theta", "1", "--delta", "0", "--view", "coalition",
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["account", "--cluster-size", "0", "--alpha", ".1", "--theta", "1", "--delta", "0"], "cluster_size"),
        (["account", "--cluster-size", "9", "--alpha", "1.1", "--theta", "1", "--delta", "0"], "alpha"),
        (["account", "--cluster-size", "9", "--alpha", "nan", "--theta", "1", "--delta", "0"], "alpha"),
        (["account", "--cluster-size", "9", "--alpha", ".1", "--theta", "-1", "--delta", "0"], "theta"),
        (["account", "--cluster-size", "9", "--alpha", ".1", "--theta", "1", "--delta", "2"], "delta"),
        (["account", "--cluster-size", "9", "--alpha", ".1", "--theta", "1", "--delta", "0", "--view", "x"], "learner"),
        (["account", "--alpha", ".1", "--theta", "1", "--delta", "0"], "--cluster-size"),
        (["account", *COALITION, "--colluders", "9"], "colluders"),
        (["calibrate", "--cluster-size", "9", "--epsilon", "-1", "--delta", "0"], "epsilon"),
        (["calibrate", "--cluster-size", "9", "--epsilon", "1e-9", "--delta", "0"], "least reachable"),
        (["account", *COALITION, "--colluders", "1", "--trade-off", "--out", "plot.gif"], ".png, .svg, .pdf"),
        (["account", *COALITION, "--colluders", "1", "--out", "plot.png"], "--trade-off"),
        (["threats", "quickstart", "--out", "plot.gif"], ".png, .svg, .pdf"),
        (["threats", "quickstart", "--epsilon", "nan"], "--epsilon"),
        (["threats", "nothing"], "neither a file"),
        (["threats", "quickstart", "--set", "clusters.minimum_size=2000", "--set", "clusters.count=1"], "abstains"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line_with_status_2(
    arguments: list[str], words: str, refused: Refused, tmp_path: Path
) -> None:
    err = refused(*arguments)
    assert words in err
    assert list(tmp_path.rglob("*")) == []


def test_threats_prints_every_view_and_writes_the_plot(command: Command, tmp_path: Path) -> None:
    status, out, err = command("threats", "quickstart", "--out", "plot.svg")
    assert (status, err) == (0, "")
    views = ("learner", "peer", "metadata", "eavesdropper", "network", "auditor", "coalition", "shuffle")
    for view in views:
        assert view in out
    picture = (tmp_path / "plot.svg").read_text()
    assert picture.startswith("<?xml")
    found = json.loads(command("threats", "quickstart", "--json")[1])
    assert tuple(found["views"]) == views
    assert found["views"]["learner"]["epsilon"] < found["views"]["shuffle"]["epsilon"]
    assert (tmp_path / "runs" / "quickstart-threats.png").stat().st_size > 10_000


def test_a_scenario_asks_for_epsilon_and_the_run_keeps_to_it(command: Command) -> None:
    settings = ["--set", "mechanism.epsilon=0.6", "--set", "privacy.delta=1e-4"]
    summary = json.loads(command("run", "quickstart", "--no-report", "--json", *settings)[1])
    learner = summary["privacy"]["learner"]
    assert 0.599 < learner["epsilon"] <= 0.6
    assert learner["delta"] == 1e-4
    assert summary["target_epsilon"] == 0.6
    assert summary["alpha"] > 0.1
    other = json.loads(command("run", "quickstart", "--no-report", "--json", "--engine", "vectorized", *settings)[1])
    assert other["noisy_sha256"] == summary["noisy_sha256"]
    assert other["privacy"] == summary["privacy"]
