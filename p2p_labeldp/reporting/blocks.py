"""What a page is made of: sections of blocks, plain data that the templates turn into HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from markupsafe import Markup


@dataclass(frozen=True)
class Block:
    kind: ClassVar[str]


@dataclass(frozen=True)
class Text(Block):
    kind: ClassVar[str] = "text"
    words: str


@dataclass(frozen=True)
class Note(Block):
    """Something that must not be overlooked."""

    kind: ClassVar[str] = "note"
    words: str


@dataclass(frozen=True)
class Table(Block):
    """Cells are texts. ``numeric`` columns stand to the right; a ``stacked`` table is cards on a telephone."""

    kind: ClassVar[str] = "table"
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    stacked: bool = False


@dataclass(frozen=True)
class Figure(Block):
    """A drawing, what it says in words, and its data."""

    kind: ClassVar[str] = "figure"
    title: str
    drawing: Markup
    caption: str
    data: Table | None = None


@dataclass(frozen=True)
class Row(Block):
    """Figures beside each other where there is room."""

    kind: ClassVar[str] = "row"
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Choice:
    """One of several things that a list is there to choose from."""

    label: str
    options: Sequence[tuple[str, str]]
    """(value, words)."""


@dataclass(frozen=True)
class Chooser(Block):
    """Figures of which one is shown: that of the chosen values. Without a script it is the first."""

    kind: ClassVar[str] = "chooser"
    name: str
    choices: Sequence[Choice]
    panels: Sequence[tuple[str, Figure]]
    """(the values, joined by a space, and what they show)."""
    readout: str = ""
    """What stands where the text of a message appears; empty: there are no messages to point at."""


@dataclass(frozen=True)
class Code(Block):
    kind: ClassVar[str] = "code"
    title: str
    text: str
    folded: bool = False


@dataclass(frozen=True)
class Terms(Block):
    """A glossary."""

    kind: ClassVar[str] = "terms"
    terms: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    title: str
    verdict: str
    sections: Sequence[Section]
    tiles: Sequence[tuple[str, str, str]] = ()
    """(number, what it is, a word more)."""
    warnings: Sequence[str] = ()
    footer: str = ""
    banner: str = ""
    """What must be known before anything is read or passed on."""
    lead: Sequence[str] = field(default=())
    """What was run, in words."""
