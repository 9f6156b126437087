"""A CSV file of the user's own: a header, a label column, columns of numbers and of categories.

With a schema in the scenario its columns hold what that says. Without one they are guessed: a column is one of numbers
if all its values are; missing values are empty or ``?`` and become the mean. A column of mostly numbers with something
else among them is taken for a mistake and refused, since reading it as categories would hide the mistake in a hundred
columns.
"""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.csvtable import as_number, read_table
from p2p_labeldp.data.dataset import Source, codes, parted
from p2p_labeldp.data.files import Places, folders
from p2p_labeldp.data.propose import continuous
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.data.rows import Named, read_rows
from p2p_labeldp.data.splits import split, split_by_owner
from p2p_labeldp.data.tabular import Column, without_schema
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data
from p2p_labeldp.scenario.schema import MISSING


def load_csv(data: Data, seed: int, data_dir: Path | None) -> Source:
    file = locate(data.path, data_dir)
    named = Named.of(data)
    return _described(file, data, named, seed) if data.schema else _guessed(file, data, named, seed)


def _described(file: Path, data: Data, named: Named, seed: int) -> Source:
    """By the scenario's schema and nothing else."""
    rows = read_rows(file, data.schema, named, least=2)
    assert rows.labels is not None
    train, test = _split(file, len(rows), rows.persons, seed, data.test_fraction)
    return parted(
        rows.features, rows.labels, data.schema.classes, train, test, columns=data.schema.columns,
        given_clusters=None if rows.clusters is None else rows.clusters[train],
        persons=np.array(rows.persons)[train] if named.person else None, rows=train, test_rows=test,
    )  # fmt: skip


def _split(
    file: Path, rows: int, persons: tuple[str, ...], seed: int, test_fraction: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """No person is on both sides."""
    if not persons:
        return split(rows, seed, test_fraction)
    if len({*persons}) < 2:
        raise RequestError(f"{file} has the rows of one person; one to learn from and one to test on are needed")
    return split_by_owner(np.array(persons), seed, test_fraction)


def _guessed(file: Path, data: Data, named: Named, seed: int) -> Source:
    """By what its columns seem to hold."""
    table = read_table(file, least=2)
    lines = table.lines
    keys = {"label_column": named.label, "cluster_column": named.cluster, "person_column": named.person}
    for key, column in keys.items():
        if column not in table.header and (column or key == "label_column"):
            shown = ", ".join(map(repr, table.header))
            raise RequestError(f"data.{key} is {column!r}, but {file} has the columns {shown}")
    by_name = {name: tuple(table.column(name)) for name in table.header}
    for column in keys.values():
        if column and "" in by_name[column]:
            raise RequestError(f"{file} line {lines[by_name[column].index('')]} has no {column}")
    columns = {
        name: _column(file, name, values, lines) for name, values in by_name.items() if name not in keys.values()
    }
    if not columns:
        raise RequestError(f"{file} has no feature column beside {named.label}")
    persons = by_name[named.person] if named.person else ()
    train, test = _split(file, len(table), persons, seed, data.test_fraction)
    classes = tuple(sorted(dict.fromkeys(by_name[named.label])))
    if continuous(classes):
        raise RequestError(
            f"data.label_column: {named.label} holds {len(classes)} different numbers, so that it is continuous; make "
            "classes of it, or list them in data.schema"
        )
    return without_schema(
        columns, codes(by_name[named.label], classes), classes, train, test,
        given_clusters=np.array(by_name[named.cluster])[train] if named.cluster else None,
        persons=np.array(persons)[train] if persons else None, rows=train, test_rows=test,
        cluster_names=tuple(sorted({*by_name[named.cluster]})) if named.cluster else (),
    )  # fmt: skip


def locate(path: str, data_dir: Path | None) -> Path:
    if not path:
        raise RequestError('data.path is empty; data.name = "csv" needs the file\'s path')
    found = _places(path, data_dir)[path]
    if found is None:
        looked = ", ".join(str(candidate.parent.resolve()) for candidate in _candidates(path, data_dir))
        raise RequestError(f"data.path: there is no file {path}; looked for in {looked}")
    return found


def _candidates(path: str, data_dir: Path | None) -> list[Path]:
    return [Path(path), *(folder / path for folder in folders(data_dir))]


def _places(path: str, data_dir: Path | None) -> Places:
    return {path: next((each for each in _candidates(path, data_dir) if each.is_file()), None)} if path else {}


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


DATA_SET = DataSet("a CSV file", load_csv, places=lambda data, data_dir: _places(data.path, data_dir))
