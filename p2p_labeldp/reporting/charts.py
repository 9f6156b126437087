"""Charts as SVG for a page, each with its title and a description; what they show stands beside them as a table.

They are our own and not matplotlib's because a page must follow light and dark, stay legible on a telephone and cost
milliseconds, since every run writes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from p2p_labeldp.reporting.blocks import Figure
from p2p_labeldp.reporting.plots import Axis, Line, Plot, Scale, clipped
from p2p_labeldp.reporting.styles import SERIES
from p2p_labeldp.reporting.svg import GLYPH, WIDTH, drawing, element, line, marker, short, text

LEFT, RIGHT, TOP = 66.0, 12.0, 10.0
ROW = 19.0  # of text
HEIGHT = 250.0  # of the curves' part of a chart
STAGGER = 16.0  # between names that stand at different heights
MOST_UP = 34  # characters of a name beside a chart


def figure_of(name: str, plot: Plot) -> Figure:
    return Figure(plot.title, line_chart(name, plot), plot.caption, plot.data)


def line_chart(name: str, plot: Plot) -> Markup:
    bottom = TOP + HEIGHT
    xs, ys = plot.across.scale(LEFT, WIDTH - RIGHT), plot.up.scale(bottom, TOP)
    columns = 2 if all(len(curve.name) * GLYPH < WIDTH / 2 - 56 for curve in plot.lines) else 1
    parts = _grid(xs, ys, plot.across, plot.up)
    bottom += STAGGER * (plot.across.tiers - 1)
    for curve in plot.lines:
        parts += _curve(curve, xs, ys)
    legend = _legend(plot.lines, bottom + 54, columns) if len(plot.lines) > 1 else []
    rows = -(-len(plot.lines) // columns) if legend else 0
    height = bottom + 46 + (rows * ROW + 12 if rows else 0)
    return drawing(name, plot.title, plot.told, height, *parts, *legend)


def _curve(curve: Line, xs: Scale, ys: Scale) -> list[Markup]:
    colour = curve.look.colour
    parts = []
    sides = [(xs(x), ys(low), ys(high)) for x, low, high in curve.intervals]
    if curve.joined and len(sides) > 1:
        edge = [(x, high) for x, _, high in sides] + [(x, low) for x, low, _ in reversed(sides)]
        parts.append(element("polygon", points=_points(edge), class_=f"band {colour}"))
    else:
        parts += [line(x, low, x, high, f"interval {colour}") for x, low, high in sides]
    path = [(xs(x), ys(y)) for x, y in zip(curve.xs, curve.ys, strict=True)]
    if curve.joined and len(path) > 1:
        parts.append(element("polyline", points=_points(path), class_=f"curve {colour} d{curve.look.dash}"))
    said = curve.said or [""] * len(curve.points)
    return parts + [
        marker(curve.look.marker, xs(x), ys(y), f"dot {colour}", words)
        for (x, y), words in zip(curve.points, said, strict=True)
    ]


def _points(path: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{short(x)},{short(y)}" for x, y in path)


def _grid(xs: Scale, ys: Scale, across: Axis, up: Axis) -> list[Markup]:
    """Axes with their numbers, grid lines and their names with units."""
    parts = []
    for value, words in up.marks():
        y = ys(value)
        parts += [line(xs.start, y, xs.end, y, "grid"), text(xs.start - 6, y + 4.5, words, anchor="end")]
    for place, (value, words) in enumerate(across.marks(below=True)):
        x, low = xs(value), STAGGER * (place % across.tiers)
        half = len(words) * GLYPH / 2
        anchor = "end" if x + half > xs.end + RIGHT - 2 else "start" if across.tiers > 1 and x - half < 2 else "middle"
        parts += [line(x, ys.start, x, ys.start + 4 + low, "axis"), text(x, ys.start + 18 + low, words, anchor=anchor)]
    parts.append(line(xs.start, ys.start, xs.end, ys.start, "axis"))
    below = ys.start + 38 + STAGGER * (across.tiers - 1)
    parts.append(text((xs.start + xs.end) / 2, below, across.label, anchor="middle", class_="name"))
    middle = (ys.start + ys.end) / 2
    shown = up.label if len(up.label) <= MOST_UP else up.label.partition(" (")[0][:MOST_UP]
    turned = element(
        "text", shown, x=13.0, y=middle, transform=f"rotate(-90 13 {short(middle)})", text_anchor="middle",
        class_="name",
    )  # fmt: skip
    return [*parts, turned]


def _legend(curves: Sequence[Line], top: float, columns: int) -> list[Markup]:
    parts = []
    wide = (WIDTH - 24) / columns
    for place, curve in enumerate(curves):
        x, y = 16 + wide * (place % columns), top + ROW * (place // columns) + 4
        look = curve.look
        parts.append(line(x, y, x + 34, y, f"curve {look.colour} d{look.dash}"))
        parts += [marker(look.marker, x + 17, y, f"dot {look.colour}")] if curve.points else []
        parts.append(text(x + 41, y + 4.5, clipped(curve.name, int((wide - 44) / GLYPH))))
    return parts


@dataclass(frozen=True)
class Bars:
    """One or more values under a name, each how each is written; their colours follow on each other from ``style``."""

    label: str
    values: Sequence[tuple[float, str]]
    style: int = 0


def bars(
    name: str,
    title: str,
    description: str,
    rows: Sequence[Bars],
    *,
    legend: Sequence[str] = (),
    most: float | None = None,
) -> Markup:
    """Horizontal bars from 0, each below its name, so that names may be long."""
    every = [value for row in rows for value, _ in row.values]
    high = most or max(every, default=0.0) or 1.0
    parts: list[Markup] = []
    for place, words in enumerate(legend):
        x = 4 + place * (WIDTH / len(legend))
        parts.append(element("rect", x=x, y=TOP, width=22, height=11, class_=f"bar s{place}"))
        parts.append(text(x + 28, TOP + 10.5, clipped(words, 26)))
    y = TOP + (26 if legend else 0)
    room = max((len(words) for row in rows for _, words in row.values), default=0) * GLYPH + 14
    scale = Scale(0.0, high, 4.0, WIDTH - room)
    for row in rows:
        parts.append(text(4, y + 12, clipped(row.label, 56)))
        y += 18
        for style, (value, words) in enumerate(row.values, row.style):
            parts.append(element("rect", x=4, y=y, width=WIDTH - room - 4, height=13, class_="track"))
            length = max(0.0, scale(value) - 4)
            parts.append(element("rect", x=4, y=y, width=length, height=13, class_=f"bar s{style % len(SERIES)}"))
            parts.append(text(WIDTH - 6, y + 11.5, words, anchor="end", class_="value"))
            y += 16
        y += 8
    return drawing(name, title, description, y + 2, *parts)


@dataclass(frozen=True)
class Dots:
    """One row of `dot_rows`: an open mark, a filled one, an interval around the latter and a bar that must not be
    passed. Whatever is None is left out."""

    label: str
    before: float | None = None
    after: float | None = None
    interval: tuple[float, float] | None = None
    limit: float | None = None
    words: str = ""


def dot_rows(
    name: str, title: str, description: str, rows: Sequence[Dots], axis: Axis, legend: Sequence[tuple[str, str]]
) -> Markup:
    """Values of many things on one axis. ``legend`` has (mark, words) with mark before, after or limit."""
    xs = Scale(axis.low, axis.high, 10.0, WIDTH - 14.0)
    parts: list[Markup] = []
    x = 10.0
    for sign, words in legend:
        parts += [_sign(sign, x + 4, TOP + 6), text(x + 14, TOP + 10.5, words)]
        x += 26 + len(words) * GLYPH
    top = TOP + 24
    bottom = top + 38 * len(rows)
    for value, words in xs.ticks():
        parts += [line(xs(value), top, xs(value), bottom, "grid")]
        anchor = "start" if xs(value) < 20 else "end" if xs(value) > WIDTH - 30 else "middle"
        parts += [text(xs(value), bottom + 16, words, anchor=anchor)]
    for place, row in enumerate(rows):
        y = top + 38 * place
        parts.append(text(10, y + 13, clipped(row.label, 40)))
        if row.words:
            parts.append(text(WIDTH - 8, y + 13, row.words, anchor="end", class_="value"))
        y += 26
        parts.append(line(xs.start, y, xs.end, y, "track"))
        if row.before is not None and row.after is not None:
            parts.append(line(xs(row.before), y, xs(row.after), y, "link"))
        if row.interval is not None:
            parts.append(line(xs(row.interval[0]), y, xs(row.interval[1]), y, "interval s0"))
        if row.limit is not None:
            parts.append(_sign("limit", xs(row.limit), y))
        if row.before is not None:
            parts.append(_sign("before", xs(row.before), y))
        if row.after is not None:
            parts.append(_sign("after", xs(row.after), y))
    parts.append(text(WIDTH / 2, bottom + 36, axis.label, anchor="middle", class_="name"))
    return drawing(name, title, description, bottom + 44, *parts)


def _sign(kind: str, x: float, y: float) -> Markup:
    if kind == "limit":
        return line(x, y - 8, x, y + 8, "limit")
    return element("circle", cx=x, cy=y, r=4.6, class_="open s1" if kind == "before" else "dot s0")


def columns(
    name: str,
    title: str,
    description: str,
    edges: Sequence[float],
    counts: Sequence[float],
    across: str,
    up: str,
    *,
    level: float | None = None,
) -> Markup:
    """Columns that touch: a histogram over ``edges``, or one for each thing. ``level`` is a line across."""
    bottom = TOP + 190.0
    high = max([*counts, level or 0.0]) or 1.0
    xs = Scale(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    ys = Scale(0.0, high * 1.04, bottom, TOP)
    parts = _grid(xs, ys, Axis(across, edges[0], edges[-1]), Axis(up, ys.low, ys.high))
    gap = 1.0 if len(counts) < 60 else 0.0
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if count > 0:
            width = max(0.5, xs(right) - xs(left) - gap)
            height = max(0.8, bottom - ys(count))
            parts.append(
                element("rect", x=xs(left) + gap / 2, y=bottom - height, width=width, height=height, class_="bar s0")
            )
    if level is not None:
        parts.append(line(LEFT, ys(level), WIDTH - RIGHT, ys(level), "level"))
    return drawing(name, title, description, bottom + 46, *parts)


def strips(
    name: str,
    title: str,
    description: str,
    edges: Sequence[float],
    rows: Sequence[tuple[str, Sequence[int]]],
    across: str,
    *,
    whole: bool = False,
) -> Markup:
    """One flat histogram for each name, over one axis, each on a scale of its own with its largest count."""
    xs = Scale(edges[0], edges[-1], 8.0, WIDTH - 12.0, whole=whole)
    parts: list[Markup] = []
    y = TOP
    for place, (label, counts) in enumerate(rows):
        most = max(counts, default=0)
        parts.append(text(8, y + 12, f"{label}: {sum(counts):,}"))
        parts.append(text(WIDTH - 12, y + 12, f"up to {most:,}", anchor="end", class_="quiet"))
        base = y + 44
        corners = [(xs(edges[0]), base)]
        for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
            top = base - 26 * count / most if most else base
            corners += [(xs(left), top), (xs(right), top)]
        corners.append((xs(edges[-1]), base))
        parts.append(element("polygon", points=_points(corners), class_=f"area s{place % len(SERIES)}"))
        parts.append(line(xs.start, base, xs.end, base, "axis"))
        y += 54
    for value, words in xs.ticks():
        anchor = "start" if xs(value) < 20 else "end" if xs(value) > WIDTH - 36 else "middle"
        parts += [line(xs(value), y - 10, xs(value), y - 6, "axis"), text(xs(value), y + 8, words, anchor=anchor)]
    parts.append(text(WIDTH / 2, y + 28, across, anchor="middle", class_="name"))
    return drawing(name, title, description, y + 36, *parts)
