"""A chart of lines as plain values: what is drawn, how it is marked and named, and what its caption says.

``charts`` draws a `Plot` into a page and ``files`` into a file; neither decides anything that a reader could ask for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from p2p_labeldp.reporting.blocks import Table
from p2p_labeldp.reporting.styles import Look

ACROSS = 50  # characters that fit below an axis, on a page and in a file
MOST_TIERS = 4  # heights at which names below an axis stand
MOST_DIGITS = 12  # of a number beside an axis

Kind = Literal["linear", "log", "cubic"]


@dataclass(frozen=True)
class Scale:
    """Values to units; of a logarithmic one both limits are above 0. Values outside stop at the edge."""

    low: float
    high: float
    start: float
    end: float
    kind: Kind = "linear"
    whole: bool = False
    """Of what is counted: between two numbers there is nothing to mark."""

    def __call__(self, value: float) -> float:
        low, high, value = (self._at(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _at(self, value: float) -> float:
        if self.kind == "cubic":
            return max(value, 0.0) ** 3
        return math.log10(max(value, 1e-300)) if self.kind == "log" else value

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values within the limits, and how they are written."""
        if self.kind == "log":
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


def clipped(words: str, most: int) -> str:
    """A name that fits; the table beside the chart has all of it."""
    return words if len(words) <= most else words[: most - 1] + "…"


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    kind: Kind = "linear"
    names: Sequence[str] = ()
    """Of the places 0, 1, ... where the axis has no numbers."""
    at: Sequence[float] = ()
    """Where numbers stand, if not at round ones."""

    def scale(self, start: float, end: float) -> Scale:
        return Scale(self.low, self.high, start, end, self.kind)

    @property
    def tiers(self) -> int:
        """On how many heights the names below the axis stand, so that long ones fit."""
        if not self.names:
            return 1
        longest = max(map(len, self.names)) + 1
        return min(MOST_TIERS, len(self.names), max(1, math.ceil(longest * len(self.names) / ACROSS)))

    def marks(self, *, below: bool = False) -> list[tuple[float, str]]:
        """What stands at the axis: names, the values asked for (of one ``below`` a chart those that have room), or
        round numbers."""
        if self.names:
            room = int(ACROSS / len(self.names) * self.tiers)
            return [(float(place), clipped(words, max(3, room))) for place, words in enumerate(self.names)]
        scale = self.scale(0.0, ACROSS)
        marks: list[tuple[float, str]] = []
        free = -math.inf
        for value in self.at:
            words = number(value)
            half = (len(words) + 1) / 2
            if not below or scale(value) - half >= free:
                marks.append((value, words))
                free = scale(value) + half
        return marks or scale.ticks()


@dataclass(frozen=True)
class Line:
    """A curve with marked ``points``. A band goes from ``lows`` to ``highs`` where there are any; a line that is not
    ``joined`` has marks alone, and an upright stroke for each interval."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    look: Look
    points: Sequence[tuple[float, float]] = ()
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()
    joined: bool = True
    said: Sequence[str] = ()
    """What each point says to whoever points at it."""

    @property
    def intervals(self) -> list[tuple[float, float, float]]:
        """(x, low, high) where there is one."""
        return [
            (x, low, high)
            for x, low, high in zip(self.xs, self.lows, self.highs, strict=False)
            if low is not None and high is not None
        ]


@dataclass(frozen=True)
class Plot:
    """Lines over common axes."""

    title: str
    lines: Sequence[Line]
    across: Axis
    up: Axis
    caption: str
    told: str = ""
    """Its numbers, for whoever cannot see it."""
    data: Table | None = None


def span(ends: Sequence[float], margin: float, *, least: float) -> tuple[float, float]:
    """Limits of an axis that holds all of this, with a margin that is at ``least`` so much where all are the same."""
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    wide = margin * (high - low) or least
    return low - wide, high + wide


def aside(place: int, count: int) -> float:
    """How far marks of one of several lines over names stand beside the name, so that none hides another."""
    return (place - (count - 1) / 2) * min(0.1, 0.8 / count)
