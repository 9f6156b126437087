"""The report of a sweep: what was varied, charts of it, the settings, what failed."""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.sweeps import Sweep, read_sweep
from p2p_labeldp.privacy.numbers import plural
from p2p_labeldp.reporting import words
from p2p_labeldp.reporting.blocks import Block, Code, Page, Section, Table, Terms, Text
from p2p_labeldp.reporting.ranked import ranking_section
from p2p_labeldp.reporting.sweep_charts import charts
from p2p_labeldp.reporting.sweeps import CONFIDENCE, delta_warning, mean_cell, show, stated_cells
from p2p_labeldp.scenario import Scenario, documentation, parse_scenario
from p2p_labeldp.scenario.schema import as_toml

MOST_SETTINGS, MOST_FAILURES = 200, 50
PAIRED = " All settings of one replicate have the same seed, and so the same split and the same coins."

FILES = {
    "sweep.csv": "one row for each replicate",
    "sweep.parquet": "the same rows for programs",
    "failures.csv": "replicates that failed, and why",
    "sweep.jsonl": "the journal that all of it is made from",
}


def sweep_page(folder: Path) -> Page:
    try:
        found = read_sweep(folder)
        scenario = parse_scenario(found.scenario, "")
        return _page(found, scenario)
    except RequestError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OSError, csv.Error) as error:
        raise RequestError(f"{folder}: not a sweep that can be read: {type(error).__name__}: {error}") from None


def _page(found: Sweep, scenario: Scenario) -> Page:
    users = words.data_words(scenario)
    title = f"Sweep of {users}: {plural(len(found.settings), 'setting')}, {plural(found.seeds, 'seed')} each"
    if found.paired and "mechanism.kind" in found.keys:
        title = f"Mechanisms compared on {users}"
    warned = [str(row["warnings"]) for row in found.rows if row.get("warnings")]
    warnings = [f"{plural(len(warned), 'run')} warned; the first: {warned[0]}"] if warned else []
    for view in _views(found):
        differ = delta_warning(found.rows, view)
        warnings += [f"View {view}: {differ}."] if differ else []
    if found.failures:
        warnings.append(f"{plural(len(found.failures), 'run')} failed; see below.")
    if found.missing > len(found.failures):
        left = found.missing - len(found.failures)
        warnings.append(f"{plural(left, 'run')} of {found.seeds * len(found.settings):,} are still to be done.")
    return Page(
        title=title,
        verdict=_verdict(found),
        lead=_lead(found, scenario),
        tiles=[
            (f"{len(found.settings):,}", "settings", f"{len(found.keys)} varied"),
            (f"{len(found.rows):,}", "runs done", f"of {found.seeds * len(found.settings):,}"),
            *([(f"{len(found.failures):,}", "runs failed", "")] if found.failures else []),
        ],
        warnings=warnings,
        sections=[
            *([ranking_section(found)] if _ranks(found) else []),
            charts(found),
            *([] if found.paired else [_settings(found)]),
            *([_failures(found)] if found.failures else []),
            _again(found),
            Section("glossary", "Glossary", [Terms(words.GLOSSARY)]),
        ],
        footer="Made by p2p-labeldp from the files of the sweep's folder alone.",
    )


def _verdict(found: Sweep) -> str:
    varied = ", ".join(found.keys) or "nothing but the seed"
    times = plural(found.seeds, "time")
    if not found.missing:
        seeds = "with the same seeds as all others" if found.paired else "each time with a seed of its own"
        return f"Varied: {varied}. Every setting was run {times}, {seeds}."
    total = found.seeds * len(found.settings)
    without = len(found.settings) - len({row["setting"] for row in found.rows})
    none = f"; {without:,} of {plural(len(found.settings), 'setting')} have none" if without else ""
    return (
        f"Varied: {varied}. Every setting is to be run {times}, each time with a seed of its own; "
        f"{len(found.rows):,} of {plural(total, 'run')} are there{none}."
    )


def _ranks(found: Sweep) -> bool:
    """Whether the question is which setting is best."""
    return (found.paired or "mechanism.kind" in found.keys) and "balanced_accuracy" in found.metrics


def _views(found: Sweep) -> list[str]:
    """Whose epsilons stand in the table of settings."""
    return [view for view in ("learner", "model") if f"epsilon.{view}" in found.metrics]


def _lead(found: Sweep, scenario: Scenario) -> list[str]:
    meanings = {dotted: doc for dotted, _, _, doc in documentation()}
    paragraphs = []
    for place, key in enumerate(found.keys):
        values = list(dict.fromkeys(values[place] for values in found.settings if values[place] is not None))
        shown = ", ".join(show(value) for value in values[:20]) + (", …" if len(values) > 20 else "")
        meaning = f" ({meanings[key]})" if key in meanings else ""
        paragraphs.append(f"{key}{meaning}: {shown}.")
    fixed = [words.data_words(scenario)] if "data.name" not in found.keys else []
    if "mechanism.kind" not in found.keys:
        fixed.append(f"mechanism {scenario.mechanism.kind.replace('_', ' ')}")
    rest = f"Everything else is as in one scenario{': ' if fixed else ''}{', '.join(fixed)}; runs by the "
    rest += f"{found.engine} engine. A seed decides the test split, the clusters and the coins, so that the bands show "
    return [*paragraphs, rest + "how much all three matter." + (PAIRED if found.paired else "")]


def _settings(found: Sweep) -> Section:
    shown = [name for name in ("accuracy", "accuracy_ratio") if name in found.metrics]
    views = _views(found)
    rows = found.by_setting()
    cells = []
    for place in list(rows)[:MOST_SETTINGS]:
        means = [mean_cell(rows[place], name) for name in shown]
        stated = [cell for view in views for cell in stated_cells(rows[place], view)]
        cells.append((f"{place}", *map(show, found.settings[place]), f"{len(rows[place]):,}", *means, *stated))
    more = f" (the first {MOST_SETTINGS} of {len(rows):,})" if len(rows) > MOST_SETTINGS else ""
    stated_heads = [head for view in views for head in (f"largest epsilon, {view}", f"delta, {view}", "found as")]
    head = ("setting", *found.keys, "runs", *shown, *stated_heads)
    title = f"Every setting{more}: means, ± half of the {CONFIDENCE:.0%} confidence interval of the mean"
    title += "; of epsilon the largest of its runs, rounded up" if views else ""
    table = Table(title, head, cells, frozenset({0, *range(len(found.keys) + 1, len(head))}))
    return Section("settings", "Settings", [table])


def _failures(found: Sweep) -> Section:
    rows = [
        (f"{row['setting']}", f"{row['replicate']}", *(show(row[key]) for key in found.keys), str(row["reason"]))
        for row in found.failures[:MOST_FAILURES]
    ]
    more = f" (the first {MOST_FAILURES} of {len(found.failures):,})" if len(found.failures) > MOST_FAILURES else ""
    head = ("setting", "replicate", *found.keys, "why")
    said = "The same command tries them again."
    return Section("failures", "What failed", [Table(f"Runs that failed{more}", head, rows), Text(said)])


def _again(found: Sweep) -> Section:
    """How to repeat it, or one run of it: commands for a shell, whatever the values are."""
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
    return as_toml(value)


def _line(cells: Iterable[str]) -> str:
    """Cells as a line of CSV, which is how ``--vary`` and ``--settings`` take values apart."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
