"""Tables on a terminal of any width: lines break between words, never inside one.

A column is as wide as its widest cell where there is room. Where there is not, the widest columns give way first, down
to their longest word; in the last column a word that is longer than the line, such as a path, hangs over. Where even
that does not fit, every row becomes a paragraph with a line for each of its columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.text import Text

from p2p_labeldp.cli.output import console

_GAP = "  "
_LEAST = 20  # what the last column needs before its long words may hang over


Rows = Sequence[Sequence[str]]


def print_facts(rows: Rows, where: Console = console) -> None:
    """Names in bold, each with what is to be said of it."""
    _print(rows, (), frozenset(), frozenset({0}), where)


def print_table(head: Sequence[str], rows: Rows, *, right: Collection[int] = (), where: Console = console) -> None:
    """Columns with their names above; those in ``right`` are numbers."""
    _print(rows, head, right, frozenset(), where)


def _print(rows: Rows, head: Sequence[str], right: Collection[int], bold: Collection[int], where: Console) -> None:
    every = [*([head] if head else []), *rows]
    if not every:
        return
    columns = list(zip(*every, strict=True))
    widths = _fitted(columns, where.width - len(_GAP) * (len(columns) - 1))
    if widths is None:
        _print_paragraphs(where, head, rows)
        return
    for place, row in enumerate(every):
        _print_row(where, row, widths, right, range(len(row)) if head and place == 0 else bold)


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
    where: Console, cells: Sequence[str], widths: Sequence[int], right: Collection[int], bold: Collection[int]
) -> None:
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, wrapped))):
        line = Text()
        for place, (column, width) in enumerate(zip(wrapped, widths, strict=True)):
            part = column[number] if number < len(column) else ""
            line.append(_GAP if place else "")
            style = "bold" if place in bold else ""
            line.append(part.rjust(width) if place in right else part.ljust(width), style)
        line.rstrip()
        where.print(line, soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _print_paragraphs(where: Console, headers: Sequence[str], rows: Rows) -> None:
    for number, row in enumerate(rows):
        if number and headers:
            where.print()
        for header, cell in zip(headers or [""] * len(row), row, strict=True):
            if cell:
                first, *others = _wrapped(f"{header}: {cell}" if header else cell, where.width - len(_GAP))
                where.print("\n".join([first, *(_GAP + each for each in others)]), soft_wrap=True, markup=False)
