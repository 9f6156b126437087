"""Coins: a user alone and a host for all its users draw the same bits; the system's randomness is uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, Philox
from scipy import stats

from p2p_labeldp.mechanisms import SeededCoins, SystemCoins, make_coins, randomness_of
from p2p_labeldp.mechanisms.coins import SeededRandomness, SystemRandomness
from p2p_labeldp.scenario import Coins
from p2p_labeldp.streams import Purpose

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


def test_these_bits_never_change() -> None:
    """Published results rest on them."""
    assert SeededCoins(2024).block(1, 5, 6)[0].tolist() == [
        0.9789174960520364, 0.8388275250642528, 0.5446861866004783, 0.8256314227468642,
    ]  # fmt: skip


@pytest.mark.parametrize(("byte", "coin"), [(b"\xff", 1 - 2**-53), (b"\x00", 0.0)])
def test_the_systems_coins_lie_from_zero_to_below_one(
    byte: bytes, coin: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", lambda size: byte * size)
    assert SystemCoins().block(0, 0, 1).tolist() == [[coin] * 4]


def test_the_systems_coins_differ_from_call_to_call() -> None:
    # Equal with probability below 1e-12.
    assert not np.intersect1d(SystemCoins().block(0, 0, 10), SystemCoins().block(0, 0, 10)).size


def test_a_scenario_names_its_coins() -> None:
    assert isinstance(make_coins("system", 3), SystemCoins)
    seeded = make_coins("seeded", 3)
    assert isinstance(seeded, SeededCoins)
    assert seeded.seed == 3


# The operating system's randomness differs from run to run: each of these fails by chance with probability 1e-10.

RARE = 1e-10


def test_the_systems_whole_numbers_are_uniform_below_their_bounds() -> None:
    system = SystemRandomness()
    assert stats.chisquare(np.bincount(system.integers(np.full(14_000, 7)), minlength=7)).pvalue > RARE
    bounds = np.array([[1, 2], [3, 2**53]])
    drawn = system.integers(bounds)
    assert drawn.shape == bounds.shape
    assert ((drawn >= 0) & (drawn < bounds)).all()


def test_words_that_would_favour_small_numbers_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^64 = 3 * (2^64 // 3) + 1, so that of all words 0 alone is one too many."""
    words = iter([0, 5])
    monkeypatch.setattr("os.urandom", lambda size: next(words).to_bytes(size, "little"))
    assert SystemRandomness().integers(np.array([3])).tolist() == [2]


def test_the_systems_uniform_numbers_are_uniform() -> None:
    assert stats.kstest(SystemRandomness().uniform(20_000), "uniform").pvalue > RARE


def test_the_systems_orders_are_equally_likely() -> None:
    system = SystemRandomness()
    orders = np.array([system.permutation(4) for _ in range(12_000)])
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    seen = np.unique(orders @ 4 ** np.arange(4), return_counts=True)[1]
    assert len(seen) == 24  # one of them is missing with probability below 1e-200
    assert stats.chisquare(seen).pvalue > RARE
    assert [system.permutation(count).tolist() for count in (0, 1)] == [[], [0]]


def test_equal_words_do_not_decide_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([[7, 7], [9, 3]])
    monkeypatch.setattr("os.urandom", lambda size: np.array(next(drawn), dtype="<u8").tobytes())
    assert SystemRandomness().permutation(2).tolist() == [1, 0]


def test_the_systems_normal_variates_are_normal() -> None:
    drawn = SystemRandomness().normal(2.5, (100, 200))
    assert drawn.shape == (100, 200)
    assert stats.kstest(drawn.ravel(), "norm", args=(0, 2.5)).pvalue > RARE
    # Neighbours are independent: a correlation of 19,999 pairs has standard error 1/141, and 7 of them have 3e-12.
    assert abs(np.corrcoef(drawn.ravel()[:-1], drawn.ravel()[1:])[0, 1]) < 7 / 141


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_the_furthest_normal_variates_are_finite(byte: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda size: byte * size)
    assert 8 < abs(float(SystemRandomness().normal(1.0, (1,))[0])) < 9


def test_a_scenario_names_its_randomness_and_purposes_do_not_share_it() -> None:
    assert isinstance(randomness_of(Coins("system", 3), Purpose.CURATOR), SystemRandomness)
    first, again, other = (
        randomness_of(Coins("seeded", 3), purpose) for purpose in (Purpose.CURATOR, Purpose.CURATOR, Purpose.LEARNER)
    )
    assert isinstance(first, SeededRandomness)
    drawn = first.uniform(50)
    assert np.array_equal(drawn, again.uniform(50))
    assert not np.intersect1d(drawn, other.uniform(50)).size
