"""A lower bound on epsilon from trials: a stated epsilon must not lie below it.

A guarantee of (epsilon, delta) says that every event E has P1(E) <= e^epsilon P0(E) + delta, where P0 and P1 are
what is seen when the victim's label is 0 and when it is 1, and the same with the two exchanged. So every event gives

    epsilon >= log((P1(E) - delta) / P0(E))

Events are taken from attacks' scores: a score of at least some threshold decides for label 1, one of at most some
threshold for label 0. Which attack, which label and which threshold is chosen on the first half of the trials, as what
bounds best there. The second half, which knows nothing of that choice, is asked about this one event only, so that
there is one claim however many were tried: its two rates are binomials with Clopper-Pearson limits, each with half of
the error. What comes out exceeds the true epsilon with probability 1 - confidence at most, whatever the number of
trials; far more rarely in fact, since both rates must err together.

Where scores come from is the sampler's matter: nothing here knows of engines or views.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.errors import RequestError

CONFIDENCE = 0.999
LEAST_TRIALS = 8  # two of each label in each half
# Thresholds tried for each attack and label, evenly spaced among the distinct scores.
_THRESHOLDS = 200

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Sampler(Protocol):
    """Runs what is to be audited."""

    def __call__(self, label: int, trials: range) -> Mapping[str, Floats]:
        """Each attack's scores, larger where label 1 is the likelier, in these trials of a victim with ``label``.

        Trials are independent: of different numbers, and of different labels.
        """
        ...


@dataclass(frozen=True)
class Rate:
    """How often the event was seen, and a limit that the truth keeps to at the stated confidence."""

    hits: int
    trials: int
    limit: float

    @property
    def value(self) -> float:
        return self.hits / self.trials


@dataclass(frozen=True)
class Curve:
    """The second half at every threshold, for a plot. Only at the chosen one does the limit hold at its confidence."""

    thresholds: Floats
    true_rates: Floats
    false_rates: Floats
    epsilons: Floats


@dataclass(frozen=True)
class LowerBound:
    """Epsilon at ``delta`` is at least ``epsilon``, by the event named here."""

    epsilon: float
    delta: float
    trials: int
    confidence: float
    attack: str
    label: int
    """What is decided: 1 where the score is at least the threshold, 0 where it is at most that."""
    threshold: float
    true_rate: Rate
    """The true positive rate; its limit is a lower one."""
    false_rate: Rate
    """The false positive rate; its limit is an upper one."""
    curve: Curve = field(repr=False, compare=False)


def lower_bound(sampler: Sampler, delta: float, trials: int, confidence: float = CONFIDENCE) -> LowerBound:
    """The bound from ``trials`` trials, half of them with each label."""
    if not 0 <= delta < 1:
        raise RequestError(f"delta must be at least 0 and less than 1, not {delta}")
    if trials < LEAST_TRIALS:
        raise RequestError(f"trials must be at least {LEAST_TRIALS}, not {trials}")
    if not 0 < confidence < 1:
        raise RequestError(f"confidence must lie between 0 and 1, not {confidence}")
    error = (1 - confidence) / 2
    quarter = trials // 4
    first, second = range(quarter), range(quarter, trials // 2)
    chosen = max(_tries(sampler(0, first), sampler(1, first), delta, error), key=lambda found: found.epsilon)
    zero, one = (sampler(label, second)[chosen.attack] for label in (0, 1))
    event = _Event(chosen.attack, chosen.label, zero, one)
    at = np.array([chosen.threshold])
    true, false = event.counts(at)
    true_limit, false_limit = at_least(true, event.true_trials, error), at_most(false, event.false_trials, error)
    thresholds = _thresholds(zero, one)
    all_true, all_false = event.counts(thresholds)
    return LowerBound(
        epsilon=max(0.0, float(_epsilons(true_limit, false_limit, delta)[0])),
        delta=delta,
        trials=2 * len(first) + 2 * len(second),
        confidence=confidence,
        attack=chosen.attack,
        label=chosen.label,
        threshold=chosen.threshold,
        true_rate=Rate(int(true[0]), event.true_trials, float(true_limit[0])),
        false_rate=Rate(int(false[0]), event.false_trials, float(false_limit[0])),
        curve=Curve(
            thresholds,
            all_true / event.true_trials,
            all_false / event.false_trials,
            event.epsilons(thresholds, delta, error),
        ),
    )


@dataclass(frozen=True)
class _Try:
    attack: str
    label: int
    threshold: float
    epsilon: float


@dataclass(frozen=True)
class _Event:
    """Deciding for ``label`` beyond a threshold, by the scores of one attack where the label is 0 and where it is 1."""

    attack: str
    label: int
    zero: Floats
    one: Floats

    @property
    def true_trials(self) -> int:
        return len(self.one if self.label else self.zero)

    @property
    def false_trials(self) -> int:
        return len(self.zero if self.label else self.one)

    def counts(self, thresholds: Floats) -> tuple[Counts, Counts]:
        """How many true and false positives there are at each threshold."""
        if self.label == 1:
            beyond = [len(scores) - np.searchsorted(np.sort(scores), thresholds) for scores in (self.one, self.zero)]
        else:
            beyond = [np.searchsorted(np.sort(scores), thresholds, side="right") for scores in (self.zero, self.one)]
        return beyond[0], beyond[1]

    def epsilons(self, thresholds: Floats, delta: float, error: float) -> Floats:
        true, false = self.counts(thresholds)
        return _epsilons(at_least(true, self.true_trials, error), at_most(false, self.false_trials, error), delta)


def _tries(zero: Mapping[str, Floats], one: Mapping[str, Floats], delta: float, error: float) -> Iterator[_Try]:
    """The best threshold of each attack and label."""
    for attack in zero:
        thresholds = _thresholds(zero[attack], one[attack])
        for label in (1, 0):
            epsilons = _Event(attack, label, zero[attack], one[attack]).epsilons(thresholds, delta, error)
            best = int(epsilons.argmax())
            yield _Try(attack, label, float(thresholds[best]), float(epsilons[best]))


def _thresholds(zero: Floats, one: Floats) -> Floats:
    distinct = np.unique(np.concatenate([zero, one]))
    return distinct[np.unique(np.linspace(0, len(distinct) - 1, _THRESHOLDS).round().astype(np.int64))]


def _epsilons(least_true: Floats, most_false: Floats, delta: float) -> Floats:
    surplus = least_true - delta
    return np.where(surplus > 0, np.log(np.maximum(surplus, 1e-300) / most_false), -math.inf)


def at_least(hits: Counts, trials: int, error: float) -> Floats:
    """Clopper-Pearson: a binomial's rate is smaller than this with probability ``error`` at most."""
    limits = scipy.special.betaincinv(np.maximum(hits, 1), trials - hits + 1, error)
    return np.where(hits > 0, limits, 0.0)


def at_most(hits: Counts, trials: int, error: float) -> Floats:
    """Clopper-Pearson: a binomial's rate is larger than this with probability ``error`` at most."""
    limits = scipy.special.betainccinv(hits + 1, np.maximum(trials - hits, 1), error)
    return np.where(hits < trials, limits, 1.0)
