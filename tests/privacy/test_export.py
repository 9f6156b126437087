"""The learner's view as a privacy loss distribution of dp-accounting."""

import sys

import numpy as np
import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters, account, to_dp_accounting
from p2p_labeldp.privacy.reports import Reports


def test_epsilon_agrees_within_the_bracket_of_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution

    n, alpha, theta, delta = 40, 0.1, 0.5, 1e-4
    answer = account("learner", Parameters(alpha=alpha, theta=theta), cluster_size=n).get_epsilon(delta)
    zero, one = Reports(n - 1, n, n, theta, alpha, alpha).rows(answer.worst_ones, answer.worst_ones, 1e-18).table
    distributions = [
        {place: np.log(mass) for place, mass in enumerate(distribution.ravel()) if mass > 0}
        for distribution in (zero, one)
    ]
    bracket = [
        privacy_loss_distribution.from_two_probability_mass_functions(
            *distributions, pessimistic_estimate=pessimistic, symmetric=False
        ).get_epsilon_for_delta(delta)
        for pessimistic in (False, True)
    ]
    assert bracket[0] <= answer.epsilon <= bracket[1] + answer.error_bound


def test_the_export_is_never_below_the_account_and_close_to_it():
    accountant = account("learner", Parameters(alpha=0.1, theta=0.5), cluster_size=40)
    exported = to_dp_accounting(accountant, points=60)
    for delta in (1e-2, 1e-4, 1e-8):
        exact = accountant.get_epsilon(delta)
        assert exact.epsilon - exact.error_bound <= exported.get_epsilon_for_delta(delta) <= 1.01 * exact.epsilon


def test_the_export_composes_like_fresh_rounds():
    exported = to_dp_accounting(account("learner", Parameters(alpha=0.1, theta=0.5), cluster_size=40), points=60)
    twice = account("learner", Parameters(alpha=0.1, theta=0.5, noise="fresh", rounds=2), cluster_size=40).get_epsilon(
        1e-4
    )
    # The export stands for the worst of both directions and every n1 at once, fresh rounds for each by itself.
    assert (
        twice.epsilon - twice.error_bound <= exported.self_compose(2).get_epsilon_for_delta(1e-4) <= 1.1 * twice.epsilon
    )


def test_without_dp_accounting_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(RequestError, match=r"p2p-labeldp\[accounting\]"):
        to_dp_accounting(account("learner", Parameters(alpha=0.1, theta=0.5), cluster_size=4))


def test_an_infinite_epsilon_cannot_be_exported():
    with pytest.raises(RequestError, match="infinite"):
        to_dp_accounting(account("learner", Parameters(alpha=0.0, theta=0.5), cluster_size=4))


@pytest.mark.parametrize("view", ["learner", "shuffle", "coalition"])
def test_more_labels_are_exported_too(view):
    colluders = 1 if view == "coalition" else 0
    accountant = account(view, Parameters(alpha=0.5, labels=5), cluster_size=40, colluders=colluders)
    exported = to_dp_accounting(accountant, points=40)
    for delta in (5e-2, 1e-3):
        bound = accountant.get_epsilon(delta)
        found = exported.get_epsilon_for_delta(delta)
        assert bound.attained_epsilon <= found
        assert bound.epsilon * (1 - 1e-6) <= found <= 1.05 * bound.epsilon + 1e-3
