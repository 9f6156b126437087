"""Adult: incomes from the census of 1994."""

from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.data.dataset import Source, codes
from p2p_labeldp.data.files import Files, strings_of_openml
from p2p_labeldp.data.record import DataSet
from p2p_labeldp.data.tabular import without_schema
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Data

# Name, and whether it is a number; the label is the last field.
ADULT_COLUMNS = {
    "age": True, "workclass": False, "fnlwgt": True, "education": False, "education-num": True,
    "marital-status": False, "occupation": False, "relationship": False, "race": False, "sex": False,
    "capital-gain": True, "capital-loss": True, "hours-per-week": True, "native-country": False,
}  # fmt: skip
ADULT_CLASSES = ("<=50K", ">50K")
# Plain text has no checksum: a file cut between two lines shows only in its number of rows.
ADULT_FILES = {"adult.data": 32_561, "adult.test": 16_281}
FILES = Files("adult", tuple(ADULT_FILES), openml=1590)
ADULT_FEWEST = 10


def load(data: Data, seed: int, data_dir: Path | None) -> Source:
    found = FILES.find(data_dir)
    if found is None:
        return _adult_from_openml(FILES.fetch(data_dir))
    train, test = (_read_adult(path, ADULT_FILES[path.name]) for path in found)
    return _adult_source([*train, *test], len(train))


def _read_adult(path: Path, expected: int) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path} cannot be read: {error}") from error
    for line, content in enumerate(text.splitlines(), start=1):
        if not content.strip() or content.startswith("|"):
            continue
        fields = [field.strip() for field in content.split(",")]
        if len(fields) != len(ADULT_COLUMNS) + 1:
            raise RequestError(f"{path} line {line} has {len(fields)} fields, not {len(ADULT_COLUMNS) + 1}")
        fields[-1] = fields[-1].removesuffix(".")
        if fields[-1] not in ADULT_CLASSES:
            raise RequestError(f"{path} line {line} has another label than <=50K or >50K")
        for field, (name, is_number) in zip(fields, ADULT_COLUMNS.items(), strict=False):
            if is_number and not (field.isascii() and field.isdigit()):
                raise RequestError(f"{path} line {line}: {name} is {field!r}, not a number")
        rows.append(fields)
    if len(rows) != expected:
        raise RequestError(f"{path} has {len(rows)} rows; the published file has {expected}")
    return rows


def _adult_source(rows: list[list[str]], train_count: int) -> Source:
    *values, labels = zip(*rows, strict=True)
    table = {
        name: np.array(column, dtype=np.float64) if is_number else column
        for (name, is_number), column in zip(ADULT_COLUMNS.items(), values, strict=True)
    }
    train, test = np.split(np.arange(len(rows)), [train_count])
    return without_schema(table, codes(labels, ADULT_CLASSES), ADULT_CLASSES, train, test, ADULT_FEWEST)


def _adult_from_openml(bunch: Any) -> Source:
    columns = strings_of_openml(bunch, tuple(ADULT_COLUMNS))
    labels = [str(label) for label in bunch.target]
    rows = [list(row) for row in zip(*(columns[name] for name in ADULT_COLUMNS), labels, strict=True)]
    test_count = ADULT_FILES["adult.test"]
    # OpenML holds both files in one, the test file first; its share of rich people tells the two apart.
    if len(rows) != sum(ADULT_FILES.values()) or labels[:test_count].count(">50K") != 3_846:
        raise RequestError("OpenML data set 1590 is not Adult in its published order; put the files in place instead")
    return _adult_source(rows[test_count:] + rows[:test_count], len(rows) - test_count)


DATA_SET = DataSet("census records (adult)", load, places=FILES.places)
