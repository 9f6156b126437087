"""All labels of one person together: never below what they really cost, and stated by runs and deployments."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import Command
from deployment_model import Model
from scipy.stats import binom
from small import PEOPLE, study

from p2p_labeldp.deployment.items import Ready
from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy import Guarantee, Parameters, Relation, View, account
from p2p_labeldp.runs.persons import for_group
from p2p_labeldp.runs.summary import read_summary
from p2p_labeldp.scenario import load_scenario, parse_scenario


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


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("delta", [1e-4, 1e-2])
def test_a_group_in_one_cluster_is_never_said_to_be_safer_than_what_the_learner_sees(rows: int, delta: float) -> None:
    """By enumeration: all her labels are 0, or all are 1; everyone else's may be anything."""
    size, alpha = 12, 0.2
    found = for_group(
        lambda each: account(View.LEARNER, Parameters(alpha), cluster_size=size).get_epsilon(each), delta, rows
    )
    for ones in range(size - rows + 1):
        less, more = (reports(size, alpha, ones + mine) for mine in (0, rows))
        for one, other in ((less, more), (more, less)):
            assert np.maximum(0, one - math.exp(found.epsilon) * other).sum() <= delta


def reports(size: int, alpha: float, ones: int) -> Any:
    """The distribution of how many reports say 1, of all that a cluster with so many labels of 1 sends."""
    noisy = np.convolve(
        binom.pmf(range(ones + 1), ones, 1 - alpha), binom.pmf(range(size - ones + 1), size - ones, alpha)
    )
    return sum(chance * binom.pmf(range(size + 1), size, place / size) for place, chance in enumerate(noisy))


@pytest.mark.parametrize("rows", [1000, 2**40])
def test_however_many_rows_there_are_an_answer_comes(rows: int) -> None:
    flips = account(View.AUDITOR, Parameters(0.2), cluster_size=1)
    found = for_group(flips.get_epsilon, 1e-5, rows)
    assert found.epsilon == pytest.approx(rows * math.log(4))


def test_a_mechanism_whose_delta_is_its_own_states_what_that_comes_to() -> None:
    one = Guarantee(epsilon=0.5, delta=1e-6, view="learner", relation=Relation.REPLACE_EXAMPLE)
    found = for_group(lambda _: one, one.delta, 3)
    assert (found.epsilon, found.relation) == (1.5, one.relation)
    assert found.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1)))
    pure = Guarantee(epsilon=0.5, delta=0.0, view="learner")
    assert (for_group(lambda _: pure, 0.0, 3).epsilon, for_group(lambda _: pure, 0.0, 3).delta) == (1.5, 0.0)


def test_a_group_of_one_is_what_it_was() -> None:
    single = account(View.LEARNER, Parameters(0.2), cluster_size=50).get_epsilon(1e-3)
    assert for_group(lambda _: single, 1e-3, 1).epsilon == single.epsilon


ROWS = [f"p{row // 3},{row % 11},{'yn'[row % 2]}" for row in range(150)]
KEYS = 'person_column = "who"\n[mechanism]\nalpha = 0.2\n[coins]\nseed = 0\n'


@pytest.fixture
def fifty(tmp_path: Path) -> Path:
    """A scenario of fifty people with three rows each."""
    return study(tmp_path, ["who,x,label", *ROWS], PEOPLE + KEYS)


def test_a_run_states_what_protects_all_rows_of_a_person(fifty: Path, tmp_path: Path, command: Command) -> None:
    words = ["run", str(fifty), "--engine", "vectorized", "--no-report"]
    said = json.loads(command(*words, "--out", "all", "--json")[1])
    assert said["person_rows"] == 3
    for view, single in said["privacy"].items():
        together = said["person_privacy"][view]
        assert together["epsilon"] >= single["epsilon"]
        assert together["method"] == "upper_bound"
    again = read_summary(tmp_path / "all" / "summary.json")
    assert again.person_privacy[View.LEARNER].epsilon == said["person_privacy"]["learner"]["epsilon"]
    assert "A person may have up to 3 rows" in (tmp_path / "all" / "model-card.md").read_text()
    assert command("report", "all")[0] == 0
    page = (tmp_path / "all" / "report.html").read_text(encoding="utf-8")
    assert "What protects all labels of a person with 3 rows together" in page
    assert "for all labels of a person with 3 rows" in " ".join(command(*words, "--out", "told")[1].split())
    alone = json.loads(command(*words, "--set", "data.person_rows=one", "--out", "one", "--json")[1])
    assert (alone["person_rows"], alone["person_privacy"]) == (1, {})
    assert alone["users"] * 3 == said["users"]


def test_a_deployment_states_the_same_and_what_protects_a_person_from_a_host(fifty: Path) -> None:
    scenario = load_scenario(fifty)
    model = Model(scenario, 2)
    model.run()
    deployed, simulated = model.summary(), run(scenario, engine="vectorized").summary
    assert deployed.person_rows == simulated.person_rows == 3
    for view, together in simulated.person_privacy.items():
        assert deployed.person_privacy[view] == together
    host = deployed.person_privacy[View.USER_HOST]
    assert deployed.privacy[View.USER_HOST].epsilon <= host.epsilon <= 3 * math.log(4) + 1e-9


def test_a_host_that_claims_more_rows_of_a_person_than_it_has_is_not_believed() -> None:
    model = Model(parse_scenario('[coins]\nseed = 0\n[data]\nname = "synthetic"\nusers = 40\n'), 2)
    users = model.parts[model.hosts[0]]
    say = users.say
    users.say = lambda key, item: say(key, Ready(2**40) if isinstance(item, Ready) else item)  # type: ignore[method-assign]
    model.run()
    assert model.summary().person_rows == 20
