"""A stated epsilon beside what trials show, in one figure of two panels.

Left, true against false positive rates: what was measured, within the region that the exact account leaves to
any attack whatever. Right, the lower bound on epsilon at every threshold, below the stated one; only at the threshold
that was chosen beforehand, the marked one, does it hold at its confidence.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from p2p_labeldp.reporting.saving import save

if TYPE_CHECKING:
    from p2p_labeldp.experiments.epsilon import EpsilonAudit

POINTS = 201


def draw_epsilon(audit: EpsilonAudit, path: Path, title: str = "") -> None:
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
