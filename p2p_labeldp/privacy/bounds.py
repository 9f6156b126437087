"""Views of reports bounded whatever the labels of the others are: one pair of distributions for all data sets.

Three bounds, and the least is used: the *privacy blanket* (``blanket``), for more than two labels; the same with less
revealed (``concealed``), where few users show one of the victim's candidates; and the *clones* of the first release
(``clones``), for any number of labels. The blanket reveals less than the clones and is never above them but for what is
rounded in either; it is computed first, and the others only decide where they would be less.

In the pull exchange a coalition of a users knows the noisy labels of those who answered it, a set S of the other honest
users. All about S is revealed, so that the blanket is made of the others: their number is random, and so is a mixture
of M. Where the victim herself answered, which happens with probability ``seen``, her noisy label is known: that part
costs rr(epsilon).

In the mixed exchange it depends on the relays (``relays``): all of them collude, and the victim's label is known; or
some, and the shuffled labels of the honest are; or none, and the colluders know their own labels and draws. Here all
about the colluders is revealed, also which reports carry their labels.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from p2p_labeldp.privacy.binomial import Draws
from p2p_labeldp.privacy.blanket import Blanket, Shuffled
from p2p_labeldp.privacy.clones import Clones, SampledClones
from p2p_labeldp.privacy.coalition import QUESTIONS, hidden_chance, known_users
from p2p_labeldp.privacy.concealed import Concealed, Unknown
from p2p_labeldp.privacy.fresh import fresh_mixture
from p2p_labeldp.privacy.mixture import MixturePairs
from p2p_labeldp.privacy.pairs import Pairs, solve
from p2p_labeldp.privacy.relays import Cases
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
_MANY_DRAWS = 1000  # of several sticky rounds together
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
    cases: Cases | None = None
    """Of the mixed exchange."""
    reports: bool = True
    """Whether the learner is one of the coalition."""

    @property
    def ceiling(self) -> float:
        return self.noise.epsilon * self.fresh

    def epsilon(self, delta: float) -> float:
        """The least epsilon that is proved at ``delta``."""
        if self.labels == 2:
            return self.first_release_epsilon(delta)
        guess = solve(self.blanket(delta * _TAIL, _GLANCE), delta, self.ceiling)
        value = solve(self.blanket(delta * _TAIL), delta, self.ceiling, guess)
        others = [self.clones(delta)] if self.cases is None else []
        if self.concealed_helps(delta):
            others.append(self.concealed(delta * _TAIL))
        for pairs in others:
            if float(pairs.deltas(value).max()) < delta * (1 + 1e-6):
                value = min(value, solve(pairs, delta, self.ceiling, value))
        return value

    def first_release_epsilon(self, delta: float) -> float:
        """The epsilon of the clones alone."""
        return solve(self.clones(delta), delta, self.ceiling)

    def delta(self, epsilon: float, largest: float, enough: float = 0.0) -> float:
        """The least delta that is proved at ``epsilon``, where ``largest`` is known to hold; any that is ``enough``."""
        # Rounded, so that the points of a curve share their tables.
        small = 10.0 ** (6 * math.floor(math.log10(max(largest, SMALLEST_DELTA)) / 6))
        value = largest
        if self.cases is None:
            value = float(self.clones(small * _CLONES_TAIL).deltas(epsilon).max())
        if self.labels == 2:
            return value
        for tail, coarse in _LEVELS:
            if value <= enough:
                break
            if tail <= 1e-5 * min(value, largest):
                value = min(value, float(self.blanket(tail, coarse).deltas(epsilon).max()))
                if value > enough and self.concealed_helps(value):
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
        if self.at_once > 1 and self.cluster_size * self.at_once > _MANY_DRAWS:
            return False  # it takes minutes to find out; the blanket's bound holds as well
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
    pairs = SampledClones(honest - known - 1, honest * bound.at_once, bound.theta / n, noise, each)
    if bound.fresh == 1:
        return MixturePairs([(1 - seen, pairs)], seen, noise)
    return fresh_mixture(pairs.parts, seen, noise, 3 * each, bound.fresh, each)


@lru_cache(maxsize=3)
def _blanket(bound: Bound, tail: float, coarse: float) -> Pairs:
    if bound.fresh > 1:
        tail, coarse = tail / (4 * bound.fresh), coarse * _COMPOSED
    n = bound.cluster_size
    hidden: tuple[tuple[int, float], ...] = ((n - bound.colluders - 1, 1.0),)
    seen = 0.0
    if bound.cases is None and bound.colluders:
        hidden, seen = _hidden(n, bound.colluders, bound.at_once, tail)
    cells = Blanket(hidden, bound.labels, bound.noise).cells(tail, coarse)
    if bound.view == "shuffle":
        return _put_together(bound, None, Shuffled(cells, tail), seen, tail)
    shuffled = Shuffled(cells, tail) if bound.cases is not None and bound.cases.some > 0 else None
    return _put_together(bound, Sampled(cells, _draws(bound), tail, coarse), shuffled, seen, tail)


@lru_cache(maxsize=3)
def _concealed(bound: Bound, tail: float, coarse: float) -> Pairs:
    if bound.fresh > 1:
        tail, coarse = tail / (4 * bound.fresh), coarse * _COMPOSED
    n, noise, seen, known = bound.cluster_size, bound.noise, 0.0, 0
    if bound.cases is None and bound.colluders:
        # All about the most that the colluders may know.
        known, seen = hidden_chance(n, bound.colluders, bound.at_once, tail * 1e4)
    others = n - bound.colluders - known - 1
    pairs = Concealed(Unknown(others, _draws(bound), bound.labels, noise), tail, coarse)
    shuffled = None
    if bound.cases is not None and bound.cases.some > 0:
        shuffled = Shuffled(Blanket.of(others, bound.labels, noise).cells(tail, coarse), tail)
    return _put_together(bound, pairs, shuffled, seen, tail)


def _draws(bound: Bound) -> Draws:
    """How many reports carry the label of a given honest user."""
    n, honest = bound.cluster_size, bound.cluster_size - bound.colluders
    sent = Draws(honest * bound.at_once if bound.reports else 0, bound.theta / n)
    if bound.cases is None or not bound.colluders:
        return sent
    # The colluders see their own draws whether they send them or not.
    own = bound.colluders * bound.at_once
    if bound.theta == 1 and bound.reports:
        return Draws(sent.trials + own, 1 / n)
    return Draws(sent.trials, sent.rate, own, 1 / n)


def _put_together(
    bound: Bound, sampled: Sampled | Concealed | None, shuffled: Shuffled | None, seen: float, tail: float
) -> Pairs:
    """The cases of a view as one pair, over all rounds; ``seen`` is the chance that the victim's label is known."""
    noise, cases = bound.noise, bound.cases or Cases(seen, 0.0, 1 - seen)
    parts: list[tuple[float, Sampled | Concealed | Shuffled]] = []
    if sampled is not None and cases.none > 0:
        parts.append((cases.none, sampled))
    if shuffled is not None:
        parts.append((cases.some if sampled is not None else 1.0, shuffled))
    if bound.fresh > 1:
        left = 1 - cases.all
        shares = [(chance / left, pairs) for chance, pairs in parts] if left > 0 else []
        missing = sum(share * pairs.missing for share, pairs in shares)
        return fresh_mixture(shares, cases.all, noise, missing, bound.fresh, tail)
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return MixturePairs(parts, cases.all, noise)


def _hidden(n: int, colluders: int, rounds: int, tail: float) -> tuple[tuple[tuple[int, float], ...], float]:
    """How many of the other honest users may be unknown to the colluders, and the chance that the victim is not."""
    others = n - colluders - 1
    most, seen = hidden_chance(n, colluders, rounds, tail * 1e4)
    if most == 0 or colluders * rounds > QUESTIONS:
        return ((others - most, 1.0),), seen
    likely = known_users(n, colluders, rounds)[: most + 1]
    return tuple((others - size, float(chance)) for size, chance in enumerate(likely) if chance > 0), seen
