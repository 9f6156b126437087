"""The report of a sweep: what was varied, every metric against every varied key, the settings, what failed."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from p2p_labeldp.engines.sweeps import Sweep, read_sweep
from p2p_labeldp.errors import RequestError
from p2p_labeldp.reporting import words
from p2p_labeldp.reporting.blocks import Block, Choice, Chooser, Code, Figure, Page, Section, Table, Terms, Text
from p2p_labeldp.reporting.charts import Axis, Line, line_chart
from p2p_labeldp.reporting.svg import STYLES, number
from p2p_labeldp.reporting.sweeps import CONFIDENCE, Band, bands, estimate, numeric, show
from p2p_labeldp.scenario import Scenario, documentation, parse_scenario

MOST_CHARTS = 60
MOST_SETTINGS, MOST_FAILURES = 200, 50
FILES = {
    "sweep.csv": "one row for each replicate",
    "sweep.parquet": "the same rows for programs",
    "failures.csv": "replicates that failed, and why",
    "sweep.jsonl": "the journal that all of it is made from",
}
_FIRST = ("accuracy", "epsilon.learner", "accuracy_ratio", "nonprivate_accuracy", "psi", "reports", "messages")
_SIDE = ("delta.", "advantage_low", "advantage_high")
_WORDS = {
    "accuracy": "test accuracy (share of examples)",
    "nonprivate_accuracy": "test accuracy without privacy (share)",
    "majority_accuracy": "accuracy of always guessing the commonest label",
    "accuracy_ratio": "accuracy / accuracy without privacy",
    "alpha": "alpha, probability of a flip",
    "virtual_seconds": "virtual seconds",
    "phi": "phi, heterogeneity of clusters",
    "psi": "psi, distortion of label shares",
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
    title = (
        f"Sweep of {users}: {words.plural(len(found.settings), 'setting')}, {words.plural(found.seeds, 'seed')} each"
    )
    warned = [str(row["warnings"]) for row in found.rows if row.get("warnings")]
    warnings = [f"{words.plural(len(warned), 'run')} warned; the first: {warned[0]}"] if warned else []
    if found.failures:
        warnings.append(f"{words.plural(len(found.failures), 'run')} failed; see below.")
    if found.missing > len(found.failures):
        left = found.missing - len(found.failures)
        warnings.append(f"{words.plural(left, 'run')} of {found.seeds * len(found.settings):,} are still to be done.")
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
            _charts(found),
            _settings(found),
            *([_failures(found)] if found.failures else []),
            _again(found),
            Section("glossary", "Words used here", [Terms(words.GLOSSARY)]),
        ],
        footer="Made by p2p-labeldp from the files of the sweep's folder alone.",
    )


def _verdict(found: Sweep) -> str:
    varied = ", ".join(found.keys) or "nothing but the seed"
    return f"Varied: {varied}. Every setting was run {found.seeds:,} times, each time with a seed of its own."


def _lead(found: Sweep, scenario: Scenario) -> list[str]:
    meanings = {dotted: doc for dotted, _, _, doc in documentation()}
    paragraphs = []
    for place, key in enumerate(found.keys):
        values = list(dict.fromkeys(values[place] for values in found.settings))
        shown = ", ".join(show(value) for value in values[:20]) + (", …" if len(values) > 20 else "")
        meaning = f" ({meanings[key]})" if key in meanings else ""
        paragraphs.append(f"{key}{meaning}: {shown}.")
    rest = f"Everything else is as in one scenario: {words.data_words(scenario)}, mechanism "
    rest += f"{scenario.mechanism.kind.replace('_', ' ')}; runs by the {found.engine} engine. A seed decides the test "
    return [*paragraphs, rest + "split, the clusters and the coins, so that the bands show how much all three matter."]


def _metrics(found: Sweep) -> list[str]:
    """Those that differ between rows, the usual ones first; what never changes has no chart."""
    names = []
    for name in sorted(found.metrics, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        values = {row[name] for row in found.rows if _finite(row[name])}
        if (len(values) > 1 or name == "accuracy") and values and not any(part in name for part in _SIDE):
            names.append(name)
    return names


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _charts(found: Sweep) -> Section:
    metrics = _metrics(found)
    if not found.keys or not metrics:
        why = "Nothing was varied but the seed" if not found.keys else "No run has finished with a number"
        return Section("charts", "Metrics", [Text(f"{why}, so that there is nothing to draw.")])
    metrics = metrics[: max(1, MOST_CHARTS // len(found.keys))]
    panels = [
        (f"{place} {across}", _chart(found, metric, key, f"chart-{place}-{across}"))
        for place, metric in enumerate(metrics)
        for across, key in enumerate(found.keys)
    ]
    choices = [
        Choice("Metric", [(str(place), metric) for place, metric in enumerate(metrics)]),
        Choice("against", [(str(place), key) for place, key in enumerate(found.keys)]),
    ]
    blocks: list[Block] = [Chooser("metric", choices, panels)]
    left = len(_metrics(found)) - len(metrics)
    if left:
        blocks.append(Text(f"{left} metrics more are in sweep.csv."))
    return Section("charts", "Any metric against any key", blocks)


def _chart(found: Sweep, metric: str, key: str, name: str) -> Figure:
    lines = bands(found.rows, metric, key, [other for other in found.keys if other != key])
    lines = [line for line in lines if any(map(math.isfinite, line.mean))]
    shown = lines[:STYLES]
    every = list(dict.fromkeys(value for line in shown for value in line.x))
    as_numbers = numeric(every) and len(every) > 1
    places = {value: float(value) if as_numbers else float(place) for place, value in enumerate(every)}
    curves = [_line(line, places, as_numbers) for line in shown]
    heights = [y for curve in curves for y in (*curve.ys, *curve.lows, *curve.highs) if y is not None]
    low, high = min(heights, default=0.0), max(heights, default=1.0)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
    xs = list(places.values()) or [0.0]
    if as_numbers:
        log = min(xs) > 0 and max(xs) >= 10 * min(xs) and len(xs) > 2
        across = Axis(key, min(xs), max(xs), log, at=sorted(xs))
    else:
        across = Axis(key, -0.5, len(every) - 0.5, names=[show(value) for value in every])
    said = _WORDS.get(metric, metric)
    title = f"{said} against {key}"
    counts = sorted({count for line in shown for count in line.count})
    replicates = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "no"
    caption = f"Means over {replicates} runs each"
    caption += f", with the {CONFIDENCE:.0%} confidence interval of the mean (Student's t)." if counts != [1] else "."
    if len(lines) > len(shown):
        caption += f" The first {len(shown)} of {len(lines)} combinations of the other keys."
    if any(math.isinf(mean) for line in shown for mean in line.mean):
        caption += " Infinite values are left out."
    told = "; ".join(f"{curve.name or said}: {', '.join(number(y) for y in curve.ys)}" for curve in curves)
    drawing = line_chart(name, title, told, curves, across, Axis(_short(said), low - margin, high + margin))
    return Figure(title, drawing, caption, _points(shown, key, said))


def _short(said: str) -> str:
    return said if len(said) <= 34 else said.partition(" (")[0][:34]


def _line(line: Band, places: dict[Any, float], joined: bool) -> Line:
    known = [place for place, mean in enumerate(line.mean) if math.isfinite(mean)]
    xs, ys = [places[line.x[place]] for place in known], [line.mean[place] for place in known]
    name = ", ".join(f"{key.partition('.')[2] or key} {show(value)}" for key, value in line.others.items())
    return Line(
        name=name,
        xs=xs,
        ys=ys,
        points=list(zip(xs, ys, strict=True)),
        lows=[line.low[place] for place in known],
        highs=[line.high[place] for place in known],
        joined=joined,
    )


def _points(lines: Sequence[Band], key: str, said: str) -> Table:
    others = list(lines[0].others) if lines else []
    rows = []
    for line in lines:
        for x, mean, low, high, count in zip(line.x, line.mean, line.low, line.high, line.count, strict=True):
            span = "–" if low is None or high is None else f"{low:.4g} to {high:.4g}"
            rows.append((show(x), *map(show, line.others.values()), _number(mean), span, f"{count}"))
    head = (key, *others, f"mean {said}", f"{CONFIDENCE:.0%} interval", "runs")
    return Table(f"{said} against {key}", head, rows, frozenset(range(len(others) + 1, len(head))))


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.4g}"


def _settings(found: Sweep) -> Section:
    shown = [
        name for name in ("accuracy", "accuracy_ratio", "epsilon.learner", "epsilon.model") if name in found.metrics
    ]
    rows: dict[int, list[dict[str, Any]]] = {place: [] for place in range(len(found.settings))}
    for row in found.rows:
        rows[row["setting"]].append(row)
    cells = []
    for place in list(rows)[:MOST_SETTINGS]:
        means = []
        for name in shown:
            known = estimate(row[name] for row in rows[place] if not isinstance(row[name], str | bool))
            if known is None:
                means.append("–")
            else:
                half = "" if known.half_width is None else f" ± {known.half_width:.2g}"
                means.append(f"{_number(known.mean)}{half}")
        cells.append((f"{place}", *map(show, found.settings[place]), f"{len(rows[place]):,}", *means))
    more = f" (the first {MOST_SETTINGS} of {len(rows):,})" if len(rows) > MOST_SETTINGS else ""
    head = ("setting", *found.keys, "runs", *(name.replace("epsilon.", "epsilon, ") for name in shown))
    title = f"Means of every setting, ± half of the {CONFIDENCE:.0%} confidence interval of the mean{more}"
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
    blocks: list[Block] = [Text("With the scenario below as scenario.toml:")]
    command = "p2p-labeldp sweep scenario.toml"
    axes = [list(dict.fromkeys(values[place] for values in found.settings)) for place in range(len(found.keys))]
    grid = list(itertools.product(*axes)) == list(found.settings)
    if grid:
        command += "".join(
            f" --vary {key}={','.join(map(_cell, values))}" for key, values in zip(found.keys, axes, strict=True)
        )
    else:
        command += " --settings settings.csv"
    blocks.append(Code("Command", f"{command} --seeds {found.seeds} --engine {found.engine}"))
    if not grid:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(found.keys)
        writer.writerows(["" if value is None else _cell(value) for value in values] for values in found.settings)
        blocks.append(Code("settings.csv", text.getvalue(), folded=True))
    if found.rows and found.keys:
        row = found.rows[0]
        set_ = "".join(f" --set {key}={_cell(row[key])}" for key in found.keys if row[key] is not None)
        blocks.append(Text("A single run of it, with the seed of its row; this is the first:"))
        blocks.append(
            Code("A run", f"p2p-labeldp run scenario.toml --seed {row['seed']}{set_} --engine {found.engine}")
        )
    blocks.append(Code("The scenario that was varied", found.scenario, folded=True))
    files = [(name, meaning) for name, meaning in FILES.items() if (found.folder / name).exists()]
    blocks.append(Table("Files beside this page", ("file", "what it holds"), files))
    return Section("repeat", "Repeat it", blocks)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
