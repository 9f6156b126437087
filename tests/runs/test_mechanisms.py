"""Every mechanism a scenario can name runs through both engines and gives the same noisy data set."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from p2p_labeldp.audit import audit_runs
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import run
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import MECHANISMS, parse_scenario

SCENARIO = """
[data]
name = "synthetic"
users = 200
groups = 4
labels = 3
sharpness = 3.0
[clusters]
method = "given"
minimum_size = 45
"""
OTHERS = [kind for kind in MECHANISMS if kind != "peer_to_peer"]


def settings(kind: str) -> list[str]:
    return [f"mechanism.kind={kind}", "mechanism.epsilon=2.0"]


@pytest.mark.parametrize("kind", OTHERS)
def test_engines_agree_on_every_mechanism(kind: str) -> None:
    scenario = parse_scenario(SCENARIO, overrides=settings(kind))
    summaries = [
        run(scenario, engine="vectorized").summary,
        run(scenario).summary,
        run(parse_scenario(SCENARIO, overrides=[*settings(kind), "network.jitter=1.0"]), hosting="cluster").summary,
    ]
    for key in ("noisy_sha256", "accuracy", "privacy", "reports", "trust"):
        assert all(getattr(summary, key) == getattr(summaries[0], key) for summary in summaries), key
    assert summaries[0].reports < 200, "a cluster below the minimum abstains"


@pytest.mark.parametrize("kind", ["cluster_rr", "centralized", "rr_with_prior", "none", "dp_sgd"])
def test_whoever_sees_true_labels_has_no_bound(kind: str) -> None:
    privacy = run(parse_scenario(SCENARIO, overrides=settings(kind)), engine="vectorized").summary.privacy
    for view in (View.NETWORK, View.CURATOR):
        if view in privacy:
            assert privacy[view].epsilon == math.inf
            assert "true label" in str(privacy[view].reason)


def test_a_shuffler_sees_labels_that_were_flipped() -> None:
    privacy = run(parse_scenario(SCENARIO, overrides=settings("shuffle")), engine="vectorized").summary.privacy
    assert privacy[View.SHUFFLER].epsilon < 10


@pytest.mark.parametrize("kind", MECHANISMS)
@pytest.mark.parametrize("engine", ["actors", "vectorized"])
def test_where_everyone_abstains_nothing_arrives_and_nothing_is_learned(kind: str, engine: str) -> None:
    scenario = parse_scenario(SCENARIO, overrides=[*settings(kind), "clusters.minimum_size=200"])
    summary = run(scenario, engine=engine).summary
    assert (summary.reports, summary.accuracy) == (0, None)
    assert "nothing was reported" in summary.accuracy_reason
    assert summary.headline in summary.privacy


def test_the_parameters_of_algorithm_1_can_all_be_given() -> None:
    given = ["mechanism.kind=centralized", "mechanism.sigma=4", "mechanism.lambda=0.5", "mechanism.tau=0.1"]
    scenario = parse_scenario(SCENARIO, overrides=[*given, "mechanism.beta=0.5"])
    summary = run(scenario).summary
    # 2/sigma + log(1 + (1-lambda)/(lambda tau))
    assert summary.privacy[View.LEARNER].epsilon == pytest.approx(0.5 + 2.3978952727983707)
    assert summary.noisy_sha256 == run(scenario, engine="vectorized").summary.noisy_sha256


def test_the_systems_coins_give_another_data_set_each_time() -> None:
    scenario = parse_scenario(SCENARIO, overrides=[*settings("cluster_rr"), "coins.source=system"])
    assert len({run(scenario, engine="vectorized").summary.noisy_sha256 for _ in range(2)}) == 2


def test_audit_says_that_it_knows_peer_to_peer_only(tmp_path: Path) -> None:
    run(parse_scenario(SCENARIO, overrides=settings("shuffle")), out=tmp_path / "run")
    with pytest.raises(RequestError, match="a run of shuffle"):
        audit_runs([tmp_path / "run"])
