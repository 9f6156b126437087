"""The paper's figure: accuracy over the non-private accuracy, against total epsilon or the number of clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from p2p_labeldp.data import data_set_of
from p2p_labeldp.experiments.compare import AS_PRINTED, Point
from p2p_labeldp.reporting.plots import Axis, Line, Plot
from p2p_labeldp.reporting.styles import REFERENCE, looks, style_of
from p2p_labeldp.reporting.sweeps import Estimate, estimate, show_deltas


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

    def ratios(self, mine: Sequence[Point]) -> list[Estimate | None]:
        """A curve's mean ratio at each of the values."""
        return [
            estimate(point.ratio for point in mine if getattr(point, self.across) == value) for value in self.values()
        ]

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


def plot_of(panel: Panel) -> Plot:
    """Curves with bands from the lowest to the highest trial.

    Few trials say little of a mean's distribution, so that bands show the trials themselves.
    """
    curves = sorted(panel.lines().values(), key=lambda mine: mine[0].kind == "peer_to_peer")  # last, and so on top
    lines = []
    for mine, look in zip(curves, looks(mine[0].kind for mine in curves), strict=True):
        ratios: dict[float, list[float]] = {}
        for point in sorted(mine, key=lambda point: getattr(point, panel.across)):
            if point.ratio is not None:
                ratios.setdefault(getattr(point, panel.across), []).append(point.ratio)
        means = [math.fsum(each) / len(each) for each in ratios.values()]
        lines.append(
            Line(
                panel.label(mine), list(ratios), means, look, points=list(zip(ratios, means, strict=True)),
                lows=list(map(min, ratios.values())), highs=list(map(max, ratios.values())),
            )
        )  # fmt: skip
    values = panel.values()
    known = [point.ratio for point in panel.points if point.ratio is not None]
    bottom, top = max(0.0, math.floor(10 * min(known, default=0.0)) / 10), max(1.01, *known, 0.0)
    ends = (0.9 * values[0], 1.1 * values[-1])
    lines.append(Line("non-private", ends, (1.0, 1.0), REFERENCE))
    # Most curves lie close below 1: there the scale is the widest, while everything stays in the picture.
    ticks = [tick for tick in (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0) if tick > bottom + 0.04]
    ticks += [tick for tick in (1.1, 1.2, 1.5, 2.0) if tick <= top]
    return Plot(
        title=panel.title,
        lines=lines,
        across=Axis("number of clusters" if panel.across == "clusters" else "total epsilon", *ends, "log", at=values),
        up=Axis("accuracy / non-private accuracy (scale widest at 1)", bottom, top, "cubic", at=[bottom, *ticks]),
        caption=caption(panel),
    )
