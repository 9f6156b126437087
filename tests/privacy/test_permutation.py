"""The permutation that members agree on: what it comes to."""

import math

import every_coin
import pytest

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Parameters, account


def permuted(alpha, theta=1.0, **others):
    return Parameters(alpha=alpha, theta=theta, exchange="permutation", **others)


@pytest.mark.parametrize("users", [1, 2, 3, 4])
def test_the_learner_has_less_than_the_shuffled_view_below_theta_1(users):
    for alpha in (0.05, 0.3, 0.7):
        learner, shuffled = (account(view, permuted(alpha, 0.4), cluster_size=users) for view in ("learner", "shuffle"))
        for epsilon in (0.0, 0.2, 1.0):
            assert learner.get_delta(epsilon).delta <= shuffled.get_delta(epsilon).delta + 1e-15
        answer = learner.get_epsilon(0.01)
        assert answer.method == "upper_bound" or answer.epsilon == 0
        assert answer.attained_epsilon is None or answer.attained_epsilon == answer.epsilon
        assert answer.shuffle_epsilon >= answer.epsilon


@pytest.mark.parametrize(("users", "colluders"), [(2, 1), (4, 1), (4, 3)])
def test_one_member_who_tells_the_learner_undoes_the_permutation(users, colluders):
    answer = account("coalition", permuted(0.1), cluster_size=users, colluders=colluders).get_epsilon(1e-6)
    assert answer.epsilon == pytest.approx(math.log((0.9 - 1e-6) / 0.1))


def test_without_flips_the_learner_knows_what_she_is_sent():
    found = account("learner", permuted(0.0, 0.4), cluster_size=3).get_delta(2.0)
    assert found.delta == pytest.approx(0.4)
    truth = every_coin.delta("learner", 3, 0.0, 0.4, 2.0, exchange="permutation")
    assert found.delta == pytest.approx(truth, abs=1e-12)


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
