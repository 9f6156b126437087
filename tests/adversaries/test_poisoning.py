"""Liars move a cluster's share about twice as far as in randomized response, and the model follows."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from poisoned import poisoned_reports, poisoned_share, poisoned_share_alone
from small import with_adversaries

from p2p_labeldp.data import load
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.experiments import run
from p2p_labeldp.learning import fit_softmax, one_hot, trimmed_reports, unflip
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import Data, parse_scenario

Play = Callable[..., SimpleNamespace]


FRACTIONS = (0.05, 0.2, 0.5)


def test_liars_are_copied_so_that_few_of_them_count_about_twice() -> None:
    for share in (0.1, 0.5):
        for shifted in (poisoned_share, poisoned_share_alone):
            assert shifted(share, 0.0) == pytest.approx(share)
            assert shifted(share, 1.0) == 1.0
        for fraction in FRACTIONS:
            both = poisoned_share(share, fraction) - share
            assert both == pytest.approx((2 * fraction - fraction**2) * (1 - share))
            assert both == pytest.approx((2 - fraction) * (poisoned_share_alone(share, fraction) - share))
            for kept in ({"answers": False}, {"reports": False}):
                assert poisoned_share(share, fraction, **kept) == pytest.approx(poisoned_share_alone(share, fraction))


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize(("answers", "reports"), [(True, True), (True, False), (False, True)])
def test_shares_are_those_of_the_formula(fraction: float, answers: bool, reports: bool) -> None:
    """200 runs of a cluster of 500 with theta = .5: five standard errors, at most 6e-7 of each check."""
    size, alpha, parameters = 500, 0.1, Parameters(0.1, 0.5)
    labels = (np.arange(size) % 10 == 0).astype(np.int64)
    noisy = 0.1 * (1 - alpha) + 0.9 * alpha
    liars = np.arange(size) < fraction * size  # as many ones among them as among the others
    shares = []
    for seed in range(200):
        said = {"answers": answers, "reports": reports}
        _, reported = poisoned_reports(labels, np.zeros(size, int), parameters, SeededCoins(seed), liars, 1, **said)
        shares.append(reported.mean())
    error = float(np.std(shares) / np.sqrt(len(shares)))
    expected = poisoned_share(noisy, fraction, answers=answers, reports=reports)
    assert np.mean(shares) == pytest.approx(expected, abs=5 * error)
    assert error < 0.005


@pytest.mark.parametrize("keys", [{}, {"answers": False}, {"reports": False}])
def test_actors_and_arrays_lie_alike(keys: dict[str, bool], play: Play) -> None:
    played = play({"kind": "liars", "fraction": 0.3} | keys)
    liars = np.isin(np.arange(120), played.run.assignments[0].members)
    parameters = Parameters(0.2, 0.8, minimum_size=10)
    reports = poisoned_reports(
        played.run.dataset.labels, played.run.outcome.clusters, parameters, SeededCoins(0), liars, 1, **keys
    )
    assert Outcome(played.run.outcome.clusters, [reports]).sha256() == played.run.summary.noisy_sha256


# The model.

PARITY = """
[data]
name = "digits"
target = "parity"
[clusters]
count = 12
minimum_size = 50
[learner]
correct_flips = true
"""


def accuracy(fraction: float, **changes: Any) -> float:
    """Test accuracy through the actors' protocol with so many users who always say odd."""
    liars = [{"kind": "liars", "fraction": fraction, "label": 1}] if fraction else []
    return float(run(with_adversaries(parse_scenario(PARITY), *liars, **changes)).summary.accuracy)


def test_accuracy_falls_with_the_fraction_of_liars_through_the_actors_protocol() -> None:
    """Fixed seed; benchmarks/poisoning.py has the means over several."""
    honest, few, many = (accuracy(fraction) for fraction in (0.0, 0.2, 0.4))
    assert honest > 0.85
    assert honest - few > 0.1
    assert few - many > 0.05


def learned(seed: int, lying: bool, robust: float) -> float:
    """Test accuracy on smooth data, where all users of the cluster with the fewest ones say one, or nobody lies."""
    data = load(Data(name="synthetic", users=3000, groups=20, dimensions=4, sharpness=3.0), seed)
    assert data.given_clusters is not None
    clusters = data.given_clusters
    fewest = int(np.argmin(np.bincount(clusters, data.labels) / np.bincount(clusters)))
    liars = (clusters == fewest) & lying
    users, labels = poisoned_reports(data.labels, clusters, Parameters(0.1, 1.0), SeededCoins(seed), liars, 1)
    features, weights = data.features[users], np.ones(len(users))
    targets = trimmed_reports(one_hot(labels, 2), weights, clusters[users], features, robust)
    model = fit_softmax(features, unflip(targets, 0.1), 1e-4)
    return float((model.predict(data.test_features) == data.test_labels).mean())


def test_a_robust_learner_wins_back_most_of_what_one_lying_cluster_took_and_loses_little_else() -> None:
    """Means over six worlds, where clusters predict each other."""
    mean = {
        (lying, robust): float(np.mean([learned(seed, lying, robust) for seed in range(6)]))
        for lying in (False, True)
        for robust in (0.0, 0.05)
    }
    assert mean[False, 0.0] - mean[True, 0.0] > 0.03
    assert mean[False, 0.0] - mean[True, 0.05] < 0.015
    assert mean[False, 0.0] - mean[False, 0.05] < 0.01


def test_a_robust_learner_is_little_help_against_liars_in_all_clusters() -> None:
    assert accuracy(0.2, learner__robust=0.1) < accuracy(0.0) - 0.1
