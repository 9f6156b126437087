"""The report's section on privacy: the table of guarantees, and the delta(epsilon) curves that the run computed."""

from __future__ import annotations

import math

from p2p_labeldp.privacy.numbers import factor
from p2p_labeldp.reporting import claims
from p2p_labeldp.reporting.blocks import Block, Note, Section, Table, Text
from p2p_labeldp.reporting.charts import figure_of
from p2p_labeldp.reporting.curves import curves_plot
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.runs.stated import rows, who
from p2p_labeldp.runs.summary import Summary


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
        note = f"{whose[:1].upper()}{whose[1:]}: {reason}."
        blocks.append(Text(note) if reason.startswith("the guarantee has fallen") else Note(note))
    plot = curves_plot(summary.privacy, summary.curves, "delta(epsilon) of every view")
    if plot.lines:
        blocks.append(figure_of("privacy-chart", plot))
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
