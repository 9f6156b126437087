"""What a run guarantees: the worst of the clusters that took part, the flips alone where someone broke the rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from p2p_labeldp.mechanisms import make_plan
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import MIXED_VIEWS, VIEWS, Guarantee, Parameters, View, account
from p2p_labeldp.privacy.views import CLOSED_FORM
from p2p_labeldp.runs.guarantees import Circumstances, Table, cluster_sizes, guarantees, headline
from p2p_labeldp.scenario import MECHANISMS

PARAMETERS = Parameters(alpha=0.1, theta=0.8)
DELTA = 1e-4
LOCAL = math.log(9)  # of flips with alpha = .1


def of(sizes: Mapping[int, int], parameters: Parameters = PARAMETERS, **facts: Any) -> Table:
    """The table of an exchange in clusters of these sizes, each with how many of it went missing."""
    return guarantees(exchange_of(parameters), Circumstances(sizes, DELTA, **facts))


def assert_flips_alone(found: Guarantee, why: str) -> None:
    """The local guarantee at this delta: at most that of the flips by themselves, and said to be a bound."""
    assert found.epsilon == pytest.approx(LOCAL, abs=2e-3)
    assert found.epsilon <= LOCAL + 1e-9
    assert found.method == "upper_bound"
    assert why in str(found.reason)


def test_the_worst_cluster_counts() -> None:
    found = of({30: 0, 60: 0})[View.LEARNER]
    alone = account(View.LEARNER, PARAMETERS, cluster_size=30).get_epsilon(DELTA)
    assert found.cluster_size == 30
    assert (found.epsilon, found.delta) == (alone.epsilon, DELTA)


def test_sizes_are_those_of_clusters_that_take_part_each_with_its_worst_loss() -> None:
    clusters = np.repeat([0, 1, 2, 3, -1], [30, 60, 60, 5, 2])
    missing = [0, 1, 35, 91, 95, 96, 155, 156]  # two of the first, one and two of the sixties, two who never came
    assert cluster_sizes(clusters, Parameters(0.1, minimum_size=10), missing) == {30: 2, 60: 3}
    assert cluster_sizes(clusters, Parameters(0.1, minimum_size=61)) == {}


def test_where_everyone_abstains_there_is_nothing_to_see() -> None:
    for guarantee in of({}).values():
        assert (guarantee.epsilon, guarantee.delta) == (0.0, DELTA)
        assert "abstained" in str(guarantee.reason)


@pytest.mark.parametrize("rounds", [1, 3])
def test_one_missing_user_leaves_her_cluster_the_flips_alone(rounds: int) -> None:
    """Whoever could have asked her reports nothing, which tells; views in closed form only see less."""
    parameters = Parameters(alpha=0.1, theta=0.8, rounds=rounds)
    whole, lacking = of({30: 0, 60: 0}, parameters), of({30: 0, 60: 1}, parameters)
    for view in VIEWS:
        if view in CLOSED_FORM:
            assert lacking[view].epsilon == whole[view].epsilon
        else:
            assert lacking[view].cluster_size == 60
            assert_flips_alone(lacking[view], "1 of 60 users went missing")


def test_a_cluster_that_lacks_users_does_not_make_the_others_worse() -> None:
    """The worst stands in the table: here the smaller one, which is whole, where the flips alone are better."""
    weak = Parameters(alpha=0.49, theta=0.8)
    assert of({1: 0, 60: 1}, weak)[View.PEER].cluster_size == 1


@pytest.mark.parametrize("kinds", [("liars",), ("silent", "liars", "liars")])
def test_where_someone_misbehaves_the_flips_alone_are_counted_on(kinds: tuple[str, ...]) -> None:
    for guarantee in of({30: 0, 60: 0}, misbehaving=kinds).values():
        assert_flips_alone(guarantee, f"not everyone is honest ({', '.join(sorted(set(kinds)))})")


def test_where_users_of_large_clusters_abstain_the_flips_alone_are_counted_on() -> None:
    for guarantee in of({30: 0}, distrusted=True).values():
        assert_flips_alone(guarantee, "users of large enough clusters abstained")


def test_flips_that_change_nothing_guarantee_nothing_when_alone() -> None:
    found = of({30: 0}, Parameters(alpha=0.0), misbehaving=("liars",))[View.LEARNER]
    assert found.epsilon == math.inf
    assert "alpha leaves labels unflipped" in str(found.reason)


def test_new_noise_for_every_asker_leaves_no_guarantee() -> None:
    for guarantee in of({30: 0, 60: 0}, misbehaving=("fresh_answers", "focus")).values():
        assert guarantee.epsilon == math.inf
        assert "new noise for every asker" in str(guarantee.reason)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_replaced_roles_leave_no_guarantee_whatever_the_mechanism(kind: str) -> None:
    plan = make_plan(kind, labels=2, sizes=[30], epsilon=1.0, delta=DELTA)
    for guarantee in guarantees(plan, Circumstances({30: 0}, DELTA, replaced=True)).values():
        assert guarantee.epsilon == math.inf
        assert "replaced" in str(guarantee.reason)


def test_known_colluders_are_accounted_for_in_the_clusters_that_hold_them() -> None:
    few, many = (of({30: 0, 60: 0}, colluders=known)[View.COALITION] for known in ({}, {30: 5}))
    assert (few.colluders, many.colluders) == (1, 5), "one is assumed where none are known"
    assert of({30: 0}, colluders={30: 0})[View.COALITION].epsilon == of({30: 0})[View.LEARNER].epsilon
    exact = account(View.COALITION, PARAMETERS, cluster_size=30, colluders=5).get_epsilon(DELTA)
    assert many.epsilon == exact.epsilon > few.epsilon


def test_a_cluster_of_one_has_nobody_to_collude_with() -> None:
    assert of({1: 0})[View.COALITION].colluders == 0


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != "peer_to_peer"])
def test_other_mechanisms_guarantee_what_their_plan_states(kind: str) -> None:
    plan = make_plan(kind, labels=2, sizes=[30], epsilon=1.0, delta=DELTA)
    table = guarantees(plan, Circumstances({30: 0}, DELTA))
    assert table == plan.privacy
    assert table[headline(table)] == plan.stated


def test_only_the_views_that_were_asked_for_are_accounted_for() -> None:
    found = guarantees(exchange_of(PARAMETERS), Circumstances({30: 0}, DELTA), (View.LEARNER,))
    assert found == {View.LEARNER: of({30: 0})[View.LEARNER]}


def test_the_headline_is_the_strongest_adversary_who_is_present() -> None:
    epsilons = {View.LEARNER: 0.5, View.PEER: 0.2, View.NETWORK: 2.0}
    table = {view: Guarantee(epsilon=epsilon, delta=DELTA, view=view) for view, epsilon in epsilons.items()}
    assert headline(table) == headline(table, [View.PEER]) == View.LEARNER
    assert headline(table, [View.PEER, View.NETWORK]) == View.NETWORK
    assert headline(table, [View.MODEL]) == View.LEARNER  # of whom nothing is stated


MIXED = Parameters(0.1, exchange="mixed", relays=3, attempts=3)


def test_the_mixed_exchange_is_accounted_for_in_every_view() -> None:
    table = guarantees(exchange_of(MIXED), Circumstances({60: 0, 90: 0}, DELTA))
    assert set(table) == set(MIXED_VIEWS)
    assert table[View.METADATA].epsilon == table[View.LEARNER].epsilon
    assert table[View.EAVESDROPPER].epsilon == 0
    one = table[View.COALITION]
    assert one.colluders == 1
    assert table[View.LEARNER].epsilon < one.no_relay_epsilon < one.epsilon < one.relay_epsilon
    assert one.relay_epsilon == pytest.approx(table[View.RELAY].epsilon)
    pull = guarantees(exchange_of(Parameters(0.1)), Circumstances({60: 0, 90: 0}, DELTA))
    assert one.epsilon < 0.6 * pull[View.COALITION].epsilon


def test_whoever_goes_missing_from_a_mixed_exchange_leaves_the_flips_alone() -> None:
    for guarantee in guarantees(exchange_of(MIXED), Circumstances({60: 1}, DELTA)).values():
        assert_flips_alone(guarantee, "1 of 60 users went missing")
