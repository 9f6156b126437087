"""Coins: a user alone and a host for all its users draw the same bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, Philox
from scipy import stats

from p2p_labeldp.mechanisms import SeededCoins, SystemCoins, make_coins

seeds = st.integers(0, 2**63 - 1)
rounds = st.integers(0, 9_999)


@given(seed=seeds, round_=rounds, start=st.integers(0, 2**40), count=st.integers(0, 20))
def test_a_block_holds_what_each_user_computes_alone(seed: int, round_: int, start: int, count: int) -> None:
    block = SeededCoins(seed).block(round_, start, start + count)
    alone = [Generator(Philox(key=[seed, round_], counter=i)).random(4).tolist() for i in range(start, start + count)]
    assert block.tolist() == alone


@given(seed=seeds, round_=rounds, count=st.integers(1, 50))
def test_the_first_users_block_is_the_stream_from_its_beginning(seed: int, round_: int, count: int) -> None:
    stream = Generator(Philox(key=[seed, round_])).random(4 * count).reshape(count, 4)
    assert np.array_equal(SeededCoins(seed).block(round_, 0, count), stream)


@given(seed=seeds, cuts=st.lists(st.integers(0, 40), max_size=5))
def test_blocks_may_be_cut_anywhere(seed: int, cuts: list[int]) -> None:
    coins = SeededCoins(seed)
    edges = [0, *sorted(cuts), 40]
    parts = [coins.block(2, start, stop) for start, stop in pairwise(edges)]
    assert np.array_equal(np.concatenate(parts), coins.block(2, 0, 40))


def test_a_block_drawn_twice_is_the_same() -> None:
    coins = SeededCoins(7)
    assert np.array_equal(coins.block(0, 3, 9), coins.block(0, 3, 9))


def test_no_coin_appears_twice_over_users_rounds_and_seeds() -> None:
    # Among 24,000 uniform 53-bit numbers some two are equal with probability below 1e-7.
    drawn = [SeededCoins(seed).block(round_, 0, 1000) for seed in (0, 1) for round_ in (0, 1, 2)]
    assert len(np.unique(np.concatenate(drawn))) == 24_000


def test_these_bits_never_change() -> None:
    """Published results rest on them."""
    assert SeededCoins(2024).block(1, 5, 6)[0].tolist() == [
        0.9789174960520364, 0.8388275250642528, 0.5446861866004783, 0.8256314227468642,
    ]  # fmt: skip


@settings(max_examples=20)
@given(start=st.integers(0, 10**9), count=st.integers(0, 200))
def test_the_systems_coins_lie_from_zero_to_below_one(start: int, count: int) -> None:
    block = SystemCoins().block(0, start, start + count)
    assert block.shape == (count, 4)
    assert ((block >= 0) & (block < 1)).all()


def test_the_largest_word_of_the_system_is_still_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda size: b"\xff" * size)
    assert SystemCoins().block(0, 0, 1).tolist() == [[1 - 2**-53] * 4]


def test_the_smallest_word_of_the_system_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    assert SystemCoins().block(0, 0, 1).tolist() == [[0.0] * 4]


def test_the_systems_coins_differ_from_call_to_call() -> None:
    # Equal with probability below 1e-12.
    assert not np.intersect1d(SystemCoins().block(0, 0, 10), SystemCoins().block(0, 0, 10)).size


def test_a_scenario_names_its_coins() -> None:
    assert isinstance(make_coins("system", 3), SystemCoins)
    seeded = make_coins("seeded", 3)
    assert isinstance(seeded, SeededCoins)
    assert seeded.seed == 3


@pytest.mark.parametrize("column", range(4))
def test_every_column_is_uniform(column: int) -> None:
    # Kolmogorov-Smirnov at a fixed seed; a uniform column fails with probability 1e-4.
    assert stats.kstest(SeededCoins(11).block(0, 0, 20_000)[:, column], "uniform").pvalue > 1e-4


def test_the_columns_and_neighbouring_users_are_uncorrelated() -> None:
    # 28 correlations of 20,000 pairs; each has standard error 0.0071, so 5 of them fail with probability below 2e-5.
    block = SeededCoins(12).block(0, 0, 20_001)
    both = np.asarray(np.corrcoef(np.hstack([block[:-1], block[1:]]).T))
    assert np.abs(both[np.triu_indices(8, 1)]).max() < 5 / np.sqrt(20_000)
