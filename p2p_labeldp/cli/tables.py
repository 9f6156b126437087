"""Tables on a terminal of any width: lines break between words, never inside one.

A column is as wide as its widest cell where there is room. Where there is not, the widest columns give way first, down
to their longest word; in the last column a word that is longer than the line, such as a path, hangs over. Where even
that does not fit, every row becomes a paragraph with a line for each of its columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from p2p_labeldp.cli.output import console

_GAP = "  "
_LEAST = 20  # what the last column needs before its long words may hang over


def print_table(table: Table, where: Console = console) -> None:
    """A table of plain texts, printed so that no word is broken."""
    headers = [str(column.header) for column in table.columns] if table.show_header else []
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    rows = list(zip(*columns, strict=True))
    named = [[header, *column] for header, column in zip(headers, columns, strict=True)] if headers else columns
    widths = _fitted(named, where.width - len(_GAP) * (len(columns) - 1))
    if widths is None:
        _print_paragraphs(where, headers, rows)
        return
    right = [column.justify == "right" for column in table.columns]
    bold = [column.style == "bold" for column in table.columns]
    if headers:
        _print_row(where, headers, widths, right, [True] * len(headers))
    for row in rows:
        _print_row(where, row, widths, right, bold)


def _fitted(columns: Sequence[Sequence[str]], spare: int) -> list[int] | None:
    """Widths that sum to at most ``spare``, none below its column's longest word; None where there are none."""
    wide = [max(map(len, column), default=0) for column in columns]
    least = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    least[-1] = min(least[-1], max(_LEAST, spare - sum(least[:-1])))
    if sum(least) > spare:
        return None
    limit = max(wide, default=0)
    while sum(widths := [max(low, min(width, limit)) for low, width in zip(least, wide, strict=True)]) > spare:
        limit -= 1
    return widths


def _print_row(
    where: Console, cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], bold: Sequence[bool]
) -> None:
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, wrapped))):
        line = Text()
        for place, (column, width) in enumerate(zip(wrapped, widths, strict=True)):
            part = column[number] if number < len(column) else ""
            line.append(_GAP if place else "")
            line.append(part.rjust(width) if right[place] else part.ljust(width), "bold" if bold[place] else "")
        line.rstrip()
        where.print(line, soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _print_paragraphs(where: Console, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        if number and headers:
            where.print()
        for header, cell in zip(headers or [""] * len(row), row, strict=True):
            if cell:
                first, *others = _wrapped(f"{header}: {cell}" if header else cell, where.width - len(_GAP))
                where.print("\n".join([first, *(_GAP + each for each in others)]), soft_wrap=True, markup=False)
