"""From named columns of numbers and categories to a matrix of features.

Numbers are standardised, categories one-hot. Means, deviations and the list of categories come from the
training examples' features, which are public; no label is looked at. Categories that are rare in training,
and those never seen there, share one column, so that no column stands for a handful of people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Column = Numbers | Sequence[str]

MISSING = "?"
# More columns than this for one category column would be an identifier, not a category.
MOST_CATEGORIES = 50


@dataclass(frozen=True)
class Table:
    """Columns by name, in order; a number column is a float array where NaN is missing."""

    columns: Mapping[str, Column]
    rows: int


def encode(table: Table, training: NDArray[np.int64], fewest: int = 1) -> NDArray[np.float32]:
    """All rows as features; ``training`` are the rows that means and categories come from.

    A category with fewer than ``fewest`` training examples shares a column with all others of its kind.
    """
    blocks = [
        _standardised(column, training) if isinstance(column, np.ndarray) else _one_hot(column, training, fewest)
        for column in table.columns.values()
    ]
    if not blocks:
        return np.zeros((table.rows, 0), dtype=np.float32)
    return np.ascontiguousarray(np.concatenate(blocks, axis=1), dtype=np.float32)


def _standardised(column: Numbers, training: NDArray[np.int64]) -> NDArray[np.float32]:
    known = column[training]
    known = known[~np.isnan(known)]
    # Dividing by the largest first keeps squares of very large numbers finite.
    largest = float(np.abs(known).max(initial=0.0)) or 1.0
    mean = float((known / largest).mean()) if len(known) else 0.0
    deviation = float((known / largest).std()) if len(known) else 0.0
    # A constant column says nothing; what is left of its deviation after rounding is not information.
    if deviation <= 1e-12:
        return np.zeros((len(column), 1), dtype=np.float32)
    scaled = (column / largest - mean) / deviation
    # A test value may lie absurdly far outside what training saw; it must still fit a float32.
    return np.clip(np.nan_to_num(scaled, nan=0.0), -1e6, 1e6)[:, None].astype(np.float32)


def _one_hot(column: Sequence[str], training: NDArray[np.int64], fewest: int) -> NDArray[np.float32]:
    found: dict[str, int] = {}
    code = np.fromiter((found.setdefault(value, len(found)) for value in column), np.int64, len(column))
    counts = np.bincount(code[training], minlength=len(found)).tolist()
    # Most frequent first, equals by name: what is kept does not depend on the order of the rows.
    frequent = sorted(found, key=lambda name: (-counts[found[name]], name))[:MOST_CATEGORIES]
    kept = sorted(name for name in frequent if counts[found[name]] >= max(1, fewest))
    others = len(kept)
    place = np.full(len(found), others)
    place[[found[name] for name in kept]] = np.arange(others)
    where = place[code]
    width = others + bool((where == others).any())
    if width < 2:
        return np.zeros((len(column), 0), dtype=np.float32)
    block = np.zeros((len(column), width), dtype=np.float32)
    block[np.arange(len(column)), where] = 1.0
    return block
