"""Building blocks of charts: SVG elements, scales and ticks, for ``charts`` and ``spacetime``.

Every drawing is WIDTH units wide and scales with the page. Text of 13 units is then nearly 10 pixels on a telephone
360 pixels wide and 13 to 17 on a desk. Colours are left to classes of the style sheet, so that a drawing follows
light, dark and print; a series is told by its dashes and marker too, never by its colour alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 440
STYLES = 10
"""How many series can be told apart: the style sheet has so many colours and dashes."""
MOST_DIGITS = 12  # of a number beside an axis
GLYPH = 7.2
"""About the width of a character of text."""


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


def clipped(words: str, most: int) -> str:
    """A name that fits; the table beside the chart has all of it."""
    return words if len(words) <= most else words[: most - 1] + "…"


def marker(shape: int, x: float, y: float, class_: str, words: str = "") -> Markup:
    """One of STYLES small signs; ``words`` are shown to whoever points at it."""
    title = (element("title", words),) if words else ()
    corners: tuple[tuple[float, float], ...]
    match shape % STYLES:
        case 0:
            return element("circle", *title, cx=x, cy=y, r=3.6, class_=class_)
        case 1:
            corners = ((-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4))
        case 2:
            corners = ((0, -4.4), (4.2, 3.4), (-4.2, 3.4))
        case 3:
            corners = ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0))
        case 4:
            corners = ((0, 4.4), (4.2, -3.4), (-4.2, -3.4))
        case 5:
            corners = ((-4.4, 0), (3.4, 4.2), (3.4, -4.2))
        case 6:
            corners = ((4.4, 0), (-3.4, 4.2), (-3.4, -4.2))
        case 7:
            corners = ((-4.5, -1.6), (4.5, -1.6), (4.5, 1.6), (-4.5, 1.6))
        case 8:
            corners = ((-1.6, -4.5), (1.6, -4.5), (1.6, 4.5), (-1.6, 4.5))
        case _:
            corners = ((0, -4.6), (4.4, -1.4), (2.7, 3.7), (-2.7, 3.7), (-4.4, -1.4))
    points = " ".join(f"{short(x + dx)},{short(y + dy)}" for dx, dy in corners)
    return element("polygon", *title, points=points, class_=class_)


@dataclass(frozen=True)
class Scale:
    """Values to units; of a logarithmic one both limits are above 0. Values outside stop at the edge."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False
    """Of what is counted: between two numbers there is nothing to mark."""

    def __call__(self, value: float) -> float:
        low, high, value = (self._at(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _at(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values within the limits, and how they are written."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, math.ceil((last - first + 1) / most))
            found = [(10.0**power, power_of_ten(power)) for power in range(last, first - 1, -step)]
            return found or [(self.high, f"{self.high:.3g}")]
        values = round_values(self.low, self.high, most)
        if self.whole:
            values = [value for value in values if value == int(value)]
        words = [number(value) for value in values]
        digits = 0
        while len(set(words)) < len(words) and digits < MOST_DIGITS:  # far from 0 and close together
            digits += 1
            words = [f"{value:,.{digits}f}" for value in values]
        return list(zip(values, words, strict=True))


def round_values(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, most - 1)
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(count * step, 12) for count in range(first, math.floor(high / step + 1e-9) + 1)]


def power_of_ten(power: int) -> str:
    if -3 <= power <= 3:
        return f"{10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def number(value: float) -> str:
    """A number as people write it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e9 or abs(value) < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
