"""How a mechanism looks wherever it is drawn, in figures and on pages, and whom it trusts in a few words.

One table, made from the mechanisms' records: one colour for one mechanism everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from p2p_labeldp.experiments.compare import AS_PRINTED
from p2p_labeldp.mechanisms import mechanism_of
from p2p_labeldp.scenario import MECHANISMS

PAPER = {"light": "#fcfcfa", "dark": "#12161d"}
"""The ground of a page."""
LEAST_CONTRAST = 3.0
"""Of a drawn line with the ground (WCAG 2.1, 1.4.11)."""


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


def style_sheet() -> str:
    """A class for each mechanism, on light and dark grounds."""
    names = {kind: f"k-{kind}" for kind in kinds()}
    light = "".join(f" --{name}: {style_of(kind).on('light')};" for kind, name in names.items())
    dark = "".join(f" --{name}: {style_of(kind).on('dark')};" for kind, name in names.items())
    rules = "".join(
        f"svg .{name} {{ stroke: var(--{name}); }} "
        f"svg .dot.{name}, svg .band.{name}, svg .bar.{name} {{ fill: var(--{name}); }}\n"
        for name in names.values()
    )
    return (
        f":root {{{light} }}\n@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n"
        f"@media print {{ :root {{{light} }} }}\n{rules}"
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
