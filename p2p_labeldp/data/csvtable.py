"""A CSV file as text: its header, its columns, and the line of each row, so that a fault can be named by its place."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from p2p_labeldp.data.tabular import Outside
from p2p_labeldp.errors import RequestError

SEPARATORS = (",", ";", "\t", "|")
"""Those that files usually have."""


@dataclass(frozen=True, eq=False)
class CsvTable:
    """Values are stripped of blanks around them; a byte order mark and empty lines are passed over."""

    path: Path
    header: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]
    """The line each row ends on."""

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str]:
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def place(self, row: int, column: str) -> str:
        return f"{self.path} line {self.lines[row]}, column {column}"

    def outside(self, found: Outside) -> RequestError:
        """What to say of a value that a schema does not allow."""
        return RequestError(f"{self.place(found.row, found.column)}: {found.why}")


def read_table(path: Path, separator: str = ",", *, least: int = 1) -> CsvTable:
    """The file, or one line that says what is wrong with it."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return parse_table(path, file, separator, least=least)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not UTF-8: convert it; `p2p-labeldp schema` says what it seems to be") from error


def parse_table(path: Path, file: Iterable[str], separator: str, *, least: int = 1) -> CsvTable:
    """The same from lines of text that were read from ``path``."""
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        reader = csv.reader(file, strict=True, delimiter=separator)
        header = [name.strip() for name in next(reader, [])]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise RequestError(f"{path} line {reader.line_num} has {len(row)} fields, not {len(header)}")
            rows.append([value.strip() for value in row])
            lines.append(reader.line_num)
    except csv.Error as error:
        raise RequestError(f"{path} cannot be read as CSV: {' '.join(str(error).split())}") from error
    if not header:
        raise RequestError(f"{path} is empty; it needs a header: its first line must name the columns")
    if any(not name or as_number(name) is not None for name in header):
        raise RequestError(f"{path} needs a header: its first line must name every column, and numbers are no names")
    other = next((each for each in SEPARATORS if each != separator and each in header[0]), None)
    if len(header) == 1 and other is not None:
        raise RequestError(f"{path}: its columns seem to be separated by {other!r}, and {separator!r} is expected")
    twice = [name for index, name in enumerate(header) if name in header[:index]]
    if twice:
        raise RequestError(f"{path} has two columns named {twice[0]}")
    if len(rows) < least:
        wanted = "one to learn from and one to test on are needed" if least > 1 else "at least one is needed"
        raise RequestError(f"{path} has {len(rows)} rows; {wanted}")
    return CsvTable(path, tuple(header), rows, lines)


def as_number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
