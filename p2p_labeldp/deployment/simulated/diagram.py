"""A history for people: line by line, and as a space-time diagram, time downwards and a column for every machine."""

from __future__ import annotations

from html import escape

from p2p_labeldp.deployment.simulated.history import Line, Outcome

MOST = 400  # arrows and marks that a picture shows; the last ones, where a failure is
_WIDTH, _ROW, _TOP = 150, 14, 40


def readable(outcome: Outcome) -> str:
    names = outcome.plan.names
    lines = [str(line) for line in outcome.history.lines]
    return "\n".join([*lines, "", *_drawn(names, outcome.history.lines)])


def _drawn(names: list[str], lines: list[Line]) -> list[str]:
    """In letters: ``o`` sends, ``>`` receives, ``#`` is struck, ``*`` starts, ``x`` ends."""
    marks = {"DISASTER": "#", "starts": "*", "ends": "x"}
    drawn = [" " * 11 + " ".join(f"{name[:11]:^11}" for name in names)]
    for line in [line for line in lines if line.event in ("sends", "repeats", *marks)][-MOST:]:
        cells = ["|"] * len(names)
        if line.machine in names:
            cells[names.index(line.machine)] = marks.get(line.event, "o")
        to = line.facts.get("to")
        if to in names:
            cells[names.index(str(to))] = ">"
        said = line.facts.get("what", line.facts.get("how", ""))
        again = " again" if line.event == "repeats" else ""
        drawn.append(f"{line.time:10.4f} " + " ".join(f"{cell:^11}" for cell in cells) + f"  {said}{again}")
    return drawn


def diagram(outcome: Outcome) -> str:
    """As SVG."""
    names = outcome.plan.names
    shown = [
        line
        for line in outcome.history.lines
        if line.event in ("sends", "repeats", "DISASTER", "starts", "ends", "BROKEN")
    ][-MOST:]
    places = {name: 80 + _WIDTH * number for number, name in enumerate(names)}
    height, width = _TOP + _ROW * (len(shown) + 2), 80 + _WIDTH * len(names) + 240
    style = 'font-family="sans-serif" font-size="10"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {style}>']
    parts.append('<defs><marker id="a" orient="auto" markerWidth="6" markerHeight="6" refX="6" refY="3">')
    parts.append('<path d="M0,0L6,3L0,6z"/></marker></defs>')
    for name, place in places.items():
        parts.append(f'<text x="{place}" y="20" text-anchor="middle" font-weight="bold">{escape(name)}</text>')
        parts.append(f'<line x1="{place}" x2="{place}" y1="{_TOP - 10}" y2="{height}" stroke="#bbb"/>')
    for number, line in enumerate(shown):
        y = _TOP + _ROW * (number + 1)
        here, there = places.get(line.machine), places.get(str(line.facts.get("to")))
        said = escape(str(line.facts.get("what", line.facts.get("how", line.event))))[:90]
        parts.append(f'<text x="4" y="{y + 3}" fill="#777">{line.time:.3f}</text>')
        parts.append(f'<text x="{80 + _WIDTH * len(names)}" y="{y + 3}">{said}</text>')
        if here is not None and there is not None:
            dash = ' stroke-dasharray="4 2"' if line.event == "repeats" else ""
            parts.append(f'<line x1="{here}" y1="{y}" x2="{there}" y2="{y}" stroke="#036"{dash} marker-end="url(#a)"/>')
        elif here is not None:
            colour = {"DISASTER": "#c00", "ends": "#000", "starts": "#080"}.get(line.event, "#c00")
            parts.append(f'<circle cx="{here}" cy="{y}" r="4" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"
