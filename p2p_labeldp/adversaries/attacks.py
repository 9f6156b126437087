"""Attacks: which of two labels the victim holds, decided from a view and nothing else.

Every attack gives a score, larger where the second candidate is the likelier. `LIKELIHOOD_RATIO` is the best there
is against an honest run: its score is the logarithm of P(view | second) / P(view | first), so that by the lemma of
Neyman and Pearson nobody does better at any false positive rate.

* Her noisy label was seen for what it is (every view but learner and shuffle): the ratio of the flip,
  (1 - alpha) / (alpha / (labels - 1)) for or against, however often it was seen. Nothing else matters then. Should
  she have shown different labels on one flip, each is taken for a flip of its own.
* It was not: the reports are draws from the pool's noisy labels, some of which a coalition knows, and the ratio is
  that of the mixtures over the noisy labels that are hidden (``distributions``).
* Fresh noise: the rounds' logarithms add up.

The other attacks are those that one would try first, and see fail: they take a label for hers because the cluster or
she herself reported it, or they average her answers, which works only on a user with new noise for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.distributions import CERTAIN, log_ratios
from p2p_labeldp.adversaries.evidence import Evidence, evidence_of
from p2p_labeldp.audit.views import View
from p2p_labeldp.privacy import Parameters

Candidates = tuple[int, int]
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Attack:
    """A function of a view and a victim."""

    name: str
    score: Callable[[Evidence, Candidates], Scores]
    weighs: bool = False
    """Whether the score is a logarithm of likelihoods, to be weighed against the prior's."""

    def __call__(self, view: View, victim: int, candidates: Candidates = (0, 1)) -> float:
        """The score of one victim."""
        return float(self.score(evidence_of(view, victim), candidates)[0])

    def decides(self, scores: Scores, prior: float) -> NDArray[np.bool_]:
        """Whether to name the second candidate, whose probability beforehand is ``prior``; a tie goes to the prior."""
        odds = math.log(prior) - math.log1p(-prior) if self.weighs and 0 < prior < 1 else 0.0
        return np.greater_equal(scores, -odds) if prior > 0.5 else np.greater(scores, -odds)


def flip_ratio(parameters: Parameters) -> float:
    """The logarithm of the odds that a noisy label is the true one rather than some other given one."""
    stays, moves = 1 - parameters.alpha, parameters.alpha / (parameters.labels - 1)
    if min(stays, moves) == 0:
        return CERTAIN if stays > 0 else -CERTAIN
    return math.log(stays) - math.log(moves)


def _votes(counts: NDArray[np.int64], candidates: Candidates) -> Scores:
    """How many more for the second candidate, in each block."""
    first, second = candidates
    difference: Scores = np.subtract(counts[..., second], counts[..., first], dtype=np.float64)
    return difference


def _likelihood_ratio(evidence: Evidence, candidates: Candidates) -> Scores:
    votes = _votes(evidence.seen, candidates)
    agree = (evidence.seen > 0).sum(axis=2) == 1
    by_flips = flip_ratio(evidence.parameters) * np.where(agree, np.sign(votes), votes)
    is_seen = evidence.seen.any(axis=2)
    scores = np.where(is_seen, by_flips, 0.0)
    for shuffled in (False, True):
        open_blocks = ~is_seen & evidence.drawn.any(axis=2) & (evidence.shuffled == shuffled)
        scores[open_blocks] = log_ratios(
            evidence.parameters,
            evidence.pool,
            evidence.drawn[open_blocks],
            evidence.known[open_blocks],
            evidence.hidden[open_blocks],
            candidates,
            shuffled=shuffled,
        )
    total: Scores = np.clip(scores, -CERTAIN, CERTAIN).sum(axis=1)
    return total


def _averaging(evidence: Evidence, candidates: Candidates) -> Scores:
    total: Scores = flip_ratio(evidence.parameters) * _votes(evidence.seen, candidates).sum(axis=1)
    return total


def _majority(evidence: Evidence, candidates: Candidates) -> Scores:
    total: Scores = _votes(evidence.reported, candidates).sum(axis=1)
    return total


def _face_value(evidence: Evidence, candidates: Candidates) -> Scores:
    total: Scores = _votes(evidence.own, candidates).sum(axis=1)
    return total


def _prior(evidence: Evidence, candidates: Candidates) -> Scores:
    return np.zeros(len(evidence.seen))


LIKELIHOOD_RATIO = Attack("likelihood_ratio", _likelihood_ratio, weighs=True)
AVERAGING = Attack("averaging", _averaging, weighs=True)
MAJORITY = Attack("majority", _majority)
FACE_VALUE = Attack("face_value", _face_value)
PRIOR = Attack("prior", _prior)

ATTACKS = {attack.name: attack for attack in (LIKELIHOOD_RATIO, AVERAGING, MAJORITY, FACE_VALUE, PRIOR)}
