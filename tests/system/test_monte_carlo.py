"""The engine itself, attacked a million times with the optimal test, against the exact epsilon.

A cluster is a trial: a million clusters of ten users run at once through the vectorized engine. The distribution of the
learner's view is written down here again, without the accountant, to find the set of outcomes on which the
likelihood-ratio test accuses the victim. Seeds are fixed; a limit of 99.9 % fails once in a thousand seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from p2p_labeldp.mechanisms import Rosters, SeededCoins, exchange
from p2p_labeldp.privacy import Parameters, account

SIZE = 10
DELTA = 0.01
TRIALS = 1_000_000
CONFIDENCE = 0.999


def distribution(ones: int, alpha: float, theta: float) -> NDArray[np.float64]:
    """P(m, k): m reports, k of them ones, when ``ones`` of the ten users hold label 1."""
    noisy = np.convolve(
        stats.binom.pmf(np.arange(ones + 1), ones, 1 - alpha),
        stats.binom.pmf(np.arange(SIZE - ones + 1), SIZE - ones, alpha),
    )
    m, k, j = np.ogrid[: SIZE + 1, : SIZE + 1, : SIZE + 1]
    given = stats.binom.pmf(k, m, j / SIZE) @ noisy
    joint: NDArray[np.float64] = stats.binom.pmf(np.arange(SIZE + 1), SIZE, theta)[:, None] * given
    return joint


def observed(ones: int, alpha: float, theta: float, seed: int) -> NDArray[np.int64]:
    """How often each (m, k) was seen in a million clusters."""
    labels = np.tile((np.arange(SIZE) < ones).astype(np.uint8), TRIALS)
    rosters = Rosters.of(np.repeat(np.arange(TRIALS, dtype=np.int32), SIZE))
    release = next(exchange(labels, rosters, Parameters(alpha, theta), SeededCoins(seed)))
    kept = release.kept.reshape(TRIALS, SIZE)
    m = kept.sum(axis=1)
    k = (kept & (release.reported.reshape(TRIALS, SIZE) == 1)).sum(axis=1)
    return np.bincount(m * (SIZE + 1) + k, minlength=(SIZE + 1) ** 2).reshape(SIZE + 1, SIZE + 1)


@pytest.mark.parametrize(
    ("alpha", "theta"), [(0.2, 0.7), *(pytest.param(alpha, 1.0, marks=pytest.mark.slow) for alpha in (0.1, 0.05))]
)
def test_a_million_attacks_come_close_to_the_exact_epsilon_and_never_beat_it(alpha: float, theta: float) -> None:
    answer = account("learner", Parameters(alpha=alpha, theta=theta), cluster_size=SIZE).get_epsilon(DELTA)
    assert answer.worst_ones is not None
    neighbours = [answer.worst_ones, answer.worst_ones + 1]
    gains = {}
    for accused, other in (neighbours, neighbours[::-1]):
        surplus = distribution(accused, alpha, theta) - np.exp(answer.epsilon) * distribution(other, alpha, theta)
        gains[accused, other] = float(np.maximum(0.0, surplus).sum())
    accused, other = max(gains, key=lambda pair: gains[pair])
    assert gains[accused, other] == pytest.approx(DELTA, rel=1e-5)
    accusing = distribution(accused, alpha, theta) > np.exp(answer.epsilon) * distribution(other, alpha, theta)

    right = int(observed(accused, alpha, theta, seed=1)[accusing].sum())
    wrong = int(observed(other, alpha, theta, seed=2)[accusing].sum())
    tail = (1 - CONFIDENCE) / 2
    least_right = stats.beta.ppf(tail, right, TRIALS - right + 1)
    most_wrong = stats.beta.ppf(1 - tail, wrong + 1, TRIALS - wrong)
    attacked = float(np.log((least_right - DELTA) / most_wrong))
    assert attacked <= answer.epsilon
    assert attacked >= 0.9 * answer.epsilon


@pytest.mark.parametrize(("ones", "alpha", "theta"), [pytest.param(0, 0.1, 1.0, marks=pytest.mark.slow), (4, 0.3, 0.5)])
def test_the_engines_outcomes_follow_their_distribution(ones: int, alpha: float, theta: float) -> None:
    """A chi-squared test over all outcomes seen at least five times in expectation; fails below p = 1e-6."""
    expected = distribution(ones, alpha, theta) * TRIALS
    seen = observed(ones, alpha, theta, seed=3)
    common = expected >= 5
    rest = (seen[~common].sum(), expected[~common].sum())
    statistic = float(((seen - expected)[common] ** 2 / expected[common]).sum())
    assert stats.chi2.sf(statistic, common.sum() - 1) > 1e-6
    assert stats.poisson.sf(rest[0] - 1, max(rest[1], 1e-9)) > 1e-6
