"""All labels of one person together: never below what flips of several labels really cost, and stated by a run."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from p2p_labeldp.cli import main
from p2p_labeldp.privacy import Parameters, View, account
from p2p_labeldp.runs.persons import for_group
from p2p_labeldp.runs.summary import read_summary


def exact_delta(epsilon: float, alpha: float, rows: int) -> float:
    """Of ``rows`` labels that were all flipped on their own and seen: every outcome, no bound."""
    total = 0.0
    for flips in itertools.product((alpha, 1 - alpha), repeat=rows):
        one, other = math.prod(flips), math.prod(1 - chance for chance in flips)
        total += max(0.0, one - math.exp(epsilon) * other)
    return total


@pytest.mark.parametrize("rows", [2, 3, 6])
@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("delta", [1e-6, 1e-2, 0.2])
def test_a_group_is_never_said_to_be_safer_than_all_its_flips_are(rows: int, alpha: float, delta: float) -> None:
    parameters = Parameters(alpha)
    found = for_group(lambda each: account(View.AUDITOR, parameters, cluster_size=1).get_epsilon(each), delta, rows)
    assert exact_delta(found.epsilon, alpha, rows) <= delta
    assert found.epsilon <= rows * math.log((1 - alpha) / alpha) + 1e-9
    assert found.delta == delta


def test_a_group_of_one_is_what_it_was() -> None:
    single = account(View.LEARNER, Parameters(0.2), cluster_size=50).get_epsilon(1e-3)
    assert for_group(lambda _: single, 1e-3, 1).epsilon == single.epsilon


def test_a_run_states_what_protects_all_rows_of_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"p{row // 3},{row % 11},{'yn'[row % 2]}" for row in range(150)]
    (tmp_path / "people.csv").write_text("who,x,label\n" + "\n".join(lines) + "\n")
    study = tmp_path / "study.toml"
    study.write_text(
        '[data]\nname = "csv"\npath = "people.csv"\nperson_column = "who"\n[clusters]\ncount = 2\n'
        "[mechanism]\nalpha = 0.2\n"
    )
    words = ["run", str(study), "--engine", "vectorized", "--no-report"]
    assert main([*words, "--out", str(tmp_path / "all"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["person_rows"] == 3
    for view, single in said["privacy"].items():
        together = said["person_privacy"][view]
        assert together["epsilon"] >= single["epsilon"]
        assert together["method"] == "upper_bound"
    again = read_summary(tmp_path / "all" / "summary.json")
    assert again.person_privacy[View.LEARNER].epsilon == said["person_privacy"]["learner"]["epsilon"]
    assert "A person may have up to 3 rows" in (tmp_path / "all" / "model-card.md").read_text()
    assert main([*words, "--set", "data.person_rows=one", "--out", str(tmp_path / "one"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert (alone["person_rows"], alone["person_privacy"]) == (1, {})
    assert alone["users"] * 3 == said["users"]
