"""A scenario resolved: the noise, the plan and the delta that everyone who runs it goes by."""

from __future__ import annotations

from typing import Any

import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import View
from p2p_labeldp.protocol.beforehand import options_of, parameters_of
from p2p_labeldp.runs.resolve import Resolved, resolve
from p2p_labeldp.scenario import MECHANISMS, Scenario, parse_scenario


def scenario_of(*settings: str) -> Scenario:
    return parse_scenario("", "plain", settings)


def resolved(*settings: str, labels: int = 2, users: int = 100, sizes: tuple[int, ...] = (40, 60)) -> Resolved:
    return resolve(scenario_of(*settings), labels=labels, users=users, sizes=sizes)


@pytest.mark.parametrize("kind", ["peer_to_peer", "shuffle"])
def test_an_epsilon_becomes_the_alpha_that_the_resolved_scenario_names(kind: str) -> None:
    found = resolved(f"mechanism.kind={kind}", "mechanism.epsilon=1.0")
    mechanism = found.scenario.mechanism
    assert (mechanism.alpha, mechanism.epsilon) == (found.plan.parameters.alpha, 0.0)
    assert found.target == 1.0
    assert 0.999 <= found.plan.epsilon <= 1.0


@pytest.mark.parametrize("kind", ["peer_to_peer", "shuffle"])
def test_resolving_what_is_resolved_changes_nothing(kind: str) -> None:
    first = resolved(f"mechanism.kind={kind}", "mechanism.epsilon=1.0")
    again = resolve(first.scenario, labels=2, users=100, sizes=(40, 60))
    assert again.scenario == first.scenario
    assert again.plan.parameters == first.plan.parameters
    assert again.delta == first.delta
    assert again.target is None


@pytest.mark.parametrize("kind", ["uniform_rr", "cluster_rr", "centralized", "rr_with_prior", "dp_sgd"])
def test_mechanisms_without_an_alpha_keep_their_epsilon(kind: str) -> None:
    scenario = scenario_of(f"mechanism.kind={kind}", "mechanism.epsilon=1.0")
    found = resolve(scenario, labels=2, users=100, sizes=(40, 60))
    assert found.scenario == scenario
    assert found.target == 1.0
    assert 0.999 <= found.plan.epsilon <= 1.0


def test_a_given_alpha_stays_and_is_no_target() -> None:
    found = resolved("mechanism.alpha=0.3", "mechanism.theta=0.5", "mechanism.rounds=2", "mechanism.noise=fresh")
    parameters = found.plan.parameters
    assert (parameters.alpha, parameters.theta, parameters.rounds, parameters.noise) == (0.3, 0.5, 2, "fresh")
    assert found.target is None
    assert found.scenario == scenario_of(
        "mechanism.alpha=0.3", "mechanism.theta=0.5", "mechanism.rounds=2", "mechanism.noise=fresh"
    )


@pytest.mark.parametrize(
    ("settings", "users", "sizes", "delta"),
    [
        ([], 100, (20, 80), 1e-3),  # a thousandth at most
        ([], 1000, (40, 960), 1 / 1600),  # 1 / (smallest cluster)^2
        ([], 5000, (10, 4990), 1 / 5000),  # but 1/users at most
        ([], 1000, (4, 40, 956), 1 / 1600),  # a cluster that abstains says nothing
        (["defences.abstain=false"], 1000, (4, 40, 956), 1e-3),
        (["privacy.delta=1e-5"], 1000, (40, 960), 1e-5),
        (["mechanism.kind=dp_sgd", "mechanism.epsilon=1"], 1000, (40, 960), 1e-3),  # no cluster hides an example
    ],
)
def test_delta_follows_from_clusters_and_users_unless_it_is_asked_for(
    settings: list[str], users: int, sizes: tuple[int, ...], delta: float
) -> None:
    assert resolved(*settings, users=users, sizes=sizes).delta == delta


def test_small_clusters_abstain_unless_that_is_switched_off() -> None:
    settings = ["clusters.minimum_size=7"]
    assert parameters_of(scenario_of(*settings), 2).minimum_size == 7
    assert parameters_of(scenario_of(*settings, "defences.abstain=false"), 2).minimum_size == 1


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (["mechanism.alpha=0.3"], {"alpha": 0.3}),
        (["mechanism.epsilon=1"], {}),
        (["mechanism.kind=uniform_rr", "mechanism.epsilon=1"], {}),
        (["mechanism.kind=cluster_rr", "mechanism.epsilon=1"], {"tau": 0.01, "share": 0.5}),
        (["mechanism.kind=centralized", "mechanism.epsilon=1"], {"tau": 0.01, "share": 0.5, "beta": 0.0}),
        (
            ["mechanism.kind=centralized", "mechanism.sigma=4", "mechanism.lambda=0.9"],
            {"tau": 0.01, "share": 0.5, "beta": 0.0, "sigma": 4.0, "lambda_": 0.9},
        ),
    ],
)
def test_a_mechanism_is_given_the_keys_that_it_reads_but_not_those_that_epsilon_stands_for(
    settings: list[str], options: dict[str, Any]
) -> None:
    assert options_of(scenario_of(*settings)) == options


def test_relays_follow_from_the_colluders_to_withstand() -> None:
    found = resolved("mechanism.exchange=mixed", "mechanism.withstand=2", "mechanism.alpha=0.2")
    assert (found.scenario.mechanism.relays, found.scenario.mechanism.withstand) == (found.plan.parameters.relays, 0)
    assert found.plan.parameters.relays == 3, "one more than colluders: all of them cannot collude"
    assert parse_scenario(found.scenario.to_toml()) == found.scenario
    with pytest.raises(RequestError, match=r"^mechanism\.withstand = 2 takes 3 relays.* at least that, not 2$"):
        resolved("mechanism.exchange=mixed", "mechanism.withstand=2", "clusters.minimum_size=2")
    with pytest.raises(RequestError, match=r"^mechanism\.withstand = 39 is not possible with up to \d+ relays"):
        resolved("mechanism.exchange=mixed", "mechanism.withstand=39", "mechanism.alpha=0.2")


def test_where_everyone_abstains_there_still_is_a_plan() -> None:
    for kind in MECHANISMS:
        found = resolved(f"mechanism.kind={kind}", "mechanism.epsilon=1.0", "clusters.minimum_size=70")
        assert found.plan.kind == kind


@pytest.mark.parametrize(
    ("settings", "labels", "words"),
    [
        ([], 1, "data: digits has one label only"),
        (["data.name=csv", "data.path=a.csv", "data.label_column=ill"], 1, "data: ill of a.csv has one label only"),
        (["mechanism.alpha=0.5"], 2, "learner.correct_flips is not possible at mechanism.alpha = 0.5"),
        (["mechanism.kind=shuffle", "mechanism.alpha=0.9"], 10, "learner.correct_flips is not possible"),
        (["mechanism.alpha=0"], 2, "mechanism.alpha = 0 with 2 labels leaves no noise"),
        (["mechanism.kind=shuffle", "mechanism.alpha=0"], 10, "mechanism.alpha = 0 with 10 labels leaves no noise"),
        (["mechanism.kind=uniform_rr", "mechanism.epsilon=1", "learner.l2=0"], 2, "learner.l2 = 0 is not allowed"),
        (
            ["mechanism.kind=centralized", "mechanism.epsilon=1", "mechanism.beta=0.5", "learner.l2=0"],
            2,
            "learner.l2 = 0 is not allowed",
        ),
        (["mechanism.kind=cluster_rr", "mechanism.epsilon=1", "mechanism.tau=0.4"], 3, "mechanism.tau"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(settings: list[str], labels: int, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        resolved(*settings, labels=labels)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        ["mechanism.alpha=0.5", "learner.correct_flips=false"],
        ["mechanism.alpha=0.1", "learner.l2=0"],  # shares of a cluster are never negative
        ["mechanism.kind=uniform_rr", "mechanism.epsilon=1", "learner.l2=0", "learner.correct_flips=false"],
        ["mechanism.kind=cluster_rr", "mechanism.epsilon=1", "learner.l2=0"],
        ["mechanism.kind=none", "learner.l2=0"],
    ],
    ids=" ".join,
)
def test_what_does_no_harm_is_allowed(settings: list[str]) -> None:
    assert resolved(*settings).plan


def test_the_guarantee_is_stated_at_the_delta_that_was_resolved() -> None:
    found = resolved("mechanism.epsilon=1.0", "privacy.delta=1e-4")
    assert found.plan.stated.view == View.LEARNER
    assert (found.plan.delta, found.delta) == (1e-4, 1e-4)
