"""The permutation that members agree on: every formula against every coin, and what it comes to."""

import itertools
import math

import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.privacy.views import CLOSED_FORM

SETTINGS = list(itertools.product((0.05, 0.3, 0.7), (0.4, 1.0)))
EPSILONS = (0.0, 0.2, 1.0)


def permuted(alpha, theta=1.0, **others):
    return Parameters(alpha=alpha, theta=theta, exchange="permutation", **others)


@pytest.mark.parametrize("view", ["shuffle", *CLOSED_FORM])
@pytest.mark.parametrize("users", [1, 2, 3, 4])
def test_delta_is_that_of_every_coin(view, users, enumerated):
    for alpha, theta in SETTINGS:
        accountant = account(view, permuted(alpha, theta), cluster_size=users)
        for epsilon in EPSILONS:
            found = accountant.get_delta(epsilon)
            truth = enumerated(view, users, alpha, theta, epsilon, permuted=True)
            assert found.method == "exact"
            assert found.delta == pytest.approx(truth, abs=1e-12, rel=0)


@pytest.mark.parametrize("users", [1, 2, 3, 4])
def test_the_learner_has_the_shuffled_view_and_less_of_it_below_theta_1(users, enumerated):
    for alpha, theta in SETTINGS:
        accountant = account("learner", permuted(alpha, theta), cluster_size=users)
        for epsilon in EPSILONS:
            found, truth = (
                accountant.get_delta(epsilon),
                enumerated("learner", users, alpha, theta, epsilon, permuted=True),
            )
            if theta == 1:
                assert found.method == "exact"
                assert found.delta == pytest.approx(truth, abs=1e-12, rel=0)
            else:
                shuffled = account("shuffle", permuted(alpha, theta), cluster_size=users).get_delta(epsilon).delta
                assert truth <= found.delta + 1e-15 <= shuffled + 2e-15
        if theta < 1:
            answer = accountant.get_epsilon(0.01)
            assert answer.method == "upper_bound" or answer.epsilon == 0
            assert answer.attained_epsilon is None or answer.attained_epsilon == answer.epsilon
            assert answer.shuffle_epsilon >= answer.epsilon


@pytest.mark.parametrize(("users", "colluders"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
def test_one_member_who_tells_the_learner_undoes_the_permutation(users, colluders, enumerated):
    for alpha, theta in SETTINGS:
        accountant = account("coalition", permuted(alpha, theta), cluster_size=users, colluders=colluders)
        for epsilon in EPSILONS:
            found = accountant.get_delta(epsilon)
            truth = enumerated("coalition", users, alpha, theta, epsilon, colluders=colluders, permuted=True)
            assert found.method == "exact"
            assert found.delta == pytest.approx(truth, abs=1e-12, rel=0)
    alone = account("coalition", permuted(0.1), cluster_size=users, colluders=colluders)
    assert alone.get_epsilon(1e-6).epsilon == pytest.approx(math.log((0.9 - 1e-6) / 0.1))


@pytest.mark.parametrize("view", ["learner", "shuffle", "coalition", *CLOSED_FORM])
@pytest.mark.parametrize("users", [2, 3])
def test_sticky_rounds_are_those_of_every_coin(view, users, enumerated):
    colluders = 1 if view == "coalition" else 0
    for alpha, theta in ((0.1, 0.5), (0.3, 1.0)):
        accountant = account(view, permuted(alpha, theta, rounds=2), cluster_size=users, colluders=colluders)
        for epsilon in (0.1, 0.7):
            truth = enumerated(view, users, alpha, theta, epsilon, rounds=2, colluders=colluders, permuted=True)
            found = accountant.get_delta(epsilon).delta
            if view == "learner" and theta < 1:
                assert truth <= found
            else:
                assert found == pytest.approx(truth, abs=1e-12, rel=0)


@pytest.mark.parametrize("view", ["learner", "shuffle", "coalition", *CLOSED_FORM])
def test_fresh_rounds_are_those_of_every_coin(view, enumerated_fresh):
    colluders = 1 if view == "coalition" else 0
    for alpha, theta in ((0.1, 0.5), (0.3, 1.0)):
        parameters = permuted(alpha, theta, rounds=2, noise="fresh")
        accountant = account(view, parameters, cluster_size=3, colluders=colluders)
        for epsilon in (0.1, 0.7):
            truth = enumerated_fresh(view, 3, alpha, theta, epsilon, 2, colluders=colluders, permuted=True)
            found = accountant.get_delta(epsilon).delta
            if view == "learner" and theta < 1:
                assert truth <= found
            else:
                # Losses of the searched views sit on a grid, rounded up.
                assert truth <= found + 1e-14
                assert found == pytest.approx(truth, abs=1e-12 if view in (*CLOSED_FORM, "coalition") else 1e-3, rel=0)


@pytest.mark.parametrize("view", ["learner", "coalition", *CLOSED_FORM])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_three_labels_are_bounded_and_closed_forms_exact(view, alpha, enumerated):
    colluders = 1 if view == "coalition" else 0
    accountant = account(view, permuted(alpha, 0.6, labels=3), cluster_size=3, colluders=colluders)
    for epsilon in (0.0, 0.5):
        truth = enumerated(view, 3, alpha, 0.6, epsilon, labels=3, colluders=colluders, permuted=True)
        found = accountant.get_delta(epsilon)
        if view == "learner":
            assert truth <= found.delta
        else:
            assert found.delta == pytest.approx(truth, abs=1e-12, rel=0)


def test_without_flips_the_learner_knows_what_she_is_sent(enumerated):
    found = account("learner", permuted(0.0, 0.4), cluster_size=3).get_delta(2.0)
    assert found.delta == pytest.approx(0.4)
    assert found.delta == pytest.approx(enumerated("learner", 3, 0.0, 0.4, 2.0, permuted=True), abs=1e-12)


def test_figures_of_the_documentation():
    def epsilon(view, theta=1.0, colluders=0):
        accountant = account(view, permuted(0.1, theta), cluster_size=500, colluders=colluders)
        return accountant.get_epsilon(4e-6).epsilon

    assert epsilon("learner") == epsilon("shuffle") == pytest.approx(0.5288, abs=5e-5)
    assert epsilon("peer") == pytest.approx(2.195, abs=5e-4)
    for view, colluders in (("coalition", 1), ("metadata", 0), ("eavesdropper", 0), ("network", 0), ("auditor", 0)):
        assert epsilon(view, colluders=colluders) == pytest.approx(2.197, abs=5e-4)


def test_there_is_no_relay():
    with pytest.raises(RequestError, match="view must be one of"):
        account("relay", permuted(0.1), cluster_size=3)
    with pytest.raises(RequestError, match="relays must be 0 with exchange permutation"):
        account("learner", permuted(0.1, relays=2), cluster_size=3)
