"""Views of reports bounded whatever the labels of the others are: one pair of distributions for all data sets.

Three bounds, and the least is used: the *privacy blanket* (``blanket``), for more than two labels; the same with less
revealed (``concealed``), where few users show one of the victim's candidates; and the *clones* of the first release
(``clones``), for any number of labels. The blanket reveals less than the clones and is never above them but for what is
rounded in either; it is computed first, and the others only decide where they would be less.

A coalition of a users knows the noisy labels of those who answered it, a set S of the other honest users. All about S
is revealed, so that the blanket is made of the others: their number is random, and so M is a mixture. Where the victim
herself answered, which happens with probability ``seen``, her noisy label is known: that part costs rr(epsilon).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from p2p_labeldp.privacy.blanket import Blanket, Shuffled
from p2p_labeldp.privacy.clones import Clones, SampledClones
from p2p_labeldp.privacy.coalition import QUESTIONS, MixedPairs, hidden_chance, known_users
from p2p_labeldp.privacy.concealed import Concealed, Unknown
from p2p_labeldp.privacy.fresh import fresh_mixture
from p2p_labeldp.privacy.pairs import Pairs, solve
from p2p_labeldp.privacy.sampled import Sampled
from p2p_labeldp.privacy.views import LocalNoise
from p2p_labeldp.privacy.worst import SMALLEST_DELTA

# What is cut, as a fraction of delta: moves epsilon by less than 1e-7 of itself.
_TAIL = 1e-7
_CLONES_TAIL = 1e-11
# Rounding of the first look, which tells where to look; and of composed rounds, whose losses are many.
_GLANCE = 8.0
_COMPOSED = 3.0
# What is cut where a delta is wanted, and how coarse its tables are: the next where the last was not small enough.
_LEVELS = ((1e-15, 1.0), (1e-60, 6.0), (1e-200, 16.0))
# Where C is at most so many, what it costs to tell it is about a quarter of -log(delta)/C: see `concealed_helps`.
_FEW_COINS = 200
_WORTH = 0.04


@dataclass(frozen=True)
class Bound:
    """One view of one cluster: learner, shuffle or coalition. ``at_once`` rounds share one flip, ``fresh`` do not."""

    view: str
    cluster_size: int
    theta: float
    labels: int
    at_once: int
    fresh: int
    colluders: int
    noise: LocalNoise

    @property
    def ceiling(self) -> float:
        return self.noise.epsilon * self.fresh

    def epsilon(self, delta: float) -> float:
        """The least epsilon that is proved at ``delta``."""
        if self.labels == 2:
            return self.first_release_epsilon(delta)
        guess = solve(self.blanket(delta * _TAIL, _GLANCE), delta, self.ceiling)
        value = solve(self.blanket(delta * _TAIL), delta, self.ceiling, guess)
        others = [self.clones(delta)]
        if self.concealed_helps(delta):
            others.append(self.concealed(delta * _TAIL))
        for pairs in others:
            if float(pairs.deltas(value).max()) < delta * (1 + 1e-6):
                value = min(value, solve(pairs, delta, self.ceiling, value))
        return value

    def first_release_epsilon(self, delta: float) -> float:
        """The epsilon of the clones alone."""
        return solve(self.clones(delta), delta, self.ceiling)

    def delta(self, epsilon: float, largest: float) -> float:
        """The least delta that is proved at ``epsilon``, where ``largest`` is known to hold."""
        # Rounded, so that the points of a curve share their tables.
        small = 10.0 ** (6 * math.floor(math.log10(max(largest, SMALLEST_DELTA)) / 6))
        value = float(self.clones(small * _CLONES_TAIL).deltas(epsilon).max())
        if self.labels == 2:
            return value
        for tail, coarse in _LEVELS:
            if tail <= 1e-5 * min(value, largest):
                value = min(value, float(self.blanket(tail, coarse).deltas(epsilon).max()))
                if self.concealed_helps(value):
                    value = min(value, float(self.concealed(tail, coarse).deltas(epsilon).max()))
                if tail <= 1e-5 * value:
                    break
        return value

    def blanket(self, tail: float, coarse: float = 1.0) -> Pairs:
        """The privacy blanket's pair, which misses about ``tail``."""
        return _blanket(self, tail, coarse)

    def concealed(self, tail: float, coarse: float = 1.0) -> Pairs:
        """The pair when the number of those who show a or b is not told."""
        return _concealed(self, tail, coarse)

    def concealed_helps(self, delta: float) -> bool:
        """Whether C is so small, and the victim so surely one of the C, that telling it costs more than a per cent."""
        if self.view == "shuffle" or not 0 < delta < 1:
            return False
        coins = 2 * self.noise.low * (self.cluster_size - self.colluders) + 1
        seen = min(1.0, self.noise.high + self.noise.low)
        return coins <= _FEW_COINS and -math.log(delta) / coins * seen**3 > _WORTH

    def clones(self, delta: float) -> Pairs:
        """The pair of the first release."""
        return _clones(self, delta)


@lru_cache(maxsize=1)
def _clones(bound: Bound, delta: float) -> Pairs:
    tail, n, noise = delta * _CLONES_TAIL, bound.cluster_size, bound.noise
    each = tail / (4 * bound.fresh) if bound.fresh > 1 else tail
    if bound.view == "shuffle":
        shuffled = Clones.variation_ratio(n - 1, noise)
        if bound.fresh == 1:
            return shuffled.pairs(tail)
        parts = [(w, shuffled.labels(c).rows(c // 2, c // 2, each)) for w, c in shuffled.groups(each)]
        return fresh_mixture(parts, 0.0, noise, 3 * each, bound.fresh, each)
    known, seen = hidden_chance(n, bound.colluders, bound.at_once, delta)
    honest = n - bound.colluders
    pairs = SampledClones(honest - known - 1, honest * bound.at_once, bound.theta / n, noise).pairs(each)
    if bound.fresh == 1:
        return MixedPairs(pairs, seen, noise)
    return fresh_mixture(pairs.parts(), seen, noise, 3 * each, bound.fresh, each)


@lru_cache(maxsize=3)
def _blanket(bound: Bound, tail: float, coarse: float) -> Pairs:
    n, noise = bound.cluster_size, bound.noise
    if bound.fresh > 1:
        tail, coarse = tail / (4 * bound.fresh), coarse * _COMPOSED
    honest, seen = n, 0.0
    hidden: tuple[tuple[int, float], ...] = ((n - 1, 1.0),)
    if bound.view != "shuffle":
        honest = n - bound.colluders
        hidden, seen = _hidden(n, bound.colluders, bound.at_once, tail)
    cells = Blanket(hidden, bound.labels, noise).cells(tail, coarse)
    pairs: Shuffled | Sampled
    if bound.view == "shuffle":
        pairs = Shuffled(cells, tail)
    else:
        pairs = Sampled(cells, honest * bound.at_once, bound.theta / n, tail, coarse)
    if bound.fresh > 1:
        return fresh_mixture([(1.0, pairs)], seen, noise, pairs.missing, bound.fresh, tail)
    return MixedPairs(pairs, seen, noise) if seen > 0 else pairs


@lru_cache(maxsize=3)
def _concealed(bound: Bound, tail: float, coarse: float) -> Pairs:
    n, noise, seen, known = bound.cluster_size, bound.noise, 0.0, 0
    if bound.fresh > 1:
        tail, coarse = tail / (4 * bound.fresh), coarse * _COMPOSED
    if bound.colluders:
        # All about the most that the colluders may know.
        known, seen = hidden_chance(n, bound.colluders, bound.at_once, tail * 1e4)
    honest = n - bound.colluders
    unknown = Unknown(honest - known - 1, honest * bound.at_once, bound.theta / n, bound.labels, noise)
    pairs = Concealed(unknown, tail, coarse)
    if bound.fresh > 1:
        return fresh_mixture([(1.0, pairs)], seen, noise, pairs.missing, bound.fresh, tail)
    return MixedPairs(pairs, seen, noise) if seen > 0 else pairs


def _hidden(n: int, colluders: int, rounds: int, tail: float) -> tuple[tuple[tuple[int, float], ...], float]:
    """How many of the other honest users may be unknown to the colluders, and the chance that the victim is not."""
    others = n - colluders - 1
    most, seen = hidden_chance(n, colluders, rounds, tail * 1e4)
    if most == 0 or colluders * rounds > QUESTIONS:
        return ((others - most, 1.0),), seen
    likely = known_users(n, colluders, rounds)[: most + 1]
    return tuple((others - size, float(chance)) for size, chance in enumerate(likely) if chance > 0), seen
