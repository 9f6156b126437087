"""Requests at the edges, wrong requests, and what answers carry."""

import itertools
import math

import numpy as np
import pytest
from accounting import accounted

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import VIEWS, Parameters, account
from p2p_labeldp.privacy.views import CLOSED_FORM


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("cluster_size", [1, 2, 10, 1000])
def test_every_corner_has_a_right_answer_or_infinity_with_the_reason(view, cluster_size):
    colluders = 1 if view == "coalition" and cluster_size > 1 else 0
    for alpha, theta, delta in itertools.product((0, 1e-6, 0.5, 0.7, 1), (0, 1e-6, 1), (0, 1e-300, 1)):
        accountant = account(view, Parameters(alpha=alpha, theta=theta), cluster_size=cluster_size, colluders=colluders)
        answer = accountant.get_epsilon(delta)
        assert 0 <= answer.epsilon <= accountant.local_epsilon
        assert answer.error_bound >= 0
        assert answer.epsilon < math.inf or answer.reason
        if delta == 1 or alpha == 0.5:
            assert answer.epsilon == 0
        if theta == 0 and view in ("learner", "metadata"):
            assert answer.epsilon == 0
        found = accountant.get_delta(min(answer.epsilon, 700.0))
        assert 0 <= found.delta <= 1


@pytest.mark.parametrize("alpha", [0.1, 0.7])
@pytest.mark.parametrize("theta", [1e-6, 1.0])
def test_large_clusters_at_the_corners(alpha, theta):
    for delta in (0, 1e-300, 1e-8):
        answer = account("learner", Parameters(alpha=alpha, theta=theta), cluster_size=10_000).get_epsilon(delta)
        assert 0 <= answer.epsilon <= answer.local_epsilon


def test_a_million_users_at_theta_nothing_or_delta_nothing():
    assert account("learner", Parameters(alpha=0.1, theta=0), cluster_size=10**6).get_epsilon(1e-9).epsilon == 0
    assert account("metadata", Parameters(alpha=0.1), cluster_size=10**6).get_epsilon(1e-9).epsilon > 2.19
    pure = account("learner", Parameters(alpha=0.1), cluster_size=10**6).get_epsilon(0)
    assert 0 < pure.epsilon < pure.local_epsilon


@pytest.mark.parametrize("view", VIEWS)
def test_without_flips_epsilon_is_infinite_until_delta_is_large_enough(view):
    colluders = 1 if view == "coalition" else 0
    accountant = account(view, Parameters(alpha=0, theta=0.5), cluster_size=5, colluders=colluders)
    certain = accountant.get_delta(math.inf).delta
    assert 0 < certain <= 1
    assert accountant.get_epsilon(certain * 0.999).epsilon == math.inf
    assert "alpha = 0" in accountant.get_epsilon(certain * 0.999).reason
    assert accountant.get_epsilon(min(1.0, certain * 1.001)).epsilon < math.inf


@pytest.mark.parametrize("view", VIEWS)
def test_epsilon_and_delta_are_each_others_inverse(view):
    colluders = 2 if view == "coalition" else 0
    accountant = account(view, Parameters(alpha=0.15, theta=0.6), cluster_size=30, colluders=colluders)
    for delta in (0.05, 1e-3):
        answer = accountant.get_epsilon(delta)
        if answer.epsilon > 0:
            assert accountant.get_delta(answer.epsilon).delta == pytest.approx(delta, rel=1e-4)


def test_the_curve_falls_and_is_convex_and_ends_at_the_local_epsilon():
    accountant = account("learner", Parameters(alpha=0.2, theta=0.8), cluster_size=50)
    points = np.linspace(0, accountant.local_epsilon, 12)
    curve = accountant.curve(points)
    assert curve.shape == points.shape
    assert (np.diff(curve) <= 0).all()
    slopes = np.diff(curve) / np.diff(np.exp(points))
    assert (np.diff(slopes) >= -1e-9).all()
    assert curve[-1] == 0


def test_an_answer_is_json_with_infinity_as_a_word():
    answer = account("learner", Parameters(alpha=0), cluster_size=5).get_epsilon(1e-9)
    written = answer.as_json()
    assert written["epsilon"] == "inf"
    assert written["local_epsilon"] == "inf"
    assert {"epsilon", "delta", "view", "method", "paper_epsilon", "shuffle_epsilon"} <= written.keys()
    assert {"searched_epsilon", "worst_ones", "error_bound", "reason"} <= written.keys()


def test_seeing_more_costs_more():
    settings = {"cluster_size": 60, "alpha": 0.2, "theta": 0.4}
    delta = {view: accounted(view, **settings).get_delta(0.3).delta for view in ("learner", *CLOSED_FORM)}
    assert delta["learner"] <= delta["metadata"] <= delta["network"] <= delta["auditor"]
    assert delta["peer"] <= delta["eavesdropper"] <= delta["network"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"view": "neighbour"}, "view must be one of learner"),
        ({"cluster_size": 0}, "cluster_size must be a whole number of at least 1"),
        ({"cluster_size": 2.5}, "cluster_size"),
        ({"alpha": 1.2}, "alpha must be within 0..1"),
        ({"alpha": math.nan}, "alpha must be within 0..1"),
        ({"theta": -0.1}, "theta must be within 0..1"),
        ({"labels": 1}, "labels must be a whole number of at least 2"),
        ({"rounds": 0}, "rounds must be"),
        ({"noise": "loud"}, "noise must be sticky or fresh"),
        ({"exchange": "push"}, "exchange must be one of pull, mixed"),
        ({"exchange": "mixed"}, "relays must be at least 1 with exchange mixed, not 0"),
        ({"relays": 2}, "relays must be 0 with exchange pull, not 2"),
        ({"view": "coalition", "colluders": 10}, "less than the cluster size 10"),
        ({"colluders": 1}, "colluders needs the view coalition"),
    ],
)
def test_a_wrong_request_is_named_in_one_line(change, words):
    request = {"view": "learner", "cluster_size": 10, "alpha": 0.1, "theta": 0.5} | change
    with pytest.raises(RequestError, match=words) as caught:
        accounted(request.pop("view"), **request)
    assert "\n" not in str(caught.value)


def test_targets_out_of_range_are_named():
    accountant = account("peer", Parameters(alpha=0.1, theta=0.5), cluster_size=10)
    for wrong in (-0.1, 1.5, math.nan):
        with pytest.raises(RequestError, match="delta must be within"):
            accountant.get_epsilon(wrong)
    for wrong in (-1, math.nan):
        with pytest.raises(RequestError, match="epsilon must be 0 or more"):
            accountant.get_delta(wrong)
