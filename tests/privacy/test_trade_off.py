"""The trade-off function and the Renyi divergences that follow from a profile."""

import math

import numpy as np
import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import VIEWS, Parameters, account
from p2p_labeldp.privacy.reports import Reports

RATES = np.linspace(0, 1, 21)
ORDERS = np.array([1.0, 1.5, 2.0, 8.0, 40.0])


def least_errors(first, second, rates):
    """Neyman and Pearson: the least false negative rate of a test of ``first`` against ``second``."""
    order = np.argsort(-second / np.maximum(first, 1e-300))
    alarms, hits = np.append(0, np.cumsum(first[order])), np.append(0, np.cumsum(second[order]))
    return 1 - np.interp(rates, alarms, hits)


def divergence(first, second, order):
    if order == 1:
        return float((first * np.log(first / second)).sum())
    return math.log(float((first**order * second ** (1 - order)).sum())) / (order - 1)


def learners_pair(users, alpha, ones):
    zero, one = Reports(users - 1, users, users, 1.0, alpha, alpha).rows(ones, ones, 1e-40).table
    return zero.ravel(), one.ravel()


@pytest.mark.parametrize("labels", [2, 5])
def test_a_closed_form_is_translated_exactly(labels):
    alpha, chance = 0.1, 1 / 20
    high, low = 1 - alpha, alpha / (labels - 1)
    accountant = account("peer", Parameters(alpha=alpha, labels=labels), cluster_size=20)
    pair = [chance * high, chance * low, 1 - chance * (high + low)]
    swapped = [pair[1], pair[0], pair[2]]
    exact = least_errors(np.array(pair), np.array(swapped), RATES)
    assert accountant.trade_off(RATES) == pytest.approx(exact, abs=1e-9)
    bounds = accountant.renyi(ORDERS)
    for order, bound in zip(ORDERS, bounds, strict=True):
        truth = divergence(np.array(pair), np.array(swapped), order)
        assert truth * (1 - 1e-12) <= bound <= truth * (1 + 1e-6)


def test_the_learners_curve_touches_its_worst_pair_and_is_above_none():
    users, alpha = 12, 0.2
    accountant = account("learner", Parameters(alpha=alpha), cluster_size=users)
    curve, bounds = accountant.trade_off(RATES), accountant.renyi(ORDERS)
    below, largest = np.full(RATES.size, math.inf), np.zeros(ORDERS.size)
    for ones in range(users):
        zero, one = learners_pair(users, alpha, ones)
        for first, second in ((zero, one), (one, zero)):
            below = np.minimum(below, least_errors(first, second, RATES))
            found = [divergence(first, second, order) for order in ORDERS]
            largest = np.maximum(largest, found)
    assert (curve <= below + 1e-12).all()
    # The curve is the convex one below all pairs, one n1 of which is the worst nearly everywhere.
    assert (below - curve).max() < 5e-3
    assert (largest <= bounds).all()
    assert (bounds <= 1.2 * largest).all()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("labels", [2, 4])
def test_curves_are_convex_fall_and_stay_below_no_information(view, labels):
    colluders = 1 if view == "coalition" else 0
    accountant = account(view, Parameters(alpha=0.3, theta=0.7, labels=labels), cluster_size=15, colluders=colluders)
    curve = accountant.trade_off(RATES)
    assert (np.diff(curve) <= 1e-12).all()
    assert (np.diff(curve, 2) >= -1e-12).all()
    assert (curve <= 1 - RATES + 1e-15).all()
    assert curve[0] == pytest.approx(1)
    bounds = accountant.renyi([1, 2, 4, 16, math.inf])
    assert (np.diff(bounds) >= -1e-9).all()
    assert bounds[-1] == accountant.get_epsilon(0).epsilon


def test_more_labels_keep_to_what_a_data_set_attains():
    accountant = account("learner", Parameters(alpha=0.5, labels=6), cluster_size=60)
    curve = accountant.trade_off(RATES)
    for epsilon in (0.05, 0.2, 0.4):
        delta = accountant.get_delta(epsilon).delta
        assert (curve >= 1 - delta - math.exp(epsilon) * RATES - 1e-6).all()
    # Nearly Gaussian losses: Renyi divergences grow like their order.
    bounds = accountant.renyi([2.0, 4.0])
    assert bounds[1] / bounds[0] == pytest.approx(2, rel=0.05)


def test_without_noise_the_divergence_is_infinite_and_with_nothing_but_noise_nothing():
    nothing = account("learner", Parameters(alpha=0, labels=3), cluster_size=10)
    certain = nothing.get_delta(math.inf).delta
    assert nothing.renyi([1, 2]) == pytest.approx([math.inf, math.inf])
    assert nothing.trade_off([0.0, 0.1, 1.0]) == pytest.approx([1 - certain, 0.9 - certain, 0])
    only = account("learner", Parameters(alpha=2 / 3, labels=3), cluster_size=10)
    assert only.renyi([1, 2]) == pytest.approx([0, 0])
    assert only.trade_off(RATES) == pytest.approx(1 - RATES)


def test_rates_and_orders_out_of_range_are_named():
    accountant = account("peer", Parameters(alpha=0.1, theta=0.5), cluster_size=10)
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(RequestError, match=r"rates must be within 0\.\.1"):
            accountant.trade_off([0.5, wrong])
    for wrong in (0.5, math.nan):
        with pytest.raises(RequestError, match="orders must be 1 or more"):
            accountant.renyi(wrong)
