"""The tests of the coins: honest coins pass, crooked ones do not, and p-values mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from p2p_labeldp.audit.sample import FitTest, Sample, fit_tests
from p2p_labeldp.mechanisms import Rosters, SeededCoins, exchange
from p2p_labeldp.mechanisms.coins import PEER
from p2p_labeldp.privacy import Parameters

PARAMETERS = Parameters(alpha=0.1, theta=0.5)
SIZES = [40, 60, 100]
STARTS = [0, 40, 100]
THRESHOLD = 1e-6 / 6


def sampled(
    seed: int, runs: int = 50, alpha: float = 0.1, theta: float = 0.5, skip_self: bool = False, favourite: float = 0.0
) -> Sample:
    """What ``runs`` runs of 200 users would show, with coins that may be crooked."""
    generator = np.random.default_rng(seed)
    sample = Sample()
    for run in range(runs):
        for cluster, (size, first) in enumerate(zip(SIZES, STARTS, strict=True)):
            for own in range(size):
                place = int(generator.integers(size))
                if skip_self and place == own:
                    place = (place + 1 + int(generator.integers(size - 1))) % size
                if generator.random() < favourite:
                    place = 0
                sample.choice(place, own, size, first + own, first + place, (run, cluster))
                sample.flip(0, int(generator.random() < alpha), 2)
                sample.keep(bool(generator.random() < theta))
    return sample


def failing(sample: Sample) -> set[str]:
    return {test.name for test in fit_tests(sample, PARAMETERS) if test.p_value < THRESHOLD}


def test_honest_coins_pass() -> None:
    """Six exact tests at 1e-6 in all: an honest sample fails once in a million seeds."""
    assert failing(sampled(1)) == set()


@pytest.mark.parametrize("alpha", [0.08, 0.12])
def test_an_alpha_off_by_a_fifth_is_found(alpha: float) -> None:
    assert failing(sampled(2, alpha=alpha)) == {"flips"}


def test_a_theta_off_by_a_fifth_is_found() -> None:
    assert failing(sampled(3, theta=0.6)) == {"subsampling"}


def test_users_who_never_choose_themselves_are_found() -> None:
    assert "self_asks" in failing(sampled(4, skip_self=True))


def test_a_favourite_place_is_found() -> None:
    assert "choice_of_place" in failing(sampled(5, favourite=0.05))


def test_a_flip_that_prefers_one_of_the_other_labels_is_found() -> None:
    sample = Sample()
    generator = np.random.default_rng(6)
    for _ in range(20_000):
        flipped = generator.random() < 0.1
        sample.flip(0, int(generator.choice([1, 2, 3], p=[0.5, 0.25, 0.25])) if flipped else 0, 4)
    names = {t.name for t in fit_tests(sample, Parameters(0.1, 1.0, labels=4)) if t.p_value < THRESHOLD}
    assert names == {"choice_of_label"}


def test_pooling_adds_the_runs() -> None:
    one, two, both = sampled(7, runs=2), sampled(8, runs=3), Sample()
    both.pool(one)
    both.pool(two)
    assert both.flip_chances == 5 * sum(SIZES)
    assert both.flipped == one.flipped + two.flipped
    assert both.places == one.places + two.places
    assert both.groups == [*one.groups, *(one.group_count + group for group in two.groups)]
    assert both.group_count == 5 * len(SIZES)


def test_the_chance_of_a_self_ask_is_the_exact_law_of_a_sum_of_binomials() -> None:
    sizes = [2, 2, 3, 3, 3]
    sample = Sample(places=[0, 0, 0, 0, 0], own_places=[0, 1, 0, 1, 2], sizes=sizes)
    distribution = stats.poisson_binom([1 / size for size in sizes])
    expected = min(1.0, 2 * min(distribution.cdf(2), distribution.sf(1)))
    found = next(t for t in fit_tests(sample, PARAMETERS) if t.name == "self_asks")
    assert found.p_value == pytest.approx(expected, rel=1e-9)


def asked(sample: Sample) -> FitTest:
    return next(test for test in fit_tests(sample, PARAMETERS) if test.name == "asked_by_user")


def one_cluster(chosen: list[int], size: int, askers: list[int] | None = None, run: int = 0) -> Sample:
    """What the users of one cluster, or those of them who were there, chose."""
    sample = Sample()
    for asker, peer in zip(askers or range(size), chosen, strict=True):
        sample.choice(peer, asker, size, asker, peer, run)
    return sample


def test_a_favourite_user_whom_the_law_of_places_hides_is_found() -> None:
    """In 100 runs of twelve clusters of 20 one of the 240 users is asked twice as often as the others."""
    generator = np.random.default_rng(9)
    pooled = Sample()
    for run in range(100):
        for cluster in range(12):
            chances = np.ones(20)
            chances[7] = 2.0 if cluster == 5 else 1.0
            sample = Sample()
            for own, place in enumerate(generator.choice(20, 20, p=chances / chances.sum()).tolist()):
                sample.choice(place, own, 20, 20 * cluster + own, 20 * cluster + place, (run, cluster))
            pooled.pool(sample)
    assert failing(pooled) == {"asked_by_user"}
    assert asked(pooled).seen.startswith("user 107 asked")


def test_how_often_one_is_asked_is_binomial_where_clusters_are_of_one_size() -> None:
    pooled = Sample()
    for run in range(30):
        pooled.pool(one_cluster([2, 2, 0, 1], 4, run=run))
    # User 3 was never asked in 120 choices, each of which was hers with probability 1/4.
    assert asked(pooled).seen == "user 3 asked 0 times"
    assert asked(pooled).p_value == pytest.approx(4 * 2 * 0.75**120)


def test_where_sizes_differ_its_p_value_is_at_least_the_exact_one() -> None:
    pooled, chances = Sample(), []
    for run, size in enumerate([3, 8, 5, 3, 4, 9, 3]):
        pooled.pool(one_cluster([0] * size, size, run=run))
        chances += [1 / size] * size
    exact = 9 * 2 * stats.poisson_binom(chances).sf(len(chances) - 1)
    assert exact < asked(pooled).p_value < 1e-3
    assert asked(pooled).seen == f"user 0 asked {len(chances)} times"


def test_a_user_who_was_gone_is_not_counted_as_never_asked() -> None:
    """User 3 chose nobody and is not judged; the others had as many chances as there were choices."""
    pooled = Sample()
    for run in range(50):
        pooled.pool(one_cluster([run % 3, (run + 1) % 3, (run + 2) % 3], 4, askers=[0, 1, 2], run=run))
    found = asked(pooled)
    assert found.expected == "about 37.5"
    assert found.seen.endswith("asked 50 times")


def test_p_values_of_honest_coins_are_rarely_small() -> None:
    """Of 6 x 200 p-values below 0.05 at most 60 are expected; 100 or more has a chance below 1e-6."""
    small = 0
    rosters = Rosters.of(np.repeat([0, 1, 2], SIZES))
    for seed in range(200):
        release = next(exchange(np.zeros(200, np.int64), rosters, PARAMETERS, SeededCoins(seed)))
        sample = Sample()
        chosen = SeededCoins(seed).block(0, 0, 200)[:, PEER].tolist()
        for user, cluster in enumerate(rosters.clusters.tolist()):
            size, first = SIZES[cluster], STARTS[cluster]
            place = int(chosen[user] * size)
            sample.choice(place, user - first, size, user, first + place, cluster)
            sample.flip(0, int(release.noisy[user]), 2)
            sample.keep(bool(release.kept[user]))
        tests: list[FitTest] = fit_tests(sample, PARAMETERS)
        small += sum(test.p_value < 0.05 for test in tests)
    assert small < 100


def test_p_values_do_not_hang_on_the_order_in_which_choices_were_traced() -> None:
    choices = [
        (place, own, 40, own, place, 0) for own, place in enumerate(np.random.default_rng(1).integers(40, size=40))
    ]
    samples = [Sample(), Sample()]
    for sample, order in zip(samples, (choices, choices[::-1]), strict=True):
        for choice in order:
            sample.choice(*map(int, choice))
    assert fit_tests(samples[0], PARAMETERS) == fit_tests(samples[1], PARAMETERS)
