"""The charts of a sweep, on its page and as files: any metric against any varied key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from p2p_labeldp.experiments.sweeps import Sweep
from p2p_labeldp.privacy.numbers import shown_epsilon
from p2p_labeldp.reporting.blocks import Block, Choice, Chooser, Section, Table, Text
from p2p_labeldp.reporting.charts import figure_of
from p2p_labeldp.reporting.plots import Axis, Line, Plot, aside, number, span
from p2p_labeldp.reporting.styles import Look, looks
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
from p2p_labeldp.scenario import documentation

MOST_CHARTS = 60
MOST_LINES = 24  # more are told apart by nobody
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
        (f"{place} {across}", figure_of(f"chart-{place}-{across}", plot))
        for place, metric in enumerate(metrics)
        for across, key in enumerate(found.keys)
        if (plot := metric_plot(found.rows, found.keys, metric, key)) is not None
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


def metric_plot(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], metric: str, across: str) -> Plot | None:
    """A metric against a varied key, a line for each combination of the others; None where no row has a number."""
    found = bands(rows, metric, across, [key for key in keys if key != across])
    if not found:
        return None
    finite = [band for band in found if any(map(math.isfinite, band.y))]
    infinite = [band for band in found if band not in finite]
    shown = finite[:MOST_LINES]
    every = list(dict.fromkeys(value for band in shown for value in band.x))
    if numeric(every) and len(every) > 1:
        low, high = min(every), max(every)
        log = low > 0 and high >= 10 * low and len(every) > 2
        axis = Axis(across, low, high, "log" if log else "linear", at=sorted(every))
        places = {value: float(value) for value in every}
    else:
        names = [show(value) for value in every] or ["-"]
        axis = Axis(across, -0.5, len(names) - 0.5, names=names)
        places = {value: float(place) for place, value in enumerate(every)}
    styles = looks(band.others.get("mechanism.kind") or "" for band in shown)
    lines = []
    for number_, (band, look) in enumerate(zip(shown, styles, strict=True)):
        beside = aside(number_, len(shown)) if axis.names else 0.0
        lines.append(_line(band, _name(band, found), look, places, beside, joined=not axis.names))
    exact, said = is_guarantee(metric), METRIC_WORDS.get(metric, metric)
    ends = [y for line in lines for y in (*line.ys, *line.lows, *line.highs) if y is not None]
    told = "; ".join(
        f"{line.name or said}: {', '.join(shown_epsilon(y) if exact else number(y) for y in line.ys)}" for line in lines
    )
    caption = _caption(rows, metric, across, [*shown, *infinite])
    if len(finite) > len(shown):
        caption += f" The first {len(shown)} of {len(finite)} combinations of the other keys."
    if any(math.isinf(y) for band in shown for y in band.y):
        caption += " Infinite values are left out."
    if infinite:
        left_out = [_name(band, found) or "all" for band in infinite]
        more = ["…"] if left_out[MOST_LINES:] else []
        caption += f" Infinite everywhere, and not drawn: {'; '.join(left_out[:MOST_LINES] + more)}."
    return Plot(
        title=f"{said} against {across}",
        lines=lines,
        across=axis,
        up=Axis(f"largest {said}" if exact else said, *span(ends, 0.06, least=0.05 * abs(max(ends, default=0)) or 0.5)),
        caption=caption,
        told=told,
        data=_points([*shown, *infinite], across, metric),
    )


def _caption(rows: Sequence[Mapping[str, Any]], metric: str, across: str, lines: Sequence[Band]) -> str:
    """What a point is, of how many runs, at which delta, and what the key means."""
    counts = sorted({count for line in lines for count in line.count})
    replicates = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if is_guarantee(metric):
        said = "The largest value of " + (f"{replicates} runs each." if counts != [1] else "one run each.")
    else:
        interval = f", with the {CONFIDENCE:.0%} confidence interval of the mean (Student's t)"
        said = f"Means over {replicates} runs each{interval}." if counts != [1] else "One run each: no interval."
    if any(line.count != line.runs for line in lines):
        said += " Runs without a value are left out."
    if metric.startswith("epsilon."):
        view = metric.partition(".")[2]
        known, differ = largest_stated(rows, view), delta_warning(rows, view)
        if known is not None and known.deltas:
            said += f" {differ[:1].upper()}{differ[1:]}." if differ else f" At delta {show_deltas(known.deltas)}."
    meaning = next((doc for dotted, _, _, doc in documentation() if dotted == across), "")
    return f"{said} {across}: {meaning}." if meaning else said


def _line(band: Band, name: str, look: Look, places: Mapping[Any, float], beside: float, *, joined: bool) -> Line:
    known = [place for place, y in enumerate(band.y) if math.isfinite(y)]
    xs, ys = [places[band.x[place]] + beside for place in known], [band.y[place] for place in known]
    return Line(
        name=name,
        xs=xs,
        ys=ys,
        look=look,
        points=list(zip(xs, ys, strict=True)),
        lows=[band.low[place] for place in known],
        highs=[band.high[place] for place in known],
        joined=joined,
        said=[": ".join(filter(None, (name, f"{show(band.x[place])}: {_said(band, place)}"))) for place in known],
    )


def _said(line: Band, place: int) -> str:
    low, high = line.low[place], line.high[place]
    return f"{line.y[place]:.4g}" + ("" if low is None or high is None else f" ({low:.4g} to {high:.4g})")


def _name(band: Band, bands: Sequence[Band]) -> str:
    """What tells a line from the others: keys with one value in all of them do not."""
    parts = []
    for key, value in band.others.items():
        if value is not None and len({other.others[key] for other in bands}) > 1:
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
            cells = (shown_epsilon(y),) if largest else ("infinite" if math.isinf(y) else f"{y:.4g}", span)
            of = f"{count}" if count == runs else f"{count} of {runs}"
            rows.append((show(x), *map(show, line.others.values()), *cells, of))
    values = (f"largest {said}",) if largest else (f"mean {said}", f"{CONFIDENCE:.0%} interval")
    head = (key, *others, *values, "runs")
    return Table(f"{said} against {key}", head, rows, frozenset(range(len(others) + 1, len(head))))
