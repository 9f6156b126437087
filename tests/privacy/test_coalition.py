"""The learner with colluders."""

import pytest
from accounting import accounted

from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.privacy.coalition import _Honest, coalition, hidden_chance, known_users
from p2p_labeldp.privacy.mixture import Mixture
from p2p_labeldp.privacy.reports import Reports
from p2p_labeldp.privacy.views import LocalNoise, chance_seen


def view(cluster_size, colluders, alpha=0.1, theta=0.7, **more):
    return accounted("coalition", cluster_size=cluster_size, alpha=alpha, theta=theta, colluders=colluders, **more)


def test_no_colluder_is_the_learner():
    learner = account("learner", Parameters(alpha=0.1, theta=0.7), cluster_size=50)
    assert view(50, 0).get_epsilon(1e-4).epsilon == pytest.approx(learner.get_epsilon(1e-4).epsilon, rel=1e-9)


@pytest.mark.parametrize("cluster_size", [2, 5, 40])
@pytest.mark.parametrize("rounds", [1, 3])
def test_everyone_else_colluding_is_the_closed_form(cluster_size, rounds):
    n, theta = cluster_size, 0.7
    missed = (1 - 1 / n) ** ((n - 1) * rounds) * (1 - theta / n) ** rounds
    found = view(n, n - 1, rounds=rounds).get_delta(0.5).delta
    assert found == pytest.approx((1 - missed) * (0.9 - 0.1 * 2.718281828459045**0.5), rel=1e-9)


@pytest.mark.parametrize("theta", [0.3, 1.0])
def test_epsilon_never_falls_with_the_number_of_colluders(theta):
    delta, surely = 0.02, 0.0
    for colluders in (0, 1, 2, 3, 4, 5, 6, 8, 12, 20, 30, 38, 39):
        answer = view(40, colluders, theta=theta).get_epsilon(delta)
        assert answer.epsilon >= surely
        surely = answer.epsilon - answer.error_bound


@pytest.mark.parametrize("colluders", [1, 2, 3])
def test_the_bound_for_large_groups_is_above_the_exact_value_of_small_ones(colluders):
    n, alpha, theta, noise = 30, 0.1, 0.7, LocalNoise.flip(0.1, 2)
    family, exact = coalition(n, colluders, alpha, theta, 1, noise, 1e-4)
    assert exact
    assert isinstance(family.parts[0][1], _Honest)
    size, seen = hidden_chance(n, colluders, 1, 1e-4)
    left = n - colluders - size
    reports = Reports(left - 1, left, n - colluders, theta * left / n, alpha, alpha)
    bound = Mixture(((1 - seen, reports),), seen, noise)
    for epsilon in (0.1, 0.5, 1.0):
        small = family.rows(0, n - colluders - 1, 1e-14).deltas(epsilon).max()
        large = bound.rows(0, left - 1, 1e-14).deltas(epsilon).max()
        assert small <= large


def test_the_known_users_are_counted_as_distinct():
    distribution = known_users(cluster_size=6, colluders=2, rounds=1)
    # Two questions to five others, three of them honest and not the victim.
    assert distribution == pytest.approx([4 / 25, (3 * 2 + 2 * 3 + 3) / 25, 6 / 25])


def test_a_coalition_is_told_when_only_the_flips_protect():
    answer = view(200, 5).get_epsilon(2.5e-5)
    assert answer.epsilon <= answer.local_epsilon
    assert "fallen to the local one" in answer.reason


def test_a_coalition_never_learns_more_than_with_all_questions_known():
    for colluders in (0, 3, 20, 59):
        chance = chance_seen("coalition", 60, 0.7, 1, colluders)
        for epsilon in (0.2, 1.0):
            local = float(LocalNoise.flip(0.1, 2).deltas(epsilon))
            assert view(60, colluders).get_delta(epsilon).delta <= chance * local * (1 + 1e-6)
