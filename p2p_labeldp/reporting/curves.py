"""Plots of what a view guarantees: delta(epsilon), the trade-off of errors, a stated epsilon beside trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p2p_labeldp.privacy import Guarantee, View
from p2p_labeldp.privacy.numbers import rounded_up, shown_epsilon
from p2p_labeldp.reporting.blocks import Table
from p2p_labeldp.reporting.charts import HEIGHT
from p2p_labeldp.reporting.plots import Axis, Line, Plot
from p2p_labeldp.reporting.styles import REFERENCE, looks
from p2p_labeldp.runs.curves import chords, least_delta
from p2p_labeldp.runs.stated import short, who
from p2p_labeldp.runs.summary import Curve

if TYPE_CHECKING:
    from p2p_labeldp.experiments.epsilon import EpsilonAudit

POINTS = 201  # of the region left to any attack
_RESTS = {
    "account": "the largest, at each epsilon, of the accounts of all sizes of clusters that took part",
    "flips": "the flips alone",
    "implied": "what the (epsilon, delta) of the table implies by itself, an upper bound",
}


def curves_plot(table: Mapping[View, Guarantee], curves: Mapping[str, Curve], title: str) -> Plot:
    """delta(epsilon) of every view that has a curve, with the pair that the table states."""
    drawn = {view: curves[view] for view in table if view in curves}
    floor = least_delta(table)
    up = Axis("delta", floor, 1.0, "log")
    # On a page coordinates are rounded to a tenth of a unit: half of that higher, no curve lies below its points.
    lift = (up.high / up.low) ** (0.05 / HEIGHT)
    most = max((table[view].epsilon for view in drawn), default=0.0)
    widest = max((curve.epsilons[-1] for curve in drawn.values()), default=0.0)
    across = Axis("epsilon", 0.0, max(0.1, min(widest, most * 1.25)))
    lines = []
    for (view, curve), look in zip(drawn.items(), looks("" for _ in drawn), strict=True):
        # What lies beyond the axis would be drawn at its edge, below the curve.
        shown = [pair for pair in zip(*chords(curve, floor), strict=True) if pair[0] <= across.high]
        mark = (table[view].epsilon, table[view].delta)
        xs, ys = [epsilon for epsilon, _ in shown], [min(1.0, delta * lift) for _, delta in shown]
        lines.append(Line(short(view, table[view]), xs, ys, look, points=[mark]))
    stated = "; ".join(
        f"{line.name}: epsilon {shown_epsilon(line.points[0][0])} at delta {rounded_up(line.points[0][1])}"
        for line in lines
    )
    return Plot(
        title=title,
        lines=lines,
        across=across,
        up=up,
        caption=_caption(table, drawn),
        told=f"Falling curves. {stated}.",
        data=_data(table, drawn),
    )


def _caption(table: Mapping[View, Guarantee], curves: Mapping[View, Curve]) -> str:
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
    without = [who(view) for view, found in table.items() if found.epsilon == math.inf]
    if without:
        parts.append(f"No curve, since nothing is guaranteed: {', '.join(without)}.")
    return " ".join(parts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listed(sizes: Iterable[int]) -> str:
    shown = [f"{size:,}" for size in sizes]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _data(table: Mapping[View, Guarantee], curves: Mapping[View, Curve]) -> Table:
    """A few computed points of each curve."""
    cells: list[Sequence[str]] = []
    for view, curve in curves.items():
        step = max(1, (len(curve.epsilons) - 1) // 8)
        whose = who(view, table[view])
        # Both rounded up: at a larger epsilon delta is no larger.
        points = list(zip(curve.epsilons, curve.deltas, strict=True))[::step]
        cells += [(whose, shown_epsilon(epsilon), rounded_up(delta)) for epsilon, delta in points]
    return Table("Points of the curves", ("view", "epsilon", "delta at most"), cells, frozenset({1, 2}))


def trade_off_plot(rates: npt.NDArray[np.float64], errors: npt.NDArray[np.float64], *, name: str, title: str) -> Plot:
    """The least false negative rate over false positive rates, beside what guessing gives."""
    (look,) = looks([""])
    lines = [
        Line(name, rates.tolist(), errors.tolist(), look),
        Line("guessing", (0.0, 1.0), (1.0, 0.0), REFERENCE),
    ]
    return Plot(
        title=title,
        lines=lines,
        across=Axis("false positive rate", 0.0, 1.0),
        up=Axis("least false negative rate", 0.0, 1.0),
        caption="Whatever is seen, a test of one label against another has at least these errors.",
    )


def epsilon_plots(audit: EpsilonAudit, title: str) -> tuple[Plot, Plot]:
    """A stated epsilon beside what trials show.

    True against false positive rates: what was measured, within the region that the exact account leaves to any attack
    whatever. And the lower bound on epsilon at every threshold, below the stated one; only at the threshold that was
    chosen beforehand, the marked one, does it hold at its confidence.
    """
    bound, curve = audit.bound, audit.bound.curve
    region, reached_look, event, lower, marked = looks([""] * 5)
    false = np.linspace(0, 1, POINTS)
    most = np.array([audit.setting.bounds.true_rate(float(rate)) for rate in false])
    x, y = false.tolist(), most.tolist()
    rates = [Line("left to any attack by the account", x, y, region, lows=(1 - most[::-1]).tolist(), highs=y)]
    if audit.epsilon < math.inf:
        stated = np.minimum(1, math.exp(audit.epsilon) * false + bound.delta)
        rates.append(Line("e^epsilon x + delta", x, stated.tolist(), REFERENCE))
    order = np.lexsort((curve.true_rates, curve.false_rates))
    across, up = ([0.0, *every[order].tolist(), 1.0] for every in (curve.false_rates, curve.true_rates))
    rates.append(Line(f"{bound.attack}, {bound.trials // 2:,} trials", across, up, reached_look))
    true, wrong = bound.true_rate, bound.false_rate
    limits = (wrong.limit, wrong.value, wrong.value), (true.value, true.value, true.limit)
    rates.append(Line("the chosen event and its limits", *limits, event, points=[(wrong.value, true.value)]))
    shown = curve.epsilons > 0
    at, epsilons = curve.thresholds[shown].tolist(), curve.epsilons[shown].tolist()
    bounds = [Line("lower bound", at, epsilons, lower, points=list(zip(at, epsilons, strict=True)))]
    at, epsilons = [*at, bound.threshold], [*epsilons, bound.epsilon]
    if audit.epsilon < math.inf:
        ends = (min(at), max(at))
        bounds.append(Line(f"stated: {audit.epsilon:.4g}", ends, (audit.epsilon, audit.epsilon), REFERENCE))
        epsilons.append(audit.epsilon)
    chosen = (bound.threshold, bound.epsilon)
    bounds.append(Line(f"shown: {bound.epsilon:.4g}", [bound.threshold], [bound.epsilon], marked, points=[chosen]))
    side = "at least" if bound.label else "at most"
    named = f"threshold: a score of {side} this names label {bound.label}"
    return (
        Plot(
            title, rates, Axis("false positive rate", 0.0, 1.0), Axis("true positive rate", 0.0, 1.0),
            "What was measured, within the region that the account leaves to any attack.",
        ),
        Plot(
            title, bounds, Axis(named, min(at), max(at)), Axis("epsilon", 0.0, 1.05 * max(epsilons)),
            "The lower bound at every threshold; it holds at its confidence at the marked one, chosen beforehand.",
        ),
    )  # fmt: skip
