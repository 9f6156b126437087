"""A sweep's rows as tidy tables: one line for each replicate, in the order of the settings.

``read_sweep`` is how others (plots, the report) get at a sweep, finished or not: plain dictionaries, one for each
row, with ``setting``, ``replicate`` and ``seed``, the varied keys under their dotted names, then the metrics.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments.sweeps import journal
from p2p_labeldp.experiments.sweeps.plan import Failure
from p2p_labeldp.experiments.sweeps.replicate import METRICS, TEXTS
from p2p_labeldp.privacy import View, together
from p2p_labeldp.systems import put_in_place

ROWS, PARQUET, FAILURES = "sweep.csv", "sweep.parquet", "failures.csv"
PLACE = ("setting", "replicate", "seed")

Row = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found so far."""

    folder: Path
    keys: tuple[str, ...]
    """The varied keys, dotted."""
    settings: tuple[tuple[Any, ...], ...]
    """Values in the order of ``keys``; None where a setting leaves the key to another."""
    seeds: int
    """How many replicates every setting is to have."""
    rows: tuple[Row, ...]
    """Sorted by setting and replicate; every row has every column, None where there is nothing."""
    failures: tuple[Row, ...]
    """Replicates that failed when they were last tried: the same first columns, and ``reason``."""
    engine: str
    hosting: str | None
    """With actors: one task per user, or per cluster."""
    scenario: str
    """The scenario that was varied, as TOML."""
    private: bool
    """Whether rows were computed from labels that do not ship: then the folder is for its owner alone."""
    paired: bool = False
    """Whether a replicate has the same seed, and so the same split, in all settings."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows[0]) if self.rows else (*PLACE, *self.keys)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that hold numbers and are neither a place nor a setting."""
        return tuple(
            name
            for name in self.columns[len(PLACE) + len(self.keys) :]
            if any(isinstance(row[name], int | float) for row in self.rows)
        )

    def by_setting(self) -> dict[int, list[Row]]:
        """The rows of every setting, also of those that have none."""
        found: dict[int, list[Row]] = {number: [] for number in range(len(self.settings))}
        for row in self.rows:
            found[row["setting"]].append(row)
        return found

    @property
    def spent(self) -> tuple[float, float]:
        """(epsilon, delta) that all rows together would cost on private labels."""
        return together(_spent(row) for row in self.rows)

    @property
    def missing(self) -> int:
        """How many replicates are still to be run, those that failed included."""
        return self.seeds * len(self.settings) - len(self.rows)


def _spent(row: Row) -> tuple[float, float]:
    """Against whoever sees the model, where the learner is trusted, else against the learner."""
    view = View.MODEL if row.get(f"epsilon.{View.MODEL}") is not None else View.LEARNER
    epsilon, delta = row.get(f"epsilon.{view}"), row.get(f"delta.{view}")
    return math.inf if epsilon is None else float(epsilon), 0.0 if delta is None else float(delta)


def read_sweep(folder: Path) -> Sweep:
    """The sweep in a folder. RequestError where there is none."""
    path = folder / journal.FILE
    if not path.exists():
        raise RequestError(f"{folder}: holds no sweep; there is no {journal.FILE}")
    header, records, _ = journal.read(path)
    if not header:
        raise RequestError(f"{path}: holds no sweep yet")
    failures = []
    if (folder / FAILURES).exists():
        try:
            with (folder / FAILURES).open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            failures = [Failure(int(row["setting"]), int(row["replicate"]), row["reason"]) for row in rows]
        except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
            raise RequestError(f"{folder / FAILURES}: cannot be read: {error}") from None
    return assemble(folder, header, records, failures)


def assemble(folder: Path, header: journal.Record, records: list[journal.Record], failures: Sequence[Failure]) -> Sweep:
    """Sorted rows with the same columns each; failures that a later start made good are left out."""
    keys = tuple(header["keys"])
    settings = tuple(tuple(values) for values in header["settings"])
    found = journal.rows_of(records)
    rows = [_row(found[place], keys, settings) for place in sorted(found)]
    names = dict.fromkeys(name for row in rows for name in row)
    first = (*PLACE, *keys, *METRICS)
    columns = [*first, *(name for name in names if name not in first and name not in TEXTS), *TEXTS]
    failed = [
        {"setting": failure.setting, "replicate": failure.replicate}
        | dict(zip(keys, settings[failure.setting], strict=True))
        | {"reason": failure.reason}
        for failure in sorted(failures)
        if failure[:2] not in found and failure.setting < len(settings)
    ]
    return Sweep(
        folder=folder,
        keys=keys,
        settings=settings,
        seeds=next((record["seeds"] for record in reversed(records) if "seeds" in record), 0),
        rows=tuple({name: row.get(name) for name in columns} for row in rows),
        failures=tuple(failed),
        engine=header["engine"],
        hosting=header["hosting"],
        scenario=header["scenario"],
        private=bool(header["files"]),
        paired=header.get("paired", False),
    )


def _row(record: journal.Record, keys: tuple[str, ...], settings: tuple[tuple[Any, ...], ...]) -> Row:
    metrics = {name: math.inf if value == "inf" else value for name, value in record["metrics"].items()}
    place = {name: record[name] for name in PLACE}
    return place | dict(zip(keys, settings[record["setting"]], strict=True)) | metrics


def write_tables(sweep: Sweep) -> None:
    """Write what there is: CSV, Parquet where pyarrow is installed, failures where there are any.

    What there is not must not be there from an earlier start.
    """
    tables = {
        ROWS: _csv(sweep.columns, sweep.rows),
        PARQUET: _parquet(sweep) if has_parquet() else None,
        FAILURES: _csv(tuple(sweep.failures[0]), sweep.failures) if sweep.failures else None,
    }
    for name, content in tables.items():
        path = sweep.folder / name
        if content is None:
            path.unlink(missing_ok=True)
            continue
        try:
            with put_in_place(path) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}; the rows are in {journal.FILE}") from None


def has_parquet() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool) else value


def _parquet(sweep: Sweep) -> bytes:
    import pyarrow
    import pyarrow.parquet

    arrays = {}
    for name in sweep.columns:
        values = [row[name] for row in sweep.rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds <= {int, float} and kinds != {int}:
            values = [None if value is None else float(value) for value in values]
        whole = not kinds and name in (*PLACE, "users")
        arrays[name] = pyarrow.array(values, None if kinds else pyarrow.int64() if whole else pyarrow.float64())
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays), buffer)
    return buffer.getvalue()
