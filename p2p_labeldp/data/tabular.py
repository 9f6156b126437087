"""From named columns of numbers and categories to a matrix of features, by a schema and nothing else.

Numbers are shifted and scaled, categories one-hot (``scenario.schema``). Where a scenario has no schema, ``fitted``
finds one: numbers are standardised, and means, deviations and the list of categories come from the training examples'
features, which are public; no label is looked at. Categories that are rare in training, and those never seen there,
share one column, so that no column stands for a handful of people.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.dataset import Source, parted
from p2p_labeldp.scenario.schema import MISSING, Category, Number, Schema
from p2p_labeldp.scenario.schema import Column as Described

Numbers = NDArray[np.float64]
Column = Numbers | Sequence[str]
"""A column of numbers is a float array where NaN is missing."""
Table = Mapping[str, Column]
"""Columns by name, in order."""

# More columns than this for one category column would be an identifier, not a category.
MOST_CATEGORIES = 50
# A value may lie absurdly far outside what training saw; it must still fit a float32.
FARTHEST = 1e6


class Outside(Exception):
    """A value that the schema does not allow: in which row and column, and what is allowed."""

    def __init__(self, row: int, column: str, why: str) -> None:
        super().__init__(why)
        self.row, self.column, self.why = row, column, why


def without_schema(
    table: Table, labels: Labels, classes: tuple[str, ...], train: Labels, test: Labels, fewest: int = 1, **facts: Any
) -> Source:
    """A table that comes without a schema as a data set: its columns are described by the rows for training."""
    columns = fitted(table, train, fewest)
    return parted(encode(Schema(columns), table), labels, classes, train, test, columns=columns, **facts)


def fitted(table: Table, training: NDArray[np.int64], fewest: int = 1) -> tuple[Described, ...]:
    """The schema's columns for a table that comes without one; ``training`` are the rows it is found from.

    A category with fewer than ``fewest`` training examples shares a column with all others of its kind.
    """
    return tuple(
        _fitted_number(name, column[training])
        if isinstance(column, np.ndarray)
        else _fitted_category(name, column, training, fewest)
        for name, column in table.items()
    )


def _fitted_number(name: str, known: Numbers) -> Number:
    known = known[~np.isnan(known)]
    # Dividing by the largest first keeps squares of very large numbers finite.
    largest = float(np.abs(known).max(initial=0.0)) or 1.0
    mean = float((known / largest).mean()) if len(known) else 0.0
    deviation = float((known / largest).std()) if len(known) else 0.0
    # A constant column says nothing; what is left of its deviation after rounding is not information.
    scale = 0.0 if deviation <= 1e-12 else deviation * largest
    return Number(name, centre=mean * largest, scale=scale, missing="centre")


def _fitted_category(name: str, column: Sequence[str], training: NDArray[np.int64], fewest: int) -> Category:
    found: dict[str, int] = {}
    code = np.fromiter((found.setdefault(value, len(found)) for value in column), np.int64, len(column))
    counts = np.bincount(code[training], minlength=len(found)).tolist()
    # Most frequent first, equals by name: what is kept does not depend on the order of the rows.
    frequent = sorted(found, key=lambda value: (-counts[found[value]], value))[:MOST_CATEGORIES]
    kept = tuple(sorted(value for value in frequent if counts[found[value]] >= max(1, fewest)))
    return Category(name, kept, other=len(found) > len(kept))


def encode(schema: Schema, table: Table) -> NDArray[np.float32]:
    """All rows as features; Outside where a value is none that the schema allows."""
    features = np.zeros((len(next(iter(table.values()), ())), schema.features), dtype=np.float32)
    place = 0
    for column in schema.columns:
        for name in column.names:
            width = column.width // len(column.names)
            block = features[:, place : place + width]
            if isinstance(column, Number):
                block[:, 0] = _scaled(column, name, numbers(column, name, table[name], schema.missing))
            else:
                _one_hot(column, table[name], schema.missing, block)
            place += width
    return features


def numbers(column: Number, name: str, values: Column, missing: Sequence[str]) -> Numbers:
    """The numbers of a column, checked against its range; NaN where one is missing and may be."""
    if isinstance(values, np.ndarray):
        found = values.astype(np.float64)
    else:
        found = np.array([_number(value, missing, row, name) for row, value in enumerate(values)], dtype=np.float64)
    absent = np.isnan(found)
    if column.missing == "refuse" and absent.any():
        raise Outside(int(absent.argmax()), name, "a number is missing, which the schema does not allow")
    low, high = column.range or (-np.inf, np.inf)
    wrong = (found < low) | (found > high) | np.isinf(found)
    if wrong.any():
        row = int(wrong.argmax())
        allowed = "a finite number" if column.range is None else f"a number from {low:g} to {high:g}"
        raise Outside(row, name, f"{values[row]!s} is not {allowed}{f' {column.unit}' if column.unit else ''}")
    return found


def _number(value: str, missing: Sequence[str], row: int, name: str) -> float:
    if value in missing:
        return np.nan
    try:
        found = float(value)
    except ValueError:
        raise Outside(row, name, f"{value!r} is not a number") from None
    if found != found:
        raise Outside(row, name, f"{value!r} is not a number")
    return found


def _scaled(column: Number, name: str, values: Numbers) -> NDArray[np.float32]:
    if column.scale == 0:
        return np.zeros(len(values), dtype=np.float32)
    scaled = (values - column.centre) / column.scale
    return np.clip(np.nan_to_num(scaled, nan=0.0), -FARTHEST, FARTHEST).astype(np.float32)


def _one_hot(column: Category, values: Column, missing: Sequence[str], block: NDArray[np.float32]) -> None:
    place = {value: index for index, value in enumerate(column.values)}
    other = len(place) if column.other else None
    found = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        here = place.get(value)
        if here is None:
            here = place.get(MISSING, other) if value in missing else other
        if here is None:
            what = "is missing" if value in missing else f"is {value!r}"
            some = ", ".join(map(repr, column.values[:8])) + (" ..." if len(column.values) > 8 else "")
            raise Outside(row, column.name, f"it {what}; allowed are {some}")
        found[row] = here
    if column.width:
        block[np.arange(len(found)), found] = 1.0
