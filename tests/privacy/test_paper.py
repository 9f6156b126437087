"""What the paper proves, and where it applies."""

import math

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


def test_the_centralized_formula_at_its_ends():
    assert paper.centralized_epsilon(math.inf, 0.5, 1.0) == 0
    assert paper.centralized_epsilon(0.0, 0.5, 1.0) == math.inf
    assert paper.centralized_epsilon(1.0, 0.0, 0.5) == math.inf
    epsilon, labels = 1.3, 4
    chance = labels / (labels - 1 + math.exp(epsilon))
    assert paper.centralized_epsilon(math.inf, 1 / labels, chance) == pytest.approx(epsilon)
