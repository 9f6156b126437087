"""The journal of a sweep: what it is, then a line for each replicate, written as it finishes.

Killed at any moment, it loses at most the line that was being written, which is cut off before the sweep resumes.
One sweep at a time: the file is locked while it grows.
"""

from __future__ import annotations

import itertools
import json
import tomllib
from pathlib import Path
from typing import Any

from p2p_labeldp.engines.dask_cluster import versions
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.experiments.sweeps.inputs import Digests
from p2p_labeldp.experiments.sweeps.plan import Plan
from p2p_labeldp.scenario import Engine, Hosting
from p2p_labeldp.systems import lock

FILE = "sweep.jsonl"
FORMAT = "p2p-labeldp sweep 1"

Record = dict[str, Any]
"""``setting``, ``replicate``, ``seed`` and ``metrics``."""


def header_of(plan: Plan, files: Digests) -> Record:
    """What makes a sweep this one, ``files`` being those it reads; the number of seeds may grow."""
    return {
        "format": FORMAT,
        "engine": plan.engine,
        "hosting": plan.hosting,
        "keys": list(plan.keys),
        "settings": [list(setting) for setting in plan.settings],
        "versions": versions(),
        "files": files,
        "scenario": plan.scenario.to_toml(),
        **({"paired": True} if plan.paired else {}),
    }


def read(path: Path) -> tuple[Record, list[Record], int]:
    """The header, the records and the length in bytes of what is whole; an empty header where there is none yet."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
    whole = content.rfind(b"\n") + 1
    found: list[Record] = []
    for number, line in enumerate(content[:whole].split(b"\n")[:-1], 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append({})
        if not (_is_header if number == 1 else _is_record)(found[-1]):
            raise RequestError(f"{path}:{number}: is no line of a sweep's journal of this version")
    if not found and not json.dumps({"format": FORMAT}).encode().startswith(content[: len(FORMAT) + 12]):
        raise RequestError(f"{path}: is no journal of a sweep")
    return (found[0] if found else {}), found[1:], whole


def _is_header(found: Any) -> bool:
    kinds = {"keys": list, "settings": list, "versions": dict, "files": dict, "scenario": str}
    return (
        isinstance(found, dict)
        and found.get("format") == FORMAT
        and found.get("engine") in tuple(Engine)
        and found.get("hosting") in (None, *tuple(Hosting))
        and found.get("paired", False) in (False, True)
        and all(isinstance(found.get(name), kind) for name, kind in kinds.items())
    )


def _is_record(found: Any) -> bool:
    if isinstance(found, dict) and found.keys() == {"seeds"}:
        return isinstance(found["seeds"], int)
    kinds = {"setting": int, "replicate": int, "seed": int, "metrics": dict}
    return (
        isinstance(found, dict)
        and found.keys() == kinds.keys()
        and all(isinstance(found[name], kind) for name, kind in kinds.items())
    )


def check(folder: Path, plan: Plan, files: Digests) -> dict[tuple[int, int], Record]:
    """Rows of an earlier start, by (setting, replicate). RequestError where the folder holds anything else."""
    path = folder / FILE
    try:
        if not path.exists():
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise RequestError(f"--out {folder}: exists already and holds no sweep; name another folder")
            return {}
    except OSError as error:
        raise RequestError(f"--out {folder}: cannot be read: {error.strerror}") from None
    header, records, _ = read(path)
    if not header:
        return {}
    difference = _difference(header, header_of(plan, files))
    if difference:
        raise RequestError(f"--out {folder}: holds another sweep: {difference}; name another folder")
    rows = rows_of(records)
    for (setting, replicate), record in rows.items():
        if not 0 <= setting < len(plan.settings) or record["seed"] != plan.seed(setting, replicate):
            raise RequestError(f"{path}: its row of setting {setting}, replicate {replicate} is none of this sweep")
    most = max((replicate for _, replicate in rows), default=-1) + 1
    if most > plan.seeds:
        raise RequestError(f"--seeds {plan.seeds}: {folder} has rows of {most} seeds already; it may only grow")
    return rows


def rows_of(records: list[Record]) -> dict[tuple[int, int], Record]:
    found: dict[tuple[int, int], Record] = {}
    for record in records:
        if "seeds" not in record:
            found.setdefault((record["setting"], record["replicate"]), record)
    return found


def _difference(there: Record, here: Record) -> str:
    """The first thing that differs, in words; empty where nothing does."""
    tables = [tomllib.loads(header["scenario"]) for header in (there, here)]
    for section in dict.fromkeys([*tables[0], *tables[1]]):
        if section == "deployment":  # nothing there changes a result
            continue
        old, new = (table.get(section, {}) for table in tables)
        if old != new and isinstance(old, dict) and isinstance(new, dict):
            name = next(name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name))
            return f"{section}.{name} is {_show(old.get(name))} there and {_show(new.get(name))} here"
        if old != new:
            return f"its {section} are others"
    if there["keys"] != here["keys"]:
        return f"it varies {', '.join(there['keys']) or 'nothing'}"
    if there["settings"] != here["settings"]:
        pairs = itertools.zip_longest(there["settings"], here["settings"])
        number, (old, new) = next((number, pair) for number, pair in enumerate(pairs) if pair[0] != pair[1])
        pair = ["none" if values is None else ", ".join(map(_show, values)) for values in (old, new)]
        return f"its setting {number} ({', '.join(there['keys'])}) is {pair[0]} there and {pair[1]} here"
    for part in ("versions", "files"):
        for name in dict.fromkeys([*there[part], *here[part]]):
            old, new = there[part].get(name), here[part].get(name)
            if old != new:
                said = f"{name} was {old} and is {new}" if part == "versions" else f"{name} has changed since"
                return f"{said}, so that rows might differ"
    for part in ("engine", "hosting"):
        if there[part] != here[part]:
            return f"its {part} is {there[part]}, not {here[part]}"
    if there.get("paired", False) != here.get("paired", False):
        return "its settings have seeds of their own" if here.get("paired") else "its settings share their seeds"
    return ""


def _show(value: Any) -> str:
    return "not given" if value is None else json.dumps(value)


class Journal:
    """The file, open and locked; its rows were checked before."""

    def __init__(self, folder: Path, plan: Plan, files: Digests) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if files:  # the data do not ship, and rows hold seeds and what was computed from true labels
                folder.chmod(0o700)
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise RequestError(f"--out {folder}: cannot be written: {error.strerror}") from None
        try:
            lock(self._file.fileno())
        except OSError:
            self._file.close()
            raise RequestError(
                f"--out {folder}: another sweep is at work in it; wait for it, or name another"
            ) from None
        except RequestError:
            self._file.close()
            raise
        try:
            self.rows = check(folder, plan, files)  # once more: it may have grown until the lock was ours
            header, records, whole = read(self.path)
            self._file.truncate(whole)
            if not header:
                self._write(header_of(plan, files))
            planned = [record["seeds"] for record in records if "seeds" in record]
            if planned[-1:] != [plan.seeds]:
                self._write({"seeds": plan.seeds})
        except BaseException:
            self._file.close()
            raise

    def append(self, record: Record) -> None:
        """Keep a finished replicate."""
        self._write(record)
        self.rows[record["setting"], record["replicate"]] = record

    def _write(self, record: Record) -> None:
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        try:
            written = self._file.write(line)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written: {error.strerror}; rows up to here are kept") from None
        if written != len(line):
            raise RunError(f"{self.path}: cannot be written: the disk is full; rows up to here are kept")

    def close(self) -> None:
        self._file.close()
