"""Figures of what a view guarantees: delta(epsilon), the trade-off of errors, a stated epsilon beside trials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p2p_labeldp.reporting.saving import save
from p2p_labeldp.runs.curves import chords
from p2p_labeldp.runs.summary import Curve

if TYPE_CHECKING:
    from p2p_labeldp.experiments.epsilon import EpsilonAudit

LEAST_DELTA = 1e-12
DECADES = 5
"""Of delta, below the stated one, that are drawn at most."""
DASHES: tuple[tuple[float, ...], ...] = (
    (), (4, 2), (1, 1.5), (6, 1.5, 1, 1.5), (8, 3), (2, 1), (1, 3), (6, 1.5, 1, 1.5, 1, 1.5), (3, 4), (9, 1.5, 3, 1.5)
)  # fmt: skip
"""Lengths of strokes and gaps of each line, in widths of it; the first has no gap. No two views share one."""


POINTS = 201  # of the region left to any attack


def draw_curves(curves: Mapping[str, Curve], path: Path, *, title: str = "", delta: float) -> None:
    """One line for each named curve, on a logarithmic scale of delta; the format is the file's suffix.

    ``delta``, at which guarantees are stated, is marked with a line.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 4.4), layout="constrained")
    axes = figure.subplots()
    floor = max(LEAST_DELTA, min(delta or 1.0, 1e-4) * 10.0**-DECADES)
    for place, (name, curve) in enumerate(curves.items()):
        shown = [(epsilon, value) for epsilon, value in zip(*chords(curve, floor), strict=True) if value > 0]
        if shown:
            (line,) = axes.plot(*zip(*shown, strict=True), label=name)
            line.set_dashes(DASHES[place % len(DASHES)])
    axes.axhline(delta, color="0.5", linewidth=0.8, label=f"delta = {delta:.3g}")
    axes.set(yscale="log", ylim=(floor, 1), xlabel="epsilon", ylabel="delta", title=title)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path)


def draw_trade_off(
    rates: npt.NDArray[np.float64], errors: npt.NDArray[np.float64], path: Path, *, name: str, title: str = ""
) -> None:
    """The least false negative rate over false positive rates, beside what guessing gives."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(rates, errors, label=name)
    axes.plot([0, 1], [1, 0], color="0.5", linewidth=0.8, linestyle="--", label="guessing")
    axes.fill_between(rates, errors, alpha=0.1)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="false positive rate", ylabel="least false negative rate")
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def draw_epsilon(audit: EpsilonAudit, path: Path, title: str = "") -> None:
    """A stated epsilon beside what trials show.

    Left, true against false positive rates: what was measured, within the region that the exact account leaves to
    any attack whatever. Right, the lower bound on epsilon at every threshold, below the stated one; only at the
    threshold that was chosen beforehand, the marked one, does it hold at its confidence.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    rates, bounds = figure.subplots(1, 2)
    _draw_rates(audit, rates)
    _draw_bounds(audit, bounds)
    figure.suptitle(title)
    save(figure, path)


def _draw_rates(audit: EpsilonAudit, axes: Any) -> None:
    bound, curve = audit.bound, audit.bound.curve
    false = np.linspace(0, 1, POINTS)
    most = np.array([audit.setting.bounds.true_rate(float(rate)) for rate in false])
    axes.fill_between(false, 1 - most[::-1], most, color="0.9", label="left to any attack by the account")
    if audit.epsilon < math.inf:
        stated = np.minimum(1, math.exp(audit.epsilon) * false + bound.delta)
        axes.plot(false, stated, color="0.5", linewidth=0.8, linestyle="--", label="e^epsilon x + delta")
    order = np.lexsort((curve.true_rates, curve.false_rates))
    reached = [np.concatenate([[0.0], every[order], [1.0]]) for every in (curve.false_rates, curve.true_rates)]
    axes.plot(*reached, linewidth=1.3, label=f"{bound.attack}, {bound.trials // 2:,} trials")
    true, wrong = bound.true_rate, bound.false_rate
    axes.errorbar(
        wrong.value, true.value, xerr=[[0.0], [wrong.limit - wrong.value]], yerr=[[true.value - true.limit], [0.0]],
        fmt="o", color="C3", markersize=4, capsize=2, label="the chosen event and its limits",
    )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="false positive rate", ylabel="true positive rate")
    axes.legend(loc="lower right", fontsize=8)


def _draw_bounds(audit: EpsilonAudit, axes: Any) -> None:
    bound, curve = audit.bound, audit.bound.curve
    shown = curve.epsilons > 0
    axes.plot(curve.thresholds[shown], curve.epsilons[shown], marker=".", linewidth=1.0, label="lower bound")
    if audit.epsilon < math.inf:
        axes.axhline(audit.epsilon, color="0.3", linestyle="--", linewidth=1.0, label=f"stated: {audit.epsilon:.4g}")
    axes.plot([bound.threshold], [bound.epsilon], "o", color="C3", markersize=5, label=f"shown: {bound.epsilon:.4g}")
    side = "at least" if bound.label else "at most"
    axes.set(xlabel=f"threshold: a score of {side} this names label {bound.label}", ylabel="epsilon")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
