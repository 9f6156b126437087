"""The privacy blanket without telling how many show a or b: above every coin, and close to what is attained."""

import itertools
import math

import every_coin
import numpy as np
import pytest
from accounting import accounted
from scipy import stats

from p2p_labeldp.privacy.binomial import Draws
from p2p_labeldp.privacy.concealed import Concealed, Unknown
from p2p_labeldp.privacy.pairs import solve
from p2p_labeldp.privacy.views import LocalNoise

TAIL = 1e-18


def concealed(users, labels, alpha, theta, rounds=1):
    noise = LocalNoise.flip(alpha, labels)
    return Concealed(Unknown(users - 1, Draws(users * rounds, theta / users), labels, noise), TAIL)


EPSILONS = (0.0, 0.3, 1.0, 2.0)


def assert_bounded(users, labels, alpha, theta, rounds=1):
    found = concealed(users, labels, alpha, theta, rounds).deltas(EPSILONS)[0, 0]
    for epsilon, bound in zip(EPSILONS, found, strict=True):
        truth = every_coin.delta("learner", users, alpha, theta, epsilon, labels=labels, rounds=rounds)
        assert truth <= bound + 1e-15


@pytest.mark.parametrize(
    ("users", "labels"),
    [
        (2, 3),
        (3, 3),
        (4, 3),
        (3, 4),
        *(pytest.param(*more, marks=pytest.mark.slow) for more in ((5, 3), (4, 4), (5, 4))),
    ],
)
@pytest.mark.parametrize("theta", [0.1, 0.3, 0.7, 1.0])
def test_delta_is_above_every_coin(users, labels, theta):
    for alpha in (0.05, 0.4, 0.9):
        assert_bounded(users, labels, alpha, theta)


@pytest.mark.parametrize(("users", "rounds"), [(2, 3), (3, 2)])
def test_rounds_are_bounded_above_every_coin(users, rounds):
    for alpha, theta in ((0.1, 0.2), (0.4, 1.0)):
        assert_bounded(users, 3, alpha, theta, rounds)


def told(users, labels, alpha, theta, exposed, epsilon):
    """delta of whoever is told of every user what the module's text says, summed over everyone's lot.

    Others: 0 and 1 show a or b as blanket users, 2 is outside the blanket and exposed, 3 in it, showing another label,
    and exposed, 4 neither. The victim is alike, but never outside the blanket.
    """
    noise = LocalNoise.flip(alpha, labels)
    high, low = noise.high, noise.low
    other = [low, low, (1 - labels * low) * exposed, (labels - 2) * low * exposed, (1 - 2 * low) * (1 - exposed)]
    rest = 1 - high - low
    seen = [{}, {}]
    for held, (shows_a, shows_b) in enumerate(((high, low), (low, high))):
        victim = [shows_a, shows_b, 0.0, rest * exposed, rest * (1 - exposed)]
        for lots in itertools.product(range(5), repeat=users):
            mass = victim[lots[0]] * math.prod(other[lot] for lot in lots[1:])
            a, coins = lots.count(0), lots.count(0) + lots.count(1)
            arrive = stats.binom.pmf(np.arange(users + 1), users, theta * coins / users)
            for reports, likely in enumerate(arrive):
                said = stats.binom.pmf(np.arange(reports + 1), reports, a / coins if coins else 0.0)
                for says_a, share in enumerate(said):
                    key = (lots.count(2), lots.count(3), reports, says_a)
                    seen[held][key] = seen[held].get(key, 0.0) + mass * likely * share
    keys = sorted(seen[0])
    return every_coin.worst(np.array([[each[key] for key in keys] for each in seen]), 2, epsilon)


@pytest.mark.parametrize("alpha", [0.15, 0.5])
def test_delta_is_that_of_the_experiment_it_describes(alpha):
    users, labels, theta = 4, 4, 0.3
    pairs = concealed(users, labels, alpha, theta)
    exposed = pairs._parts[0][0][0].exposed
    for epsilon in (0.1, 0.6):
        truth = told(users, labels, alpha, theta, exposed, epsilon)
        assert truth * (1 - 1e-9) <= pairs.deltas(epsilon)[0, 0, 0] <= truth * (1 + 1e-9) + 1e-12


def test_masses_are_all_there_and_mirror_each_other():
    for theta in (0.2, 0.8, 1.0):
        pairs = concealed(30, 5, 0.3, theta)
        listed = list(pairs.walk())
        held_b, held_a = (np.concatenate([pair[side] for pair in listed]) for side in (0, 1))
        assert held_a.sum() == pytest.approx(held_b.sum(), rel=1e-9)
        noise = LocalNoise.flip(0.3, 5)
        seen = noise.high + noise.low
        coins = np.convolve(stats.binom.pmf(np.arange(30), 29, 2 * noise.low), [1 - seen, seen])
        nothing = float(coins @ (1 - theta * np.arange(31) / 30) ** 30)
        # Rounding users and reports to the safe side moves little mass to outcomes with reports.
        assert 1 - nothing - 1e-9 <= held_a.sum() <= 1 - nothing + 0.01
        for epsilon in (0.2, 0.9):
            summed = np.maximum(held_a - math.exp(epsilon) * held_b, 0).sum()
            assert pairs.deltas(epsilon)[0, 0, 0] == pytest.approx(summed, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_larger_clusters_with_few_reports_keep_to_the_account(alpha):
    """Forty users, three labels, two reports expected: the counts of all labels, several data sets of the others."""
    users, theta = 40, 0.05
    accountant = accounted("learner", cluster_size=users, alpha=alpha, theta=theta, labels=3)
    for epsilon in (0.2, 0.5, 0.8):
        proved = accountant.get_delta(epsilon).delta
        found = {
            others: every_coin.counted("learner", others, alpha, theta, epsilon, most=7)
            for others in ((0, 0, 39), (1, 0, 38), (2, 2, 35), (39, 0, 0), (13, 13, 13), (0, 20, 19))
        }
        assert max(found.values()) <= proved
        assert max(found, key=found.get) == (0, 0, 39)


@pytest.mark.parametrize(
    ("users", "labels", "alpha", "theta", "delta", "attained", "proved", "told"),
    [
        (2000, 3, 0.015, 0.1, 1e-9, 0.5290, 0.534, 0.7253),
        (2000, 3, 0.015, 1.0, 2.5e-7, 1.2541, 1.276, 1.4118),
        (400, 5, 0.15, 0.1, 1e-9, 0.4423, 0.450, 0.5390),
        (60, 3, 0.1, 0.1, 1e-6, 0.7301, 0.757, 2.7037),
    ],
)
def test_what_telling_the_number_of_coins_would_cost(users, labels, alpha, theta, delta, attained, proved, told):
    accountant = accounted("learner", cluster_size=users, alpha=alpha, theta=theta, labels=labels)
    answer = accountant.get_epsilon(delta)
    assert answer.attained_epsilon == pytest.approx(attained, abs=6e-5)
    assert attained <= answer.epsilon <= proved
    bound = accountant.profile.bounds
    assert solve(bound.blanket(delta * 1e-7), delta, bound.ceiling) == pytest.approx(told, rel=1e-3)
