"""Two stages: what an answer with a prior costs whatever the prior, and what the learner makes of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from p2p_labeldp.mechanisms import Plan, SeededCoins, make_plan, release
from p2p_labeldp.mechanisms.lp_2st import answer_chance, answer_epsilon
from p2p_labeldp.mechanisms.plan import Stages

PRIORS = [[1, 0, 0, 0], [0.7, 0.3, 0, 0], [0.4, 0.4, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 0], [0, 9, 3, 1e-9]]


def make(epsilon: float, labels: int = 4) -> Plan:
    return make_plan("lp_2st", labels=labels, sizes=[100], epsilon=epsilon)


def stages_of(plan: Plan) -> Stages:
    assert plan.stages is not None
    return plan.stages


def answers(plan: Plan, label: int, prior: list[float]) -> NDArray[np.float64]:
    """P(answer | label, prior) by the program, from a grid of coins that meets every chance to one part in 10,000."""
    side = np.linspace(0, 1, 12_000, endpoint=False)
    flips, others = np.repeat(side, 12), np.tile(np.linspace(0, 1, 12, endpoint=False), len(side))
    coins = np.stack([flips, np.zeros_like(flips), np.zeros_like(flips), others], axis=1)
    rows = np.broadcast_to(np.array(prior, dtype=np.float64), (len(coins), len(prior)))
    found = stages_of(plan).respond(np.full(len(coins), label), rows, coins)
    return np.bincount(found, minlength=len(prior)) / len(coins)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("prior", PRIORS)
def test_whatever_prior_a_user_is_sent_her_answer_costs_epsilon(prior: list[float], epsilon: float) -> None:
    """Also one that is no distribution at all: a learner may send anything."""
    found = [answers(make(epsilon), label, prior) for label in range(4)]
    for one, other in itertools.permutations(found, 2):
        assert ((other == 0) == (one == 0)).all(), "an answer that is possible for one label is for all"
        here = other > 0
        assert np.log(one[here] / other[here]).max() <= epsilon + 4e-3


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 20.0, 700.0])
def test_the_chance_of_a_uniform_draw_is_the_least_that_keeps_to_epsilon(epsilon: float) -> None:
    for kept in (2, 3, 10, 1000):
        chance = answer_chance(kept, epsilon)
        assert 0.999 * epsilon <= answer_epsilon(kept, chance) <= epsilon


def test_both_stages_together_cost_what_one_does() -> None:
    """A label is used in one of them, so that the parts do not add up."""
    plan = make(1.0)
    assert 0.999 <= plan.stated.epsilon <= 1.0
    assert plan.stated.delta == 0
    uniform = make_plan("uniform_rr", labels=4, sizes=[100], epsilon=1.0)
    assert plan.parameters.alpha == uniform.parameters.alpha


def test_targets_among_the_kept_are_right_on_average() -> None:
    plan, prior = make(1.0), [0.45, 0.35, 0.15, 0.05]
    for label in (0, 1):
        found = stages_of(plan).undone(np.eye(4), np.tile(prior, (4, 1)))
        assert answers(plan, label, prior) @ found == pytest.approx(np.eye(4)[label], abs=2e-3)


def test_each_user_answers_in_one_stage_and_the_prior_is_made_from_the_first_alone() -> None:
    labels, clusters = np.arange(2_000) % 4, np.zeros(2_000, dtype=np.int64)
    seen: list[tuple[list[int], list[int]]] = []

    def prior_of(users: NDArray[np.int64], noisy: NDArray[np.int64]) -> NDArray[np.float64]:
        seen.append((users.tolist(), noisy.tolist()))
        return np.tile([0.5, 0.5, 0.0, 0.0], (2_000, 1))

    found = release(make(math.log(9)), labels, clusters, SeededCoins(3), None, prior_of)
    (early, noisy), (late, answered) = found.rounds
    assert seen == [(early.tolist(), noisy.tolist())]
    assert sorted([*early, *late]) == list(range(2_000))
    assert abs(len(early) - 1_000) < 120  # five standard deviations: once in two million
    assert set(answered.tolist()) == {0, 1}, "what the prior does not keep is not answered"
    right = (answered == labels[late])[labels[late] < 2].mean()
    assert abs(right - 0.9) < 5 * math.sqrt(0.09 / 500)
