"""What the paper proves, within the domain of its lemmas, for comparison with the exact numbers.

Peer-to-peer mechanism (two labels, one round, alpha <= 1/2): a general lemma and a theorem. Both return
None where they do not apply. Centralized mechanism: the theorem as printed is **wrong**; it takes the sensitivity
of a cluster's histogram to be 1/n, but replacing a label lowers one cell and raises another, so it is 2/n.
"""

import math


def lemma_epsilon(cluster_size: int, alpha: float, theta: float, delta: float) -> float | None:
    """The general lemma's epsilon at ``delta``; None outside its domain.

    epsilon = theta log(e + 3/(n alpha)) + sqrt(theta) xi log(1 + 3/sqrt(n alpha)) where
    delta = exp(-alpha xi^2 / (4 (alpha + 1/n)(1 - alpha))), n >= 2/alpha, xi <= 3 alpha sqrt(theta n (1 - alpha)).
    """
    n = cluster_size
    if not 0 < alpha <= 0.5 or n * alpha < 2 or not 0 < delta <= 1:
        return None
    xi = math.sqrt(-math.log(delta) * 4 * (alpha + 1 / n) * (1 - alpha) / alpha)
    if xi > 3 * alpha * math.sqrt(theta * n * (1 - alpha)):
        return None
    return lemma_formula(n, alpha, theta, xi)


def lemma_formula(cluster_size: int, alpha: float, theta: float, xi: float) -> float:
    """The lemma's expression, whether or not it applies."""
    mass = cluster_size * alpha
    return theta * math.log(math.e + 3 / mass) + math.sqrt(theta) * xi * math.log1p(3 / math.sqrt(mass))


def theorem_alpha(cluster_size: int, theta: float) -> float | None:
    """The flip probability that the theorem prescribes, 4 sqrt(2) log(n)/sqrt(theta n); None where it exceeds 1/2."""
    if theta <= 0 or cluster_size < 2:
        return None
    alpha = 4 * math.sqrt(2) * math.log(cluster_size) / math.sqrt(theta * cluster_size)
    return alpha if alpha <= 0.5 else None


def centralized_epsilon(sigma: float, tau: float, chance: float) -> float:
    """The centralized mechanism's epsilon, corrected: 2/sigma + log(1 + (1 - lambda)/(lambda tau)).

    ``chance`` is lambda, the probability that a label is replaced by a draw from its cluster's histogram.
    """
    return _noise_cost(2.0, sigma) + _resampling_cost(tau, chance)


def centralized_epsilon_as_printed(sigma: float, tau: float, chance: float) -> float:
    """The paper's 1/sigma + log(1 + (1 - lambda)/(lambda tau)). Too small: for comparison only."""
    return _noise_cost(1.0, sigma) + _resampling_cost(tau, chance)


def _noise_cost(sensitivity: float, sigma: float) -> float:
    return sensitivity / sigma if sigma > 0 else math.inf


def _resampling_cost(tau: float, chance: float) -> float:
    if chance >= 1:
        return 0.0
    if chance <= 0 or tau <= 0:
        return math.inf
    return math.log1p((1 - chance) / (chance * tau))
