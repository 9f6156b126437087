"""The figure of a sweep: a metric against a varied key, as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from p2p_labeldp.reporting.saving import save_both
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

LEGEND_LINES = 24  # more lines than that are told apart by nobody


def draw_bands(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], metric: str, across: str, stem: Path
) -> list[Path]:
    """Write STEM.png and STEM.svg; nothing where no row has a number for the metric."""
    from matplotlib.figure import Figure

    lines = bands(rows, metric, across, [key for key in keys if key != across])
    if not lines:
        return []
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    every = list(dict.fromkeys(value for line in lines for value in line.x))
    places = {value: value for value in every} if numeric(every) else {v: place for place, v in enumerate(every)}
    for number, line in enumerate(lines):
        name = ", ".join(f"{key.partition('.')[2]} {show(value)}" for key, value in line.others.items())
        name += "" if any(map(math.isfinite, line.y)) else " (infinite)"
        _draw(axes, line, [places[value] for value in line.x], name, number, categorical=not numeric(every))
    if numeric(every):
        if len(every) > 2 and min(every) > 0 and max(every) >= 10 * min(every):
            axes.set_xscale("log")
        if len(every) <= 12:
            axes.set_xticks(sorted(every), [f"{value:g}" for value in sorted(every)])
            axes.minorticks_off()
    else:
        axes.set_xticks(list(places.values()), [show(value) for value in every])
        axes.margins(x=0.2)
    meaning = next((doc for dotted, _, _, doc in documentation() if dotted == across), "")
    axes.set_xlabel(f"{across}\n{meaning}" if meaning else across)
    axes.set_ylabel(f"largest {metric}" if is_guarantee(metric) else METRIC_WORDS.get(metric, metric))
    axes.set_title(f"{METRIC_WORDS.get(metric, metric)} against {across}\n{_caption(metric, lines, rows)}", fontsize=9)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(alpha=0.25)
    if len(lines) > 1:
        beside = len(lines) > 6
        where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {"loc": "best"}
        axes.legend(fontsize=7, **where)
    return save_both(figure, stem, dpi=160)


def _draw(axes: Any, line: Band, x: list[Any], name: str, number: int, *, categorical: bool) -> None:
    colour = f"C{number % 10}"
    style = {"color": colour, "marker": "osD^vPX*"[number % 8], "markersize": 4}
    label = name if number < LEGEND_LINES else "_hidden"
    known = [place for place, low in enumerate(line.low) if low is not None]
    low, high = ([side[place] for place in known] for side in (line.low, line.high))
    if categorical:
        axes.plot(x, line.y, label=label, linestyle="", **style)
        axes.vlines([x[place] for place in known], low, high, color=colour, linewidth=1.2)
    else:
        linestyle = ("-", "--", "-.", ":")[number // 10 % 4]
        axes.plot(x, line.y, label=label, linestyle=linestyle, linewidth=1.3, **style)
        axes.fill_between([x[place] for place in known], low, high, color=colour, alpha=0.18, linewidth=0)


def _caption(metric: str, lines: Sequence[Band], rows: Sequence[Mapping[str, Any]]) -> str:
    counts = sorted({count for line in lines for count in line.count})
    said = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if is_guarantee(metric):
        parts = [f"the largest of {said} runs each" if counts != [1] else "one run each"]
    elif counts == [1]:
        parts = ["one replicate each: no confidence band"]
    else:
        parts = [f"mean and {CONFIDENCE:.0%} confidence band of the mean (Student's t, {said} replicates)"]
    if any(line.count != line.runs for line in lines):
        parts.append("runs without a value left out")
    if any(math.isinf(y) for line in lines for y in line.y):
        parts.append("infinite values left out")
    if metric.startswith("epsilon."):
        view = metric.partition(".")[2]
        known = largest_stated(rows, view)
        warning = delta_warning(rows, view)
        if known is not None and known.deltas:
            parts.append(f"\n{warning}" if warning else f"at delta {show_deltas(known.deltas)}")
    return "; ".join(parts).replace("; \n", "\n")
