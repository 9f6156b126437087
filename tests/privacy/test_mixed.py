"""The mixed exchange: relays, conditional values, and the account at the sizes that matter."""

import math

import every_coin
import numpy as np
import pytest
from scipy import stats

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters, account, calibrate, cases, relays_to_withstand


def mixed(view, users, alpha, theta, relays, *, colluders=0, **more):
    parameters = Parameters(alpha, theta, exchange="mixed", relays=relays, **more)
    return account(view, parameters, cluster_size=users, colluders=colluders)


@pytest.mark.parametrize("relays", [2, 3])
def test_conditional_values_stand_beside_the_averaged_one(relays):
    delta = 0.02
    answer = mixed("coalition", 3, 0.2, 0.7, relays, colluders=1).get_epsilon(delta)
    assert answer.all_relays_chance == every_coin.relay_cases(3, 1, relays).get("all", 0.0)
    for case, epsilon in (("none", answer.no_relay_epsilon), ("some", answer.relay_epsilon)):
        at, below = (
            every_coin.delta("coalition", 3, 0.2, 0.7, each, colluders=1, exchange="mixed", relays=case)
            for each in (epsilon, epsilon - 1e-6)
        )
        assert at <= delta + 1e-12
        assert below >= delta - 1e-12


@pytest.mark.parametrize(("users", "colluders"), [(2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 1.0), (0.5, 0.6), (0.9, 1.0)])
def test_what_three_labels_attain_is_attained(users, colluders, alpha, theta):
    attained = (
        mixed("coalition", users, alpha, theta, 2, colluders=colluders, labels=3).get_epsilon(0.01).attained_epsilon
    )
    facts = {"labels": 3, "colluders": colluders, "exchange": "mixed", "relays": 2}
    assert (
        every_coin.delta("coalition", users, alpha, theta, attained or 0.0, **facts) >= 0.01 * (1 - 1e-9)
        or not attained
    )


def test_one_user_s_draw_is_exact_for_three_labels():
    accountant = mixed("peer", 3, 0.1, 1.0, 2, labels=3)
    answer = accountant.get_epsilon(0.01)
    assert answer.method == "exact"
    assert accountant.get_delta(answer.epsilon).delta == pytest.approx(0.01, abs=1e-12)


N, ALPHA, DELTA = 500, 0.1, 4e-6


def epsilon_of(view, relays=3, **more):
    return mixed(view, N, ALPHA, 1.0, relays, **more).get_epsilon(DELTA)


def test_one_colluder_no_longer_undoes_the_exchange():
    pull = account("coalition", Parameters(ALPHA), cluster_size=N, colluders=1).get_epsilon(DELTA)
    assert pull.epsilon == pytest.approx(2.195, abs=1e-3)
    assert epsilon_of("learner").epsilon == pytest.approx(0.3400, abs=1e-4)
    assert epsilon_of("metadata").epsilon == epsilon_of("learner").epsilon
    one = epsilon_of("coalition", colluders=1)
    assert one.no_relay_epsilon == pytest.approx(0.3402, abs=1e-4)
    assert one.relay_epsilon == pytest.approx(0.5298, abs=1e-4)
    assert one.epsilon == pytest.approx(0.351, abs=1e-3)
    assert epsilon_of("coalition", relays=6, colluders=1).epsilon == pytest.approx(0.360, abs=1e-3)
    assert epsilon_of("relay").epsilon == pytest.approx(0.5298, abs=1e-4)


def test_a_tenth_of_the_users_is_withstood_by_six_relays_and_not_by_three():
    many = epsilon_of("coalition", relays=6, colluders=50)
    assert many.epsilon == pytest.approx(0.540, abs=1e-3)
    assert many.no_relay_epsilon == pytest.approx(0.361, abs=1e-3)
    assert many.relay_epsilon == pytest.approx(0.567, abs=1e-3)
    assert epsilon_of("coalition", relays=3, colluders=50).epsilon == pytest.approx(2.19, abs=5e-3)
    assert many.all_relays_chance == pytest.approx(stats.hypergeom.pmf(6, 500, 50, 6))


def test_views_order_as_what_they_see_does():
    peer, learner = epsilon_of("peer").epsilon, epsilon_of("learner").epsilon
    one = epsilon_of("coalition", colluders=1)
    auditor, relay = epsilon_of("auditor").epsilon, epsilon_of("relay").epsilon
    assert 0 < peer < learner < one.no_relay_epsilon < one.epsilon < auditor < relay < one.local_epsilon
    assert epsilon_of("relay", relays=1).epsilon == pytest.approx(one.local_epsilon, rel=1e-4), "she knows every label"


def test_more_attempts_only_add_to_the_chance_that_all_relays_collude():
    once, thrice = cases(500, 50, 3), cases(500, 50, 3, attempts=3)
    assert thrice.all == pytest.approx(1 - (1 - once.all) ** 3)
    assert sum((thrice.all, thrice.some, thrice.none)) == pytest.approx(1)
    assert mixed("coalition", 500, 0.1, 1.0, 6, colluders=50, attempts=3).get_epsilon(DELTA).epsilon > 0.5400


def test_what_public_places_would_cost_the_learner():
    """With places known, reports that share a source are one draw: she sees the labels of D distinct users.

    All others hold 0: ones among the D are Binomial(D, alpha), or one of them is the victim's, with chance D/n.
    """
    n, alpha = 500, 0.1
    # The distribution of D, one draw after another.
    distinct = np.zeros(n + 1)
    distinct[0] = 1.0
    for _ in range(n):
        moved = distinct * (n - np.arange(n + 1)) / n
        distinct = distinct - moved
        distinct[1:] += moved[:-1]
    k = np.arange(n + 1)

    def delta(epsilon):
        total = 0.0
        for count in np.flatnonzero(distinct > 1e-12):
            alone, rest = stats.binom.pmf(k, count, alpha), stats.binom.pmf(k, count - 1, alpha)
            shifted = np.append(0.0, rest[:-1])
            held = [(1 - count / n) * alone + count / n * (p * shifted + (1 - p) * rest) for p in (1 - alpha, alpha)]
            total += distinct[count] * np.maximum(held[1] - math.exp(epsilon) * held[0], 0).sum()
        return total

    known = delta(0.3400)
    hidden = mixed("learner", n, alpha, 1.0, 3).get_delta(0.3400).delta
    assert hidden == pytest.approx(DELTA, rel=0.01)
    assert known > 3 * hidden
    assert delta(0.373) > DELTA > delta(0.374), "with this data set alone epsilon rises from .340 to .3736"


# Requests.


def test_relays_follow_from_the_colluders_to_withstand():
    assert relays_to_withstand(500, 0, 4e-6, most=32) == 2
    assert relays_to_withstand(500, 1, 4e-6, most=32) == 2
    assert relays_to_withstand(500, 50, 4e-6, most=32) == 6
    for users, colluders in ((4, 3), (20, 5), (100, 30)):
        found = relays_to_withstand(users, colluders, 1e-4, most=32)
        assert likely_all(users, colluders, found) <= 0.25e-4 < likely_all(users, colluders, found - 1)


def likely_all(users, colluders, relays):
    return stats.hypergeom.pmf(relays, users, colluders, relays)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (lambda: relays_to_withstand(500, 400, 4e-6, most=32), "withstand = 400 is not possible with up to 32 relays"),
        (lambda: relays_to_withstand(5, 5, 4e-6, most=32), "withstand = 5 is not allowed"),
        (lambda: relays_to_withstand(1, 0, 4e-6, most=32), "at least 2 users"),
        (lambda: mixed("learner", 5, 0.1, 1.0, 6), "relays must be at least 1 and at most the cluster size 5, not 6"),
        (lambda: account("relay", Parameters(0.1), cluster_size=5), "view must be one of"),
        (lambda: mixed("learner", 5, 0.1, 1.0, 3, attempts=0), "attempts must be"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(request_, words):
    with pytest.raises(RequestError, match=words) as refused:
        request_()
    assert "\n" not in str(refused.value)


def test_calibration_withstands_colluders():
    found = calibrate(
        cluster_size=100, epsilon=0.9, delta=1e-4, theta=1.0, view="coalition", colluders=3, exchange="mixed", relays=4
    )
    assert 0.89 < found.guarantee.epsilon <= 0.9
    again = mixed("coalition", 100, found.alpha, 1.0, 4, colluders=3).get_epsilon(1e-4)
    assert again.epsilon == pytest.approx(found.guarantee.epsilon, rel=1e-6)


@pytest.mark.parametrize("users", [2, 3, 4, 9])
@pytest.mark.parametrize("labels", [2, 3])
def test_all_but_one_may_collude(users, labels):
    """Nobody is left to hide among: as much is lost as against the learner alone, and no more than the flips allow."""
    found = mixed("coalition", users, 0.2, 1.0, 2, colluders=users - 1, labels=labels, rounds=3)
    epsilon = found.get_epsilon(0.01).epsilon
    assert mixed("learner", users, 0.2, 1.0, 2, labels=labels, rounds=3).get_epsilon(0.01).epsilon <= epsilon
    assert 0 < epsilon <= found.local_epsilon
