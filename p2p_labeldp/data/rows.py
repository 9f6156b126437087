"""Rows of somebody's own, made into features by a public schema and nothing else.

A CSV file has the schema's columns in any order, the columns that it ignores, and no others (where nothing is learned
from them others are passed over). Whatever does not fit is refused with file, line and column; a label is never quoted,
since a message may end in a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from p2p_labeldp.data.csvtable import CsvTable, read_table
from p2p_labeldp.data.dataset import Floats, Labels
from p2p_labeldp.data.tabular import Outside, Table, encode
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data, Schema


@dataclass(frozen=True)
class Named:
    """The columns that are no features, by what they hold; empty where there is none."""

    label: str = ""
    cluster: str = ""
    person: str = ""

    @classmethod
    def of(cls, data: Data) -> Named:
        """Those that a scenario names, which are no features and not the same."""
        named = {name: getattr(data, name) for name in ("label_column", "cluster_column", "person_column")}
        told = {name: column for name, column in named.items() if column}
        for name, column in told.items():
            if column in (*data.schema.names, *data.schema.ignore):
                raise RequestError(f"data.{name} is {column!r}, which data.schema names too; it is no feature")
            twin = next((other for other in told if other > name and told[other] == column), None)
            if twin is not None:
                raise RequestError(f"data.{name} and data.{twin} are both {column!r}")
        return cls(data.label_column, data.cluster_column, data.person_column)


@dataclass(frozen=True, eq=False)
class Rows:
    """Features of rows, and what else their owner knows of them."""

    features: Floats
    labels: Labels | None = None
    clusters: Labels | None = None
    persons: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.features)


def read_rows(path: Path, schema: Schema, named: Named, *, labelled: bool = True, least: int = 1) -> Rows:
    """A CSV file's rows; labels are needed, unless ``labelled`` is False: then they are taken where they are there."""
    table = read_table(path, schema.separator, least=least)
    _require_columns(table, schema, named, labelled)
    features = encoded(table, schema)
    labels = clusters = None
    if named.label in table.header:
        labels = coded(table, named.label, schema.classes, quoted=False)
    if named.cluster and named.cluster in table.header:
        clusters = coded(table, named.cluster, schema.clusters, quoted=True)
    persons = tuple(table.column(named.person)) if named.person and named.person in table.header else ()
    if "" in persons:
        raise RequestError(f"{table.place(persons.index(''), named.person)}: it is empty")
    return Rows(features, labels, clusters, persons)


def _require_columns(table: CsvTable, schema: Schema, named: Named, labelled: bool) -> None:
    needed = [*schema.names, *((named.label, named.cluster, named.person) if labelled else ())]
    lacking = next((name for name in needed if name and name not in table.header), None)
    if lacking is not None:
        raise RequestError(f"{table.path} has no column {lacking}, which the schema names; is it of another schema?")
    known = {*needed, *schema.ignore, named.label, named.cluster, named.person}
    unknown = next((name for name in table.header if name not in known), None)
    if unknown is not None and labelled:
        raise RequestError(
            f"{table.path}: column {unknown} is not in the schema; list it in data.schema.ignore, or leave it out"
        )


def encoded(table: CsvTable, schema: Schema) -> Floats:
    """The features of a table's rows."""
    try:
        return encode(schema, Table({name: table.column(name) for name in schema.names}, len(table)))
    except Outside as found:
        raise table.outside(found) from None


def coded(table: CsvTable, name: str, allowed: tuple[str, ...], *, quoted: bool) -> Labels:
    """The place of each value of a column among those that the schema allows."""
    place = {value: code for code, value in enumerate(allowed)}
    found = np.fromiter((place.get(value, -1) for value in table.column(name)), dtype=np.int64, count=len(table))
    if len(found) and found.min() < 0:
        row = int((found < 0).argmax())
        what = f"{table.column(name)[row]!r}" if quoted else "its value"
        some = ", ".join(map(repr, allowed[:8])) + (" ..." if len(allowed) > 8 else "")
        raise RequestError(f"{table.place(row, name)}: {what} is not among {some or 'what the schema lists, nothing'}")
    return found
