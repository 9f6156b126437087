"""The game: the victim's label is one of two, an attack scores what it saw, and the scores are judged.

Everyone else's label is fixed and known to the attacker. In each trial the victim holds the second candidate with
probability ``prior``; such a trial is positive. The decision rule is fixed beforehand (`Attack.decides`), so that its
rates are plain binomials and their Clopper-Pearson intervals hold at the stated confidence, whatever the number of
trials:

* advantage: true positive rate less false positive rate; its interval takes half of the error for each of them;
* reconstruction: how often the label that is named is the right one, beside the best guess without having seen
  anything, which is the likelier label;
* ROC: the true positive rate where false positives are to be rare. The threshold for that is found on the first
  half of the trials and measured on the second. Equal scores are ordered at random, so that any rate can be met. The
  threshold's own false positive rate is near the one that was aimed at, not equal to it: what is proved is stated for
  the upper limit of the measured one.

``beaten`` names the bounds (``bounds``) that even the lower limits exceed: it should be empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.attacks import LIKELIHOOD_RATIO, Attack, Scores
from p2p_labeldp.adversaries.bounds import Bounds
from p2p_labeldp.adversaries.evidence import evidence_of_all
from p2p_labeldp.audit.epsilon import at_least, at_most
from p2p_labeldp.audit.views import View
from p2p_labeldp.errors import RequestError

CONFIDENCE = 0.999
RATES = (0.001, 0.01)


@dataclass(frozen=True)
class Interval:
    """An estimate, and where the truth lies at the stated confidence."""

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def clopper_pearson(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The rate of a binomial; exact, so never too narrow. Without trials nothing is known."""
    if trials == 0:
        return Interval(float("nan"), 0.0, 1.0)
    tail, count = (1 - confidence) / 2, np.array(hits)
    return Interval(hits / trials, float(at_least(count, trials, tail)), float(at_most(count, trials, tail)))


@dataclass(frozen=True)
class RocPoint:
    """What an attack reaches by a threshold whose false positive rate was to be ``target``."""

    target: float
    false_rate: Interval
    """The threshold's own, measured apart from the trials that it was found on."""
    true_rate: Interval

    def bound(self, bounds: Bounds) -> float:
        """What no true positive rate of such a threshold exceeds, its false positive rate being what was measured."""
        return bounds.true_rate(self.false_rate.high)


@dataclass(frozen=True)
class GameResult:
    """What one attack made of one view."""

    view: str
    attack: str
    trials: int
    prior: float
    confidence: float
    advantage: Interval
    true_rate: Interval
    false_rate: Interval
    reconstruction: Interval
    best_guess: float
    roc: tuple[RocPoint, ...]
    bounds: Bounds | None = field(default=None, repr=False)

    @property
    def beaten(self) -> tuple[str, ...]:
        """The bounds that the lower limits exceed; each does with probability 1 - confidence at most if it holds."""
        if self.bounds is None:
            return ()
        compared = {
            "advantage": (self.advantage.low, self.bounds.advantage),
            "reconstruction": (self.reconstruction.low, self.bounds.reconstruction),
        }
        for point in self.roc:
            compared[f"true rate at {point.target:g}"] = (point.true_rate.low, point.bound(self.bounds))
        return tuple(name for name, (low, bound) in compared.items() if low > bound)


def judge(
    view: str,
    attack: Attack,
    positive: NDArray[np.bool_],
    scores: Scores,
    ties: NDArray[np.float64],
    *,
    prior: float = 0.5,
    confidence: float = CONFIDENCE,
    bounds: Bounds | None = None,
) -> GameResult:
    """The statistics of a game. ``positive``: trials with the second candidate; ``ties``: random, for equal scores."""
    if not 0 < confidence < 1:
        raise RequestError(f"confidence must lie between 0 and 1, not {confidence}")
    if not len(positive) == len(scores) == len(ties) > 0:
        raise RequestError("a game needs at least one trial, with a label and a score each")
    decided = attack.decides(scores, prior)
    both = 1 - (1 - confidence) / 2
    true_rate, false_rate = (
        clopper_pearson(int(decided[group].sum()), int(group.sum()), both) for group in (positive, ~positive)
    )
    return GameResult(
        view=view,
        attack=attack.name,
        trials=len(positive),
        prior=prior,
        confidence=confidence,
        advantage=Interval(
            true_rate.value - false_rate.value, true_rate.low - false_rate.high, true_rate.high - false_rate.low
        ),
        true_rate=true_rate,
        false_rate=false_rate,
        reconstruction=clopper_pearson(int((decided == positive).sum()), len(positive), confidence),
        best_guess=max(prior, 1 - prior),
        roc=tuple(_roc_point(target, positive, scores, ties, both) for target in RATES),
        bounds=bounds,
    )


def _roc_point(
    target: float, positive: NDArray[np.bool_], scores: Scores, ties: NDArray[np.float64], confidence: float
) -> RocPoint:
    half = len(positive) // 2
    negative = np.flatnonzero(~positive[:half])
    order = negative[np.lexsort((ties[negative], scores[negative]))[::-1]]
    wanted = int(target * len(order))
    # The first negative that is to be decided right; without any, everything is decided positive.
    threshold = (scores[order[wanted]], ties[order[wanted]]) if len(order) else (-np.inf, 0.0)
    rest = slice(half, None)
    decided = (scores[rest] > threshold[0]) | ((scores[rest] == threshold[0]) & (ties[rest] > threshold[1]))
    true_rate, false_rate = (
        clopper_pearson(int(decided[group].sum()), int(group.sum()), confidence)
        for group in (positive[rest], ~positive[rest])
    )
    return RocPoint(target, false_rate, true_rate)


@dataclass(frozen=True)
class Reconstruction:
    """How many of a run's labels an attack names when each user in turn is the victim."""

    attack: str
    users: int
    rate: float
    best_guess: float
    """The same for someone who names the label that is the most common among the others of the cluster."""


def reconstruct(view: View, true_labels: NDArray[np.integer], attack: Attack = LIKELIHOOD_RATIO) -> Reconstruction:
    """Attack every user of a run, given the labels of all others in the view's background.

    Beforehand a label is as likely as it is common among the others (one of each added). The adversary's own users
    are no victims. All users of a cluster share its reports, so that a run of few large clusters is but a few
    draws: the rate has no binomial's interval.
    """
    labels = view.parameters.labels
    right = guessed = users = 0
    for cluster, roster in view.clusters.items():
        inside = view.within(cluster)
        common = np.bincount([view.background.get(user, labels) for user in roster], minlength=labels + 1)[:labels]
        for place, user in enumerate(roster):
            if user in view.members:
                continue
            prior = np.log(1.0 + common - (np.arange(labels) == view.background.get(user, -1)))
            evidence = evidence_of_all(inside, place)
            scores = np.array([attack.score(evidence, (0, label))[0] if label else 0.0 for label in range(labels)])
            named = scores + prior if attack.weighs else scores + 1e-9 * prior
            users += 1
            right += bool(named.argmax() == true_labels[user])
            guessed += bool(prior.argmax() == true_labels[user])
    return Reconstruction(attack.name, users, right / max(1, users), guessed / max(1, users))
