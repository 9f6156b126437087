"""What a data set attains: a lower bound on epsilon, beside a proved upper bound.

The other users all hold one label, so that one of them shows the victim's candidate a with probability ``shows_a`` and
b with ``shows_b``. Whoever counts the reports that say a and those that say b learns no more than the view does, so the
hockey-stick divergence of

    h_a, h_b: noisy labels a and b, the victim's included;   x reports of these,  C = h_a + h_b
    x_a ~ Binomial(x, h_a/C)

is attained: delta(epsilon) of the view is no less. For the shuffled view (h_a, h_b) themselves are counted. A coalition
also sees the victim's label with probability ``seen``, and here ignores whom else it knows. Fresh rounds are composed
with their losses rounded *down* to a grid.

Which label the others hold: with alpha below (K-1)/K one that is neither a nor b (of two labels: b), so that few of
them show a or b; above it a, for then few of them show a. Everything is rounded to the safe side, which is down: the
mass that is cut might all lie where it helps the other hypothesis, so e^epsilon times it is taken off.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from p2p_labeldp.privacy.binomial import Draws, Floats, Window, log_pmf, mixed, pmf, window
from p2p_labeldp.privacy.losses import Losses
from p2p_labeldp.privacy.reports import exponential, leaving_out, received_window
from p2p_labeldp.privacy.views import LocalNoise

# What is cut, as a fraction of delta.
_TAIL = 1e-7
# Elementary steps of about a nanosecond; beyond it no lower bound is computed.
_WORK = 2e10
_ROUNDING = 1e-10
_FINE = 400
# Elements of a batch that still fit the processor's second cache.
_BLOCK = 1 << 14
_LARGEST = 60.0


@dataclass(frozen=True)
class Attained:
    """An epsilon that no account of the view can be below, and the data set that shows it."""

    epsilon: float
    data_set: str


class Outcomes(NamedTuple):
    """``masses[hypothesis, total, a]``: of so many reports (or labels) of either candidate, so many say a.

    The victim holds a in the first hypothesis, b in the second.
    """

    totals: Window
    a: Window
    masses: Floats


@dataclass(frozen=True)
class Counting:
    """Someone who counts reports (or, without ``draws``, noisy labels) of the victim's two candidates.

    ``draws`` is the number of reports that carry a given user's label.
    """

    others: int
    draws: Draws | None
    noise: LocalNoise
    labels: int
    above: bool
    seen: float = 0.0
    rounds: int = 1
    shuffled: float = 0.0
    """The chance that, where the victim's own label is not seen, all noisy labels are counted rather than reports."""

    @property
    def data_set(self) -> str:
        if self.above:
            return "all others hold one of the victim's two candidate labels"
        if self.labels == 2:
            return "all others hold the same label"
        return "all others hold one label that is neither of the victim's two candidates"

    @property
    def shown(self) -> tuple[float, float]:
        """The chances that one of the others shows a, and b."""
        if self.above:
            return self.noise.low, self.noise.high
        return self.noise.low, self.noise.high if self.labels == 2 else self.noise.low

    def epsilon(self, delta: float, ceiling: float) -> Attained | None:
        """The largest epsilon at which delta is surely exceeded or met, rounded down."""
        tail = delta * _TAIL / self.rounds
        if self._cost(tail) > _WORK:
            return None
        below = self._once(tail)
        lower = below if self.rounds == 1 else _Composed(below, self.rounds, delta * _TAIL)
        low, high = 0.0, ceiling
        if lower.delta(0.0) < delta:
            return Attained(0.0, self.data_set)
        while high - low > 1e-12 + 1e-10 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if lower.delta(middle) >= delta else (low, middle)
        return Attained(low, self.data_set)

    def _once(self, tail: float) -> "_Once":
        chances = [(1 - self.shuffled, self), (self.shuffled, replace(self, draws=None))]
        parts = [chance * each.outcomes(tail).masses.reshape(2, -1) for chance, each in chances if chance > 0]
        first, second = np.concatenate(parts, axis=1)
        return _Once(first, second, 14 * tail, self.seen, self.noise)

    def _cost(self, tail: float) -> float:
        share = sum(self.shown)
        reach = 2 * math.sqrt(-2 * math.log(tail))
        coins = reach * math.sqrt(self.others * share * (1 - min(share, 1.0))) + 2
        if self.draws is None:
            return 40 * coins * (reach * math.sqrt(self.others * share) + 2)
        each = self.draws.trials * self.draws.rate + self.draws.sure * self.draws.sure_rate
        reports = each * self.others * share + 1
        received = reach * math.sqrt(reports) + 2
        return 6 * coins * received * (received + 0.5 * reach * math.sqrt(reports + reports**2 / (coins + 1)))

    def outcomes(self, tail: float) -> Outcomes:
        """All but about ``tail`` of the outcomes; some with a total of zero, which says nothing, are left out too."""
        shows_a, shows_b = self.shown
        share = min(1.0, shows_a + shows_b)
        where = window(self.others, share, tail)
        coins = np.arange(where.low, where.high + 2, dtype=np.float64)
        heads = [window(int(count), shows_a / (shows_a + shows_b), tail) for count in coins]
        span = Window(min(each.low for each in heads), max(each.high for each in heads) + 1)
        distributions = self._labels(coins, span, where, share, shows_a / (shows_a + shows_b))
        if self.draws is None:
            return Outcomes(Window(where.low, where.high + 1), span, np.swapaxes(distributions, 0, 1))
        return self._reports(self.draws, coins, span, distributions, tail)

    def _labels(self, coins: Floats, span: Window, where: Window, share: float, ratio: float) -> Floats:
        """P(C, h_a) when the victim holds a and when she holds b: axes are C, hypothesis, h_a."""
        heads = np.arange(span.low, span.high + 1, dtype=np.float64)
        total = np.zeros(coins.size)
        total[: where.width] = pmf(where, self.others, share)

        def tossed(count: Floats, mass: Floats) -> Floats:
            """Others: so many of them show a or b, each of them a with ``ratio``."""
            inside = (heads >= 0) & (heads <= count[:, None])
            safe = np.clip(heads[None, :], 0.0, np.maximum(count, 0.0)[:, None])
            distribution = np.exp(log_pmf(safe, np.broadcast_to(np.maximum(count, 0.0)[:, None], safe.shape), ratio))
            return np.where(inside & (mass[:, None] > 0), mass[:, None] * distribution, 0.0)

        elsewhere = tossed(coins, total)
        says_b = tossed(coins - 1, np.append(0.0, total[:-1]))
        says_a = np.zeros_like(says_b)
        says_a[:, 1:] = says_b[:, :-1]
        if span.low > 0:
            # h_a - 1 may be just below the window: cut, like everything there.
            says_a[:, 0] = 0.0
        high, low = (self.noise.low, self.noise.high) if self.above else (self.noise.high, self.noise.low)
        rest = max(0.0, 1 - high - low)
        held_a = rest * elsewhere + high * says_a + low * says_b
        held_b = rest * elsewhere + low * says_a + high * says_b
        return np.stack([held_a, held_b], axis=1)

    @staticmethod
    def _reports(draws: Draws, coins: Floats, span: Window, distributions: Floats, tail: float) -> Outcomes:
        """P(x, x_a), the sum of the parts of all C, of which a few are computed at a time."""
        keep = (coins > 0) & (distributions.sum(axis=(1, 2)) > 0)
        rows = [
            _Row(int(size), distribution, span, draws, tail)
            for size, distribution in zip(coins[keep], distributions[keep], strict=True)
        ]
        sent = _hull([row.sent for row in rows])
        where = _hull([row.where for row in rows])
        table = np.zeros((2, sent.width, where.width))
        together = max(4, _BLOCK // where.width)
        for start in range(0, len(rows), together):
            part = rows[start : start + together]
            inside = _hull([row.where for row in part])
            columns = slice(inside.low - where.low, inside.high - where.low + 1)
            for count, masses in _summed(part, inside):
                table[:, count - sent.low, columns] += masses
        return Outcomes(sent, where, table)


class _Row:
    """One C: P(h_a) under both hypotheses, and where x and x_a lie."""

    def __init__(self, size: int, distribution: Floats, span: Window, draws: Draws, tail: float) -> None:
        heads = np.arange(span.low, span.high + 1, dtype=np.float64)
        inside = (heads <= size) & (distribution.sum(axis=0) > 0)
        self.size, self.distribution, self.heads = size, distribution[:, inside], heads[inside]
        mine = draws.times(size)
        self.sent = mine.window(tail)
        self.arrive = mine.masses(self.sent, tail)
        both = self.distribution.sum(axis=0, keepdims=True)
        self.where = received_window(self.sent, self.heads / size, both, tail * float(both.sum()))


def _hull(windows: list[Window]) -> Window:
    return Window(min(each.low for each in windows), max(each.high for each in windows))


def _summed(rows: list[_Row], where: Window) -> Iterator[tuple[int, Floats]]:
    """P(x, x_a) over a window of x_a, for each x from the largest down: one report after another is left out."""
    sent = _hull([row.sent for row in rows])
    possible = Window(where.low, min(where.high, sent.high))
    both, arrive = np.zeros((len(rows), 2, where.width)), np.zeros((sent.width, len(rows)))
    for place, row in enumerate(rows):
        both[place, :, : possible.width] = mixed(row.distribution, row.heads, row.size, sent.high, possible)
        arrive[row.sent.low - sent.low : row.sent.high - sent.low + 1, place] = row.arrive
    flat = both.reshape(len(rows), -1)  # the same numbers, for a single product
    for count in leaving_out(both, sent, where):
        yield count, (arrive[count - sent.low] @ flat).reshape(2, -1)


class _Once:
    """delta of one round from below, by the masses of its outcomes under both hypotheses."""

    def __init__(self, first: Floats, second: Floats, missing: float, seen: float, noise: LocalNoise) -> None:
        self.first, self.second, self.missing, self.seen, self.noise = first, second, missing, seen, noise

    def delta(self, epsilon: float) -> float:
        grown = float(exponential(epsilon)) * (1 + 3 * _ROUNDING)
        counted = max(
            float(np.maximum(self.first - grown * self.second, 0.0).sum()),
            float(np.maximum(self.second - grown * self.first, 0.0).sum()),
        )
        hidden = max(0.0, counted * (1 - _ROUNDING) - grown * self.missing)
        shown = max(0.0, self.noise.high - grown * self.noise.low) * (1 - _ROUNDING)
        return self.seen * shown + (1 - self.seen) * hidden


class _Composed:
    """The same over fresh rounds: losses are rounded down, and what is cut is left out."""

    def __init__(self, once: _Once, rounds: int, tail: float) -> None:
        self._ways = [
            self._composed(once, once.first, once.second, rounds, tail),
            self._composed(once, once.second, once.first, rounds, tail),
        ]

    def delta(self, epsilon: float) -> float:
        return max(float(losses.deltas(epsilon)[0]) for losses in self._ways) * (1 - _ROUNDING)

    @staticmethod
    def _composed(once: _Once, over: Floats, under: Floats, rounds: int, tail: float) -> Losses:
        limit = min(once.noise.epsilon, _LARGEST)
        kept = over > 0
        mass = over[kept] * (1 - _ROUNDING)
        loss = np.log(mass) - np.log(under[kept] * (1 + _ROUNDING) + once.missing)
        np.clip(loss, -limit, limit, out=loss)
        spread = math.sqrt(float(mass @ (loss * loss)) + once.seen * (once.noise.high - once.noise.low) * limit**2)
        step = max(spread / _FINE, limit / (1 << 13))
        cells = math.ceil(limit / step)
        place = np.floor(loss / step).astype(np.int64) + cells
        grid: Floats = np.bincount(np.maximum(place, 0), (1 - once.seen) * mass, 2 * cells + 1).astype(np.float64)
        # What is not an outcome here says nothing: it has loss zero, less what may have been cut.
        grid[cells] += (1 - once.seen) * max(0.0, 1 - float(mass.sum()) - once.missing)
        if once.seen > 0:
            top = math.floor(limit / step)
            grid[cells + top] += once.seen * once.noise.high
            grid[cells] += once.seen * max(0.0, 1 - once.noise.high - once.noise.low)
            grid[0] += once.seen * once.noise.low
        return Losses(step, -cells, grid).power_from_below(rounds, tail)
