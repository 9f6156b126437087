"""A CSV file of the user's own: a header, a label column, columns of numbers and of categories.

A column is one of numbers if all its values are; missing values are empty or ``?`` and become the mean. A
column of mostly numbers with something else among them is taken for a mistake and refused, since reading
it as categories would hide the mistake in a hundred columns.
"""

import math
from pathlib import Path

import numpy as np

from p2p_labeldp.data.csvtable import as_number, read_table
from p2p_labeldp.data.dataset import Source, codes, compact
from p2p_labeldp.data.files import folders
from p2p_labeldp.data.splits import split
from p2p_labeldp.data.tabular import Column, Table, encode, fitted
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Schema
from p2p_labeldp.scenario.schema import MISSING


def load_csv(
    path: str, label_column: str, cluster_column: str, data_dir: Path | None, seed: int, test_fraction: float
) -> Source:
    file = _locate(path, data_dir)
    table = read_table(file, least=2)
    header, rows, lines = table.header, table.rows, table.lines
    for key, column in (("data.label_column", label_column), ("data.cluster_column", cluster_column)):
        if column not in header and (column or key == "data.label_column"):
            raise RequestError(f"{key} is {column!r}, but {file} has the columns {', '.join(map(repr, header))}")
    if cluster_column == label_column:
        raise RequestError(f"data.cluster_column and data.label_column are both {label_column!r}")
    by_name = dict(zip(header, zip(*rows, strict=True), strict=True))
    for column in (label_column, cluster_column):
        if column and "" in by_name[column]:
            raise RequestError(f"{file} line {lines[by_name[column].index('')]} has no {column}")

    columns = {
        name: _column(file, name, values, lines)
        for name, values in by_name.items()
        if name not in (label_column, cluster_column)
    }
    if not columns:
        raise RequestError(f"{file} has no feature column beside {label_column}")
    train, test = split(len(rows), seed, test_fraction)
    found = Table(columns, len(rows))
    described = fitted(found, train)
    features = encode(Schema(described), found)
    classes = tuple(sorted(dict.fromkeys(by_name[label_column])))
    labels = codes(by_name[label_column], classes)
    given = compact(np.array(by_name[cluster_column]))[train] if cluster_column else None
    return Source(
        features[train], labels[train], features[test], labels[test], classes,
        given_clusters=None if given is None else compact(given), columns=described,
    )  # fmt: skip


def _locate(path: str, data_dir: Path | None) -> Path:
    if not path:
        raise RequestError('data.path is empty; data.name = "csv" needs the file\'s path')
    candidates = [Path(path), *(folder / path for folder in folders(data_dir))]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    places = ", ".join(str(candidate.parent.resolve()) for candidate in candidates)
    raise RequestError(f"data.path: there is no file {path}; looked for in {places}")


def _column(path: Path, name: str, values: tuple[str, ...], lines: list[int]) -> Column:
    present = [value for value in values if value not in ("", MISSING)]
    numbers = [as_number(value) for value in present]
    good = sum(number is not None for number in numbers)
    if good == len(present):
        column = np.array([math.nan if value in ("", MISSING) else float(value) for value in values])
        infinite = np.flatnonzero(np.isinf(column))
        if len(infinite):
            raise RequestError(f"{path} line {lines[infinite[0]]}: {name} is infinite")
        return column
    if 2 * good >= len(present):
        bad = present[numbers.index(None)]
        raise RequestError(
            f"{path} line {lines[values.index(bad)]}: {name} is {bad!r}, but most of its values are numbers "
            f"(a missing number is an empty field or ?)"
        )
    return [value or MISSING for value in values]
