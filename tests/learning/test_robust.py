"""A learner who doubts clusters that stand out: what she gives back, and when it helps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from p2p_labeldp.learning import one_hot, trimmed_reports
from p2p_labeldp.learning.robust import leftovers

Doubles = NDArray[np.float64]


def shares_of(targets: Doubles, weights: Doubles, clusters: NDArray[np.int64]) -> Doubles:
    rows = [
        np.average(targets[clusters == c], axis=0, weights=weights[clusters == c]) for c in range(clusters.max() + 1)
    ]
    return np.array(rows)


def smooth(clusters: int = 20, size: int = 50, labels: int = 2) -> tuple[Doubles, Doubles, NDArray[np.int64], Doubles]:
    """Clusters along a line whose share of label 1 rises from .1 to .9; targets, weights, clusters, features."""
    place = np.repeat(np.arange(clusters), size)
    ones = np.round(size * np.linspace(0.1, 0.9, clusters)).astype(int)
    reported = (np.tile(np.arange(size), clusters) < ones[place]).astype(np.int64)
    return one_hot(reported, labels), np.ones(len(place)), place, place[:, None].astype(np.float64)


def poisoned(cluster: int, share: float) -> tuple[Doubles, Doubles, NDArray[np.int64], Doubles]:
    targets, weights, place, features = smooth()
    mine = np.flatnonzero(place == cluster)
    targets[mine] = one_hot((np.arange(len(mine)) < share * len(mine)).astype(np.int64), 2)
    return targets, weights, place, features


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 5), st.floats(0.01, 0.49))
@settings(max_examples=60, deadline=None)
def test_rows_sum_to_one_and_nothing_is_negative(seed: int, clusters: int, labels: int, robust: float) -> None:
    draw = np.random.default_rng(seed)
    place = np.concatenate([np.arange(clusters), draw.integers(0, clusters, 60)])
    weights = draw.integers(1, 4, len(place)).astype(np.float64)
    reported = draw.random((clusters, labels)) < 0.7  # labels that some clusters never report
    reported[:, 0] |= ~reported.any(axis=1)
    raw = draw.random((len(place), labels)) * reported[place]
    targets = raw / raw.sum(axis=1, keepdims=True)
    features = draw.standard_normal((len(place), 3))
    moved = trimmed_reports(targets, weights, place, features, robust)
    np.testing.assert_allclose(moved.sum(axis=1), 1.0)
    assert (moved >= 0).all()
    changed = (shares_of(moved, weights, place) != shares_of(targets, weights, place)).any(axis=1)
    assert changed.sum() <= np.ceil(robust * clusters)


@pytest.mark.parametrize("share", [0.8, 1.0])
def test_one_lying_cluster_is_brought_back_towards_where_its_neighbours_point(share: float) -> None:
    targets, weights, place, features = poisoned(3, share)
    honest = shares_of(*smooth()[:3])
    assert honest[3, 1] == pytest.approx(0.22, abs=0.01)
    after = shares_of(trimmed_reports(targets, weights, place, features, 0.05), weights, place)
    assert after[3, 1] == pytest.approx(honest[3, 1], abs=0.15)
    others = np.arange(20) != 3
    np.testing.assert_allclose(after[others], honest[others])


def test_when_nobody_stands_out_next_to_nothing_changes() -> None:
    targets, weights, place, features = smooth()
    moved = trimmed_reports(targets, weights, place, features, 0.2)
    assert np.abs(shares_of(moved, weights, place) - shares_of(targets, weights, place)).max() < 0.02


def test_a_lie_that_all_clusters_share_does_not_stand_out() -> None:
    """Label 1 pushed by liars in every cluster: shares rise alike, and stay."""
    targets, weights, place, features = smooth()
    lying = np.arange(len(place)) % 4 == 0
    targets[lying] = [0.0, 1.0]
    moved = trimmed_reports(targets, weights, place, features, 0.1)
    before, after = (shares_of(each, weights, place)[:, 1].mean() for each in (targets, moved))
    assert before > smooth()[0][:, 1].mean() + 0.1
    assert after == pytest.approx(before, abs=0.01)


def test_with_one_cluster_there_is_nothing_to_compare() -> None:
    targets, weights, place, features = smooth(clusters=1)
    assert trimmed_reports(targets, weights, place, features, 0.49) is targets


def test_leaving_a_cluster_out_is_really_leaving_it_out() -> None:
    """Where features tell nothing the prediction is the mean of the others, each with its weight."""
    shares = np.array([[0.1, 0.9], [0.3, 0.7], [0.8, 0.2]])
    centres, mass = np.zeros((3, 2)), np.array([10.0, 20.0, 30.0])
    expected = [shares[c] - np.average(np.delete(shares, c, 0), axis=0, weights=np.delete(mass, c)) for c in range(3)]
    np.testing.assert_allclose(leftovers(shares, centres, mass), expected)


def test_leftovers_are_those_of_fits_without_the_cluster() -> None:
    """Against ridge regressions that are fitted anew for each cluster, at the strength that was chosen."""
    draw = np.random.default_rng(0)
    centres, mass = draw.standard_normal((12, 3)), draw.integers(5, 50, 12).astype(np.float64)
    shares = np.stack([1 - (p := 1 / (1 + np.exp(-centres[:, 0]))), p], axis=1)
    found = leftovers(shares, centres, mass)
    part = mass / mass.sum()
    middle = part @ centres
    largest = np.linalg.eigvalsh(
        (np.sqrt(part)[:, None] * (centres - middle)) @ (np.sqrt(part)[:, None] * (centres - middle)).T
    )[-1]

    def refit(strength: float) -> Doubles:
        left = []
        for c in range(12):
            keep = np.arange(12) != c
            design = np.hstack([np.ones((12, 1)), centres - middle])
            penalty = strength * largest * np.diag([0.0, 1, 1, 1])
            scaled = design[keep] * part[keep, None]
            left.append(
                shares[c] - design[c] @ np.linalg.solve(scaled.T @ design[keep] + penalty, scaled.T @ shares[keep])
            )
        return np.array(left)

    assert any(np.allclose(found, refit(strength)) for strength in 10.0 ** np.arange(-5, 3))
    assert np.abs(found).max() < np.abs(shares - part @ shares).max() / 2, "features do tell something here"
