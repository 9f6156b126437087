"""Every formula against every coin."""

import itertools

import pytest

from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.privacy.views import CLOSED_FORM

SETTINGS = list(itertools.product((0.05, 0.3, 0.7), (0.4, 1.0)))
EPSILONS = (0.0, 0.2, 1.0)


@pytest.mark.parametrize("view", ["learner", "shuffle", *CLOSED_FORM])
@pytest.mark.parametrize("users", [1, 2, 3, 4])
def test_delta_is_that_of_every_coin(view, users, enumerated):
    for alpha, theta in SETTINGS:
        accountant = account(view, Parameters(alpha=alpha, theta=theta), cluster_size=users)
        for epsilon in EPSILONS:
            found = accountant.get_delta(epsilon)
            assert found.method == "exact"
            assert found.delta == pytest.approx(enumerated(view, users, alpha, theta, epsilon), abs=1e-12, rel=0)


@pytest.mark.parametrize(("users", "colluders"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
def test_a_coalition_learns_what_every_coin_says(users, colluders, enumerated):
    for alpha, theta in SETTINGS:
        accountant = account("coalition", Parameters(alpha=alpha, theta=theta), cluster_size=users, colluders=colluders)
        for epsilon in EPSILONS:
            found = accountant.get_delta(epsilon)
            truth = enumerated("coalition", users, alpha, theta, epsilon, colluders=colluders)
            assert found.method == "exact"
            assert found.delta == pytest.approx(truth, abs=1e-12, rel=0)


@pytest.mark.parametrize("view", ["learner", "shuffle", *CLOSED_FORM])
@pytest.mark.parametrize("users", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_sticky_rounds_are_those_of_every_coin(view, users, enumerated):
    for alpha, theta in ((0.1, 0.5), (0.3, 1.0)):
        accountant = account(view, Parameters(alpha=alpha, theta=theta, rounds=2), cluster_size=users)
        for epsilon in (0.1, 0.7):
            truth = enumerated(view, users, alpha, theta, epsilon, rounds=2)
            assert accountant.get_delta(epsilon).delta == pytest.approx(truth, abs=1e-12, rel=0)


def test_a_coalition_over_sticky_rounds_is_that_of_every_coin(enumerated):
    for users, colluders in ((2, 1), (3, 1), (3, 2)):
        accountant = account(
            "coalition", Parameters(alpha=0.2, theta=0.5, rounds=2), cluster_size=users, colluders=colluders
        )
        for epsilon in (0.1, 0.7):
            truth = enumerated("coalition", users, 0.2, 0.5, epsilon, colluders=colluders, rounds=2)
            assert accountant.get_delta(epsilon).delta == pytest.approx(truth, abs=1e-12, rel=0)


@pytest.mark.parametrize("view", CLOSED_FORM)
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_closed_forms_hold_for_three_labels(view, alpha, enumerated):
    accountant = account(view, Parameters(alpha=alpha, theta=0.6, labels=3), cluster_size=3)
    for epsilon in (0.0, 0.5):
        truth = enumerated(view, 3, alpha, 0.6, epsilon, labels=3)
        assert accountant.get_delta(epsilon).delta == pytest.approx(truth, abs=1e-12, rel=0)


@pytest.mark.parametrize("view", ["learner", "shuffle", "coalition"])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_bounds_for_three_labels_are_above_every_coin(view, alpha, enumerated):
    colluders = 1 if view == "coalition" else 0
    accountant = account(view, Parameters(alpha=alpha, theta=0.6, labels=3), cluster_size=3, colluders=colluders)
    for epsilon in (0.0, 0.5):
        truth = enumerated(view, 3, alpha, 0.6, epsilon, labels=3, colluders=colluders)
        found = accountant.get_delta(epsilon)
        assert found.method == "upper_bound"
        assert truth <= found.delta <= 1
