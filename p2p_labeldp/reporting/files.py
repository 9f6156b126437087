"""Plots as files: PNG, SVG or PDF, drawn by matplotlib.

Each is written under a temporary name and moved, and equal plots are equal bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.reporting.plots import Plot
from p2p_labeldp.reporting.styles import DASHES, LINE, Look
from p2p_labeldp.systems import put_in_place

SUFFIXES: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The formats, and which of their metadata would differ from run to run."""
WIDE, HIGH, ROW = 6.0, 4.4, 0.19  # inches of one plot, and of a line of the legend
DPI = 150
LETTERS = 88  # of a caption, in a line
COLUMN = 46  # letters of a name in the legend, where it has two columns
EDGE = 0.02  # beyond the limits of an axis, so that marks there are whole


def checked_plot(path: Path) -> Path:
    """The path of a figure, before anything is computed for it."""
    if path.suffix not in SUFFIXES:
        raise RequestError(f"--out {path}: the plot's name must end in {', '.join(SUFFIXES)}")
    return path


def save(plots: Sequence[Plot], path: Path) -> None:
    """In the format that the file's suffix names; several plots in rows of two under one legend."""
    try:
        _save(plots, path)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from None


def save_both(plots: Sequence[Plot], stem: Path) -> list[Path]:
    """STEM.png and STEM.svg, of a sweep that has run."""
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    for path in paths:
        try:
            _save(plots, path)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}") from None
    return paths


def _save(plots: Sequence[Plot], path: Path) -> None:
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with put_in_place(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "p2p-labeldp"}):
        metadata = SUFFIXES[path.suffix]
        _figure(plots).savefig(temporary, format=path.suffix[1:], dpi=DPI, metadata=metadata)


def _figure(plots: Sequence[Plot]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    looks = {line.name: (line.look, bool(line.points)) for plot in plots for line in plot.lines}
    columns = min(2, len(plots))
    beside = 2 * columns if max(map(len, looks), default=0) < COLUMN else columns
    rows = -(-len(plots) // columns)
    entries = -(-len(looks) // beside) if len(looks) > 1 else 0
    figure = Figure(figsize=(WIDE * columns, HIGH * rows + ROW * entries), layout="constrained")
    for axes, plot in zip(figure.subplots(rows, columns, squeeze=False).flat, plots, strict=False):
        _draw(axes, plot)
    if entries:
        handles = [
            Line2D([], [], **_stroke(look), marker=look.marker if marked else "", markersize=4.5)
            for look, marked in looks.values()
        ]
        figure.legend(
            handles, looks.keys(), loc="outside lower center", ncols=beside, fontsize=7, frameon=False, handlelength=3.5
        )
    return figure


def _draw(axes: Any, plot: Plot) -> None:
    xs, ys = plot.across.scale(0.0, 1.0), plot.up.scale(0.0, 1.0)
    for line in plot.lines:
        colour = line.look.ink
        sides = [(xs(x), ys(low), ys(high)) for x, low, high in line.intervals]
        if line.joined and len(sides) > 1:
            axes.fill_between(*zip(*sides, strict=True), color=colour, alpha=0.16, linewidth=0)
        elif sides:
            axes.vlines(*zip(*sides, strict=True), color=colour, linewidth=1.3)
        if line.joined:
            axes.plot([xs(x) for x in line.xs], [ys(y) for y in line.ys], **_stroke(line.look))
        at = [(xs(x), ys(y)) for x, y in line.points]
        axes.plot(*zip(*at, strict=True), linestyle="", color=colour, marker=line.look.marker, markersize=4.5)
    for axis, which, end in ((plot.across, axes.xaxis, axes.set_xlim), (plot.up, axes.yaxis, axes.set_ylim)):
        below = axis is plot.across
        scale = xs if below else ys
        marks = axis.marks(below=below)
        words = ["\n" * (place % axis.tiers) + said for place, (_, said) in enumerate(marks)]
        which.set_ticks([scale(value) for value, _ in marks], words, fontsize=8)
        which.set_label_text(axis.label, fontsize=9)
        end(-EDGE, 1 + EDGE)
    axes.set_title(f"{plot.title}\n{textwrap.fill(plot.caption, LETTERS)}".rstrip(), fontsize=8)
    axes.grid(alpha=0.25)


def _stroke(look: Look) -> dict[str, Any]:
    lengths = tuple(length / LINE for length in DASHES[look.dash])
    return {"color": look.ink, "linewidth": 1.3, "linestyle": (0, lengths) if lengths else "-"}
