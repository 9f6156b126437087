"""The charts of a sweep's page: any metric against any varied key, each with its data as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from p2p_labeldp.experiments.sweeps import Sweep
from p2p_labeldp.privacy.numbers import rounded_up
from p2p_labeldp.reporting.blocks import Block, Choice, Chooser, Figure, Section, Table, Text
from p2p_labeldp.reporting.charts import Axis, Line, line_chart
from p2p_labeldp.reporting.styles import kinds
from p2p_labeldp.reporting.svg import STYLES, number
from p2p_labeldp.reporting.sweeps import (
    CONFIDENCE,
    METRIC_WORDS,
    Band,
    bands,
    delta_warning,
    is_guarantee,
    largest_stated,
    numeric,
    show,
    show_deltas,
)

MOST_CHARTS = 60
_FIRST = ("accuracy", "epsilon.learner", "accuracy_ratio", "nonprivate_accuracy", "psi", "reports", "messages")
_SIDE = ("delta.", "advantage_low", "advantage_high")


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


def charts(found: Sweep) -> Section:
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
    every_line = bands(found.rows, metric, key, [other for other in found.keys if other != key])
    lines = [line for line in every_line if any(map(math.isfinite, line.y))]
    infinite = [line for line in every_line if line not in lines]
    shown = lines[:STYLES]
    every = list(dict.fromkeys(value for line in shown for value in line.x))
    as_numbers = numeric(every) and len(every) > 1
    places = {value: float(value) if as_numbers else float(place) for place, value in enumerate(every)}
    curves = [_line(found, line, places, as_numbers, (place, len(shown))) for place, line in enumerate(shown)]
    heights = [y for curve in curves for y in (*curve.ys, *curve.lows, *curve.highs) if y is not None]
    low, high = min(heights, default=0.0), max(heights, default=1.0)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.5
    xs = list(places.values()) or [0.0]
    if as_numbers:
        log = min(xs) > 0 and max(xs) >= 10 * min(xs) and len(xs) > 2
        across = Axis(key, min(xs), max(xs), log, at=sorted(xs))
    else:
        across = Axis(key, -0.5, len(every) - 0.5, names=[show(value) for value in every])
    said = METRIC_WORDS.get(metric, metric)
    title = f"{said} against {key}"
    caption = _caption(found, metric, [*shown, *infinite])
    if len(lines) > len(shown):
        caption += f" The first {len(shown)} of {len(lines)} combinations of the other keys."
    if any(math.isinf(y) for line in shown for y in line.y):
        caption += " Infinite values are left out."
    if infinite:
        names = "; ".join(_name(found, line) or "all" for line in infinite[:STYLES]) + (
            "; …" if infinite[STYLES:] else ""
        )
        caption += f" Infinite everywhere, and not drawn: {names}."
    exact = is_guarantee(metric)
    told = "; ".join(
        f"{curve.name or said}: {', '.join(shown_up(y) if exact else number(y) for y in curve.ys)}" for curve in curves
    )
    height = Axis(_short(f"largest {said}" if exact else said), low - margin, high + margin)
    drawing = line_chart(name, title, told, curves, across, height)
    return Figure(title, drawing, caption, _points([*shown, *infinite], key, metric))


def _caption(found: Sweep, metric: str, lines: Sequence[Band]) -> str:
    """What a point is, of how many runs, and at which delta."""
    counts = sorted({count for line in lines for count in line.count})
    replicates = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "no"
    if is_guarantee(metric):
        said = "The largest value of " + (f"{replicates} runs each." if counts != [1] else "one run each.")
    else:
        interval = f", with the {CONFIDENCE:.0%} confidence interval of the mean (Student's t)"
        said = f"Means over {replicates} runs each" + (f"{interval}." if counts != [1] else ".")
    if any(line.count != line.runs for line in lines):
        said += " Runs without a value are left out."
    if metric.startswith("epsilon."):
        view = metric.partition(".")[2]
        known, differ = largest_stated(found.rows, view), delta_warning(found.rows, view)
        if known is not None and known.deltas:
            said += f" {differ[:1].upper()}{differ[1:]}." if differ else f" At delta {show_deltas(known.deltas)}."
    return said


def _short(said: str) -> str:
    return said if len(said) <= 34 else said.partition(" (")[0][:34]


def _line(found: Sweep, line: Band, places: dict[Any, float], joined: bool, of: tuple[int, int]) -> Line:
    """Marks over names stand beside each other, so that none hides another."""
    known = [place for place, y in enumerate(line.y) if math.isfinite(y)]
    number_, count = of
    aside = 0.0 if joined else (number_ - (count - 1) / 2) * min(0.1, 0.8 / count)
    xs, ys = [places[line.x[place]] + aside for place in known], [line.y[place] for place in known]
    name = _name(found, line)
    kind = line.others.get("mechanism.kind")
    return Line(
        name=name,
        look=f"k-{kind} d{number_ % 4}" if kind else "",
        shape=kinds().index(kind) if kind else None,
        said=[": ".join(filter(None, (name, f"{show(line.x[place])}: {_said(line, place)}"))) for place in known],
        xs=xs,
        ys=ys,
        points=list(zip(xs, ys, strict=True)),
        lows=[line.low[place] for place in known],
        highs=[line.high[place] for place in known],
        joined=joined,
    )


def _said(line: Band, place: int) -> str:
    low, high = line.low[place], line.high[place]
    return f"{line.y[place]:.4g}" + ("" if low is None or high is None else f" ({low:.4g} to {high:.4g})")


def _name(found: Sweep, line: Band) -> str:
    """What tells a line from the others: keys with one value in all settings do not."""
    parts = []
    for key, value in line.others.items():
        several = len({setting[found.keys.index(key)] for setting in found.settings}) > 1
        if several and value is not None:
            parts.append(value if key == "mechanism.kind" else f"{key.partition('.')[2] or key} {show(value)}")
    return ", ".join(parts)


def _points(lines: Sequence[Band], key: str, metric: str) -> Table:
    said, largest = METRIC_WORDS.get(metric, metric), is_guarantee(metric)
    others = list(lines[0].others) if lines else []
    rows = []
    for line in lines:
        for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            low, high, count, runs = line.low[place], line.high[place], line.count[place], line.runs[place]
            span = "–" if low is None or high is None else f"{low:.4g} to {high:.4g}"
            cells = (shown_up(y),) if largest else (shown_number(y), span)
            of = f"{count}" if count == runs else f"{count} of {runs}"
            rows.append((show(x), *map(show, line.others.values()), *cells, of))
    values = (f"largest {said}",) if largest else (f"mean {said}", f"{CONFIDENCE:.0%} interval")
    head = (key, *others, *values, "runs")
    return Table(f"{said} against {key}", head, rows, frozenset(range(len(others) + 1, len(head))))


def shown_number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.4g}"


def shown_up(value: float) -> str:
    """A number of a guarantee."""
    return "∞" if math.isinf(value) else rounded_up(value, 4)
