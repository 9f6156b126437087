"""``account``, ``calibrate`` and ``threats`` as a person or a program meets them; figures are ``privacy``'s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asking import Command, Refused

from p2p_labeldp.privacy import Parameters, account

SMALL = ("--cluster-size", "60", "--alpha", "0.1", "--theta", "0.9", "--delta", "1e-3")
MIXED = {"exchange": "mixed", "relays": 4}


@pytest.mark.parametrize(
    ("asked", "more", "words"),
    [
        ({}, {}, ["epsilon", "at delta 0.001", "worst case", "paper's lemma"]),
        ({"labels": 3}, {}, ["attained", "all others hold one label"]),
        ({"labels": 3, "alpha": 1}, {}, ["infinite at delta", "alpha = 1"]),
        ({"rounds": 2, "noise": "fresh"}, {}, ["learner"]),
        ({}, {"view": "coalition", "colluders": 2}, ["coalition", "fallen to the local one"]),
        (MIXED, {"view": "coalition", "colluders": 4}, ["some relays collude", "all of them collude with probability"]),
        ({"exchange": "permutation"}, {"view": "metadata"}, ["metadata"]),
    ],
)
def test_account_says_what_the_library_does(
    asked: dict[str, Any], more: dict[str, Any], words: list[str], command: Command
) -> None:
    request = ["account", *SMALL]
    for name, value in (asked | more).items():
        request += [f"--{name}", str(value)]
    accountant = account(
        more.get("view", "learner"), Parameters(**{"alpha": 0.1, "theta": 0.9} | asked), cluster_size=60,
        colluders=more.get("colluders", 0),
    )  # fmt: skip
    status, out, err = command(*request, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(accountant.get_epsilon(1e-3).as_json()))
    shown = " ".join(command(*request)[1].split())
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize(
    ("theta", "more"),
    [
        ([], []),  # chosen for the least variance
        (["--theta", "0.3"], ["--labels", "3", "--view", "coalition", "--colluders", "2", "--rounds", "2"]),
        (["--theta", "0.3"], ["--view", "coalition", "--colluders", "2", "--exchange", "mixed", "--relays", "4"]),
        (["--theta", "0.3"], ["--view", "auditor", "--rounds", "2", "--noise", "fresh"]),
    ],
)
def test_calibrate_meets_its_target_and_account_agrees(theta: list[str], more: list[str], command: Command) -> None:
    asked = ["--cluster-size", "30", "--delta", "1e-3", *more]
    found = json.loads(command("calibrate", *asked, "--epsilon", "1", *theta, "--json")[1])
    again = command("account", *asked, "--alpha", str(found["alpha"]), "--theta", str(found["theta"]), "--json")
    assert 0.99 < json.loads(again[1])["epsilon"] == found["epsilon"] <= found["target_epsilon"] == 1
    assert "variance of a cluster's share" in command("calibrate", *asked, "--epsilon", "1", *theta)[1]


def test_the_trade_off_is_printed_and_drawn(command: Command, tmp_path: Path) -> None:
    status, out, err = command("account", *SMALL, "--labels", "4", "--trade-off", "--out", "curve.svg", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    rates, errors = found["trade_off"]["false_positive_rate"], found["trade_off"]["false_negative_rate"]
    assert len(rates) == len(errors) == 101
    assert found["renyi"]["divergence"] == sorted(found["renyi"]["divergence"])
    assert (tmp_path / "curve.svg").stat().st_size > 10_000
    status, out, err = command("account", *SMALL, "--labels", "3", "--alpha", "1", "--trade-off")
    assert (status, err) == (0, "")
    assert "infinite" in out
    assert (tmp_path / "runs" / "learner-trade-off.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["account", *SMALL, "--cluster-size", "0"], "cluster_size"),
        (["account", *SMALL, "--alpha", "nan"], "alpha must be within 0..1"),
        (["account", *SMALL, "--alpha", "0"], "alpha = 0 with 2 labels leaves no noise"),
        (["account", *SMALL, "--alpha", "0.9", "--labels", "10"], "alpha = 0.9 with 10 labels leaves only noise"),
        (["account", *SMALL, "--delta", "2"], "delta"),
        (["account", *SMALL[2:]], "--cluster-size"),
        (["account", *SMALL, "--exchange", "mixed", "--relays", "61"], "at most the cluster size 60, not 61"),
        (["calibrate", "--cluster-size", "9", "--epsilon", "1e-9", "--delta", "0"], "least reachable"),
        (["account", *SMALL, "--trade-off", "--out", "plot.gif"], ".png, .svg, .pdf"),
        (["account", *SMALL, "--out", "plot.png"], "--trade-off"),
        (["threats", "quickstart", "--out", "plot.gif"], ".png, .svg, .pdf"),
        (["threats", "quickstart", "--epsilon", "nan"], "--epsilon"),
        (["threats", "nothing"], "neither a file"),
        (["threats", "quickstart", "--set", "clusters.minimum_size=2000", "--set", "clusters.count=1"], "abstains"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line_with_status_2(
    arguments: list[str], words: str, refused: Refused, tmp_path: Path
) -> None:
    assert words in refused(*arguments)
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
