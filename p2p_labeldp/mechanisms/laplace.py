"""Laplace noise on whole numbers, exact for counts.

Discrete Laplace noise of scale t takes the value z with probability proportional to exp(-|z|/t), so counts that
move by d in total have distributions within a factor e^(d/t) of each other, like the continuous noise of the same
scale. It is drawn by whole-number arithmetic alone (Canonne, Kamath and Steinke 2020, algorithm 2), so the guarantee
is that of the program and not only that of the formula. Its mean absolute value is 1/sinh(1/t), a little less
than t.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.exact import LARGEST_DENOMINATOR, Source, bernoulli_exp

LARGEST_SCALE = float(LARGEST_DENOMINATOR)
SMALLEST_SCALE = 2.0**-30  # below it no noise is ever seen: chances of exp(-2^30)


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
