"""How to repeat a sweep, or one run of it: commands for a shell, whatever the values are."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shlex
from collections.abc import Iterable
from typing import Any

from p2p_labeldp.experiments.sweeps import Sweep
from p2p_labeldp.reporting.blocks import Block, Code, Section, Table, Text

FILES = {
    "sweep.csv": "one row for each replicate",
    "sweep.parquet": "the same rows for programs",
    "failures.csv": "replicates that failed, and why",
    "sweep.jsonl": "the journal that all of it is made from",
}


def again(found: Sweep) -> Section:
    blocks: list[Block] = [Text("With the scenario below as scenario.toml:")]
    arguments = ["p2p-labeldp", "sweep", "scenario.toml"]
    axes = [list(dict.fromkeys(values[place] for values in found.settings)) for place in range(len(found.keys))]
    grid = list(itertools.product(*axes)) == list(found.settings)
    if grid:
        for key, values in zip(found.keys, axes, strict=True):
            arguments += ["--vary", f"{key}={_line(map(_cell, values))}"]
    else:
        arguments += ["--settings", "settings.csv"]
    how = ["--engine", found.engine]
    how += ["--hosting", found.hosting] if found.hosting not in (None, "user") else []
    paired = ["--paired"] if found.paired else []
    blocks.append(Code("Command", shlex.join([*arguments, "--seeds", f"{found.seeds}", *paired, *how])))
    if not grid:
        lines = [_line(found.keys), *(_line(map(_cell, values)) for values in found.settings)]
        blocks.append(Code("settings.csv", "\n".join([*lines, ""]), folded=True))
    if found.rows and found.keys:
        row = found.rows[0]
        arguments = ["p2p-labeldp", "run", "scenario.toml", "--seed", f"{row['seed']}"]
        for key in found.keys:
            arguments += ["--set", f"{key}={_cell(row[key])}"] if row[key] is not None else []
        blocks.append(Text("A single run of it, with the seed of its row; this is the first:"))
        blocks.append(Code("A run", shlex.join([*arguments, *how])))
    blocks.append(Code("The scenario that was varied", found.scenario, folded=True))
    files = [(name, meaning) for name, meaning in FILES.items() if (found.folder / name).exists()]
    blocks.append(Table("Files beside this page", ("file", "what it holds"), files))
    return Section("repeat", "Repeat it", blocks)


def _cell(value: Any) -> str:
    """A value as ``--set`` reads it: a plain word as it is, any other text in TOML's quotes."""
    if value is None:
        return ""
    if isinstance(value, str) and re.fullmatch(r"[\w./+:@%-]+", value):
        return value
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _line(cells: Iterable[str]) -> str:
    """Cells as a line of CSV, which is how ``--vary`` and ``--settings`` take values apart."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
