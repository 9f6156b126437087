"""The mechanism on arrays against a slow one written from the design's text."""

from __future__ import annotations

import hashlib
import importlib
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import Case, Reports, by_the_book, cases

from p2p_labeldp.mechanisms import Rosters, SeededCoins, SystemCoins, exchange, noisy_sha256
from p2p_labeldp.mechanisms.exchange import Release
from p2p_labeldp.privacy import Parameters

MODULE = importlib.import_module("p2p_labeldp.mechanisms.exchange")  # the room calls its function so, too


def run(
    labels: list[int] | NDArray[np.int64], clusters: list[int] | NDArray[np.int64], parameters: Parameters, seed: int
) -> list[Release]:
    rosters = Rosters.of(np.asarray(clusters, dtype=np.int64))
    return list(exchange(np.asarray(labels, dtype=np.int64), rosters, parameters, SeededCoins(seed)))


def reports_of(releases: list[Release]) -> Reports:
    return [
        (release.round, user, label)
        for release in releases
        for user, label in zip(release.users.tolist(), release.labels.tolist(), strict=True)
    ]


@settings(max_examples=200, deadline=None)
@given(case=cases(), seed=st.integers(0, 2**63 - 1), block=st.sampled_from([1, 2, 7, 1 << 15]))
@example(case=([0], [0], Parameters(0.5, 1.0)), seed=0, block=1)
@example(case=([255] * 20, [0] * 20, Parameters(1.0, 1.0, labels=256)), seed=1, block=7)
def test_everyone_at_once_gives_what_each_user_would_alone(case: Case, seed: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "BLOCK", block)
        assert reports_of(run(*case, seed)) == by_the_book(*case, seed)


@given(case=cases(), seed=st.integers(0, 2**32))
def test_true_labels_are_left_as_they_were(case: Case, seed: int) -> None:
    labels, clusters, parameters = case
    small = np.array(labels, dtype=np.min_scalar_type(parameters.labels - 1))
    before = small.copy()
    list(exchange(small, Rosters.of(np.array(clusters)), parameters, SeededCoins(seed)))
    assert np.array_equal(small, before)


# Rosters


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_a_roster_lists_the_members_of_a_cluster_in_ascending_order(clusters: list[int]) -> None:
    rosters = Rosters.of(np.array(clusters))
    for cluster in range(max(clusters) + 1):
        expected = [user for user, own in enumerate(clusters) if own == cluster]
        assert rosters.roster(cluster).tolist() == expected
        assert rosters.sizes[cluster] == len(expected)


# The corners


def test_a_flip_never_keeps_the_label() -> None:
    noisy = run(np.arange(3000) % 10, [0] * 3000, Parameters(1.0, 1.0, labels=10), 4)[0].noisy
    assert (noisy != np.arange(3000) % 10).all()
    assert noisy.max() < 10


def test_the_systems_coins_serve_too() -> None:
    rosters = Rosters.of(np.zeros(50, dtype=np.int64))
    release = next(exchange(np.arange(50), rosters, Parameters(0.0, 1.0, labels=50), SystemCoins()))
    assert release.users.tolist() == list(range(50))


def test_no_users_give_no_reports() -> None:
    releases = run([], [], Parameters(0.1, 1.0), 0)
    assert reports_of(releases) == []


# The digest


def test_the_digest_is_over_all_ids_and_then_all_labels_as_little_endian_int64() -> None:
    rounds: list[tuple[NDArray[np.integer], NDArray[np.integer]]] = [
        (np.array([0, 2]), np.array([1, 0], dtype=np.uint8)),
        (np.array([1], dtype=np.int32), np.array([7], dtype=np.uint16)),
    ]
    by_hand = struct.pack("<qqq", 0, 2, 1) + struct.pack("<qqq", 1, 0, 7)
    assert noisy_sha256(rounds) == hashlib.sha256(by_hand).hexdigest()


def test_the_digest_of_nothing_is_that_of_no_bytes() -> None:
    empty = np.array([], dtype=np.int64)
    assert noisy_sha256([(empty, empty)]) == noisy_sha256([]) == hashlib.sha256(b"").hexdigest()


def test_the_digest_does_not_depend_on_how_long_columns_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = (np.arange(10), np.arange(10) % 3)
    whole = noisy_sha256([pair])
    monkeypatch.setattr(MODULE, "BLOCK", 3)
    assert noisy_sha256([pair]) == whole
