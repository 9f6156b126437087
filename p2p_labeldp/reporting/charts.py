"""Small charts as SVG, each with its title and a description; what they show stands beside them as a table.

They are our own and not matplotlib's because a page must follow light and dark, stay legible on a telephone and cost
milliseconds, since every run writes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from p2p_labeldp.reporting.svg import (
    GLYPH,
    STYLES,
    WIDTH,
    Scale,
    clipped,
    drawing,
    element,
    line,
    marker,
    number,
    short,
    text,
)

LEFT, RIGHT, TOP = 66.0, 12.0, 10.0
ROW = 19.0  # of text
HEIGHT = 250.0  # of the curves' part of a chart
STAGGER, MOST_TIERS = 16.0, 4  # between names that stand at different heights, and at how many


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    log: bool = False
    names: Sequence[str] = ()
    """Of the places 0, 1, ... where the axis has no numbers."""
    at: Sequence[float] = ()
    """Where numbers stand, if not at round ones."""


@dataclass(frozen=True)
class Line:
    """A curve with marked ``points``. A band goes from ``lows`` to ``highs`` where there are any; a line that is not
    ``joined`` has marks alone, and an upright stroke for each interval."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    points: Sequence[tuple[float, float]] = ()
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()
    joined: bool = True
    look: str = ""
    """Classes of the style sheet in place of the series' own: a mechanism's."""
    shape: int | None = None
    """Which marker, if not that of its place."""
    said: Sequence[str] = ()
    """What each point says to whoever points at it."""

    def style(self, place: int) -> str:
        return self.look or f"s{place % STYLES}"

    def marker(self, place: int) -> int:
        return place if self.shape is None else self.shape


def line_chart(
    name: str,
    title: str,
    description: str,
    curves: Sequence[Line],
    across: Axis,
    up: Axis,
) -> Markup:
    """Curves over common axes."""
    bottom = TOP + HEIGHT
    xs = Scale(across.low, across.high, LEFT, WIDTH - RIGHT, across.log)
    columns = 2 if all(len(curve.name) * GLYPH < WIDTH / 2 - 56 for curve in curves) else 1
    top = bottom + 54 + STAGGER * (_tiers(xs, across) - 1)
    legend = _legend(curves, top, columns) if len(curves) > 1 else []
    ys = Scale(up.low, up.high, bottom, TOP, up.log)
    parts = _grid(xs, ys, across, up.label)
    bottom += STAGGER * (_tiers(xs, across) - 1)
    for place, curve in enumerate(curves):
        parts += _curve(curve, place, xs, ys)
    rows = -(-len(curves) // columns) if legend else 0
    height = bottom + 46 + (rows * ROW + 12 if rows else 0)
    return drawing(name, title, description, height, *parts, *legend)


def _curve(curve: Line, place: int, xs: Scale, ys: Scale) -> list[Markup]:
    style = curve.style(place)
    parts = []
    sides = [
        (xs(x), ys(low), ys(high))
        for x, low, high in zip(curve.xs, curve.lows, curve.highs, strict=False)
        if low is not None and high is not None
    ]
    if curve.joined and len(sides) > 1:
        edge = [(x, high) for x, _, high in sides] + [(x, low) for x, low, _ in reversed(sides)]
        parts.append(element("polygon", points=_points(edge), class_=f"band {style}"))
    else:
        parts += [line(x, low, x, high, f"interval {style}") for x, low, high in sides]
    path = [(xs(x), ys(y)) for x, y in zip(curve.xs, curve.ys, strict=True)]
    if curve.joined and len(path) > 1:
        parts.append(element("polyline", points=_points(path), class_=f"curve {style}"))
    said = curve.said or [""] * len(curve.points)
    return parts + [
        marker(curve.marker(place), xs(x), ys(y), f"dot {style}", words)
        for (x, y), words in zip(curve.points, said, strict=True)
    ]


def _points(path: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{short(x)},{short(y)}" for x, y in path)


def _grid(xs: Scale, ys: Scale, across: Axis, up: str) -> list[Markup]:
    """Axes with round numbers, grid lines and their names with units."""
    parts = []
    for value, words in ys.ticks():
        y = ys(value)
        parts += [line(xs.start, y, xs.end, y, "grid"), text(xs.start - 6, y + 4.5, words, anchor="end")]
    tiers = _tiers(xs, across)
    for place, (value, words) in enumerate(_marks(xs, across)):
        x, low = xs(value), STAGGER * (place % tiers)
        half = len(words) * GLYPH / 2
        anchor = "end" if x + half > xs.end + RIGHT - 2 else "start" if tiers > 1 and x - half < 2 else "middle"
        parts += [line(x, ys.start, x, ys.start + 4 + low, "axis"), text(x, ys.start + 18 + low, words, anchor=anchor)]
    parts.append(line(xs.start, ys.start, xs.end, ys.start, "axis"))
    below = ys.start + 38 + STAGGER * (tiers - 1)
    parts.append(text((xs.start + xs.end) / 2, below, across.label, anchor="middle", class_="name"))
    middle = (ys.start + ys.end) / 2
    turned = element(
        "text", up, x=13.0, y=middle, transform=f"rotate(-90 13 {short(middle)})", text_anchor="middle", class_="name"
    )
    return [*parts, turned]


def _tiers(xs: Scale, axis: Axis) -> int:
    """On how many heights the names below an axis stand, so that long ones fit."""
    if not axis.names:
        return 1
    room = (xs.end - xs.start) / len(axis.names)
    longest = (max(map(len, axis.names)) + 1) * GLYPH
    return min(MOST_TIERS, len(axis.names), max(1, math.ceil(longest / room)))


def _marks(xs: Scale, axis: Axis) -> list[tuple[float, str]]:
    """What stands below an axis: names, the values asked for as far as they have room, or round numbers."""
    if axis.names:
        room = int((xs.end - xs.start) / len(axis.names) / GLYPH * _tiers(xs, axis))
        return [(float(place), clipped(words, max(3, room))) for place, words in enumerate(axis.names)]
    marks: list[tuple[float, str]] = []
    free = 0.0
    for value in axis.at:
        words = number(value)
        half = (len(words) + 1) * GLYPH / 2
        if xs(value) - half >= free:
            marks.append((value, words))
            free = xs(value) + half
    return marks or xs.ticks()


def _legend(curves: Sequence[Line], top: float, columns: int = 2) -> list[Markup]:
    parts = []
    wide = (WIDTH - 24) / columns
    for place, curve in enumerate(curves):
        x, y = 16 + wide * (place % columns), top + ROW * (place // columns) + 4
        style = curve.style(place)
        parts += [line(x, y, x + 34, y, f"curve {style}"), marker(curve.marker(place), x + 17, y, f"dot {style}")]
        parts.append(text(x + 41, y + 4.5, clipped(curve.name, int((wide - 44) / GLYPH))))
    return parts


@dataclass(frozen=True)
class Bar:
    """A labelled value; ``words`` is how it is written."""

    label: str
    value: float
    words: str
    style: int = 0


def bars(name: str, title: str, description: str, rows: Sequence[Bar], most: float | None = None) -> Markup:
    """Horizontal bars from 0, each below its name, so that names may be long."""
    high = most or max((row.value for row in rows), default=0.0) or 1.0
    parts: list[Markup] = []
    y = TOP
    room = max((len(row.words) for row in rows), default=0) * GLYPH + 14
    scale = Scale(0.0, high, 4.0, WIDTH - room)
    for row in rows:
        parts.append(text(4, y + 12, clipped(row.label, 56)))
        length = max(0.0, scale(row.value) - 4)
        parts.append(element("rect", x=4, y=y + 18, width=WIDTH - room - 4, height=14, class_="track"))
        parts.append(element("rect", x=4, y=y + 18, width=length, height=14, class_=f"bar s{row.style % STYLES}"))
        parts.append(text(WIDTH - 6, y + 30, row.words, anchor="end", class_="value"))
        y += 42
    return drawing(name, title, description, y + 2, *parts)


def paired_bars(
    name: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, float | None, float | None]],
    names: Sequence[str],
) -> Markup:
    """Two bars for each label: shares of 1, written as per cent."""
    high = max((value for _, *pair in rows for value in pair if value is not None), default=0.0) or 1.0
    parts: list[Markup] = []
    for place, words in enumerate(names):
        x = 4 + place * (WIDTH / 2)
        parts.append(element("rect", x=x, y=TOP, width=22, height=11, class_=f"bar s{place}"))
        parts.append(text(x + 28, TOP + 10.5, clipped(words, 26)))
    y = TOP + 26
    scale = Scale(0.0, high, 4.0, WIDTH - 62)
    for label, *pair in rows:
        parts.append(text(4, y + 12, clipped(label, 56)))
        for place, value in enumerate(pair):
            top = y + 18 + 15 * place
            if value is not None:
                parts.append(
                    element("rect", x=4, y=top, width=max(0.0, scale(value) - 4), height=11, class_=f"bar s{place}")
                )
            words = "none" if value is None else f"{100 * value:.1f} %"
            parts.append(text(WIDTH - 6, top + 10, words, anchor="end", class_="value"))
        y += 58
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
    parts = _grid(xs, ys, Axis(across, edges[0], edges[-1]), up)
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
        parts.append(element("polygon", points=_points(corners), class_=f"area s{place % STYLES}"))
        parts.append(line(xs.start, base, xs.end, base, "axis"))
        y += 54
    for value, words in xs.ticks():
        anchor = "start" if xs(value) < 20 else "end" if xs(value) > WIDTH - 36 else "middle"
        parts += [line(xs(value), y - 10, xs(value), y - 6, "axis"), text(xs(value), y + 8, words, anchor=anchor)]
    parts.append(text(WIDTH / 2, y + 28, across, anchor="middle", class_="name"))
    return drawing(name, title, description, y + 36, *parts)
