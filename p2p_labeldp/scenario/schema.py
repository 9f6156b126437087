"""The public schema of a table: what every column may hold, so that all parties make the same features from it alone.

    [data.schema]
    classes = ["healthy", "ill"]              # of data.label_column, in the order of label numbers
    ignore = ["patient", "visit"]             # columns that no feature is made of
    missing = ["", "?", "NA"]                 # how a missing value is written

    [data.schema.columns]
    age = {range = [0, 120], unit = "years"}  # one feature: (value - centre) / scale
    sex = {values = ["f", "m", "?"]}          # one feature for each value; "?" is a missing one

A number's centre is the middle of its range and its scale a quarter of the range's length, unless the schema says
otherwise; with ``missing = "centre"`` a missing number counts as the centre, else it is refused. A category takes its
``values`` and, with ``other = true``, whatever else comes, in one feature. ``count`` stands for so many columns of
numbers that are alike: ``pixel = {range = [0, 16], count = 64}`` are ``pixel0`` to ``pixel63``.

Nothing in a schema is found from rows when features are made: a row that does not fit is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from p2p_labeldp.errors import RequestError

MISSING = "?"
"""The value of a category that stands for a missing one, however a file writes it."""
MOST_FEATURES = 1 << 16
MOST_CLASSES = 1 << 15


class Number(Struct, frozen=True, tag="number", forbid_unknown_fields=True):
    """A column of numbers, or ``count`` columns that are alike; scale 0 says nothing and gives 0."""

    name: str
    range: tuple[float, float] | None = None
    unit: str = ""
    centre: float = 0.0
    scale: float = 1.0
    missing: Literal["refuse", "centre"] = "refuse"
    count: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.count == 1 else tuple(f"{self.name}{place}" for place in range(self.count))

    @property
    def width(self) -> int:
        return self.count


class Category(Struct, frozen=True, tag="category", forbid_unknown_fields=True):
    """A column of names, one feature for each; a single one says nothing and makes none."""

    name: str
    values: tuple[str, ...]
    other: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def width(self) -> int:
        found = len(self.values) + self.other
        return found if found > 1 else 0


Column = Number | Category


class Schema(Struct, frozen=True, forbid_unknown_fields=True):
    """All columns in order, and what the label may be. Empty where a data set has none."""

    columns: tuple[Column, ...] = ()
    classes: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    """What data.cluster_column may hold, where clusters are given."""
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("", MISSING)
    separator: str = ","

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that features are made of."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def features(self) -> int:
        """How many features a row has."""
        return sum(column.width for column in self.columns)

    @classmethod
    def numbers(cls, name: str, count: int, classes: tuple[str, ...], *, high: float | None = None) -> Schema:
        """Columns of numbers that are alike: pixels from 0 to ``high``, or what is a feature as it is."""
        limits, scale = (None, 1.0) if high is None else ((0.0, high), high)
        return cls(columns=(Number(name, range=limits, scale=scale, count=count),), classes=classes)

    def to_json(self) -> str:
        """One line, the same for equal schemas."""
        return json.dumps(msgspec.to_builtins(self), sort_keys=True, allow_nan=False)

    def to_toml(self) -> Iterator[str]:
        """The lines of ``[data.schema]``, which read back to an equal schema."""
        yield "[data.schema]"
        for name in ("classes", "clusters", "ignore", "missing"):
            yield f"{name} = {as_toml(getattr(self, name))}"
        yield f"separator = {as_toml(self.separator)}"
        yield ""
        yield "[data.schema.columns]"
        for column in self.columns:
            found = {name: value for name, value in msgspec.structs.asdict(column).items() if name != "name"}
            if isinstance(column, Number):
                found = {name: value for name, value in found.items() if value != _UNSAID.get(name, ...)}
            inside = ", ".join(f"{name} = {as_toml(value)}" for name, value in found.items())
            yield f"{as_toml(column.name)} = {{{inside}}}"


NO_SCHEMA = Schema()

_UNSAID: dict[str, Any] = {"range": None, "unit": "", "missing": "refuse", "count": 1}
_NUMBER = ("range", "unit", "centre", "scale", "missing", "count")
_CATEGORY = ("values", "other")


def as_toml(value: Any) -> str:
    """A JSON text, number, boolean or list is a TOML one too, but for the delete character."""
    if isinstance(value, Schema):
        return value.to_json()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class SchemaTable:
    """The rule of the key ``data.schema``."""

    def allows(self, value: Any) -> bool:
        return isinstance(value, Schema)

    def __str__(self) -> str:
        return "a table [data.schema]; `p2p-labeldp schema FILE.csv` proposes one"


def read_schema(table: Mapping[str, Any]) -> Schema:
    """A schema from ``[data.schema]``; RequestError names the key that is wrong and what is allowed."""
    allowed = ("classes", "clusters", "ignore", "missing", "separator", "columns")
    for name in table:
        if name not in allowed:
            raise RequestError(f"unknown key data.schema.{name}; there are {', '.join(allowed)}")
    separator = table.get("separator", ",")
    if not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n':
        raise RequestError('data.schema.separator must be one character, such as ","')
    columns = table.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise RequestError("data.schema.columns is missing; it names every column that features are made of")
    found = Schema(
        columns=tuple(_column(name, value) for name, value in columns.items()),
        classes=_names(table, "classes", least=2),
        clusters=_names(table, "clusters"),
        ignore=_names(table, "ignore"),
        missing=_names(table, "missing", default=("", MISSING)),
        separator=separator,
    )
    _check(found)
    return found


def _check(schema: Schema) -> None:
    if len(schema.classes) > MOST_CLASSES:
        raise RequestError(f"data.schema.classes has {len(schema.classes)} classes; at most {MOST_CLASSES}")
    if not 1 <= schema.features <= MOST_FEATURES:
        raise RequestError(f"data.schema makes {schema.features} features; from 1 to {MOST_FEATURES} are allowed")
    names = schema.names
    twice = next((name for name in names if names.count(name) > 1), None) if len({*names}) < len(names) else None
    if twice is not None:
        raise RequestError(f"data.schema.columns names {twice} twice")
    both = [name for name in schema.ignore if name in {*names}]
    if both:
        raise RequestError(f"data.schema.ignore has {both[0]}, which is among data.schema.columns")


def _names(table: Mapping[str, Any], key: str, *, least: int = 0, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    value = table.get(key, list(default))
    if not isinstance(value, list) or not all(isinstance(each, str) and "\0" not in each for each in value):
        raise RequestError(f"data.schema.{key} must be a list of texts")
    if len({*value}) < len(value):
        raise RequestError(f"data.schema.{key} names something twice")
    if len(value) < least:
        raise RequestError(f"data.schema.{key} has {len(value)} entries; at least {least}")
    return tuple(value)


def _column(name: str, table: Any) -> Column:
    where = f"data.schema.columns.{name}"
    if not name or not isinstance(table, dict) or not table:
        raise RequestError(f"{where} must be a table with range (of numbers) or values (of a category)")
    category = "values" in table
    allowed = _CATEGORY if category else _NUMBER
    for key in table:
        if key not in allowed:
            kind = "category" if category else "number"
            raise RequestError(f"{where} is a {kind} and has no key {key}; there are {', '.join(allowed)}")
    if category:
        values = _names({"values": table["values"]}, "values", least=1)
        other = table.get("other", False)
        if not isinstance(other, bool):
            raise RequestError(f"{where}.other must be true or false")
        return Category(name, values, other)
    return _number(where, name, table)


def _number(where: str, name: str, table: Mapping[str, Any]) -> Number:
    limits: tuple[float, float] | None = None
    if "range" in table:
        pair = table["range"]
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(_finite, pair)) or not pair[0] < pair[1]:
            raise RequestError(f"{where}.range must be two numbers, the smaller one first")
        limits = float(pair[0]), float(pair[1])
    centre, scale = (0.0, 1.0) if limits is None else ((limits[0] + limits[1]) / 2, (limits[1] - limits[0]) / 4)
    centre, scale = table.get("centre", centre), table.get("scale", scale)
    if not _finite(centre) or not _finite(scale) or scale < 0:
        raise RequestError(f"{where}: centre and scale must be numbers, scale at least 0")
    missing, unit, count = table.get("missing", "refuse"), table.get("unit", ""), table.get("count", 1)
    if missing not in ("refuse", "centre"):
        raise RequestError(f'{where}.missing must be "refuse" or "centre"')
    if not isinstance(unit, str):
        raise RequestError(f"{where}.unit must be a text")
    if type(count) is not int or not 1 <= count <= MOST_FEATURES:
        raise RequestError(f"{where}.count must be a whole number from 1 to {MOST_FEATURES}")
    return Number(name, limits, unit, float(centre), float(scale), missing, count)


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
