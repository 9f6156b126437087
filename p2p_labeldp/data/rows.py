"""Rows of somebody's own, made into features by a public schema and nothing else.

A CSV file has the schema's columns in any order, the columns that it ignores, and no others (where nothing is learned
from them others are passed over). Whatever does not fit is refused with file, line and column; a label is never quoted,
since a message may end in a log. Data that were never text, such as pictures, come as arrays in an .npz file.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.data.csvtable import CsvTable, read_table
from p2p_labeldp.data.dataset import Floats
from p2p_labeldp.data.tabular import Outside, encode
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data, Schema

Use = Literal["users", "test", "new"]


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
    claims: Mapping[int, Floats] = field(default_factory=dict)
    """Features of other users, by id, that the owner has got hold of: what adversaries claim to be their own."""

    def __len__(self) -> int:
        return len(self.features)

    def taking_part(self, person_rows: str) -> Rows:
        """The rows that become users, in their order: those of a person together, or her first alone."""
        if not self.persons:
            return self
        order = by_person(np.array(self.persons), person_rows)
        return Rows(
            np.ascontiguousarray(self.features[order]),
            None if self.labels is None else self.labels[order],
            None if self.clusters is None else self.clusters[order],
            tuple(self.persons[row] for row in order.tolist()),
            self.claims,
        )

    @property
    def person_rows(self) -> int:
        """The most rows of one person."""
        return max(Counter(self.persons).values(), default=1)


def by_person(persons: NDArray[Any], person_rows: str) -> NDArray[np.int64]:
    """The rows in their order, those of one person together where she has the first; or her first alone."""
    _, first, owner = np.unique(persons, return_index=True, return_inverse=True)
    if person_rows == "one":
        return np.sort(first).astype(np.int64)
    return np.argsort(first[owner.reshape(-1)], kind="stable").astype(np.int64)


def read_rows(path: Path, schema: Schema, named: Named, *, use: Use = "users", least: int = 1) -> Rows:
    """A file's rows: of users, with all that they need; to test a model on; or new ones, perhaps without labels."""
    if use != "users":
        named = replace(named, cluster="", person="")
    if path.suffix == ".npz":
        return _read_arrays(path, schema, named)
    table = read_table(path, schema.separator, least=least)
    _require_columns(table, schema, named, use)
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


def write_arrays(path: Path, rows: Rows) -> None:
    """Rows as arrays, ``.npz``, for data that were never text; features as the schema makes them."""
    assert rows.labels is not None
    arrays: dict[str, NDArray[Any]] = {"features": rows.features, "label": rows.labels}
    if rows.clusters is not None:
        arrays["cluster"] = rows.clusters
    if rows.persons:
        arrays["person"] = np.array(rows.persons)
    if rows.claims:
        arrays["claimed"] = np.array(sorted(rows.claims), dtype=np.int64)
        arrays["claims"] = np.stack([rows.claims[user] for user in sorted(rows.claims)])
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


_ARRAYS = ("features", "label", "cluster", "person", "claimed", "claims")


def _read_arrays(path: Path, schema: Schema, named: Named) -> Rows:
    """What ``write_arrays`` wrote, or one line that says what is wrong with it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in _ARRAYS if name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RequestError(f"{path} cannot be read as rows: {' '.join(str(error).split())}") from None
    features, labels, clusters = arrays.get("features"), arrays.get("label"), arrays.get("cluster")
    if features is None or features.dtype != np.float32 or features.ndim != 2 or not np.isfinite(features).all():
        raise RequestError(f"{path}: features must be a matrix of finite 32-bit numbers")
    if features.shape[1] != schema.features:
        raise RequestError(f"{path} has {features.shape[1]} features, the schema {schema.features}: another schema?")
    for name, column, most in (("label", labels, len(schema.classes)), ("cluster", clusters, 1 << 62)):
        if column is None:
            continue
        if column.dtype != np.int64 or column.shape != (len(features),):
            raise RequestError(f"{path}: {name} must be a 64-bit whole number for each row")
        if len(column) and not 0 <= column.min() <= column.max() < most:
            raise RequestError(f"{path}: a {name} is outside of 0 to {most - 1}")
    persons = arrays.get("person")
    if named.person and (persons is None or persons.dtype.kind != "U" or persons.shape != (len(features),)):
        raise RequestError(f"{path}: person must name whose row each is, since data.person_column is set")
    if labels is None or not len(features):
        raise RequestError(f"{path} has no labelled rows; at least one is needed")
    told = tuple(persons.tolist()) if persons is not None and named.person else ()
    claimed, claims = arrays.get("claimed", np.empty(0, dtype=np.int64)), arrays.get("claims", features[:0])
    if claims.dtype != np.float32 or claims.shape != (len(claimed), schema.features):
        raise RequestError(f"{path}: claims must be features, a row for each user of claimed")
    return Rows(
        np.ascontiguousarray(features), labels, clusters, told, dict(zip(claimed.tolist(), claims, strict=True))
    )


def _require_columns(table: CsvTable, schema: Schema, named: Named, use: Use) -> None:
    needed = [*schema.names, *((named.label, named.cluster, named.person) if use != "new" else ())]
    lacking = next((name for name in needed if name and name not in table.header), None)
    if lacking is not None:
        raise RequestError(f"{table.path} has no column {lacking}, which the schema names; is it of another schema?")
    known = {*needed, *schema.ignore, named.label, named.cluster, named.person}
    unknown = next((name for name in table.header if name not in known), None)
    if unknown is not None and use == "users":
        raise RequestError(
            f"{table.path}: column {unknown} is not in the schema; list it in data.schema.ignore, or leave it out"
        )


def encoded(table: CsvTable, schema: Schema) -> Floats:
    """The features of a table's rows."""
    try:
        return encode(schema, {name: table.column(name) for name in schema.names})
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
