"""Lower bounds on epsilon: never above the truth, close to it, and printed beside what is stated.

Seeds are fixed. At confidence 99.9 % an honest bound is too high for one seed in a thousand at most; in fact for far
fewer, since the two rates must err together.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import Command, Refused
from scipy import stats
from small import sixty

from p2p_labeldp.audit.epsilon import Floats, at_least, at_most, lower_bound
from p2p_labeldp.cli import main
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import epsilon as audited
from p2p_labeldp.experiments.epsilon import EngineSampler, Setting, audit_epsilon, setting_of_runs
from p2p_labeldp.experiments.run import run
from p2p_labeldp.privacy import VIEWS, Parameters, View

LOG_4 = math.log(4)


class Flips:
    """A label of which one sees the flip: right with probability ``right``, seen at all with probability ``shown``."""

    def __init__(self, seed: int, right: float = 0.8, shown: float = 1.0) -> None:
        self.seed, self.right, self.shown = seed, right, shown
        self.asked: list[tuple[int, range]] = []

    def __call__(self, label: int, trials: range) -> dict[str, Floats]:
        self.asked.append((label, trials))
        generator = np.random.default_rng([self.seed, label, trials.start])
        says = np.where(generator.random(len(trials)) < self.right, label, 1 - label)
        scores = np.where(generator.random(len(trials)) < self.shown, 2.0 * says - 1, 0.0)
        return {"blind": np.zeros(len(trials)), "flip": scores}


# The bound itself.


@pytest.mark.parametrize("seed", range(5))
def test_a_flip_with_probability_one_fifth_is_bounded_close_to_log_4(seed: int) -> None:
    bound = lower_bound(Flips(seed), 0.0, 100_000)
    assert 0.93 * LOG_4 < bound.epsilon <= LOG_4
    assert bound.attack == "flip"
    assert bound.threshold == (1.0 if bound.label else -1.0)
    expected = math.log(bound.true_rate.limit / bound.false_rate.limit)
    assert bound.epsilon == pytest.approx(expected)
    assert bound.true_rate.limit < bound.true_rate.value == pytest.approx(0.8, abs=0.02)
    assert bound.false_rate.limit > bound.false_rate.value == pytest.approx(0.2, abs=0.02)


def test_it_exceeds_the_truth_less_often_than_its_confidence_says() -> None:
    """At confidence 0.9, 300 times: 30 or fewer are expected, 60 or more have a chance below 1e-6. It is one, since
    the two rates must err together."""
    above = sum(lower_bound(Flips(seed), 0.0, 400, confidence=0.9).epsilon > LOG_4 for seed in range(300))
    assert above < 60


def test_delta_is_taken_off_the_true_accusations() -> None:
    """A label that is shown as it is, but in one of fifty trials only: nothing at delta 0.02, much below that."""
    sampler = Flips(1, right=1.0, shown=0.02)
    assert lower_bound(sampler, 0.02, 100_000).epsilon == 0.0
    assert lower_bound(sampler, 0.0, 100_000).epsilon > 3.0


@pytest.mark.parametrize("revealed", [0, 1])
def test_either_label_may_be_the_one_that_is_given_away(revealed: int) -> None:
    def sampler(label: int, trials: range) -> dict[str, Floats]:
        generator = np.random.default_rng([label, trials.start])
        shown = generator.random(len(trials)) < (0.10 if label == revealed else 0.01)
        return {"shown": np.where(shown, 2.0 * revealed - 1, 0.0)}

    bound = lower_bound(sampler, 0.0, 100_000)
    assert bound.label == revealed
    assert 1.9 < bound.epsilon < math.log(10)


def test_the_event_is_chosen_on_one_half_of_the_trials_and_measured_on_the_other() -> None:
    sampler = Flips(3)
    bound = lower_bound(sampler, 0.0, 1003)
    assert sorted(sampler.asked, key=str) == [
        (label, half) for label in (0, 1) for half in (range(250), range(250, 501))
    ]
    assert (bound.trials, bound.true_rate.trials, bound.false_rate.trials) == (1002, 251, 251)


def test_nothing_is_shown_where_nothing_is_seen() -> None:
    assert lower_bound(Flips(4, shown=0.0), 0.0, 1000).epsilon == 0.0
    assert lower_bound(Flips(4, right=0.5), 0.0, 10_000).epsilon == 0.0


def test_limits_are_those_of_clopper_and_pearson() -> None:
    for hits in (0, 3, 50, 97, 100):
        found = stats.binomtest(hits, 100, alternative="greater").proportion_ci(0.995, method="exact").low
        assert at_least(np.array([hits]), 100, 0.005)[0] == pytest.approx(found, abs=1e-9)
        found = stats.binomtest(hits, 100, alternative="less").proportion_ci(0.995, method="exact").high
        assert at_most(np.array([hits]), 100, 0.005)[0] == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"delta": 1.0}, "delta must"), ({"trials": 7}, "at least 8"), ({"confidence": 1.0}, "confidence must")],
)
def test_bounds_that_make_no_sense_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        lower_bound(Flips(1), **{"delta": 0.0, "trials": 100} | changes)


# Through the engine.


@pytest.mark.parametrize("view", VIEWS)
def test_the_honest_engine_keeps_to_the_exact_epsilon_and_comes_close_to_it(view: str) -> None:
    """Three seeds each: of the 24 bounds one would be too high for one set of seeds in forty at most."""
    setting = Setting(view, 8, Parameters(0.2, 0.9), 0.01, 2 if view == "coalition" else 0)
    for seed in range(3):
        audit = audit_epsilon(setting, 20_000, seed)
        assert audit.passed
        assert 0.5 * audit.epsilon < audit.bound.epsilon


@pytest.mark.parametrize("noise", ["sticky", "fresh"])
def test_so_it_does_over_rounds_and_with_more_labels(noise: str) -> None:
    for view, labels in (("learner", 2), ("network", 3)):
        setting = Setting(view, 6, Parameters(0.3, 0.8, labels=labels, rounds=2, noise=noise), 0.01)
        audit = audit_epsilon(setting, 20_000, 5)
        assert audit.passed
        assert audit.bound.epsilon > 0.3 * audit.epsilon


def test_a_seed_gives_the_same_bound_however_many_trials_are_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting("network", 6, Parameters(0.2, 0.7), 0.01)
    first = audit_epsilon(setting, 2000, 7)
    assert audit_epsilon(setting, 2000, 7).bound == first.bound
    assert audit_epsilon(setting, 2000, 8).bound != first.bound
    monkeypatch.setattr(audited, "_CHUNK", 500)
    assert audit_epsilon(setting, 2000, 7).bound == first.bound


def test_trials_share_no_coins() -> None:
    """Not those of the two labels, nor those of the two halves: scores of other trials are other scores."""
    sampler = EngineSampler(Setting("learner", 5, Parameters(0.3, 0.5), 0.01), 1)
    found = [sampler(*which)["likelihood_ratio"] for which in ((0, range(200)), (1, range(200)), (0, range(200, 400)))]
    assert np.array_equal(sampler(0, range(100, 200))["likelihood_ratio"], found[0][100:])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(found[one], found[other])[0, 1]) < 0.35  # five standard deviations


def test_without_flips_the_promise_is_infinite_and_kept() -> None:
    audit = audit_epsilon(Setting("auditor", 4, Parameters(0.0, 1.0), 0.01), 2000)
    assert audit.passed
    assert audit.bound.epsilon > 2.0
    assert audit.as_json()["epsilon"] == "inf"


# The command.

NUMBERS = ("--cluster-size", "8", "--alpha", "0.2", "--theta", "0.9", "--delta", "0.01", "--trials", "4000")


@pytest.fixture
def command(command: Command) -> Command:
    return partial(command, "audit", "--epsilon")


def test_json_has_the_keys_others_rely_on(command: Command) -> None:
    status, out, err = command(*NUMBERS, "--view", "metadata", "--json", "--seed", "3")
    found = json.loads(out)
    assert (status, err) == (0, "")
    needed = {"epsilon_lower", "epsilon", "delta", "view", "trials", "confidence", "threshold", "passed"}
    assert needed <= found.keys()
    assert (found["view"], found["trials"], found["confidence"], found["seed"]) == ("metadata", 4000, 0.999, 3)
    assert 0 < found["epsilon_lower"] < found["epsilon"] < LOG_4


def test_a_person_reads_what_is_stated_and_what_was_shown(command: Command, tmp_path: Path) -> None:
    status, out, err = command(*NUMBERS, "--out", "plots/epsilon.png")
    assert (status, err) == (0, "")
    for word in ("stated", "shown", "learner", "alpha 0.2", "plots/epsilon.png"):
        assert word in out
    assert (tmp_path / "plots" / "epsilon.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "plots").iterdir())) == 1


@pytest.mark.parametrize("engine", ["actors", "vectorized"])
def test_a_run_folder_says_what_to_audit(command: Command, tmp_path: Path, engine: str) -> None:
    stated = run(sixty(), engine=engine, out=tmp_path / "run").summary.privacy[View.NETWORK]
    status, out, _ = command("run", "--view", "network", "--trials", "4000", "--json")
    found = json.loads(out)
    assert status == 0
    for name in ("epsilon", "delta", "cluster_size"):
        assert found[name] == getattr(stated, name)
    expected = {"alpha": 0.3, "theta": 0.7, "labels": 3, "rounds": 2, "noise": "sticky", "colluders": 0}
    assert expected.items() <= found.items()


def test_of_several_runs_the_one_that_promises_least_is_audited(tmp_path: Path) -> None:
    for alpha in (0.4, 0.2, 0.3):
        run(sixty(f"mechanism.alpha={alpha}"), engine="vectorized", out=tmp_path / f"{alpha}")
    setting = setting_of_runs(sorted(tmp_path.iterdir()), "coalition", None, None)
    assert (setting.parameters.alpha, setting.colluders) == (0.2, 1)


def test_a_scenario_says_what_to_audit_too(command: Command) -> None:
    status, out, _ = command("quickstart", "--view", "auditor", "--trials", "1000", "--json", "--delta", "0.001")
    found = json.loads(out)
    assert status == 0
    assert (found["alpha"], found["delta"]) == (0.1, 0.001)
    assert found["cluster_size"] >= 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--cluster-size, --alpha, --theta"),
        (["--alpha", "0.1", "--theta", "1"], "give the numbers: --cluster-size"),
        ([*NUMBERS, "--cluster-size", "0"], "cluster"),
        ([*NUMBERS, "--trials", "1000000001"], "must be at most"),
        ([*NUMBERS, "--seed", "-1"], "--seed -1"),
        ([*NUMBERS, "--colluders", "3"], "needs the view coalition"),
        ([*NUMBERS, "--family-wise-error", "0"], "--family-wise-error"),
        ([*NUMBERS, "--out", "plot.gif"], ".png, .svg, .pdf"),
        (["quickstart", "--alpha", "0.1"], "--alpha is not allowed beside quickstart"),
        (["quickstart", "hospital"], "not a run folder"),
        (["nothing"], "neither a file nor a shipped scenario"),
        (["."], "scenario.toml"),
    ],
)
def test_a_wrong_request_is_answered_in_one_line_with_status_2(
    refused: Refused, arguments: list[str], words: str
) -> None:
    err = refused(*arguments)
    assert words in err


def test_options_of_the_trials_need_the_trials(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "somewhere", "--view", "peer"]) == 2
    assert "--view needs --epsilon" in capsys.readouterr().err
