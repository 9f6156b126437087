"""Excess risk as the paper's Table 1 and its corollaries state it: rates with their conditions, for comparison.

A rate is what stands inside O(...): constants and logarithms are left out, so that rates can be compared with each
other and with slopes, never with a measured risk. ``n`` is the size of the training set, ``d`` the dimension of the
hypothesis class, ``K`` the number of labels, ``s`` the smallest cluster, ``phi`` the clusters' heterogeneity. Where a
rate's conditions do not hold it is None. Beimel, Nissim and Stemmer (2013) and Bassily, Thakkar and Thakurta (2018)
are quoted from that table, not from their own papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """What rates are evaluated at."""

    n: int
    d: float
    epsilon: float
    labels: int = 2
    phi: float = 0.0
    s: int = 1


@dataclass(frozen=True)
class Rate:
    """One row of the table."""

    name: str
    formula: str
    conditions: str
    value: Callable[[Setting], float]
    applies: Callable[[Setting], bool] = lambda at: True

    def __call__(self, at: Setting) -> float | None:
        """The rate there; None where its conditions do not hold."""
        return self.value(at) if self.applies(at) else None


def _large(at: Setting, least: float) -> bool:
    """Whether every cluster has at least so many users; with phi = 0 no size is enough for what divides by it."""
    return at.phi > 0 and at.s >= least * (1 - 1e-12)


def residual(phi: float, epsilon: float) -> float:
    """What is left of the centralized mechanism's excess risk however many users there are, without K^2."""
    return phi / (1 + math.expm1(epsilon) * phi)


RATES: tuple[Rate, ...] = (
    Rate("not private", "sqrt(d/n)", "none", lambda at: math.sqrt(at.d / at.n)),
    Rate(
        "Beimel et al. (2013)",
        "sqrt(d/(epsilon n))",
        "two labels; exponential time",
        lambda at: math.sqrt(at.d / (at.epsilon * at.n)),
        lambda at: at.labels == 2,
    ),
    Rate(
        "Bassily et al. (2018)",
        "d^(3/5)/(epsilon n)^(2/5)",
        "two labels",
        lambda at: math.pow(at.d, 0.6) / math.pow(at.epsilon * at.n, 0.4),
        lambda at: at.labels == 2,
    ),
    Rate(
        "uniform randomized response",
        "(K/epsilon) sqrt(d/n)",
        "epsilon < 1 (Corollary 1)",
        lambda at: at.labels / at.epsilon * math.sqrt(at.d / at.n),
        lambda at: at.epsilon < 1,
    ),
    Rate(
        "centralized mechanism",
        "K sqrt(d/n) + K^2 phi/(1 + (e^epsilon - 1) phi)",
        "s >= 1/(phi epsilon); costs 3 epsilon, corrected",
        lambda at: at.labels * math.sqrt(at.d / at.n) + at.labels**2 * residual(at.phi, at.epsilon),
        lambda at: _large(at, 1 / (at.phi * at.epsilon) if at.phi else math.inf),
    ),
    Rate(
        "peer-to-peer mechanism",
        "sqrt(d/(epsilon n)) + phi",
        "two labels; epsilon < 1; s >= 1/(phi epsilon^2); delta = 1/s^2",
        lambda at: math.sqrt(at.d / (at.epsilon * at.n)) + at.phi,
        lambda at: (
            at.labels == 2 and at.epsilon < 1 and _large(at, 1 / (at.phi * at.epsilon**2) if at.phi else math.inf)
        ),
    ),
)


def exchanged_epsilon_rate(s: int, theta: float) -> float:
    """The order of epsilon in the peer-to-peer mechanism's theorem, at its own alpha and delta = 1/s^2."""
    return theta + math.pow(theta, 1.5) / (math.sqrt(s) * math.log(s)) + math.pow(theta, 0.75) / math.pow(s, 0.25)


def distortion_bound(labels: int, tau: float, sigma: float, s: int) -> float:
    """psi's bound, 2 K tau + 2 sqrt(2) K sigma / s: no rate, a number."""
    return 2 * labels * tau + 2 * math.sqrt(2) * labels * sigma / s
