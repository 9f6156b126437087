"""What the paper proves, where it applies, and the counterexample to its centralized theorem."""

import math

import numpy as np
import pytest

from p2p_labeldp.privacy import paper


def test_the_lemma_applies_only_in_its_domain():
    assert paper.lemma_epsilon(1000, 0.1, 1.0, 1e-6) == pytest.approx(2.87, abs=5e-3)
    assert paper.lemma_epsilon(200, 0.1, 1.0, 1 / 200**2) is None
    assert paper.lemma_epsilon(500, 0.1, 1.0, 4e-6) is None
    assert paper.lemma_epsilon(200, 0.9, 0.05, 1e-6) is None
    assert paper.lemma_epsilon(10, 0.1, 1.0, 0.5) is None
    assert paper.lemma_epsilon(1000, 0.1, 1.0, 0.0) is None


def test_outside_its_domain_the_lemma_would_say():
    for cluster_size, value in ((200, 4.30), (500, 3.41)):
        delta = 1 / cluster_size**2
        xi = math.sqrt(-math.log(delta) * 4 * (0.1 + 1 / cluster_size) * 0.9 / 0.1)
        assert paper.lemma_formula(cluster_size, 0.1, 1.0, xi) == pytest.approx(value, abs=5e-3)


def test_the_theorem_needs_thousands_of_users():
    assert paper.theorem_alpha(11_000, 1.0) is None
    assert paper.theorem_alpha(11_400, 1.0) == pytest.approx(0.5, abs=0.01)
    assert paper.theorem_alpha(185_000, 0.1) is None
    assert paper.theorem_alpha(194_000, 0.1) <= 0.5


def all_zeros(ones, cluster_size=200, sigma=2.0, tau=0.05, chance=0.99):
    """log P(every noisy label is 0) under the centralized mechanism: an integral over its two Laplace draws.

    Gauss-Legendre on panels that end at the density's kink; the integrand's own kinks are narrow panels apart.
    """
    scale = sigma / cluster_size
    edges = np.linspace(-1.2, 1.2, 481)
    nodes, weights = np.polynomial.legendre.leggauss(4)
    half = np.diff(edges)[:, None] / 2
    noise = (edges[:-1, None] + half * (1 + nodes)).ravel()
    log_mass = np.log((half * weights).ravel()) - np.abs(noise) / scale - math.log(2 * scale)
    share = ones / cluster_size
    zero = np.clip(1 - share + noise, tau, 1)[:, None]
    one = np.clip(share + noise, tau, 1)[None, :]
    gap = 1 - zero - one
    slack_zero, slack_one = np.where(gap < 0, zero - tau, 1 - zero), np.where(gap < 0, one - tau, 1 - one)
    total = slack_zero + slack_one
    moved = np.where(total > 0, slack_zero / np.where(total > 0, total, 1.0) * gap, 0.0)
    q = zero + moved
    log_event = (cluster_size - ones) * np.log(1 - chance + chance * q) + ones * np.log(chance * q)
    log_terms = log_event + log_mass[:, None] + log_mass[None, :]
    top = log_terms.max()
    return top + math.log(np.exp(log_terms - top).sum())


def test_the_centralized_theorem_as_printed_is_wrong():
    ratio = all_zeros(100) - all_zeros(101)
    printed = paper.centralized_epsilon_as_printed(2.0, 0.05, 0.99)
    corrected = paper.centralized_epsilon(2.0, 0.05, 0.99)
    assert ratio == pytest.approx(1.01, abs=0.01)
    assert printed == pytest.approx(0.684, abs=1e-3)
    assert corrected == pytest.approx(1.184, abs=1e-3)
    assert printed < ratio < corrected


def test_the_centralized_formula_at_its_ends():
    assert paper.centralized_epsilon(math.inf, 0.5, 1.0) == 0
    assert paper.centralized_epsilon(0.0, 0.5, 1.0) == math.inf
    assert paper.centralized_epsilon(1.0, 0.0, 0.5) == math.inf
    epsilon, labels = 1.3, 4
    chance = labels / (labels - 1 + math.exp(epsilon))
    assert paper.centralized_epsilon(math.inf, 1 / labels, chance) == pytest.approx(epsilon)
