"""A crowd is an ordinary data set, and any part of it can be made alone."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_labeldp.data import load, load_crowd
from p2p_labeldp.data.quality import phi
from p2p_labeldp.data.sets import crowd as module
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data


@given(
    st.integers(1, 2_000),
    st.floats(0, 1),
    st.sampled_from([2, 3, 10, 300]),
    st.integers(1, 400),
    st.integers(0, 2**63 - 1),
)
@settings(max_examples=20, deadline=None)
def test_any_groups_made_alone_are_those_of_the_whole(
    users: int, part: float, labels: int, step: int, seed: int
) -> None:
    data = Data(name="crowd", users=users, groups=max(1, round(part * users)), labels=labels, sharpness=2.0)
    whole, recipe = load(data, seed), load_crowd(data, seed)
    assert recipe.sizes.sum() == users
    assert np.ptp(recipe.sizes) <= 1
    made, clusters, following = [], [], 0
    for low in range(0, data.groups, step):
        people = pickle.loads(pickle.dumps(recipe.people(low, min(low + step, data.groups))))
        assert people.first == following
        following += people.users
        groups = people.groups()
        made.append(people.labels(groups))
        clusters.append(groups + low)
    assert np.array_equal(np.concatenate(made), whole.labels)
    assert np.array_equal(np.concatenate(clusters), whole.given_clusters)


def test_groups_beyond_a_tile_have_the_same_thresholds_whichever_are_asked_for() -> None:
    recipe = load_crowd(Data(name="crowd", users=9_000, groups=3 * module.TILE + 5, labels=7, dimensions=3), seed=2)
    whole = recipe.people(0, 3 * module.TILE + 5).thresholds
    for low, high in ((0, 1), (module.TILE - 1, module.TILE + 1), (17, 2 * module.TILE), (3 * module.TILE, len(whole))):
        assert np.array_equal(recipe.people(low, high).thresholds, whole[low:high])


def test_labels_are_drawn_from_the_conditional_in_every_group() -> None:
    made = load(Data(name="crowd", users=200_000, groups=20, labels=3), seed=1)
    for group in range(20):
        here = made.given_clusters == group
        chances = made.conditional[here][0]
        surprise = (np.bincount(made.labels[here], minlength=3) - here.sum() * chances) / np.sqrt(
            here.sum() * chances * (1 - chances)
        )
        assert np.abs(surprise).max() < 5.5  # of 60 numbers: error probability below 3e-6


def test_the_conditional_is_exact_so_that_groups_have_no_heterogeneity_at_all() -> None:
    made = load(Data(name="crowd", users=30_011, groups=13, labels=10, sharpness=3.0), seed=1)
    assert np.array_equal(made.conditional.sum(axis=1), np.ones(30_011))
    assert phi(made.conditional, made.given_clusters) == 0.0


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.97])
def test_the_mean_probability_of_label_1_is_the_rate(rate: float) -> None:
    made = load(Data(name="crowd", users=5_000, groups=50, rate=rate), seed=1)
    assert made.conditional[:, 1].mean() == pytest.approx(rate, abs=1e-6)


def test_test_examples_are_other_people_of_the_same_groups() -> None:
    made = load(Data(name="crowd", users=8_000, groups=4, labels=5, test_fraction=0.5), seed=1)
    assert np.array_equal(made.features, made.test_features)
    assert np.array_equal(made.conditional, made.test_conditional)
    assert not np.array_equal(made.labels, made.test_labels)


def test_seeds_give_different_crowds() -> None:
    one, other = (load(Data(name="crowd", users=1_000), seed).labels for seed in (1, 2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"users": 5, "groups": 6}, "data.groups = 6 is not allowed; it must be at most the users, 5"),
        ({"users": 10**12 + 1}, "a crowd has at most 1000000000000"),
        ({"users": 10**8 + 1}, "not allowed in one process; .*--dask"),
        ({"users": 10**6, "groups": 10**6, "dimensions": 101}, "data.dimensions = 101 is not allowed .* at most 100"),
        ({"target": "parity"}, "data.target"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_line(keys: dict[str, int], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        load(Data(name="crowd", **keys), seed=1)
