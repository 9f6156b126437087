"""The report's section on privacy: a table of views, and their delta(epsilon) curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from p2p_labeldp.reporting import claims, words
from p2p_labeldp.reporting.blocks import Block, Figure, Note, Section, Table, Text
from p2p_labeldp.reporting.charts import HEIGHT, Axis, Line, line_chart
from p2p_labeldp.reporting.promises import Promises, epsilon_of, least_delta
from p2p_labeldp.reporting.recorded import Recorded
from p2p_labeldp.reporting.words import rounded_up

_RESTS = {
    "account": "the largest, at each epsilon, of the accounts of all sizes of clusters that took part",
    "flips": "the flips alone",
    "implied": "what the (epsilon, delta) of the table implies by itself, an upper bound",
}


def privacy_section(recorded: Recorded, promises: Promises) -> Section:
    summary = recorded.summary
    blocks: list[Block] = []
    if not summary.privacy:
        return Section("privacy", "Privacy", [Text("The summary promises nothing about any view.")])
    blocks.append(Text(claims.INTRO))
    blocks.append(_table(recorded, promises))
    if pooled := claims.colluders(promises):
        blocks.append(Note(pooled))
    if limit := claims.hard_limit(recorded, promises):
        blocks.append(Text(limit))
    if trust := claims.trust(recorded, promises):
        blocks.append(Text(f"Trust: {trust}"))
    reasons = dict.fromkeys(promise.reason for promise in summary.privacy.values() if promise.reason)
    for reason in reasons:
        named = [words.who(view) for view, promise in summary.privacy.items() if promise.reason == reason]
        who = "every view" if len(named) == len(summary.privacy) else ", ".join(named)
        note = f"{who[:1].upper()}{who[1:]}: {reason}."
        blocks.append(Text(note) if reason.startswith("the guarantee has fallen") else Note(note))
    if promises.curves:
        blocks.append(_curves(recorded, promises))
    return Section("privacy", "Privacy", blocks)


def _table(recorded: Recorded, promises: Promises) -> Table:
    promised = list(recorded.summary.privacy.items())
    if promises.colluding is not None:
        promised.append(("coalition", promises.colluding))
    rows = []
    for view, promise in promised:
        epsilon = epsilon_of(promise)
        size = "–" if promise.cluster_size is None else f"{promise.cluster_size:,}"
        mark = "" if promise.method == "exact" or epsilon == math.inf else "≤ "
        who = words.who(view, promise)
        if promise is promises.colluding:
            who = f"the learner with this run’s {words.plural(promise.colluders or 0, 'colluder')}"
        rows.append(
            (
                who,
                words.sees(view, recorded.summary.mechanism),
                "∞" if epsilon == math.inf else f"{mark}{rounded_up(epsilon, 4)}",
                rounded_up(promise.delta),
                words.factor(epsilon),
                words.METHODS.get(promise.method, promise.method),
                size,
            )
        )
    head = (
        "who looks", "and sees", "epsilon", "delta", "times as likely, at most, plus delta", "how sure",
        "worst cluster, users",
    )  # fmt: skip
    return Table("What each view could learn", head, rows, frozenset({2, 3, 4, 6}), stacked=True)


def _curves(recorded: Recorded, promises: Promises) -> Figure:
    privacy = recorded.summary.privacy
    floor = least_delta(privacy)
    up = Axis("delta (what is added)", floor, 1.0, log=True)
    # Coordinates are rounded to a tenth of a unit: half of that higher, no curve is drawn below its points.
    lift = (up.high / up.low) ** (0.05 / HEIGHT)
    lines = []
    for curve in promises.curves:
        epsilon, delta = epsilon_of(privacy[curve.view]), privacy[curve.view].delta
        drawn = [min(1.0, value * lift) for value in curve.deltas]
        lines.append(Line(words.short(curve.view, privacy[curve.view]), curve.epsilons, drawn, [(epsilon, delta)]))
    most = max(epsilon_of(privacy[curve.view]) for curve in promises.curves)
    widest = max((curve.epsilons[-1] for curve in promises.curves), default=1.0)
    across = Axis("epsilon (natural logarithm of the factor)", 0.0, max(0.1, min(widest, most * 1.25)))
    stated = "; ".join(
        f"{line.name}: epsilon {rounded_up(line.points[0][0], 4)} at delta {rounded_up(line.points[0][1])}"
        for line in lines
    )
    chart = line_chart("privacy-chart", "delta(epsilon) of every view", f"Falling curves. {stated}.", lines, across, up)
    return Figure("delta(epsilon) of every view", chart, _caption(promises), _data(promises, recorded))


def _caption(promises: Promises) -> str:
    parts = ["Lower is better. The marks are the table's pairs; equal curves coincide."]
    if not promises.doubts and not any(curve.some for curve in promises.curves):
        parts.insert(0, "Every pair on a curve holds.")
    for how, rests in _RESTS.items():
        named = [words.who(curve.view) for curve in promises.curves if curve.how == how and not curve.some]
        if named:
            whose = "all curves" if len(named) == len(promises.curves) else ", ".join(named)
            parts.append(f"{whose[:1].upper()}{whose[1:]}: {rests}.")
    for some in dict.fromkeys(curve.some for curve in promises.curves if curve.some):
        whose = ", ".join(words.who(curve.view) for curve in promises.curves if curve.some == some)
        parts.append(
            f"{whose[:1].upper()}{whose[1:]}: the largest, at each epsilon, of the accounts of clusters of "
            f"{_listed(some)} users; to users of clusters of other sizes only the table's pair is promised."
        )
    if any(curve.how == "account" for curve in promises.curves):
        parts.append("Between computed points a curve is a chord that lies above the account.")
    if promises.without:
        parts.append(f"No curve, since nothing is promised: {', '.join(map(words.who, promises.without))}.")
    if promises.colluding is not None:
        parts.append("The row of this run's colluders has no curve.")
    return " ".join(parts)


def _listed(sizes: Sequence[int]) -> str:
    shown = [f"{size:,}" for size in sizes]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _data(promises: Promises, recorded: Recorded) -> Table:
    """A few points of each curve."""
    rows = []
    for curve in promises.curves:
        step = max(1, (len(curve.epsilons) - 1) // 8)
        places = [*range(0, len(curve.epsilons), step)]
        who = words.who(curve.view, recorded.summary.privacy[curve.view])
        # Both rounded up: at a larger epsilon delta is no larger.
        rows += [(who, rounded_up(curve.epsilons[place], 4), rounded_up(curve.deltas[place])) for place in places]
    return Table("Points of the curves", ("view", "epsilon", "delta at most"), rows, frozenset({1, 2}))
