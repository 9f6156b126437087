"""Reports about fair coins: what is left of the learner's view inside the privacy blanket (``blanket``).

C coins are tossed: C - 1 fair ones and one that says a with probability ``right`` or 1 - ``right``. h of them say a.
Each of ``trials`` reports carries the toss of a given coin with probability ``rate``, and each of ``sure`` more (which
colluders are certain to see) with ``sure_rate``, so

    x ~ Binomial(trials, rate C) + Binomial(sure, sure_rate C),   x_a ~ Binomial(x, h/C)

Let F1 and F0 be the distributions of x_a given x when the last coin says a or not. They mirror each other,
F1(k) = F0(x - k), and F1/F0 grows with k, so the best test of one candidate against the other is a threshold t:

    delta_x(epsilon) = max_t  A S1(t) + B S0(t),   A = right - e^epsilon (1-right),   B = (1-right) - e^epsilon right

with S the chances of k >= t. The tables of S serve every ``right`` and every epsilon; only the threshold is looked for.
F0 is summed over h for the largest x only and follows for the others by leaving out one report at random, as in
``reports``. delta_x grows with x, so neighbouring x are counted as the largest of them.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy.binomial import Draws, Floats, Window, mixed, pmf, window
from p2p_labeldp.privacy.blanket import Cells, flattened
from p2p_labeldp.privacy.pairs import OnePair
from p2p_labeldp.privacy.reports import exponential, received_window

# What rounding x up may change it by, relatively; epsilon changes by an eighth of it at theta = 1.
_COARSE = 0.003
# Mass of the smallest x that is counted as one x: moves delta by this relative amount at most.
_FEW = 1e-5


class _Row:
    """F0 over a window of k at the largest x for one C, and which x to keep with which probability."""

    def __init__(self, coins: int, draws: Draws, tail: float, coarse: float) -> None:
        mine = draws.times(coins)
        low, high = mine.window(max(tail, _FEW)).low, mine.window(tail).high
        masses = mine.masses(Window(low, high), tail)
        # The window is wider than it need be: what it holds says where the tail really begins.
        high -= int(np.searchsorted(np.cumsum(masses[:0:-1]), tail))
        if low > mine.least:
            masses[0] += 2 * _FEW if mine.sure else _FEW
        # From the largest x down in steps; x = 0 says nothing.
        kept = [high]
        while kept[-1] > max(low, 1):
            kept.append(max(low, 1, kept[-1] - max(1, math.floor(_COARSE * coarse * kept[-1]))))
        self.kept = np.array(kept, dtype=np.int64)
        starts = np.append(self.kept[1:] + 1, max(low, 1))
        self.weights = np.array([masses[i - low : k - low + 1].sum() for i, k in zip(starts, self.kept, strict=True)])
        heads = window(coins - 1, 0.5, tail)
        distribution = pmf(heads, coins - 1, 0.5)[None, :]
        ones = np.arange(heads.low, heads.high + 1, dtype=np.float64)
        self.where = received_window(Window(int(self.kept[-1]), high), ones / coins, distribution, tail)
        self.mass = mixed(distribution, ones, coins, high, self.where)[0]


class Sampled(OnePair):
    """The pair of the bound: for each cell the victim's candidates told apart by reports."""

    looseness = 1.0

    def __init__(self, cells: Cells, draws: Draws, tail: float, coarse: float = 1.0) -> None:
        rows = [_Row(cell.coins, draws, tail, coarse) for cell in cells.cells]
        self._tabulate(rows)
        right, weights, owner = flattened(cells.cells)
        # Every point of a cell with every x of its row, but for those that hardly ever occur together.
        joint = weights[:, None] * self._arrive[owner]
        point, slot = np.nonzero(joint > tail / max(1, joint.size))
        self._right, self._weights = right[point], joint[point, slot]
        self._row = owner[point] * self._arrive.shape[1] + slot
        self.missing = cells.missing + tail + 11 * tail * float(weights.sum())
        steps = max((int(row.kept[0] - row.kept[-1]) for row in rows), default=0)
        self.rounding = (
            1e-13
            - 2e-15 * math.log(tail)
            + 1e-15 * (steps + self._ratio.shape[-1])
            + 4e-18 * (draws.trials + draws.sure)
        )

    def _tabulate(self, rows: list[_Row]) -> None:
        """F1/F0 and both tail sums for each row and each kept x, by falling k down to x/2.

        The first column is what lies beyond the table: it counts as if F0 never went there.
        """
        most = max((row.kept.size for row in rows), default=1)
        half = max([0, *(row.where.high - int(row.kept[0]) // 2 for row in rows)]) + 1
        shape = (len(rows), most, half + 1)
        zero, one = np.zeros(shape), np.zeros(shape)
        self._arrive = np.zeros(shape[:2])
        for place, row in enumerate(rows):
            self._arrive[place, : row.kept.size] = row.weights
        for places, slots, up, down, rest in _thinned(rows, half):
            # Where F1 was cut F0 is too, which is safe and keeps the ratio falling.
            zero[places, slots, 1:] = np.where(down > 0, up, 0.0)
            one[places, slots, 1:], one[places, slots, 0] = down, rest
        ratio = np.full(shape, np.inf)
        np.divide(one, zero, out=ratio, where=zero > 0)
        self._ratio: Floats = np.minimum.accumulate(ratio, axis=-1, out=ratio).reshape(-1, half + 1)
        self._zero: Floats = np.cumsum(zero, axis=-1, out=zero).reshape(-1, half + 1)
        self._one: Floats = np.cumsum(one, axis=-1, out=one).reshape(-1, half + 1)

    def _delta(self, epsilon: float) -> float:
        grown = float(exponential(epsilon)) * (1 - 3 * self.rounding)
        found = self._excess(max(grown, 1.0)) * (1 + 2 * self.rounding)
        # Below one the factor would call for thresholds under x/2, which are not kept.
        return found + self.missing + max(0.0, 1 - grown)

    def _excess(self, grown: float) -> float:
        use = np.flatnonzero(self._right > grown * (1 - self._right))
        right, row = self._right[use], self._row[use]
        gain, loss = right - grown * (1 - right), grown * right - (1 - right)
        threshold = self._thresholds(row, loss / gain)
        excess = gain * self._one[row, threshold] - loss * self._zero[row, threshold]
        return float(self._weights[use] @ np.maximum(excess, 0.0))

    def _thresholds(self, row: npt.NDArray[np.intp], least: Floats) -> npt.NDArray[np.intp]:
        """The last column whose F1/F0 exceeds ``least``: by bisection. That of the first is infinite."""
        width = self._ratio.shape[-1]
        flat, start = self._ratio.ravel(), row * width
        found = np.zeros(row.shape, dtype=np.intp)
        step = 1 << (width.bit_length() - 1)
        while step:
            tried = np.minimum(found + step, width - 1)
            found = np.where(flat[start + tried] > least, tried, found)
            step >>= 1
        return found

    def walk(self) -> Iterator[tuple[Floats, Floats]]:
        """Masses of every outcome when the victim holds b, and when she holds a."""
        size = max(1, (1 << 19) // self._ratio.shape[-1])
        for start in range(0, self._right.size, size):
            part = slice(start, start + size)
            row, right, weight = self._row[part], self._right[part, None], self._weights[part, None]
            zero = np.diff(self._zero[row], axis=1, prepend=0.0)
            one = np.diff(self._one[row], axis=1, prepend=0.0)
            held_b, held_a = right * zero + (1 - right) * one, right * one + (1 - right) * zero
            yield (weight * held_b).ravel(), (weight * held_a).ravel()


def _thinned(
    rows: list[_Row], half: int
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Floats, Floats, Floats]]:
    """(rows, slots, F0, F1, rest of F1) by falling k to x/2 for every kept x: one report after another is left out."""
    if not rows:
        return
    width = max(row.where.width for row in rows)
    low = np.array([row.where.low for row in rows])
    current = np.zeros((len(rows), width))
    for place, row in enumerate(rows):
        current[place, : row.where.width] = row.mass
    k = low[:, None] + np.arange(width, dtype=np.float64)
    sent = np.array([row.kept[0] for row in rows])
    left = np.maximum(sent[:, None] - k, 0.0)
    slots = np.zeros(len(rows), dtype=np.intp)
    nexts = sent.copy()
    # The end of every list is -1: nothing more to keep.
    kept = np.full((len(rows), max(row.kept.size for row in rows) + 1), -1)
    for place, row in enumerate(rows):
        kept[place, : row.kept.size] = row.kept
    offsets = np.arange(half - 1, -1, -1)
    while True:
        due = np.flatnonzero((nexts == sent) & (nexts >= 0))
        if due.size:
            upper = (sent[due] + 1) // 2 - low[due]
            up = upper[:, None] + offsets
            down = (sent[due] - 2 * low[due])[:, None] - up
            rest = _below(current, due, down[:, 0])
            yield due, slots[due], _taken(current, due, up), _taken(current, due, down), rest
            slots[due] += 1
            nexts[due] = kept[due, slots[due]]
            current[nexts < 0] = 0.0
        if (nexts < 0).all():
            return
        shifted = current * k
        current *= left
        current[:, :-1] += shifted[:, 1:]
        current /= np.maximum(sent, 1)[:, None]
        left -= 1
        np.maximum(left, 0.0, out=left)
        sent -= 1


def _below(current: Floats, rows: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]) -> Floats:
    """The sum of each row before its end, which may lie behind the row."""
    width = current.shape[1]
    starts, whole = rows * width, np.append(current.ravel(), 0.0)
    parts = np.add.reduceat(whole, np.column_stack([starts, starts + np.clip(ends, 0, width)]).ravel())[::2]
    result: Floats = np.where(ends > 0, parts, 0.0)
    return result


def _taken(current: Floats, rows: npt.NDArray[np.intp], places: npt.NDArray[np.intp]) -> Floats:
    inside = (places >= 0) & (places < current.shape[1])
    values = current[rows[:, None], np.clip(places, 0, current.shape[1] - 1)]
    result: Floats = np.where(inside, values, 0.0)
    return result
