"""Exact draws: Bernoulli for rational probabilities, and Laplace noise on whole numbers.

A probability that passed through a logarithm or a division is rounded, and what was rounded away can give a
label away (Mironov 2012). Here the only primitive is a ``Source`` of uniform whole numbers; every comparison is
between whole numbers. ``coins.Randomness.integers`` is such a source. Running times depend on the outcomes: no
defence against an observer with a stopwatch.

Discrete Laplace noise of scale t takes the value z with probability proportional to exp(-|z|/t), so counts that
move by d in total have distributions within a factor e^(d/t) of each other, like the continuous noise of the same
scale. It is drawn by whole-number arithmetic alone (Canonne, Kamath and Steinke 2020, algorithm 2), so the guarantee
is that of the program and not only that of the formula. Its mean absolute value is 1/sinh(1/t), a little less
than t.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Source = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Given bounds, uniform whole numbers: one from 0..bound-1 for each."""

_DIGIT = 53  # bits compared at a time; a float64 times 2^53 is exact
LARGEST_DENOMINATOR = 1 << 40  # leaves 2^23 for the factor k of `bernoulli_exp`, which passes 20 with chance 1/20!
LARGEST_SCALE = float(LARGEST_DENOMINATOR)
SMALLEST_SCALE = 2.0**-30  # below it no noise is ever seen: chances of exp(-2^30)


def bernoulli(chance: NDArray[np.float64], source: Source) -> NDArray[np.bool_]:
    """True with exactly the probability that each float in 0..1 denotes, however small.

    The binary digits of a uniform number are compared with those of the chance, 53 at a time, until they differ.
    """
    result = np.zeros(len(chance), dtype=np.bool_)
    pending, rest = np.arange(len(chance)), chance
    while len(pending):
        scaled = rest * 2.0**_DIGIT
        digit = np.floor(scaled)
        drawn = source(np.full(len(pending), 1 << _DIGIT, dtype=np.int64))
        result[pending] = drawn < digit
        # Equal so far; with nothing left to compare the uniform number is not below the chance.
        tied = (drawn == digit) & (scaled > digit)
        pending, rest = pending[tied], (scaled - digit)[tied]
    return result


def bernoulli_exp(numerator: NDArray[np.int64], denominator: int, source: Source) -> NDArray[np.bool_]:
    """True with probability exp(-numerator/denominator), exactly; numerators from 0 to the denominator.

    Canonne, Kamath and Steinke (2020), algorithm 1: toss coins of chance x/1, x/2, x/3, ... until one fails. The k-th
    is the first to fail with probability x^(k-1)/(k-1)! - x^k/k!; over odd k that adds up to the series of exp(-x).
    """
    result = np.zeros(len(numerator), dtype=np.bool_)
    pending, toss = np.arange(len(numerator)), 0
    while len(pending):
        toss += 1
        goes_on = source(np.full(len(pending), denominator * toss, dtype=np.int64)) < numerator[pending]
        result[pending[~goes_on]] = toss % 2 == 1
        pending = pending[goes_on]
    return result


def rational_scale(scale: float) -> tuple[int, int]:
    """The scale as numerator and denominator, rounded up by less than 1e-9 of it: never less noise than asked for."""
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise ValueError(f"a scale of discrete noise must be 0 or from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}")
    _, exponent = math.frexp(scale)
    power = min(max(31 - exponent, 0), 61)
    numerator, denominator = math.ceil(math.ldexp(scale, power)), 1 << power
    shared = math.gcd(numerator, denominator)
    return numerator // shared, denominator // shared


def discrete_laplace(scale: float, count: int, source: Source) -> NDArray[np.int64]:
    """``count`` independent draws; scale 0 is no noise. An infinite scale has no distribution on the whole numbers."""
    drawn = np.zeros(count, dtype=np.int64)
    if scale == 0:
        return drawn
    numerator, denominator = rational_scale(scale)
    pending = np.arange(count)
    while len(pending):
        # Geometric with ratio exp(-1/numerator): a remainder below the numerator, and a quotient.
        remainder = source(np.full(len(pending), numerator, dtype=np.int64))
        accepted = bernoulli_exp(remainder, numerator, source)
        places, remainder = pending[accepted], remainder[accepted]
        # Every denominator-th value of it is geometric with ratio exp(-denominator/numerator).
        size = (remainder + numerator * _quotients(len(places), source)) // denominator
        negative = source(np.full(len(places), 2, dtype=np.int64)) == 1
        # Zero would come up with both signs, and so twice as often as it should.
        kept = ~(negative & (size == 0))
        drawn[places[kept]] = np.where(negative, -size, size)[kept]
        pending = np.concatenate([pending[~accepted], places[~kept]])
    return drawn


def _quotients(count: int, source: Source) -> NDArray[np.int64]:
    """How many coins of chance 1/e succeed before the first that fails."""
    quotients = np.zeros(count, dtype=np.int64)
    pending = np.arange(count)
    while len(pending):
        pending = pending[bernoulli_exp(np.ones(len(pending), dtype=np.int64), 1, source)]
        quotients[pending] += 1
    return quotients
