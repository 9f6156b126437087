"""The report's section on privacy: the table of guarantees, and the delta(epsilon) curves that the run computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from p2p_labeldp.privacy import View
from p2p_labeldp.privacy.numbers import factor, rounded_up, shown_epsilon
from p2p_labeldp.reporting import claims
from p2p_labeldp.reporting.blocks import Block, Figure, Note, Section, Table, Text
from p2p_labeldp.reporting.charts import HEIGHT, Axis, Line, line_chart
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.runs.curves import chords, least_delta
from p2p_labeldp.runs.stated import rows, short, who
from p2p_labeldp.runs.summary import Curve, Summary

_RESTS = {
    "account": "the largest, at each epsilon, of the accounts of all sizes of clusters that took part",
    "flips": "the flips alone",
    "implied": "what the (epsilon, delta) of the table implies by itself, an upper bound",
}

Curves = dict[View, Curve]


def privacy_section(recorded: Recorded) -> Section:
    summary = recorded.summary
    blocks: list[Block] = [Text(claims.INTRO), _table(summary)]
    if summary.person_privacy:
        blocks.append(_persons(summary))
    if limit := claims.hard_limit(recorded):
        blocks.append(Text(limit))
    if trust := claims.trust(recorded):
        blocks.append(Text(f"Trust: {trust}"))
    for reason in dict.fromkeys(found.reason for found in summary.privacy.values() if found.reason):
        named = [who(view, found) for view, found in summary.privacy.items() if found.reason == reason]
        whose = "every view" if len(named) == len(summary.privacy) else ", ".join(named)
        note = f"{_capital(whose)}: {reason}."
        blocks.append(Text(note) if reason.startswith("the guarantee has fallen") else Note(note))
    curves = {view: summary.curves[view] for view in summary.privacy if view in summary.curves}
    if curves:
        blocks.append(_figure(summary, curves))
    elif any(found.epsilon < math.inf for found in summary.privacy.values()):
        blocks.append(Text("The run folder holds no delta(epsilon) curves."))
    return Section("privacy", "Privacy", blocks)


def _table(summary: Summary) -> Table:
    cells = [
        (
            row.who, row.sees, row.epsilon, row.delta, factor(summary.privacy[row.view].epsilon), row.method,
            row.cluster_size or "–",
        )
        for row in rows(summary.privacy, summary.mechanism)
    ]  # fmt: skip
    head = (
        "view", "sees", "epsilon", "delta", "times as likely, at most, plus delta", "method", "worst cluster, users",
    )  # fmt: skip
    return Table("What each view could learn", head, cells, frozenset({2, 3, 4, 6}), stacked=True)


def _persons(summary: Summary) -> Table:
    cells = [(row.who, row.epsilon, row.delta) for row in rows(summary.person_privacy, summary.mechanism)]
    title = f"What protects all labels of a person with {summary.person_rows} rows together"
    return Table(title, ("view", "epsilon", "delta"), cells, frozenset({1, 2}))


def _figure(summary: Summary, curves: Curves) -> Figure:
    privacy = summary.privacy
    floor = least_delta(privacy)
    up = Axis("delta", floor, 1.0, log=True)
    # Coordinates are rounded to a tenth of a unit: half of that higher, no curve is drawn below its points.
    lift = (up.high / up.low) ** (0.05 / HEIGHT)
    lines = []
    for view, curve in curves.items():
        epsilons, deltas = chords(curve, floor)
        mark = (privacy[view].epsilon, privacy[view].delta)
        lines.append(Line(short(view, privacy[view]), epsilons, [min(1.0, delta * lift) for delta in deltas], [mark]))
    most = max(privacy[view].epsilon for view in curves)
    widest = max(curve.epsilons[-1] for curve in curves.values())
    across = Axis("epsilon", 0.0, max(0.1, min(widest, most * 1.25)))
    stated = "; ".join(
        f"{line.name}: epsilon {shown_epsilon(line.points[0][0])} at delta {rounded_up(line.points[0][1])}"
        for line in lines
    )
    chart = line_chart("privacy-chart", "delta(epsilon) of every view", f"Falling curves. {stated}.", lines, across, up)
    return Figure("delta(epsilon) of every view", chart, _caption(summary, curves), _data(summary, curves))


def _caption(summary: Summary, curves: Curves) -> str:
    parts = ["Lower is better. The marks are the table's pairs; equal curves coincide."]
    if not any(curve.sizes for curve in curves.values()):
        parts.insert(0, "Every pair on a curve holds.")
    for how, rests in _RESTS.items():
        named = [who(view) for view, curve in curves.items() if curve.how == how and not curve.sizes]
        if named:
            whose = "all curves" if len(named) == len(curves) else ", ".join(named)
            parts.append(f"{_capital(whose)}: {rests}.")
    for some in dict.fromkeys(curve.sizes for curve in curves.values() if curve.sizes):
        whose = ", ".join(who(view) for view, curve in curves.items() if curve.sizes == some)
        parts.append(
            f"{_capital(whose)}: the largest, at each epsilon, of the accounts of clusters of {_listed(some)} users; "
            "users of clusters of other sizes have the table's pair only."
        )
    if any(curve.how == "account" for curve in curves.values()):
        parts.append("Between computed points a curve is a chord that lies above the account.")
    without = [who(view) for view, found in summary.privacy.items() if found.epsilon == math.inf]
    if without:
        parts.append(f"No curve, since nothing is guaranteed: {', '.join(without)}.")
    return " ".join(parts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(sizes: Iterable[int]) -> str:
    shown = [f"{size:,}" for size in sizes]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _data(summary: Summary, curves: Curves) -> Table:
    """A few computed points of each curve."""
    cells: list[Sequence[str]] = []
    for view, curve in curves.items():
        step = max(1, (len(curve.epsilons) - 1) // 8)
        whose = who(view, summary.privacy[view])
        # Both rounded up: at a larger epsilon delta is no larger.
        points = list(zip(curve.epsilons, curve.deltas, strict=True))[::step]
        cells += [(whose, shown_epsilon(epsilon), rounded_up(delta)) for epsilon, delta in points]
    return Table("Points of the curves", ("view", "epsilon", "delta at most"), cells, frozenset({1, 2}))
