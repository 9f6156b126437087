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
class Cell:
    """Of a ranked table: its words or a drawing, and what it is sorted by where that is no text."""

    words: str
    key: float | None = None
    drawing: Markup | None = None
    mark: str = ""


@dataclass(frozen=True)
class RankedRow:
    cells: Sequence[Cell]
    facts: Sequence[Sequence[str]]
    """By the number of a filter: which of its values let the row pass; of none, only "all"."""
    mark: str = ""
    """best, tied or baseline."""


@dataclass(frozen=True)
class Ranked(Block):
    """A table that can be sorted by any column and filtered; without a script it stands as it is."""

    kind: ClassVar[str] = "ranked"
    title: str
    head: Sequence[str]
    rows: Sequence[RankedRow]
    numeric: frozenset[int]
    filters: Sequence[tuple[str, int]]
    """(label, number of the fact)."""

    def values(self, fact: int) -> list[str]:
        """What a filter offers, in the order in which it first appears."""
        return list(dict.fromkeys(value for row in self.rows for value in row.facts[fact]))


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
