"""A schema proposed from a CSV file, for a person to edit, and what she should look at before she uses it.

It is a guess from one party's rows: ranges are widened, numbers rounded, and what looks like an identifier, a date or a
constant is put among the ignored columns. A schema is public: it names no value, and no class, that only a few rows
have. Every guess that may be wrong is a warning. Those that follow from labels are for whoever has the rows, and not
written into the file that everyone gets.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.csvtable import SEPARATORS, as_number, parse_table
from p2p_labeldp.data.dataset import compact
from p2p_labeldp.data.tabular import MOST_CATEGORIES
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario.schema import MISSING, Category, Column, Number, Schema, as_toml

MISSING_WORDS = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "-", ".", "unknown")
MOST_CLASSES = 20
"""More numbers than this in a label column are taken for measurements."""
TELLS = 0.99
"""The share of rows whose label one column tells, from which on it is taken for the label in disguise."""
FEW = 5
"""Rows: a value that fewer have is theirs, and not named to everyone."""
_LABELS = ("label", "target", "class", "outcome", "y")
_IDENTIFIER = re.compile(r"(^|[_\W])(id|ids|nr|nbr|no|num|number|uuid|guid|key|ssn|mrn|name|email|phone|code)$", re.I)
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|(19|20)\d\d[-/](0?[1-9]|1[0-2])"
    r"|(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} (\d{{1,2}},? )?\d{{4}})([ T].*)?",
    re.I,
)
_DATED = re.compile(r"(^|[_\W])(date|datetime|timestamp|dob)$|[a-z](Date|Timestamp)$")
Places = NDArray[np.intp]
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass
class Proposal:
    """What was found; warnings are for a person, those of ``labelled`` follow from labels."""

    path: Path
    rows: int
    label: str
    schema: Schema
    open_warnings: list[str] = field(default_factory=list)
    labelled: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        return [*self.open_warnings, *self.labelled]

    def to_toml(self, folder: Path | None = None) -> str:
        """The beginning of a scenario that is to lie in ``folder``; the same whatever labels the rows have, but for the
        classes that several of them share."""
        place = self.path.resolve()
        inside = folder is not None and place.is_relative_to(folder.resolve())
        path = place.relative_to(folder.resolve()).as_posix() if folder is not None and inside else place.name
        lines = [
            f"# Proposed from {self.path.name} ({self.rows} rows). It is a guess: read every line, and mend it.",
            f"# Everyone gets it. List every class that there may be: those of fewer than {FEW} rows are left to you.",
        ]
        lines += [f"# Look at this: {warning}" for warning in self.open_warnings]
        lines += ["", "[data]", 'name = "csv"', f"path = {as_toml(path)}"]
        lines += [f"label_column = {as_toml(self.label)}", "", *self.schema.to_toml()]
        return "\n".join(lines) + "\n"


def propose(path: Path, label: str = "") -> Proposal:
    """Look at a file; RequestError where it is no table at all."""
    warnings: list[str] = []
    labelled: list[str] = []
    text = _decoded(path, warnings)
    separator = _separator(text)
    if separator != ",":
        shown = {"\t": "a tab"}.get(separator, f"{separator!r}")
        warnings.append(f"values are separated by {shown}: the schema says so (separator)")
    table = parse_table(path, io.StringIO(text, newline=""), separator)
    header, rows = table.header, table.rows
    if len(header) < 2:
        raise RequestError(f"{path} has one column; a label and something to tell it by are needed")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    label = _label(path, header, label, warnings)
    missing = _missing({name: values for name, values in columns.items() if name != label}, warnings)
    labels = columns[label]
    classes = _classes(labels, label, (*missing, *_missing({label: labels}, labelled)), labelled)
    described: list[Column] = []
    ignored: list[str] = []
    for name, values in columns.items():
        if name == label:
            continue
        found = _column(name, values, missing, warnings)
        if found is None:
            ignored.append(name)
        else:
            described.append(found)
            _tells(name, values, labels, labelled)
    if not described:
        raise RequestError(f"{path}: no column is left to make features of, beside {label}")
    again = sum(count - 1 for count in Counter(map(tuple, rows)).values() if count > 1)
    if again:
        copies = f"{again} rows are copies of others" if again > 1 else "1 row is a copy of another"
        labelled.append(f"{copies}: is it one person's data several times (person_column)?")
    schema = Schema(tuple(described), classes, ignore=tuple(ignored), missing=missing, separator=separator)
    return Proposal(path, len(rows), label, schema, warnings, labelled)


def _decoded(path: Path, warnings: list[str]) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
    if b"\0" in content[:4096] and not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RequestError(f"{path} is no text")
    for encoding in ("utf-16", "utf-8-sig") if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding != "utf-8-sig":
            warnings.append(f"the file is not UTF-8 but seems to be {encoding}: convert it, no other is read")
        return text
    raise RequestError(f"{path} is neither UTF-8 nor Windows-1252 nor UTF-16")


def _separator(text: str) -> str:
    """The one that gives the most fields, equally many in the first lines."""
    head = io.StringIO("".join(text.splitlines(keepends=True)[:50]), newline="")
    best, most = ",", 1
    for separator in SEPARATORS:
        head.seek(0)
        try:
            widths = {len(row) for row in csv.reader(head, delimiter=separator) if row}
        except csv.Error:
            continue
        if len(widths) == 1 and (width := widths.pop()) > most:
            best, most = separator, width
    return best


def _label(path: Path, header: Sequence[str], label: str, warnings: list[str]) -> str:
    if label:
        if label not in header:
            raise RequestError(f"--label {label}: {path} has the columns {', '.join(header)}")
        return label
    found = next((name for word in _LABELS for name in header if name.lower() == word), header[-1])
    warnings.append(f"no label was named: {found} is taken for it (--label names another)")
    return found


def _missing(columns: dict[str, list[str]], warnings: list[str]) -> tuple[str, ...]:
    words = []
    for word in MISSING_WORDS:
        names = [name for name, values in columns.items() if word in values]
        if names:
            words.append(word)
            warnings.append(f"{word!r} in {_few(names)} is taken for a missing value")
    return ("", MISSING, *words)


def _classes(values: list[str], label: str, missing: tuple[str, ...], warnings: list[str]) -> tuple[str, ...]:
    present = [value for value in values if value not in missing]
    if len(present) < len(values):
        warnings.append(f"{len(values) - len(present)} rows have no {label}: they will be refused")
    counts = Counter(present)
    classes = tuple(sorted(counts))
    if continuous(classes):
        warnings.append(
            f"{label} holds {len(classes)} different numbers: it is continuous, and no label; "
            "make classes of it (low, middle, high) first"
        )
        return ()
    if len(classes) > MOST_CATEGORIES:
        warnings.append(f"{label} has {len(classes)} classes, hardly a question that noisy labels can answer")
    rare = [name for name in classes if counts[name] < FEW]
    if rare:
        warnings.append(
            f"{label}: {_few(rare, 'classes')} {'are' if len(rare) > 1 else 'is'} of fewer than {FEW} rows, and left "
            "out of the classes, since a schema is public: add what everyone may know of"
        )
    if len(classes) < 2:
        warnings.append(f"{label} has one class only: list all that there are")
    return tuple(name for name in classes if name not in rare)


def continuous(classes: tuple[str, ...]) -> bool:
    """Whether what should be classes are measurements."""
    return len(classes) > MOST_CLASSES and all(as_number(value) is not None for value in classes)


def _column(name: str, values: list[str], missing: tuple[str, ...], warnings: list[str]) -> Column | None:
    """What a column seems to hold; None where no feature should be made of it."""
    present = [value for value in values if value not in missing]
    distinct = len({*present})
    if distinct < 2:
        warnings.append(f"{name} is always the same: ignored")
        return None
    if _DATED.search(name) or sum(bool(_DATE.fullmatch(value)) for value in present) > len(present) / 2:
        warnings.append(f"{name} holds dates: ignored; a number such as an age may be what you want")
        return None
    parsed = [as_number(value) for value in present]
    good = [number for number in parsed if number is not None and math.isfinite(number)]
    whole = len(good) == len(present) and all(number == int(number) for number in good)
    unique = distinct > 0.9 * len(present) and len(present) > 20
    if unique and (len(good) < len(present) or (whole and _looks_numbered(good))):
        warnings.append(f"{name} is different in nearly every row: an identifier or free text, ignored")
        return None
    if _IDENTIFIER.search(name) and distinct > MOST_CATEGORIES:
        warnings.append(f"{name} looks like an identifier: ignored; is it the person_column?")
        return None
    if len(good) == len(present):
        return _number(name, good, len(present) < len(values))
    if 2 * len(good) >= len(present):
        row = next(place for place, value in enumerate(values, 1) if value not in missing and as_number(value) is None)
        warnings.append(f"{name} holds mostly numbers, but not in row {row}: mend the file, or list that in missing")
        return _number(name, good, True)
    if sum(bool(_DECIMAL_COMMA.fullmatch(value)) for value in present) > len(present) / 2:
        warnings.append(f"{name} has numbers with a decimal comma: write a point, else they are names")
    return _category(name, present, len(present) < len(values), warnings)


def _looks_numbered(numbers: list[float]) -> bool:
    """Whole numbers that are counted up or cover their range, or that are too long to be a measurement."""
    low, high = min(numbers), max(numbers)
    return high - low < 3 * len(numbers) or high > 1e6


def _number(name: str, numbers: list[float], missing: bool) -> Number:
    values = np.array(numbers)
    low, high = _widened(float(values.min()), float(values.max()))
    scale = _rounded(float(values.std())) or 1.0
    missing_as = "centre" if missing else "refuse"
    return Number(name, (low, high), "", _rounded(float(values.mean())), scale, missing_as)  # type: ignore[arg-type]


def _widened(low: float, high: float) -> tuple[float, float]:
    """Rounded outwards: the next party's rows lie a little outside of these."""
    step = 10.0 ** math.floor(math.log10((high - low) or abs(high) or 1.0))
    below, above = math.floor(low / step), math.ceil(high / step)
    # Where somebody stands on the edge the next step is taken, but nothing that is never negative becomes so.
    below -= below * step == low != 0
    return below * step, (above + (above * step == high)) * step


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _category(name: str, present: list[str], missing: bool, warnings: list[str]) -> Category | None:
    counts = Counter(present)
    common = [value for value, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count >= FEW]
    if not common:
        warnings.append(f"{name} has no value that {FEW} rows share: an identifier or free text, ignored")
        return None
    kept = sorted(common[:MOST_CATEGORIES])
    if len(common) > MOST_CATEGORIES:
        warnings.append(f"{name} has {len(counts)} values: the {MOST_CATEGORIES} commonest are kept, others share one")
    elif len(common) < len(counts):
        rare = f"{len(counts) - len(common)} of its {len(counts)} values"
        warnings.append(f"{name}: {rare} are those of fewer than {FEW} rows, and not named; they share one")
    if missing and MISSING not in kept:
        kept = sorted([*kept, MISSING])
    return Category(name, tuple(kept), other=min(len(common), MOST_CATEGORIES) < len(counts))


def _tells(name: str, values: list[str], labels: list[str], warnings: list[str]) -> None:
    """Warn where a column by itself tells nearly everyone's label, which the commonest label does not."""
    coded = compact(np.array(labels))
    base = np.bincount(coded).max() / len(labels)
    found = [as_number(value) for value in values]
    if 2 * sum(number is not None for number in found) > len(values):
        numbers = np.array([math.nan if number is None else number for number in found])
        told = max(_by_bins(_quantiles(numbers), coded), _by_one_limit(numbers, coded))
    else:
        told = _by_bins(compact(np.array(values)), coded)
    share = told / len(labels)
    if share >= TELLS and share > base + (1 - base) / 2:
        warnings.append(
            f"{name} alone tells {share:.1%} of the labels: is it the label in disguise, or known after it?"
        )


def _quantiles(numbers: NDArray[np.float64]) -> Places:
    """In which of many parts of equal size each number is; a missing one is in the last."""
    distinct = np.unique(numbers)
    if len(distinct) <= MOST_CATEGORIES:
        return np.searchsorted(distinct, numbers)
    parts = min(200, max(2, len(numbers) // 4))
    return np.searchsorted(np.nanquantile(numbers, np.linspace(0, 1, parts + 1)[1:-1]), numbers)


def _by_bins(bins: Places, labels: Places) -> int:
    """How many labels are the commonest one among those of the same bin; 0 where there are too few rows to tell."""
    found, places = np.unique(bins, return_inverse=True)
    counts = np.zeros((len(found), int(labels.max()) + 1), dtype=np.int64)
    np.add.at(counts, (places, labels), 1)
    return 0 if len(labels) < 4 * len(found) else int(counts.max(axis=1).sum())


def _by_one_limit(numbers: NDArray[np.float64], labels: Places) -> int:
    """How many labels the best limit tells that has one class below and one above it."""
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    below = np.cumsum(labels[order][:, None] == np.arange(labels.max() + 1), axis=0)
    cuts = np.flatnonzero(ascending[1:] > ascending[:-1])
    return int((below[cuts].max(axis=1) + (below[-1] - below[cuts]).max(axis=1)).max(initial=0))


def _few(names: list[str], what: str = "columns") -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more {what}" if len(names) > 5 else "")
