"""The likelihood of reports that may be anyone's label, given what the victim holds.

The pool holds h noisy labels: the victim's, known ones, and hidden ones whose owners' true labels are known. With N of
each label after the flips, every report is a draw with probabilities N / h, so

    P(reports | victim) = sum over her noisy label and the hidden ones of P(flips) * prod (N / h)^count

With two labels this is the mixture of binomials over N1 that the learner's guarantee is made of, and exact. With
more, labels other than the two candidates are counted as one: that is the exact ratio of a view which is a little
coarser (how the others' labels split says next to nothing about the two), hence an attack that is close to the
best one but for which no optimality is claimed. Probabilities below 1e-20 are left out there.

In the shuffled view the pool's labels themselves are seen, each once. In the permutation each is reported at most once
in a round: with m reports the chances are those of m labels taken from the pool at random, prod C(N, count) / C(h, m).
Of several sticky rounds at theta below 1 only the sums are looked at, as if they were draws: close to the best attack.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from p2p_labeldp.privacy import Parameters
from p2p_labeldp.privacy.binomial import Window, pmf
from p2p_labeldp.scenario import EXCHANGES

Floats = NDArray[np.float64]

CERTAIN = 700.0
"""In place of an infinite logarithm of odds, which could not be added up."""
_IMPOSSIBLE = -1e9
_TINY = 1e-20
# Elements of a block of (outcome, hidden labels) pairs: 32 MiB.
_BLOCK = 1 << 22


class _Hidden(NamedTuple):
    """The distribution of how many hidden noisy labels are the first and the second candidate."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    mass: Floats


def log_ratios(
    parameters: Parameters,
    pool: int,
    drawn: NDArray[np.int64],
    known: NDArray[np.int64],
    hidden: NDArray[np.int64],
    candidates: tuple[int, int],
    *,
    shuffled: bool,
) -> Floats:
    """log P(drawn | the victim holds the second candidate) / P(drawn | the first), for every row of counts."""
    rows = np.hstack([_collapsed(counts, parameters.labels, candidates) for counts in (hidden, known, drawn)])
    if not len(rows):
        return np.zeros(0)
    distinct, back = _distinct(rows)
    # What is known beside the reports is alike in most rows: first 4 columns of the hidden, 3 of the known.
    settings, group = np.unique(distinct[:, :7], axis=0, return_inverse=True)
    ratios = np.empty(len(distinct))
    for index, setting in enumerate(settings):
        here = np.flatnonzero(group.ravel() == index)
        distribution = _hidden_distribution(parameters.alpha, parameters.labels, *(int(count) for count in setting[:4]))
        counts = distinct[here, 7:]
        if shuffled:
            logs = _released(distribution, counts)
        else:
            logs = _sampled(distribution, pool, setting[4:], counts, at_most_once=_at_most_once(parameters))
        ratios[here] = _ratio(parameters, logs)
    found: Floats = ratios[back]
    return found


def _at_most_once(parameters: Parameters) -> bool:
    """Whether no label is reported twice among the reports that are counted together."""
    together = parameters.theta < 1 and parameters.rounds > 1 and not parameters.fresh
    return EXCHANGES[parameters.exchange].permuted and not together


def _collapsed(counts: NDArray[np.int64], labels: int, candidates: tuple[int, int]) -> NDArray[np.int64]:
    """Columns: first candidate, second, the other labels; of the hidden also those whose true label is not known."""
    first, second = candidates
    others = [label for label in range(labels) if label not in candidates]
    columns = [counts[:, first], counts[:, second], counts[:, others].sum(axis=1)]
    return np.stack([*columns, *counts.T[labels:]], axis=1)


def _distinct(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct rows, and where each row is among them; columns are folded into one number first, for speed."""
    code = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        top = int(column.max()) + 1
        if int(code.max()) >= (1 << 62) // top:
            code = np.unique(code, return_inverse=True)[1].ravel()
        code = code * top + column
    _, places, back = np.unique(code, return_index=True, return_inverse=True)
    return rows[places], back.ravel()


@lru_cache(maxsize=1024)
def _hidden_distribution(alpha: float, labels: int, first: int, second: int, others: int, unknown: int) -> _Hidden:
    """Of the hidden, so many hold the first candidate, the second, some other label, and a label nobody knows."""
    stays, moves = 1 - alpha, alpha / (labels - 1)
    groups = ((first, stays, moves), (second, moves, stays), (others, moves, moves), (unknown, 1 / labels, 1 / labels))
    if labels == 2:
        mass = np.ones(1)
        for size, _, chance in groups:
            mass = np.convolve(mass, pmf(Window(0, size), size, chance))
        possible = np.flatnonzero(mass)
        return _Hidden(mass.size - 1 - possible, possible, mass[possible])
    low, grid = np.zeros(2, dtype=np.int64), np.ones((1, 1))
    for size, *chances in groups:
        corner, part = _trinomial(size, *chances)
        low, grid = low + corner, _convolved(grid, part)
    kept = np.nonzero(grid > _TINY)
    return _Hidden(low[0] + kept[0], low[1] + kept[1], grid[kept])


def _trinomial(size: int, one: float, two: float) -> tuple[NDArray[np.int64], Floats]:
    """The distribution of two of three counts, without its empty margins: where it begins, and its masses."""
    i, j = np.ogrid[: size + 1, : size + 1]
    rest = size - i - j
    inside = np.maximum(rest, 0)
    logs = (
        scipy.special.xlogy(i, one) + scipy.special.xlogy(j, two) + scipy.special.xlogy(inside, max(0.0, 1 - one - two))
    )
    logs += (
        scipy.special.gammaln(size + 1)
        - scipy.special.gammaln(i + 1)
        - scipy.special.gammaln(j + 1)
        - scipy.special.gammaln(inside + 1)
    )
    mass = np.where(rest >= 0, np.exp(logs), 0.0)
    rows, columns = np.nonzero(mass > _TINY)
    corner = np.array([rows.min(), columns.min()])
    return corner, mass[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def _convolved(one: Floats, two: Floats) -> Floats:
    """In two dimensions: rows wide enough for the result, laid end to end, are convolved as one."""
    height, width = one.shape[0] + two.shape[0] - 1, one.shape[1] + two.shape[1] - 1
    first, second = (np.pad(part, ((0, 0), (0, width - part.shape[1]))).ravel() for part in (one, two))
    return np.convolve(first, second)[: height * width].reshape(height, width)


def _sampled(
    distribution: _Hidden, pool: int, known: NDArray[np.int64], counts: NDArray[np.int64], *, at_most_once: bool
) -> Iterator[Floats]:
    """Logarithms of the reports' chances, up to a constant, if her noisy label is the first, the second, another."""
    first, second = distribution.first + known[0], distribution.second + known[1]
    weights = np.log(distribution.mass)
    for mine in ((1, 0), (0, 1), (0, 0)):
        held = np.stack([first + mine[0], second + mine[1], pool - first - second - sum(mine)])
        shares = held / pool
        # Finite in place of log 0, so that nothing drawn from nothing counts as nothing.
        logs = np.where(shares > 0, np.log(np.where(shares > 0, shares, 1.0)), _IMPOSSIBLE)
        step = max(1, _BLOCK // weights.size)
        parts = []
        for start in range(0, len(counts), step):
            one, two, rest = counts[start : start + step].T[:, :, None]
            if at_most_once:
                chances = _chosen(held[0], one) + _chosen(held[1], two) + _chosen(held[2], rest)
                parts.append(np.maximum(scipy.special.logsumexp(chances + weights, axis=1), _IMPOSSIBLE))
                continue
            # Not a matrix product, whose last digits depend on how many rows there are.
            parts.append(scipy.special.logsumexp(one * logs[0] + two * logs[1] + rest * logs[2] + weights, axis=1))
        yield np.concatenate(parts)


def _chosen(held: NDArray[np.int64], count: NDArray[np.int64]) -> Floats:
    """log C(held, count), up to what does not depend on how many are held."""
    left = held - count
    logs = scipy.special.gammaln(held + 1.0) - scipy.special.gammaln(np.maximum(left, 0) + 1.0)
    found: Floats = np.where(left >= 0, logs, _IMPOSSIBLE)
    return found


def _released(distribution: _Hidden, counts: NDArray[np.int64]) -> Iterator[Floats]:
    """The same where the labels themselves are seen: the hidden ones must be what hers leaves over."""
    shape = (
        int(max(distribution.first.max(), counts[:, 0].max())) + 2,
        int(max(distribution.second.max(), counts[:, 1].max())) + 2,
    )
    table = np.full(shape, _IMPOSSIBLE)
    table[distribution.first, distribution.second] = np.log(distribution.mass)
    first, second = counts[:, 0], counts[:, 1]
    for mine in ((1, 0), (0, 1), (0, 0)):
        # Less than none is -1, the table's last row or column, which is empty.
        yield table[first - mine[0], second - mine[1]]


def _ratio(parameters: Parameters, chances: Iterator[Floats]) -> Floats:
    """From the logarithms for each noisy label of hers to their ratio for her two true ones."""
    stays, moves = 1 - parameters.alpha, parameters.alpha / (parameters.labels - 1)
    others = max(0.0, 1 - stays - moves)
    noisy = np.array(list(islice(chances, 2 if parameters.labels == 2 else 3)))
    top = noisy.max(axis=0)
    scaled = np.exp(noisy - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        for_first, for_second = (
            np.log((np.array(weights)[: len(noisy), None] * scaled).sum(axis=0))
            for weights in ((stays, moves, others), (moves, stays, others))
        )
        # What neither label could have caused says nothing.
        ratio = np.where(top > _IMPOSSIBLE / 2, for_second - for_first, 0.0)
    clipped: Floats = np.clip(np.nan_to_num(ratio, nan=0.0), -CERTAIN, CERTAIN)
    return clipped
