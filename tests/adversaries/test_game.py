"""Attacks through the engines, against what is proved: never above it, and close to it where it is exact.

Seeds are fixed. Limits are those of Clopper and Pearson at 99.9 %: over random seeds one in two thousand lower limits
would exceed its bound, and one interval in a thousand would miss the truth.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from games import play, play_actors
from small import sixty

from p2p_labeldp.adversaries.attacks import ATTACKS, LIKELIHOOD_RATIO, MAJORITY
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.evidence import evidence_of_all
from p2p_labeldp.adversaries.game import clopper_pearson, judge, reconstruct
from p2p_labeldp.audit import RecordedRun, view_of
from p2p_labeldp.audit.epsilon import at_least, at_most
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments import run
from p2p_labeldp.experiments.games import Game, play_each, seen_by_arrays
from p2p_labeldp.privacy import VIEWS, Parameters, account
from p2p_labeldp.privacy.views import chance_seen

SETTINGS = {
    "10 users": (10, Parameters(0.2, 0.5), 10_000, 3),
    "20 users": (20, Parameters(0.1, 1.0), 10_000, 3),
    "50 users": (50, Parameters(0.3, 0.8), 10_000, 3),
    "three sticky rounds": (6, Parameters(0.2, 0.5, rounds=3), 20_000, 5),
    "three fresh rounds": (6, Parameters(0.2, 0.5, rounds=3, noise="fresh"), 20_000, 5),
    "four labels": (8, Parameters(0.4, 0.8, labels=4), 10_000, 2),
}
"""Size, parameters, trials, seed."""


def colluders_in(view: str) -> int:
    return 2 if view == "coalition" else 0


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("view", VIEWS)
def test_no_attack_beats_what_is_proved(view: str, setting: str) -> None:
    """Advantage, reconstruction and two points of the ROC. Only the likelihood ratio comes near its bounds: in one of
    ten seeds at most, one of its 192 lower limits in all these games would be too high."""
    size, parameters, trials, seed = SETTINGS[setting]
    results = play_each(Game(view, size, parameters, trials, seed, colluders_in(view)))
    assert set(results) == set(ATTACKS)
    for result in results.values():
        assert result.beaten == ()
        assert result.advantage.low <= result.bounds.advantage  # type: ignore[union-attr]
    best = results["likelihood_ratio"]
    assert best.bounds is not None
    if parameters.rounds > 1 and best.bounds.exact:
        assert best.advantage.value == pytest.approx(best.bounds.advantage, rel=0.1)
    if parameters.labels > 2:
        assert best.bounds.exact == (view not in ("learner", "shuffle", "coalition"))


@pytest.mark.parametrize(("size", "alpha", "theta"), [(5, 0.1, 1.0), (10, 0.2, 0.5)])
@pytest.mark.parametrize("view", VIEWS)
def test_the_likelihood_ratio_comes_within_a_tenth_of_an_exact_bound(
    view: str, size: int, alpha: float, theta: float
) -> None:
    """In 100,000 trials a tenth of the bound is at least 3.7 standard deviations: one seed in 4,000 would miss it."""
    result = play(view, size, Parameters(alpha, theta), 100_000, 1, colluders=colluders_in(view))
    assert result.bounds is not None
    assert result.bounds.exact
    assert result.advantage.value == pytest.approx(result.bounds.advantage, rel=0.1)
    assert result.bounds.reconstruction in result.reconstruction
    assert result.beaten == ()


@pytest.mark.parametrize("prior", [0.3, 0.7])
@pytest.mark.parametrize("view", ["learner", "auditor"])
def test_no_attack_does_where_one_label_is_likelier(view: str, prior: float) -> None:
    """The best guess without having seen anything is right more often; what is gained over it is bounded too."""
    results = play_each(Game(view, 6, Parameters(0.1, 1.0), 40_000, 9, prior=prior))
    assert all(result.beaten == () for result in results.values())
    best, blind = results["likelihood_ratio"], results["prior"]
    assert best.bounds is not None
    assert blind.best_guess in blind.reconstruction
    if view == "auditor":
        assert best.reconstruction.low > best.best_guess
        assert best.bounds.reconstruction in best.reconstruction


def test_the_simple_attacks_do_worse_than_the_likelihood_ratio() -> None:
    results = play_each(Game("learner", 10, Parameters(0.1, 1.0), 50_000, 4))
    best = results.pop("likelihood_ratio")
    assert all(other.advantage.high < best.advantage.low for other in results.values())


# One colluding peer.


def test_one_colluding_peer_takes_the_guarantee_to_almost_that_of_the_flips_alone() -> None:
    size, alpha = 500, 0.1
    delta = 1 / size**2
    found = [
        account("coalition", Parameters(alpha=alpha), cluster_size=size, colluders=colluders).get_epsilon(delta).epsilon
        for colluders in (0, 1)
    ]
    assert found[0] == pytest.approx(0.3400, abs=1e-4)
    assert math.log(9) == pytest.approx(2.197, abs=1e-3)
    assert 2.19 < found[1] <= math.log(9)


@pytest.mark.parametrize(("size", "colluders", "trials"), [(500, 1, 10_000), (20, 3, 20_000)])
def test_because_at_times_she_is_answered_by_the_victim_and_knows_the_noisy_label(
    size: int, colluders: int, trials: int
) -> None:
    """That happens with probability 1 - (1-1/n)^a, and then the odds are (1-alpha)/alpha: two intervals at 99.9 %."""
    alpha = 0.1
    game = Game("coalition", size, Parameters(alpha, 1.0), trials, 6, colluders)
    views = seen_by_arrays(game, game.bounds())
    evidence = evidence_of_all(views, 0)
    answered = evidence.seen[:, 0].any(axis=1)
    expected = 1 - (1 - 1 / size) ** colluders
    assert expected in clopper_pearson(int(answered.sum()), trials)
    scores = LIKELIHOOD_RATIO.score(evidence, (0, 1))
    np.testing.assert_allclose(np.abs(scores[answered]), math.log((1 - alpha) / alpha))
    right = (scores > 0)[answered] == game.positive()[answered]
    assert 1 - alpha in clopper_pearson(int(right.sum()), int(answered.sum()))
    # At other times she is little better than the learner.
    assert np.abs(scores[~answered]).max() < math.log(9)
    assert np.quantile(np.abs(scores[~answered]), 0.9) < 1


# Who asked whom, beside the reports.


@pytest.mark.parametrize(("size", "theta"), [(10, 0.5), (50, 0.8), (200, 1.0)])
def test_the_reports_joined_with_who_asked_whom_show_her_label_most_of_the_time(size: int, theta: float) -> None:
    """With probability 1 - (1-theta/n)^n; the interval at 99.9 % of 10,000 trials holds it."""
    game = Game("metadata", size, Parameters(0.2, theta), 10_000, 8)
    evidence = evidence_of_all(seen_by_arrays(game, game.bounds()), 0)
    expected = 1 - (1 - theta / size) ** size
    assert expected == pytest.approx(chance_seen("metadata", size, theta))
    seen = evidence.seen[:, 0].any(axis=1)
    assert expected in clopper_pearson(int(seen.sum()), 10_000)
    assert not evidence.drawn.any()


# Engines.


@pytest.mark.parametrize("view", VIEWS)
def test_actors_and_arrays_play_the_same_game(view: str) -> None:
    settings = (view, 6, Parameters(0.2, 0.7), 150, 12)
    assert play_actors(*settings, colluders=colluders_in(view)) == play(*settings, colluders=colluders_in(view))


def test_actors_play_over_rounds_and_for_any_attack() -> None:
    for attack, noise, hosting in (("averaging", "fresh", "user"), ("majority", "sticky", "cluster")):
        settings = ("network", 5, Parameters(0.2, 0.7, rounds=2, noise=noise), 100, 12)
        assert play_actors(*settings, attack=attack, hosting=hosting) == play(*settings, attack=attack)


def test_a_seed_gives_the_same_game_again_and_another_one_another() -> None:
    first, again, other = (play("learner", 10, Parameters(0.1, 1.0), 1000, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_attacking_every_user_of_a_run_names_more_labels_the_more_is_seen(tmp_path: Path) -> None:
    """150 users in 15 clusters. (300 in 30, five seeds: the learner named 0.01 to 0.07 more than a guess would, the
    auditor 0.16 to 0.32.)"""
    settings = ("data.users=150", "data.groups=15", "clusters.minimum_size=2", "mechanism.rounds=1")
    run(sixty(*settings, "mechanism.alpha=0.1", seed=1), out=tmp_path / "run")
    recorded = RecordedRun.read(tmp_path / "run")
    assert recorded.true_labels is not None
    labels = recorded.true_labels
    found = {
        adversary: reconstruct(view_of(recorded, adversary, background=dict(enumerate(labels.tolist()))), labels)
        for adversary in ("learner", "metadata", "auditor")
    }
    guess = found["learner"].best_guess
    assert found["learner"].users == 150
    assert found["learner"].rate == pytest.approx(guess, abs=0.1)
    assert guess + 0.1 < found["metadata"].rate < found["auditor"].rate < 0.9


# Statistics.


def test_an_interval_has_the_limits_of_clopper_and_pearson_and_without_trials_nothing_is_known() -> None:
    found = clopper_pearson(7, 50, 0.99)
    hits = np.array(7)
    limits = float(at_least(hits, 50, 0.005)), float(at_most(hits, 50, 0.005))
    assert (found.value, found.low, found.high) == pytest.approx((0.14, *limits))
    nothing = clopper_pearson(0, 0)
    assert math.isnan(nothing.value)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_a_game_is_judged_by_its_rates() -> None:
    positive = np.array([True, True, True, True, False, False, False, False])
    scores = np.array([2.0, 1.0, 1.0, -1.0, 1.0, 0.0, -1.0, -3.0])
    result = judge("learner", MAJORITY, positive, scores, np.zeros(8))
    assert (result.true_rate.value, result.false_rate.value, result.advantage.value) == (0.75, 0.25, 0.5)
    assert result.advantage.low == result.true_rate.low - result.false_rate.high
    assert (result.reconstruction.value, result.best_guess) == (0.75, 0.5)
    assert result.beaten == ()


def test_points_of_the_roc_keep_to_the_false_positive_rate_that_was_asked_for() -> None:
    """Scores of one value only, so that chance decides: both rates are the target's (two intervals at 99.9 %)."""
    generator = np.random.default_rng(3)
    positive = generator.random(200_000) < 0.5
    result = judge("learner", MAJORITY, positive, np.zeros(200_000), generator.random(200_000))
    for point, target in zip(result.roc, (0.001, 0.01), strict=True):
        assert point.target == target
        # The threshold is found on 50,000 negatives, which adds its own error: half as much again.
        assert point.false_rate.low / 1.5 < target < point.false_rate.high * 1.5
        assert point.true_rate.low / 1.5 < target < point.true_rate.high * 1.5


def test_a_bound_is_that_of_the_rules_own_false_positive_rate() -> None:
    """Randomized response, whose account is exact: where the threshold lets more false positives through than it was
    to, its true positive rate lies above the bound for the rate that was aimed at, and below that for its own."""
    flips = account("auditor", Parameters(alpha=0.2), cluster_size=1)
    bounds, trials = Bounds(flips), 4_000
    positive = np.arange(trials) % 2 == 0
    seen = np.zeros(trials)
    half = trials // 2
    # The first half, which the threshold is found on, has no negative above it; of the second half one in twenty has.
    seen[:half][positive[:half]] = 1.0
    seen[half:][positive[half:]] = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], half // 10)
    seen[half:][~positive[half:]] = np.tile([1.0] + [0.0] * 19, half // 40)
    result = judge("auditor", LIKELIHOOD_RATIO, positive, seen, np.full(trials, 0.5), bounds=bounds)
    point = result.roc[0]
    assert (point.target, point.false_rate.value, point.true_rate.value) == (0.001, 0.05, 0.2)
    assert bounds.true_rate(point.target) < point.true_rate.low
    assert point.true_rate.value == pytest.approx(bounds.true_rate(0.05)), "attained: four times as likely"
    assert point.bound(bounds) == bounds.true_rate(point.false_rate.high) > point.true_rate.value
    assert "true rate at 0.001" not in result.beaten


def test_a_bound_that_is_too_low_is_seen_to_be_beaten() -> None:
    """The other way round: an attack that sees more than was accounted for is caught."""
    game = Game("auditor", 10, Parameters(0.1, 1.0), 20_000, 1)
    scores = LIKELIHOOD_RATIO.score(evidence_of_all(seen_by_arrays(game, game.bounds()), 0), (0, 1))
    wrong = Bounds(account("learner", Parameters(alpha=0.1), cluster_size=10))
    beaten = game.judged(LIKELIHOOD_RATIO, scores, 0.999, wrong).beaten
    assert {"advantage", "reconstruction", "true rate at 0.01"} <= set(beaten)


def test_bounds_are_those_of_the_flips_where_the_label_is_seen_for_sure() -> None:
    """A cluster of one: the auditor sees a flipped label, so everything has a closed form."""
    alpha = 0.2
    for prior in (0.5, 0.6, 0.1):
        bounds = Bounds(account("auditor", Parameters(alpha=alpha), cluster_size=1), prior)
        assert bounds.exact
        assert bounds.advantage == pytest.approx(1 - 2 * alpha)
        assert bounds.reconstruction == pytest.approx(max(prior, 1 - prior, 1 - alpha))
        for false_rate in (0.0, 0.05, 0.2, 0.6, 1.0):
            straight = false_rate * (1 - alpha) / alpha
            expected = straight if false_rate <= alpha else 1 - alpha + (false_rate - alpha) * alpha / (1 - alpha)
            assert bounds.true_rate(false_rate) == pytest.approx(expected, abs=1e-9)


def test_without_flips_bounds_are_still_numbers() -> None:
    bounds = Bounds(account("auditor", Parameters(alpha=0.0), cluster_size=4))
    assert bounds.advantage == pytest.approx(1 - 0.75**4)
    assert bounds.true_rate(0.0) == pytest.approx(1 - 0.75**4)
    assert play("auditor", 4, Parameters(0.0, 1.0), 2000, 1).beaten == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials": 0}, "trials must be"),
        ({"view": "oracle"}, "view must be one of"),
        ({"view": "peer", "cluster_size": 1}, "at least 2"),
        ({"ones": 10}, "ones must lie within 0..9"),
        ({"colluders": 1}, "needs the view coalition"),
        ({"prior": 1.0}, "prior must lie between"),
        ({"attack": "hammer"}, "attack must be one of"),
        ({"confidence": 1.0}, "confidence must lie between"),
        ({"parameters": Parameters(0.1, 1.0, minimum_size=11)}, "abstains"),
    ],
)
def test_games_that_make_no_sense_are_refused(changes: dict[str, object], words: str) -> None:
    settings = {"view": "learner", "cluster_size": 10, "parameters": Parameters(0.1, 1.0), "trials": 5, "seed": 1}
    with pytest.raises(RequestError, match=words):
        play(**settings | changes)  # type: ignore[arg-type]
