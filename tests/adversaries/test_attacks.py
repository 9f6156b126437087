"""The likelihood ratio is that of every coin; the simple attacks do what they say; all of them read a view."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from p2p_labeldp.adversaries.attacks import (
    AVERAGING,
    FACE_VALUE,
    LIKELIHOOD_RATIO,
    MAJORITY,
    PRIOR,
    flip_ratio,
)
from p2p_labeldp.adversaries.distributions import CERTAIN
from p2p_labeldp.adversaries.evidence import evidence_of, evidence_of_all
from p2p_labeldp.audit.array_views import ClusterViews, views_of_exchange
from p2p_labeldp.audit.views import View
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import VIEWS, Parameters, account
from p2p_labeldp.privacy.views import CLOSED_FORM

LOG_9 = float(np.log(9.0))


class EveryCoin:
    """Coins that go through every outcome of a small cluster, one cluster each, and how likely each is."""

    def __init__(self, users: int, parameters: Parameters) -> None:
        flips, labels = parameters.rounds if parameters.noise == "fresh" else 1, parameters.labels
        rounds = range(parameters.rounds)
        outcomes = 2 if parameters.theta < 1 else 1
        sizes = [labels] * (users * flips) + [users] * (users * len(rounds)) + [outcomes] * (users * len(rounds))
        grid = np.indices(sizes).reshape(len(sizes), -1)
        permuted = parameters.exchange == "permutation"
        if permuted:
            asked = grid[users * flips :][: users * len(rounds)].reshape(len(rounds), users, -1)
            grid = grid[:, (np.sort(asked, axis=1) == np.arange(users)[:, None]).all(axis=(0, 1))]
        shifts, asked, kept = np.split(grid, np.cumsum([users * flips, users * len(rounds)]))
        kept = kept if outcomes == 2 else kept + 1
        self.worlds = grid.shape[1]
        alpha, theta = parameters.alpha, parameters.theta
        chances = np.where(shifts > 0, alpha / (labels - 1), 1 - alpha).prod(axis=0)
        choices = factorial(users) if permuted else users**users
        self.chances = chances * np.where(kept > 0, theta, 1 - theta).prod(axis=0) / choices ** len(rounds)
        self.rounds = []
        for round_ in rounds:
            here = slice(users * round_, users * (round_ + 1))
            shift = shifts[here] if flips > 1 else shifts[:users]
            coins = np.empty((self.worlds, users, 4))
            coins[..., 0] = np.where(shift > 0, 0.0, 1.0).T
            coins[..., 1] = (asked[here].T + 0.5) / users
            coins[..., 2] = np.where(kept[here] > 0, 0.0, 1.0).T
            coins[..., 3] = np.maximum(shift - 0.5, 0.0).T / max(1, labels - 1)
            self.rounds.append(coins.reshape(-1, 4))

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        return self.rounds[round_][start:stop]


def every_view(view: str, others: tuple[int, ...], parameters: Parameters, colluders: int) -> list[Any]:
    """For the victim's labels 0 and 1: the views of every outcome of the coins, and how likely each is."""
    users = 1 + len(others)
    coins = EveryCoin(users, parameters)
    members = range(users - (1 if view == "peer" else colluders), users)
    background = dict(enumerate(others, start=1))
    found = []
    for label in (0, 1):
        labels = np.tile(np.array([label, *others]), (coins.worlds, 1))
        found.append(views_of_exchange(labels, parameters, coins, view, members=members, background=background))
    return [*found, coins.chances]


def numbered(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """One number for each distinct row."""
    return np.unique(np.hstack(parts), axis=0, return_inverse=True)[1].ravel()


def everything_in(views: ClusterViews) -> NDArray[np.int64]:
    """All that the views hold: a row each. Of the coins only the colluders' own flips tell anything more."""
    parts = [part.reshape(len(views), -1) for part in (views.reports, views.asks, views.answers) if part is not None]
    own = (1000 * views.coins).astype(np.int64).reshape(len(views), -1)
    return np.hstack([*parts, own]).astype(np.int64)


def exact_ratios(rows: list[NDArray[np.int64]], chances: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    """P(row | 0) and P(row | 1) of the distinct rows, and the number of each row."""
    numbers = np.split(numbered([np.vstack(rows)]), 2)
    size = max(int(each.max()) for each in numbers) + 1
    distributions = [np.bincount(each, chances, size) for each in numbers]
    return distributions[0], distributions[1], numbers


SETTINGS = [
    pytest.param(Parameters(0.2, 0.6), (0, 1), id="one round"),
    pytest.param(Parameters(0.7, 0.4), (0, 0), id="mostly flipped"),
    pytest.param(Parameters(0.3, 0.5, rounds=2), (1,), id="two sticky rounds"),
    pytest.param(Parameters(0.3, 0.5, rounds=2, noise="fresh"), (1,), id="two fresh rounds"),
]


@pytest.mark.parametrize(("parameters", "others"), SETTINGS)
@pytest.mark.parametrize("view", VIEWS)
def test_the_score_is_the_logarithm_of_the_exact_odds(
    view: str, parameters: Parameters, others: tuple[int, ...]
) -> None:
    """Over every outcome of the coins; so no attack on this view is better."""
    zero, one, chances = every_view(view, others, parameters, colluders=1 if view == "coalition" else 0)
    scores = np.concatenate([LIKELIHOOD_RATIO.score(evidence_of_all(views, 0), (0, 1)) for views in (zero, one)])
    p0, p1, numbers = exact_ratios([everything_in(zero), everything_in(one)], chances)
    odds = (np.log(p1) - np.log(p0))[np.concatenate(numbers)]
    np.testing.assert_allclose(scores, odds, atol=1e-10)


@pytest.mark.parametrize(
    ("parameters", "others"),
    [
        pytest.param(Parameters(0.2, 0.6), (0, 1), id="one round"),
        pytest.param(Parameters(0.7, 1.0), (0, 0), id="mostly flipped"),
        pytest.param(Parameters(0.3, 1.0, rounds=2), (1,), id="two sticky rounds"),
        pytest.param(Parameters(0.3, 0.5, rounds=2, noise="fresh"), (1,), id="two fresh rounds"),
    ],
)
@pytest.mark.parametrize("view", VIEWS)
def test_in_the_permutation_too(
    view: str, parameters: Parameters, others: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With permutations that the coins spell out, in place of those that follow from a digest of them."""
    module = import_module("p2p_labeldp.mechanisms.exchange")
    monkeypatch.setattr(module, "agreed_places", lambda coins: (coins * len(coins)).astype(np.int64))
    permuted = replace(parameters, exchange="permutation")
    test_the_score_is_the_logarithm_of_the_exact_odds(view, permuted, others)


@pytest.mark.parametrize(("view", "colluders"), [*((view, 0) for view in VIEWS), ("coalition", 1), ("coalition", 2)])
def test_at_the_worst_labels_of_the_others_the_best_advantage_is_exactly_delta_zero(view: str, colluders: int) -> None:
    parameters = Parameters(0.2, 0.6)
    answer = account(view, Parameters(alpha=0.2, theta=0.6), cluster_size=3, colluders=colluders).get_delta(0.0)
    ones = answer.worst_ones or 0
    zero, one, chances = every_view(view, (int(ones > 0), int(ones > 1)), parameters, colluders)
    rates = [
        float(chances[LIKELIHOOD_RATIO.score(evidence_of_all(views, 0), (0, 1)) > 0].sum()) for views in (one, zero)
    ]
    assert rates[0] - rates[1] == pytest.approx(answer.delta, abs=1e-9)


@pytest.mark.parametrize("view", CLOSED_FORM)
def test_with_three_labels_the_closed_forms_are_exact_too(view: str) -> None:
    test_the_score_is_the_logarithm_of_the_exact_odds(view, Parameters(0.4, 0.6, labels=3), (2, 1))


@pytest.mark.parametrize("others", [(0, 0), (0, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("view", ["learner", "shuffle"])
def test_with_three_labels_the_score_is_exact_for_who_counts_the_third_apart(
    view: str, others: tuple[int, int]
) -> None:
    """And loses next to nothing against someone who sees all the counts."""
    zero, one, chances = every_view(view, others, Parameters(0.4, 0.6, labels=3), 0)
    drawn = [evidence_of_all(views, 0).drawn[:, 0] for views in (zero, one)]
    scores = [LIKELIHOOD_RATIO.score(evidence_of_all(views, 0), (0, 1)) for views in (zero, one)]
    p0, p1, numbers = exact_ratios(drawn, chances)
    np.testing.assert_allclose(np.concatenate(scores), (np.log(p1) - np.log(p0))[np.concatenate(numbers)], atol=1e-10)
    p0, p1, _ = exact_ratios([everything_in(zero), everything_in(one)], chances)
    best = float(np.maximum(0, p1 - p0).sum())
    reached = float(chances[scores[1] > 0].sum() - chances[scores[0] > 0].sum())
    assert 0.99 * best <= reached <= best + 1e-12


def test_users_whose_labels_the_attacker_does_not_know_could_hold_anything() -> None:
    """Their noisy labels are then uniform: as if they flipped with probability one half."""
    parameters = Parameters(0.2, 0.6)
    zero, _, _ = every_view("learner", (0, 1), parameters, 0)
    blind = ClusterViews(**{**vars(zero), "background": {1: 0}})
    scores = LIKELIHOOD_RATIO.score(evidence_of_all(blind, 0), (0, 1))
    drawn = evidence_of_all(blind, 0).drawn[:, 0]
    flips = [(0.8, 0.2), (0.5, 0.5)]
    for row in np.unique(drawn, axis=0):
        chances = []
        for truth in (0, 1):
            total = 0.0
            for noisy in product((0, 1), repeat=3):
                mine = 0.8 if noisy[0] == truth else 0.2
                share = sum(noisy) / 3
                total += mine * flips[0][noisy[1]] * flips[1][noisy[2]] * share ** row[1] * (1 - share) ** row[0]
            chances.append(total)
        here = (drawn == row).all(axis=1)
        np.testing.assert_allclose(scores[here], np.log(chances[1] / chances[0]), atol=1e-12)


def seen(told: dict[tuple[int, int], tuple[int, ...]], **others: Any) -> View:
    """What an auditor sees of four users of whom 0 is the victim; alpha is one tenth."""
    settings: dict[str, Any] = {
        "adversary": "auditor",
        "parameters": Parameters(0.1, 1.0),
        "clusters": {0: (0, 1, 2, 3)},
        "background": {1: 0, 2: 0, 3: 1},
        "reports": ({},),
        "asks": ({},),
        "answers": (told,),
        "coins": {},
        "members": frozenset(),
    }
    return View(**settings | others)


def test_a_label_seen_for_what_it_is_counts_once_however_often_it_is_seen() -> None:
    assert LIKELIHOOD_RATIO(seen({(0, 1): (1,)}), 0) == pytest.approx(LOG_9)
    assert LIKELIHOOD_RATIO(seen({(0, 1): (1,), (0, 2): (1,), (0, 3): (1,)}), 0) == pytest.approx(LOG_9)
    assert LIKELIHOOD_RATIO(seen({(0, 1): (0,)}), 0) == pytest.approx(-LOG_9)
    assert LIKELIHOOD_RATIO(seen({(0, 1): (0,)}), 0, (1, 0)) == pytest.approx(LOG_9)
    assert LIKELIHOOD_RATIO(seen({(1, 0): (1,), (2, 3): (1,)}), 0) == 0.0


def test_different_labels_on_one_flip_are_taken_for_flips_of_their_own() -> None:
    answers = {(0, 1): (1, 1, 0), (0, 2): (1,)}
    assert LIKELIHOOD_RATIO(seen(answers), 0) == pytest.approx(2 * LOG_9)
    assert AVERAGING(seen(answers), 0) == pytest.approx(2 * LOG_9)
    assert AVERAGING(seen({(0, 1): (1, 1, 1)}), 0) == pytest.approx(3 * LOG_9)


def test_a_report_that_repeats_an_answer_on_the_wire_is_not_counted_again() -> None:
    view = seen({(0, 1): (1,)}, adversary="network", asks=({1: 0},), reports=({1: 1, 0: 1},))
    evidence = evidence_of(view, 0)
    # User 1's report is the answer that was seen; user 0, silent on the wire, asked herself and reports her own label.
    assert evidence.seen.tolist() == [[[0, 2]]]


def test_a_report_whose_sender_asked_in_another_cluster_is_no_draw_from_this_one() -> None:
    view = seen({}, clusters={0: (0, 1, 2, 3), 1: (9,)}, asks=({1: 9},), reports=({1: 1},))
    evidence = evidence_of(view, 0)
    assert evidence.reported.tolist() == [[[0, 1]]]
    for nothing in (evidence.drawn, evidence.seen, evidence.known):
        assert not nothing.any()


def test_without_flips_a_seen_label_is_certain_and_scores_stay_finite() -> None:
    sure = seen({(0, 1): (1,)}, parameters=Parameters(0.0, 1.0))
    assert LIKELIHOOD_RATIO(sure, 0) == CERTAIN
    assert flip_ratio(Parameters(1.0, 1.0)) == -CERTAIN
    told = seen(
        {}, adversary="learner", asks=None, answers=None, parameters=Parameters(0.0, 1.0), background={1: 0, 2: 0, 3: 0}
    )
    assert LIKELIHOOD_RATIO(View(**vars(told) | {"reports": ({1: 1},)}), 0) == CERTAIN
    assert -CERTAIN < LIKELIHOOD_RATIO(View(**vars(told) | {"reports": ({1: 0},)}), 0) < 0


def test_the_simple_attacks_take_labels_at_face_value() -> None:
    view = seen({}, adversary="learner", asks=None, answers=None, reports=({0: 0, 1: 1, 2: 1},))
    assert MAJORITY(view, 0) == 1.0
    assert FACE_VALUE(view, 0) == -1.0
    assert FACE_VALUE(view, 3) == 0.0
    assert AVERAGING(view, 0) == PRIOR(view, 0) == 0.0


def test_a_decision_rule_leans_towards_the_likelier_label() -> None:
    scores = np.array([-2.0, 0.0, 2.0])
    assert LIKELIHOOD_RATIO.decides(scores, 0.5).tolist() == [False, False, True]
    assert LIKELIHOOD_RATIO.decides(scores, 0.9).tolist() == [True, True, True]
    assert LIKELIHOOD_RATIO.decides(scores, 0.1).tolist() == [False, False, False]
    assert MAJORITY.decides(scores, 0.9).tolist() == [False, True, True]
    assert PRIOR.decides(np.zeros(1), 0.6).tolist() == [True]


@pytest.mark.parametrize("answers", [1, 5, 25])
def test_averaging_undoes_new_noise_for_every_asker_and_not_one_flip(answers: int) -> None:
    """The classic bug. 1,000 users with label 1 answer five askers so often each; intervals at 99.9 %."""
    generator = np.random.default_rng(answers)
    users, alpha = 1000, 0.3
    parameters = Parameters(alpha, 1.0)
    named = {"one flip": 0, "new noise": 0}
    for _ in range(users):
        flips = {"one flip": np.full((5, answers), generator.random() >= alpha)}
        flips["new noise"] = generator.random((5, answers)) >= alpha
        for way, labels in flips.items():
            told = {(0, asker): tuple(row.tolist()) for asker, row in enumerate(labels.astype(int), start=1)}
            view = seen(
                told,
                adversary="eavesdropper",
                parameters=parameters,
                clusters={0: tuple(range(6))},
                reports=None,
            )
            named[way] += AVERAGING(view, 0) > 0
    expected = float(stats.binom.sf(5 * answers // 2, 5 * answers, 1 - alpha))
    for way, chance in (("one flip", 1 - alpha), ("new noise", expected)):
        low, high = stats.binom.ppf([0.0005, 0.9995], users, chance)
        assert low <= named[way] <= high, way
    assert answers < 25 or named["new noise"] > 0.99 * users


def test_the_victims_own_label_is_not_looked_at_should_the_background_hold_it() -> None:
    labels = np.array([[0, 1] * 5])
    views = [
        views_of_exchange(labels, Parameters(0.2, 0.8), SeededCoins(1), "learner", background=dict(enumerate(known)))
        for known in (labels[0].tolist(), [1, *labels[0, 1:].tolist()])
    ]
    scores = [LIKELIHOOD_RATIO.score(evidence_of_all(view, 0), (0, 1)).tolist() for view in views]
    assert scores[0] == scores[1] != [0.0]
