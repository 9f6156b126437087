"""Budgets: repeated releases on the same labels add up, and what was withheld is not counted."""

from __future__ import annotations

import numpy as np
import pytest

from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.mechanisms.peer_to_peer import exchange_of
from p2p_labeldp.privacy import Guarantee, Parameters, View, together
from p2p_labeldp.runs.guarantees import Circumstances, guarantees

FLIPS = Parameters(0.1)


def test_epsilons_and_deltas_of_several_releases_add_up() -> None:
    assert together([(0.5, 1e-6), (1.0, 0.0)]) == (1.5, 1e-6)
    assert together([(1.0, 0.7), (1.0, 0.7)]) == (2.0, 1.0)
    ten = Guarantee(epsilon=0.25, delta=1e-5, view=View.LEARNER, method="exact").repeated(10)
    assert (ten.epsilon, ten.delta, ten.method) == (2.5, pytest.approx(1e-4), "upper_bound")


def test_a_cluster_that_was_withheld_does_not_cost_the_learners_guarantee() -> None:
    clusters = np.repeat([0, 1], [30, 40])
    lost = Outcome(clusters, [], missing=[3])
    held = Outcome(clusters, [], missing=[3], withheld=[0])
    whole = Outcome(clusters, [])
    learner, coalition = (
        [
            guarantees(exchange_of(FLIPS), Circumstances.of(each, FLIPS, 1e-4))[view].epsilon
            for each in (whole, held, lost)
        ]
        for view in (View.LEARNER, View.COALITION)
    )
    assert learner[0] == learner[1] < learner[2]
    assert coalition[1] == coalition[2]  # what colluders were answered they know all the same


def test_a_user_who_distrusts_her_cluster_is_noticed_though_others_are_missing_elsewhere() -> None:
    """Four users abstain below the minimum of five, one of whom is missing; in a round four abstained, one too many."""
    small = Parameters(0.1, minimum_size=5)
    clusters = np.repeat([0, 1], [4, 10])
    one_too_many = Outcome(clusters, [], outcomes=[{"reported": 9, "dropped": 0, "abstained": 4}], missing=[0])
    as_expected = Outcome(clusters, [], outcomes=[{"reported": 10, "dropped": 0, "abstained": 3}], missing=[0])
    found, honest = (
        guarantees(exchange_of(small), Circumstances.of(each, small, 1e-3))[View.LEARNER]
        for each in (one_too_many, as_expected)
    )
    assert honest.cluster_size == 10
    assert "abstained" in (found.reason or "")
    assert found.epsilon > honest.epsilon
