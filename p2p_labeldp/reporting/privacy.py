"""The report's section on privacy: a table of views, and their delta(epsilon) curves."""

from __future__ import annotations

import math

from p2p_labeldp.reporting import words
from p2p_labeldp.reporting.blocks import Block, Figure, Note, Section, Table, Text
from p2p_labeldp.reporting.charts import Axis, Line, line_chart
from p2p_labeldp.reporting.promises import Promises, epsilon_of, least_delta
from p2p_labeldp.reporting.recorded import Recorded

_RESTS = {
    "account": "the account of the cluster whose epsilon is largest",
    "flips": "the flips alone",
    "implied": "what the (epsilon, delta) of the table implies by itself, an upper bound",
}


def privacy_section(recorded: Recorded, promises: Promises) -> Section:
    summary = recorded.summary
    blocks: list[Block] = []
    if not summary.privacy:
        return Section("privacy", "Privacy", [Text("The summary promises nothing about any view.")])
    blocks.append(
        Text(
            "What could someone learn about one user's label, knowing everyone else's? Neighbouring data sets differ "
            "in one label; features are public. Each row holds in every cluster, whatever else the onlooker knows."
        )
    )
    blocks.append(_table(recorded))
    if summary.trust:
        blocks.append(Text(f"Trust: {summary.trust}"))
    reasons = dict.fromkeys(promise.reason for promise in summary.privacy.values() if promise.reason)
    for reason in reasons:
        named = [words.who(view) for view, promise in summary.privacy.items() if promise.reason == reason]
        who = "every view" if len(named) == len(summary.privacy) else ", ".join(named)
        note = f"{who[:1].upper()}{who[1:]}: {reason}."
        blocks.append(Text(note) if reason.startswith("the guarantee has fallen") else Note(note))
    if promises.curves:
        blocks.append(_curves(recorded, promises))
    return Section("privacy", "Privacy", blocks)


def _table(recorded: Recorded) -> Table:
    rows = []
    for view, promise in recorded.summary.privacy.items():
        epsilon = epsilon_of(promise)
        size = "–" if promise.cluster_size is None else f"{promise.cluster_size:,}"
        mark = "" if promise.method == "exact" or epsilon == math.inf else "≤ "
        rows.append(
            (
                words.who(view, promise),
                words.sees(view, recorded.summary.mechanism),
                "∞" if epsilon == math.inf else f"{mark}{epsilon:.4g}",
                f"{promise.delta:.3g}",
                words.odds(epsilon) if epsilon == math.inf else f"{words.odds(epsilon)}-fold",
                words.METHODS.get(promise.method, promise.method),
                size,
            )
        )
    head = ("who looks", "and sees", "epsilon", "delta", "odds change at most", "how sure", "worst cluster, users")
    return Table("What each view could learn", head, rows, frozenset({2, 3, 4, 6}), stacked=True)


def _curves(recorded: Recorded, promises: Promises) -> Figure:
    privacy = recorded.summary.privacy
    floor = least_delta(privacy)
    lines = []
    for curve in promises.curves:
        epsilon, delta = epsilon_of(privacy[curve.view]), privacy[curve.view].delta
        lines.append(
            Line(words.short(curve.view, privacy[curve.view]), curve.epsilons, curve.deltas, [(epsilon, delta)])
        )
    most = max(epsilon_of(privacy[curve.view]) for curve in promises.curves)
    widest = max((curve.epsilons[-1] for curve in promises.curves), default=1.0)
    across = Axis("epsilon (natural logarithm of the odds factor)", 0.0, max(0.1, min(widest, most * 1.25)))
    up = Axis("delta (probability)", floor, 1.0, log=True)
    stated = "; ".join(
        f"{line.name}: epsilon {line.points[0][0]:.4g} at delta {line.points[0][1]:.3g}" for line in lines
    )
    chart = line_chart("privacy-chart", "delta(epsilon) of every view", f"Falling curves. {stated}.", lines, across, up)
    return Figure("delta(epsilon) of every view", chart, _caption(promises), _data(promises, recorded))


def _caption(promises: Promises) -> str:
    parts = ["Every pair on a curve holds; lower is better. The marks are the table's pairs; equal curves coincide."]
    for how, rests in _RESTS.items():
        named = [words.who(curve.view) for curve in promises.curves if curve.how == how]
        if named:
            whose = "all curves" if len(named) == len(promises.curves) else ", ".join(named)
            parts.append(f"{whose[:1].upper()}{whose[1:]}: {rests}.")
    if any(curve.how == "account" for curve in promises.curves):
        parts.append("Between computed points a curve is a chord that lies above the truth.")
    if promises.without:
        parts.append(f"No curve, since nothing is promised: {', '.join(map(words.who, promises.without))}.")
    return " ".join(parts)


def _data(promises: Promises, recorded: Recorded) -> Table:
    """A few points of each curve."""
    rows = []
    for curve in promises.curves:
        step = max(1, (len(curve.epsilons) - 1) // 8)
        places = [*range(0, len(curve.epsilons), step)]
        who = words.who(curve.view, recorded.summary.privacy[curve.view])
        rows += [(who, f"{curve.epsilons[place]:.4g}", f"{curve.deltas[place]:.3g}") for place in places]
    return Table("Points of the curves", ("view", "epsilon", "delta at most"), rows, frozenset({1, 2}))
