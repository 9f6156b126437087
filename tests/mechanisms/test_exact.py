"""Discrete Laplace noise: exact coins, the right distribution, and nothing that depends on floating point."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from p2p_labeldp.mechanisms.coins import SeededRandomness
from p2p_labeldp.mechanisms.exact import Source, bernoulli, bernoulli_exp, discrete_laplace, rational_scale

# Each chi-squared test below fails by chance once in a million seeds.
RARE = 1e-6


def scripted(values: tuple[int, ...]) -> Source:
    """A source that hands out given numbers, whatever the bound."""
    left = iter(values)
    return lambda bounds: np.array([next(left) for _ in bounds], dtype=np.int64)


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (2, 3), (3, 4)])
def test_the_coin_of_chance_exp_minus_x_is_exact(numerator: int, denominator: int) -> None:
    """Every outcome of the first four draws, weighed exactly: the series of exp(-x) up to its fourth term."""
    tosses = 4
    tree = itertools.product(*(range(denominator * k) for k in range(1, tosses + 1)))
    leaves = math.prod(denominator * k for k in range(1, tosses + 1))
    lands = undecided = 0
    for values in tree:
        if all(value < numerator for value in values):
            undecided += 1
            continue
        lands += int(bernoulli_exp(np.array([numerator]), denominator, scripted(values))[0])
    x = Fraction(numerator, denominator)
    series = sum((-x) ** k / math.factorial(k) for k in range(tosses))
    assert Fraction(lands, leaves) == series
    assert Fraction(undecided, leaves) == x**tosses / math.factorial(tosses)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_longer_tosses_leave_the_rest_of_the_series(numerator: int, denominator: int) -> None:
    """The k-th toss is the first to fail with probability x^(k-1)/(k-1)! - x^k/k!, and odd k land."""
    numerator = min(numerator, denominator)
    for failing in range(1, 6):
        bounds: list[int] = []

        def source(asked: NDArray[np.int64], failing: int = failing, bounds: list[int] = bounds) -> NDArray[np.int64]:
            bounds.append(int(asked[0]))
            return np.array([numerator - 1 if len(bounds) < failing else numerator])

        landed = bernoulli_exp(np.array([numerator]), denominator, source)[0]
        assert landed == (failing % 2 == 1)
        assert bounds == [denominator * k for k in range(1, failing + 1)]


@given(st.floats(0, 1))
def test_a_coin_lands_with_exactly_the_chance_its_float_denotes(chance: float) -> None:
    """Digit by digit: below the chance's digit it lands, above it does not, equal asks for the next digit."""
    exact = Fraction(chance)
    digits = []
    rest = exact
    while rest:
        digit, rest = divmod(rest * 2**53, 1)
        digits.append(int(digit))
    for place, digit in enumerate(digits):
        before = tuple(digits[:place])
        if digit > 0:
            assert bernoulli(np.array([chance]), scripted((*before, digit - 1)))[0]
        if digit < 2**53 - 1 and digit < 2**53:
            assert not bernoulli(np.array([chance]), scripted((*before, digit + 1)))[0]
    if chance < 1:
        assert not bernoulli(np.array([chance]), scripted((*digits, 0)))[0]


def test_a_coin_of_chance_0_never_lands_and_one_of_chance_1_always_does() -> None:
    source = SeededRandomness(np.random.default_rng(1)).integers
    assert not bernoulli(np.zeros(1000), source).any()
    assert bernoulli(np.ones(1000), source).all()


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 4 / 3, 8.0, 37.3, 1000.0])
def test_noise_has_the_discrete_laplace_distribution(scale: float) -> None:
    drawn = discrete_laplace(scale, 40_000, SeededRandomness(np.random.default_rng(5)).integers)
    assert fits(drawn, scale) > RARE


def fits(drawn: NDArray[np.int64], scale: float) -> float:
    """The chi-squared test's p-value against exp(-|z|/scale), cells merged until 10 are expected in each."""
    ratio = math.exp(-1 / scale)
    most = int(scale * 40) + 2
    values = np.arange(-most, most + 1)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values).astype(float)
    order = np.argsort(values, kind="stable")
    expected, observed, cells = 0.0, 0, []
    counts = {int(v): int(c) for v, c in zip(*np.unique(drawn, return_counts=True), strict=True)}
    assert all(abs(v) <= most for v in counts)
    for place in order:
        expected += mass[place] * len(drawn)
        observed += counts.get(int(values[place]), 0)
        if expected >= 10:
            cells.append((observed, expected))
            expected, observed = 0.0, 0
    last = cells.pop()
    cells.append((last[0] + observed, last[1] + expected))
    seen, awaited = np.array(cells).T
    return float(stats.chisquare(seen, awaited * seen.sum() / awaited.sum()).pvalue) if len(cells) > 1 else 1.0


@given(st.floats(2.0**-30, 2.0**40))
def test_a_scale_becomes_a_fraction_that_is_never_smaller(scale: float) -> None:
    numerator, denominator = rational_scale(scale)
    assert (
        Fraction(scale)
        <= Fraction(numerator, denominator)
        <= Fraction(scale) * (1 + Fraction(1, 10**9)) + Fraction(1, 2**61)
    )
    assert 0 < numerator <= 2**40


def test_scale_0_is_no_noise_and_an_infinite_scale_is_refused() -> None:
    source = SeededRandomness(np.random.default_rng(0)).integers
    assert not discrete_laplace(0.0, 5, source).any()
    for scale in (math.inf, math.nan, -1.0, 1e13):
        with pytest.raises(ValueError, match="scale"):
            discrete_laplace(scale, 5, source)
