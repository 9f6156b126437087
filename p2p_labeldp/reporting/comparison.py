"""The paper's figure: accuracy over the non-private accuracy, against total epsilon or the number of clusters."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from p2p_labeldp.data import data_set_of
from p2p_labeldp.experiments.compare import AS_PRINTED, Point
from p2p_labeldp.reporting.saving import save_both
from p2p_labeldp.reporting.styles import style_of
from p2p_labeldp.reporting.sweeps import estimate, show_deltas

STYLES = ("-", "--", "-.", ":")
"""Curves of one mechanism are told apart by these."""


@dataclass(frozen=True)
class Panel:
    """One comparison, ready to be drawn."""

    dataset: str
    points: Sequence[Point]
    across: str
    """``epsilon`` or ``clusters``."""
    cut: str = ""
    """What a preview left out."""

    @property
    def title(self) -> str:
        name = data_set_of(self.dataset).title or self.dataset
        if self.across == "clusters":
            epsilons = self.epsilons()
            name += ", by the number of clusters" + (f", epsilon {epsilons[0]:g}" if len(epsilons) == 1 else "")
        return f"{name} (preview: {self.cut})" if self.cut else name

    def lines(self) -> dict[tuple[str, float], list[Point]]:
        """Points of each curve; where clusters are varied, there is one for each epsilon."""
        found: dict[tuple[str, float], list[Point]] = {}
        for point in self.points:
            found.setdefault((point.curve, point.epsilon if self.across == "clusters" else 0.0), []).append(point)
        return found

    def values(self) -> list[float]:
        return sorted({getattr(point, self.across) for point in self.points})

    def epsilons(self) -> list[float]:
        return sorted({point.epsilon for point in self.points})

    def label(self, mine: Sequence[Point]) -> str:
        """What the legend says of a curve; its epsilon too, where there are several under one name."""
        return curve_label(mine, with_epsilon=self.across == "clusters" and len(self.epsilons()) > 1)


def spread(points: Sequence[Point], counts: Sequence[int]) -> list[Point]:
    """Where numbers of clusters are drawn: a point of a mechanism that does not look at them stands at all of them."""
    return [
        replace(point, clusters=count)
        for point in points
        for count in ([point.clusters] if point.clusters is not None else counts)
    ]


def summarise(panel: Panel) -> list[dict[str, Any]]:
    """Mean ratio and its confidence interval for each curve, number of clusters and epsilon."""
    groups: dict[tuple[str, int | None, float], list[Point]] = {}
    for point in panel.points:
        groups.setdefault((point.curve, point.clusters, point.epsilon), []).append(point)
    found = []
    for (curve, clusters, epsilon), mine in groups.items():
        known = estimate(point.ratio for point in mine)
        found.append(
            {
                "mechanism": curve,
                "clusters": clusters,
                "epsilon": epsilon,
                "spent_epsilon": max(point.spent for point in mine),
                "delta": max(point.delta for point in mine),
                "ratio": None if known is None else known.mean,
                "low": None if known is None else known.low,
                "high": None if known is None else known.high,
                "trials": len(mine),
            }
        )
    return found


def curve_label(mine: Sequence[Point], *, with_epsilon: bool) -> str:
    """What the legend says of a curve: its name, whom it trusts, its delta and, as printed, what it costs."""
    first = mine[0]
    kind, _, options = first.curve.partition(":")
    name = "Algorithm 1 as printed" if kind == AS_PRINTED else kind
    name += f" ({options.replace('=', ' = ').replace(',', ', ')})" if options else ""
    if with_epsilon:
        name += f", epsilon {first.epsilon:g}"
    if kind == AS_PRINTED:
        costs = max(point.spent / point.epsilon for point in mine)
        return f"{name}: costs {costs:.2g} times the epsilon it names; trusts {style_of(kind).trust}"
    deltas = sorted({point.delta for point in mine})
    return f"{name}: trusts {style_of(kind).trust}; delta {show_deltas(deltas)}"


def caption(panel: Panel) -> str:
    """What the figure cannot show: the non-private accuracy, purity, trials and what bands are."""
    truth = sorted({point.nonprivate_accuracy for point in panel.points})
    parts = [f"non-private accuracy {_span(truth, 4)}"]
    purities: dict[int, float] = {
        point.clusters: point.purity
        for point in panel.points
        if point.purity is not None and point.clusters is not None
    }
    if purities:
        counts = sorted(purities)
        which = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        parts.append(f"purity of {which} clusters {_span([purities[count] for count in counts], 2)}")
    trials = sorted({point["trials"] for point in summarise(panel)})
    said = f"{trials[0]}" if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    parts.append(f"mean and range of {said} trials" if trials[-1] > 1 else "one trial")
    return "; ".join(parts)


def _span(values: Sequence[float], digits: int) -> str:
    ends = dict.fromkeys(f"{value:.{digits}f}" for value in (values[0], values[-1]))
    return " to ".join(ends)


def draw_panel(axes: Any, panel: Panel) -> dict[str, Any]:
    """Curves with bands from the lowest to the highest trial; label to what a legend shows for it.

    Few trials say little of a mean's distribution, so that bands show the trials themselves.
    """
    handles: dict[str, Any] = {}
    used: dict[str, int] = {}
    for mine in panel.lines().values():
        kind = mine[0].kind
        look = style_of(kind)
        style = STYLES[used.setdefault(kind, 0) % len(STYLES)]
        used[kind] += 1
        by_place: dict[float, list[Point]] = {}
        for point in mine:
            by_place.setdefault(getattr(point, panel.across), []).append(point)
        x = sorted(place for place, group in by_place.items() if any(point.ratio is not None for point in group))
        ratios = [[point.ratio for point in by_place[place] if point.ratio is not None] for place in x]
        (handles[panel.label(mine)],) = axes.plot(
            x, [math.fsum(each) / len(each) for each in ratios], linestyle=style, color=look.colour,
            marker=look.marker, markersize=4.5, linewidth=1.3, zorder=2.5 if kind == "peer_to_peer" else 2,
        )  # fmt: skip
        axes.fill_between(x, list(map(min, ratios)), list(map(max, ratios)), color=look.colour, alpha=0.2, linewidth=0)
    values = panel.values()
    axes.axhline(1.0, color="0.6", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel("number of clusters" if panel.across == "clusters" else "total epsilon")
    axes.set_title(f"{panel.title}\n{textwrap.fill(caption(panel), 68)}", fontsize=8)
    _stretch(axes, min((point.ratio for point in panel.points if point.ratio is not None), default=0.0))
    axes.grid(alpha=0.25)
    return handles


def _stretch(axes: Any, lowest: float) -> None:
    """Most curves lie close below 1: there the scale is the widest, while everything stays in the picture."""
    axes.set_yscale("function", functions=(lambda y: np.maximum(y, 0.0) ** 3, lambda z: np.maximum(z, 0.0) ** (1 / 3)))
    bottom = max(0.0, math.floor(10 * lowest) / 10)
    axes.set_ylim(bottom, 1.01)
    ticks = [tick for tick in (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0) if tick > bottom + 0.04]
    axes.set_yticks([bottom, *ticks], [f"{tick:g}" for tick in (bottom, *ticks)])
    axes.set_ylabel("accuracy / non-private accuracy (scale widest at 1)")


def draw_comparison(panels: Sequence[Panel], stem: Path) -> list[Path]:
    """Write STEM.png and STEM.svg: one panel, or several in rows of two under one legend."""
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.2 * rows + 1.1), layout="constrained")
    handles: dict[str, Any] = {}
    for axes, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, panels, strict=True):
        handles |= draw_panel(axes, panel)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=columns,
        fontsize=7,
        frameon=False,
        handlelength=3.5,
    )
    return save_both(figure, stem, dpi=150)
