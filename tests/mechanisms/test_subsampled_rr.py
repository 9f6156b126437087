"""Flips and subsampling without an exchange: the paper's remark that it does not amplify."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms import Plan, SeededCoins, make_plan, release
from p2p_labeldp.privacy import Parameters, View, account


def make(theta: float, labels: int = 3, **options: float) -> Plan:
    parameters = Parameters(0.0, theta, labels)
    return make_plan("subsampled_rr", labels=labels, sizes=[100], parameters=parameters, **options)


def seen(label: int, alpha: float, theta: float, labels: int) -> list[float]:
    """P(what the learner sees of one user): each noisy label, or nothing."""
    return [theta * (1 - alpha if found == label else alpha / (labels - 1)) for found in range(labels)] + [1 - theta]


@pytest.mark.parametrize("theta", [0.01, 0.3, 1.0])
@pytest.mark.parametrize(("alpha", "labels"), [(0.1, 2), (0.4, 5)])
def test_whatever_theta_is_the_exact_epsilon_is_that_of_the_flip_alone(theta: float, alpha: float, labels: int) -> None:
    mine = [seen(label, alpha, theta, labels) for label in range(labels)]
    ratios = [
        max(p / q for p, q in zip(one, other, strict=True) if q) for one, other in itertools.permutations(mine, 2)
    ]
    local = account(View.AUDITOR, Parameters(alpha, labels=labels), cluster_size=1).get_epsilon(0.0).epsilon
    plan = make(theta, labels, alpha=alpha)
    assert math.log(max(ratios)) == pytest.approx(local, rel=1e-12)
    assert plan.stated.epsilon == local
    assert plan.stated.delta == 0
    assert plan.stated.method == "exact"


def test_the_exchange_does_amplify_on_the_same_flips() -> None:
    """A hundred users, a delta of 1/n^2: what asking a peer is good for."""
    exchanged = account(View.LEARNER, Parameters(0.1, 0.3), cluster_size=100).get_epsilon(1e-4).epsilon
    assert exchanged < make(0.3, 2, alpha=0.1).stated.epsilon / 4


def test_theta_of_the_users_report_their_own_noisy_label() -> None:
    """40,000 users; each count misses by five standard deviations about once in two million."""
    labels = np.repeat([0, 1, 2], [20_000, 10_000, 10_000])
    released = release(make(0.25, alpha=0.3), labels, np.zeros(40_000, dtype=np.int64), SeededCoins(4), None)
    ((users, noisy),) = released.rounds
    for true in range(3):
        mine = noisy[labels[users] == true]
        people = int((labels == true).sum())
        for found, chance in enumerate(seen(true, 0.3, 0.25, 3)[:3]):
            assert abs((mine == found).sum() - people * chance) < 5 * math.sqrt(people * chance)


def test_with_a_target_the_flips_are_those_of_plain_randomized_response() -> None:
    plain = make_plan("uniform_rr", labels=3, sizes=[100], epsilon=0.7)
    assert make(0.2, epsilon=0.7).parameters.alpha == plain.parameters.alpha


def test_alpha_beside_epsilon_is_refused() -> None:
    with pytest.raises(RequestError, match=r"mechanism\.alpha is given beside mechanism\.epsilon"):
        make(0.2, epsilon=0.7, alpha=0.1)
    with pytest.raises(RequestError, match=r"mechanism\.epsilon is needed for subsampled_rr unless mechanism\.alpha"):
        make(0.2)
