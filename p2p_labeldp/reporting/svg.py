"""Building blocks of drawings: SVG elements and markers, for ``charts`` and ``spacetime``.

Every drawing is WIDTH units wide and scales with the page. Text of 13 units is then nearly 10 pixels on a telephone
360 pixels wide and 13 to 17 on a desk. Colours are left to classes of the style sheet, so that a drawing follows
light, dark and print; a series is told by its dashes and marker too, never by its colour alone.
"""

from __future__ import annotations

from markupsafe import Markup, escape

WIDTH = 440
GLYPH = 7.2
"""About the width of a character of text."""
_SHAPES: dict[str, tuple[tuple[float, float], ...]] = {
    "s": ((-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)),
    "^": ((0, -4.4), (4.2, 3.4), (-4.2, 3.4)),
    "D": ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0)),
    "v": ((0, 4.4), (4.2, -3.4), (-4.2, -3.4)),
    "<": ((-4.4, 0), (3.4, 4.2), (3.4, -4.2)),
    ">": ((4.4, 0), (-3.4, 4.2), (-3.4, -4.2)),
    "_": ((-4.5, -1.6), (4.5, -1.6), (4.5, 1.6), (-4.5, 1.6)),
    "|": ((-1.6, -4.5), (1.6, -4.5), (1.6, 4.5), (-1.6, 4.5)),
    "p": ((0, -4.6), (4.4, -1.4), (2.7, 3.7), (-2.7, 3.7), (-4.4, -1.4)),
    "P": (
        (-1.5, -4.5), (1.5, -4.5), (1.5, -1.5), (4.5, -1.5), (4.5, 1.5), (1.5, 1.5), (1.5, 4.5), (-1.5, 4.5),
        (-1.5, 1.5), (-4.5, 1.5), (-4.5, -1.5), (-1.5, -1.5),
    ),
    "X": (
        (0, -1.9), (2.6, -4.5), (4.5, -2.6), (1.9, 0), (4.5, 2.6), (2.6, 4.5), (0, 1.9), (-2.6, 4.5), (-4.5, 2.6),
        (-1.9, 0), (-4.5, -2.6), (-2.6, -4.5),
    ),
    "*": (
        (0, -5), (1.2, -1.6), (4.8, -1.5), (1.9, 0.6), (2.9, 4), (0, 2), (-2.9, 4), (-1.9, 0.6), (-4.8, -1.5),
        (-1.2, -1.6),
    ),
}  # fmt: skip
"""Corners of markers, by the names that matplotlib gives them."""
_RADII = {"o": 3.6, ".": 2.4}


def element(name: str, *children: str, **attributes: str | float | int | None) -> Markup:
    """An element; whatever is not Markup is escaped. ``class_`` stands for class, ``_`` for a hyphen."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = short(value) if isinstance(value, float) else str(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return Markup(f"<{' '.join(parts)}>{''.join(map(escape, children))}</{name}>")  # all of it escaped above


def short(value: float) -> str:
    """A coordinate: a tenth of a unit cannot be seen."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    return element("text", words, x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def drawing(name: str, title: str, description: str, height: float, *children: str) -> Markup:
    """The whole, with a name and a description for those who cannot see it."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *children,
        viewBox=f"0 0 {WIDTH} {short(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_="chart",
    )


def marker(shape: str, x: float, y: float, class_: str, words: str = "") -> Markup:
    """A small sign; ``words`` are shown to whoever points at it."""
    title = (element("title", words),) if words else ()
    if shape in _RADII:
        return element("circle", *title, cx=x, cy=y, r=_RADII[shape], class_=class_)
    points = " ".join(f"{short(x + dx)},{short(y + dy)}" for dx, dy in _SHAPES[shape])
    return element("polygon", *title, points=points, class_=class_)
