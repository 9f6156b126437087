"""Exact Bernoulli draws for rational probabilities: whole numbers in, whole numbers out.

A probability that passed through a logarithm or a division is rounded, and what was rounded away can give a
label away (Mironov 2012). Here the only primitive is a ``Source`` of uniform whole numbers; every comparison is
between whole numbers. ``coins.Randomness.integers`` is such a source. Running times depend on the outcomes: no
defence against an observer with a stopwatch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Source = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Given bounds, uniform whole numbers: one from 0..bound-1 for each."""

_DIGIT = 53  # bits compared at a time; a float64 times 2^53 is exact
LARGEST_DENOMINATOR = 1 << 40  # leaves 2^23 for the factor k of `bernoulli_exp`, which passes 20 with chance 1/20!


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
