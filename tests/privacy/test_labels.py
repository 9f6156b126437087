"""More than two labels: proved, attained from below, and close to each other."""

import math

import every_coin
import numpy as np
import pytest
from accounting import accounted

from p2p_labeldp.privacy import calibrate
from p2p_labeldp.privacy.binomial import Draws
from p2p_labeldp.privacy.blanket import Blanket, Shuffled
from p2p_labeldp.privacy.sampled import Sampled
from p2p_labeldp.privacy.views import LocalNoise


def view_of(view, users, alpha, theta, labels, **more):
    return accounted(view, cluster_size=users, alpha=alpha, theta=theta, labels=labels, **more)


@pytest.mark.parametrize(
    ("users", "labels", "alpha", "attained", "proved", "first_release"),
    [
        (200, 10, 0.6, 0.2826, 0.2846, 0.700),
        (200, 10, 0.3, 0.8807, 0.9107, 2.454),
        (200, 3, 0.3, 0.3185, 0.3205, 0.393),
    ],
)
def test_known_values(users, labels, alpha, attained, proved, first_release):
    accountant = view_of("learner", users, alpha, 1.0, labels)
    answer = accountant.get_epsilon(1 / users**2)
    assert answer.attained_epsilon == pytest.approx(attained, abs=6e-5)
    # What is rounded to save work costs less than a thousandth.
    assert proved - 6e-5 <= answer.epsilon <= proved * 1.0005
    assert accountant.profile.bounds.first_release_epsilon(1 / users**2) == pytest.approx(first_release, abs=6e-4)
    assert answer.attained_by == "all others hold one label that is neither of the victim's two candidates"
    assert answer.error_bound == pytest.approx(answer.epsilon - answer.attained_epsilon)


@pytest.mark.parametrize(
    ("users", "labels", "alpha", "exact"), [(30, 3, 0.3, 0.607), (16, 4, 0.4, 0.597), (20, 3, 0.2, 1.018)]
)
def test_what_every_coin_says_lies_between_the_two(users, labels, alpha, exact):
    answer = view_of("learner", users, alpha, 1.0, labels).get_epsilon(1 / users**2)
    assert answer.attained_epsilon - 5e-4 <= exact <= answer.epsilon


def settings_at_random(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        labels, users = int(rng.integers(3, 51)), int(np.exp(rng.uniform(math.log(2), math.log(2000))))
        alpha = float(rng.uniform(0.02, 1.0)) * (labels - 1) / labels
        view = str(rng.choice(["learner", "learner", "shuffle", "coalition"]))
        colluders = int(rng.integers(1, min(users, 6))) if view == "coalition" else 0
        theta = float(rng.choice([1.0, rng.uniform(0.05, 1.0)]))
        delta = float(rng.choice([1 / users**2, 10 ** rng.uniform(-9, -2)]))
        yield view, users, alpha, theta, labels, colluders, delta


def assert_between_the_attained_and_the_first_release(count, seed):
    for view, users, alpha, theta, labels, colluders, delta in settings_at_random(count, seed):
        accountant = view_of(view, users, alpha, theta, labels, colluders=colluders)
        answer = accountant.get_epsilon(delta)
        assert answer.attained_epsilon <= answer.epsilon
        # Epsilons are solved for to eleven digits.
        assert answer.epsilon <= accountant.profile.bounds.first_release_epsilon(delta) * (1 + 1e-10)
        assert answer.epsilon <= accountant.local_epsilon


def test_epsilon_lies_between_the_attained_one_and_the_first_releases():
    assert_between_the_attained_and_the_first_release(6, seed=1)


@pytest.mark.slow
def test_epsilon_lies_between_the_attained_one_and_the_first_releases_at_length():
    assert_between_the_attained_and_the_first_release(200, seed=2)


def assert_close_with_thirty_blanket_users(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        labels = int(rng.choice([rng.integers(3, 7), rng.integers(3, 51)]))
        useless = (labels - 1) / labels
        # At least thirty others are expected to show one of the two candidates by chance: more often just thirty.
        users = int(np.exp(rng.uniform(math.log(15.5 * labels), math.log(2000))))
        least = 15 / users * (labels - 1)
        alpha = float(least + (useless - least) * rng.uniform() ** 3)
        view = str(rng.choice(["learner", "learner", "shuffle", "coalition"]))
        colluders = int(rng.integers(1, 6)) if view == "coalition" else 0
        theta = float(rng.choice([1.0, np.exp(rng.uniform(math.log(0.01), 0))]))
        delta = float(rng.choice([1 / users**2, 10 ** rng.uniform(-9, -2)]))
        answer = view_of(view, users, alpha, theta, labels, colluders=colluders).get_epsilon(delta)
        assert 2 * alpha / (labels - 1) * users >= 30 - 1e-9
        assert answer.epsilon <= 1.1 * answer.attained_epsilon, (view, users, labels, alpha, theta, delta)


def test_with_thirty_blanket_users_the_bound_is_within_a_tenth():
    assert_close_with_thirty_blanket_users(3, seed=3)


@pytest.mark.slow
def test_with_thirty_blanket_users_the_bound_is_within_a_tenth_at_length():
    assert_close_with_thirty_blanket_users(200, seed=4)


@pytest.mark.parametrize("view", ["learner", "shuffle"])
@pytest.mark.parametrize(("users", "labels"), [(5, 3), (8, 3), (5, 4), (4, 5)])
@pytest.mark.parametrize("alpha", [0.03, 0.3, 0.6, 0.85])
def test_the_bound_is_above_the_worst_data_set_of_larger_clusters(view, users, labels, alpha):
    def truth(epsilon):
        data_sets = every_coin.vectors(users - 1, labels)
        return max(every_coin.counted(view, others, alpha, 0.7, epsilon) for others in data_sets)

    accountant = view_of(view, users, alpha, 0.7, labels)
    for epsilon in (0.0, 0.3, 1.0):
        assert truth(epsilon) <= accountant.get_delta(epsilon).delta + 1e-14
    answer = accountant.get_epsilon(1e-3)
    if answer.attained_epsilon > 0:
        assert truth(answer.attained_epsilon) >= 1e-3 * (1 - 1e-9)


def test_thresholds_find_what_summing_every_outcome_finds():
    noise = LocalNoise.flip(0.5, 6)
    cells = Blanket.of(60, 6, noise).cells(1e-14)
    for pairs in (Sampled(cells, Draws(61, 0.8 / 61), 1e-14), Shuffled(cells, 1e-14)):
        for epsilon in (0.0, 0.2, 0.8):
            summed = sum(np.maximum(one - math.exp(epsilon) * zero, 0).sum() for zero, one in pairs.walk())
            assert pairs.deltas(epsilon)[0, 0, 0] == pytest.approx(summed, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.2, 0.7])
def test_coarser_pieces_only_raise_delta(alpha):
    blanket = Blanket.of(500, 5, LocalNoise.flip(alpha, 5))
    fine, coarse = blanket.cells(1e-14), blanket.cells(1e-14, 8.0)
    assert sum(len(cell.right) for cell in coarse.cells) < sum(len(cell.right) for cell in fine.cells) / 2
    for epsilon in (0.0, 0.03, 0.1):
        few, many = (Sampled(cells, Draws(501, 1 / 501), 1e-14).deltas(epsilon).max() for cells in (fine, coarse))
        assert few <= many * (1 + 1e-9) + 1e-12


def test_cells_hold_all_of_the_mass_and_the_victims_share_of_it():
    noise = LocalNoise.flip(0.4, 5)
    cells = Blanket.of(50, 5, noise).cells(1e-18).cells
    nothing = 1 - sum(float(cell.weights.sum()) for cell in cells)
    expected = (1 - noise.high - noise.low) * (1 - 2 * noise.low) ** 50
    assert nothing == pytest.approx(expected, abs=1e-12)
    # Averaged over everything her coin is right as often as her noisy label tells a from b.
    gain = sum(float(cell.weights @ (cell.right - 0.5)) for cell in cells)
    assert gain == pytest.approx((noise.high - noise.low) / 2, rel=1e-9)


def test_all_others_colluding_is_exact():
    answer = view_of("coalition", 30, 0.5, 0.8, 6, colluders=29).get_epsilon(0.01)
    assert answer.method == "exact"


def test_colluders_and_rounds_only_add():
    before = 0.0
    for colluders, rounds in ((0, 1), (0, 3), (1, 3), (4, 3)):
        answer = view_of("coalition", 60, 0.6, 0.7, 5, colluders=colluders, rounds=rounds).get_epsilon(0.02)
        assert answer.epsilon - answer.error_bound <= answer.epsilon
        assert answer.epsilon >= before
        before = answer.attained_epsilon


def test_fresh_rounds_are_attained_closely():
    answer = view_of("learner", 100, 0.6, 1.0, 10, rounds=3, noise="fresh").get_epsilon(1e-4)
    assert answer.attained_epsilon <= answer.epsilon <= 1.05 * answer.attained_epsilon


def test_calibration_spends_what_the_blanket_saves():
    found = calibrate(cluster_size=80, epsilon=0.9, delta=1e-3, theta=1.0, labels=10)
    assert 0.89 < found.guarantee.epsilon <= 0.9
    again = view_of("learner", 80, found.alpha, 1.0, 10)
    assert again.profile.bounds.first_release_epsilon(1e-3) > 1.5 * 0.9


@pytest.mark.slow
def test_ten_labels_are_calibrated_for_clusters_of_305():
    found = calibrate(cluster_size=305, epsilon=0.5, delta=1 / 305**2, theta=1.0, labels=10)
    assert found.alpha == pytest.approx(0.4176, abs=1e-3)
    assert 0.499 < found.guarantee.epsilon <= 0.5


@pytest.mark.parametrize("view", ["learner", "shuffle", "coalition"])
def test_no_noise_and_only_noise_are_answered_in_one_line(view):
    colluders = 1 if view == "coalition" else 0
    nothing = view_of(view, 20, 0.0, 1.0, 5, colluders=colluders).get_epsilon(1e-6)
    assert nothing.epsilon == nothing.attained_epsilon == math.inf
    assert "\n" not in nothing.reason
    only = view_of(view, 20, 0.8, 1.0, 5, colluders=colluders).get_epsilon(1e-6)
    assert only.epsilon == 0
    assert only.reason == "alpha = 0.8 leaves only noise: with 5 labels every report is uniform, whatever was held"
    always = view_of(view, 20, 1.0, 1.0, 5, colluders=colluders).get_epsilon(1e-6)
    assert always.epsilon == math.inf
