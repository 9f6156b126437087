"""What a sweep says of a metric: means with confidence bands, and their figure.

``bands`` takes the rows of ``engines.sweeps.read_sweep(folder)`` and gives plain lists, for a figure of any kind:

    found = read_sweep(folder)
    for band in bands(found.rows, "accuracy", "mechanism.alpha", ("mechanism.theta",)):
        band.others, band.x, band.mean, band.low, band.high, band.count
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from p2p_labeldp.errors import RunError
from p2p_labeldp.scenario import documentation

CONFIDENCE = 0.95
LEGEND_LINES = 24  # more lines than that are told apart by nobody
_WORDS = {
    "accuracy": "test accuracy",
    "nonprivate_accuracy": "test accuracy without privacy",
    "majority_accuracy": "test accuracy of the commonest label",
    "accuracy_ratio": "accuracy / non-private accuracy",
    "reports": "reports that arrived",
    "virtual_seconds": "virtual seconds",
    "phi": "phi, heterogeneity of clusters",
    "psi": "psi, distortion of clusters",
}


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates; the interval is None where there are fewer than two, or one is infinite."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


@dataclass(frozen=True)
class Band:
    """One line of a figure: a metric across the values of one key, the other keys being as ``others`` says."""

    others: dict[str, Any]
    x: list[Any]
    """Numbers ascending, or texts in the sweep's order."""
    mean: list[float]
    low: list[float | None]
    high: list[float | None]
    count: list[int]


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """Mean and confidence interval of the mean, by Student's t; None where there is no value."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    count = len(known)
    if not all(map(math.isfinite, known)):
        return Estimate(math.inf, None, None, count)
    mean = math.fsum(known) / count
    if count < 2:
        return Estimate(mean, None, None, count)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (count - 1))
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * spread / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, count)


def bands(rows: Iterable[Mapping[str, Any]], metric: str, across: str, others: Sequence[str] = ()) -> list[Band]:
    """A line for every combination of the other keys' values, in the order they come in; rows without a value are
    left out, and combinations without any."""
    lines: dict[tuple[Any, ...], dict[Any, list[Any]]] = {}
    order: dict[Any, int] = {}
    for row in rows:
        if row.get(metric) is not None and not isinstance(row[metric], str):
            order.setdefault(row[across], len(order))
            points = lines.setdefault(tuple(row[key] for key in others), {})
            points.setdefault(row[across], []).append(row[metric])
    found = []
    for values, points in lines.items():
        x = sorted(points) if numeric(points) else sorted(points, key=order.__getitem__)
        estimates = [known for value in x if (known := estimate(points[value])) is not None]
        found.append(
            Band(
                others=dict(zip(others, values, strict=True)),
                x=x,
                mean=[known.mean for known in estimates],
                low=[known.low for known in estimates],
                high=[known.high for known in estimates],
                count=[known.count for known in estimates],
            )
        )
    return found


def numeric(values: Iterable[Any]) -> bool:
    """Whether an axis can have these values as numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def draw_bands(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], metric: str, across: str, stem: Path
) -> list[Path]:
    """Write STEM.png and STEM.svg; nothing where no row has a number for the metric."""
    import matplotlib
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
    axes.set_ylabel(_WORDS.get(metric, metric))
    axes.set_title(f"{_WORDS.get(metric, metric)} against {across}\n{_caption(lines)}", fontsize=9)
    axes.grid(alpha=0.25)
    if len(lines) > 1:
        beside = len(lines) > 6
        where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {"loc": "best"}
        axes.legend(fontsize=7, **where)
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context({"svg.hashsalt": "p2p-labeldp"}):  # the same figure, the same bytes
        for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
            path = stem.with_name(stem.name + suffix)
            temporary = path.with_name(f".{path.name}.partial")
            try:
                figure.savefig(temporary, format=suffix[1:], dpi=160, metadata=metadata)
                temporary.replace(path)
            except OSError as error:
                raise RunError(f"{path}: cannot be written: {error.strerror}") from None
            written.append(path)
    return written


def _draw(axes: Any, line: Band, x: list[Any], name: str, number: int, *, categorical: bool) -> None:
    colour = f"C{number % 10}"
    style = {"color": colour, "marker": "osD^vPX*"[number % 8], "markersize": 4}
    label = name if number < LEGEND_LINES else "_hidden"
    known = [place for place, low in enumerate(line.low) if low is not None]
    low, high = ([side[place] for place in known] for side in (line.low, line.high))
    if categorical:
        axes.plot(x, line.mean, label=label, linestyle="", **style)
        axes.vlines([x[place] for place in known], low, high, color=colour, linewidth=1.2)
    else:
        linestyle = ("-", "--", "-.", ":")[number // 10 % 4]
        axes.plot(x, line.mean, label=label, linestyle=linestyle, linewidth=1.3, **style)
        axes.fill_between([x[place] for place in known], low, high, color=colour, alpha=0.18, linewidth=0)


def _caption(lines: Sequence[Band]) -> str:
    counts = sorted({count for line in lines for count in line.count})
    if counts == [1]:
        return "one replicate each: no confidence band"
    said = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    unbounded = any(math.isinf(mean) for line in lines for mean in line.mean)
    return f"mean and {CONFIDENCE:.0%} confidence band of the mean (Student's t, {said} replicates)" + (
        "; infinite values left out" if unbounded else ""
    )


def show(value: Any) -> str:
    """A setting's value as a person writes it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
