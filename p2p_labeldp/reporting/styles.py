"""How lines look wherever they are drawn, in files and on pages; a mechanism has one colour and marker everywhere.

A line is told by its dashes and its marker too, never by its colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from p2p_labeldp.experiments.compare import AS_PRINTED
from p2p_labeldp.mechanisms import mechanism_of
from p2p_labeldp.scenario import MECHANISMS

PAPER = {"light": "#fcfcfa", "dark": "#12161d"}
"""The ground of a page."""
LEAST_CONTRAST = 3.0
"""Of a drawn line with the ground (WCAG 2.1, 1.4.11)."""
SERIES = (
    ("#0069a8", "#5cb3f0"), ("#c24a00", "#ff9152"), ("#007a58", "#40cfa0"), ("#a23a80", "#e795c8"),
    ("#8a6800", "#e3bd3c"), ("#4b48b8", "#a9a7ff"), ("#5c6672", "#aeb8c4"), ("#111418", "#f4f6f9"),
    ("#b3261e", "#ff8f86"), ("#00727f", "#4fd0e0"),
)  # fmt: skip
"""Colours of lines that are no mechanism's, on light and on dark."""
DASHES: tuple[tuple[float, ...], ...] = (
    (), (8, 4), (2, 3), (10, 3, 2, 3), (14, 5), (5, 2), (1.5, 4), (10, 3, 2, 3, 2, 3), (4, 6), (16, 3, 5, 3)
)  # fmt: skip
"""Lengths of strokes and gaps, of a line that is LINE wide."""
LINE = 2.1
MARKERS = "os^Dv<>PX*p_|."
"""By the names that matplotlib gives them; a series has one of the first ten."""


@dataclass(frozen=True)
class Look:
    """Of a line."""

    colour: str
    """Its class in the style sheet."""
    dash: int = 0
    marker: str = "o"

    @property
    def ink(self) -> str:
        """Its colour on paper."""
        return _colours()[self.colour][0]


REFERENCE = Look("s6", 1)
"""Of a line that others are compared with."""


def looks(kinds: Iterable[str]) -> list[Look]:
    """Of lines in their order: each mechanism's own, with other dashes where it has several; of those of none, marked
    by an empty name, the series'."""
    found: list[Look] = []
    used: Counter[str] = Counter()
    for place, kind in enumerate(kinds):
        if kind:
            turn = used[kind]
            used[kind] += 1
            first = max(0, MARKERS.find(style_of(kind).marker))  # a plugin's may be one that is not drawn here
            found.append(Look(f"k-{kind}", turn % len(DASHES), MARKERS[(first + 4 * turn) % len(MARKERS)]))
        else:
            turn, colour = divmod(place, len(SERIES))
            shift = (colour + turn) % len(SERIES)
            found.append(Look(f"s{colour}", shift, MARKERS[shift]))
    return found


@dataclass(frozen=True)
class Style:
    """How a mechanism looks in figures."""

    colour: str
    marker: str
    trusts: str
    """Whom one must trust, in a word or two."""
    trusted: str = ""
    """With what, or not to do what."""

    @property
    def trust(self) -> str:
        return f"{self.trusts} {self.trusted}".rstrip()

    def on(self, ground: str) -> str:
        """The colour, moved away from the ground until it can be seen: of a page that is ``light`` or ``dark``."""
        towards = 0 if ground == "light" else 255
        for share in range(0, 100, 5):
            found = _mixed(self.colour, towards, share / 100)
            if contrast(found, PAPER[ground]) >= LEAST_CONTRAST:
                return found
        raise AssertionError("black and white can be seen")


_AS_PRINTED = Style("#8c564b", "*", "a curator")


def style_of(kind: str) -> Style:
    """Of a ``mechanism.kind``, or of the paper's setting as printed."""
    if kind == AS_PRINTED:
        return _AS_PRINTED
    record = mechanism_of(kind)
    return Style(record.colour, record.marker, record.trusts, record.trusted)


def kinds() -> tuple[str, ...]:
    """Everything that has a look; plugins may have added some."""
    return (*MECHANISMS, AS_PRINTED)


def _colours() -> dict[str, tuple[str, str]]:
    """Of every class, on light and on dark."""
    found = {f"s{place}": pair for place, pair in enumerate(SERIES)}
    return found | {f"k-{kind}": (style_of(kind).on("light"), style_of(kind).on("dark")) for kind in kinds()}


def style_sheet() -> str:
    """A class for each colour, on light and dark grounds, and for each kind of dashes."""
    colours = _colours()
    light, dark = ("".join(f" --{name}: {pair[on]};" for name, pair in colours.items()) for on in (0, 1))
    rules = "".join(
        f"svg .{name} {{ stroke: var(--{name}); }} "
        f"svg .dot.{name}, svg .band.{name}, svg .bar.{name}, svg .area.{name} {{ fill: var(--{name}); }}\n"
        for name in colours
    )
    dashes = "".join(
        f"svg .curve.d{place} {{ stroke-dasharray: {' '.join(map(str, lengths))}; }}\n"
        for place, lengths in enumerate(DASHES)
        if lengths
    )
    return (
        f":root {{{light} }}\n@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n"
        f"@media print {{ :root {{{light} }} }}\n{rules}{dashes}"
    )


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _mixed(colour: str, towards: int, share: float) -> str:
    return "#" + "".join(f"{round(each + (towards - each) * share):02x}" for each in _channels(colour))


def contrast(one: str, other: str) -> float:
    """By WCAG 2.1: 1 for equal colours, 21 for black on white."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [each / 255 for each in _channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
