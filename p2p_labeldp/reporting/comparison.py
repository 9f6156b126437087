"""The paper's figure: accuracy over the non-private accuracy, against total epsilon or the number of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def draw_comparison(
    points: Sequence[dict[str, Any]], stem: Path, dataset: str, *, by_clusters: bool = False
) -> list[Path]:
    """Write STEM.png and STEM.svg; mean and spread over trials."""
    from matplotlib.figure import Figure

    across = "clusters" if by_clusters else "epsilon"
    figure = Figure(figsize=(5.2, 3.8), layout="constrained")
    axes = figure.subplots()
    markers = "osD^vPX*"
    for place, mechanism in enumerate(dict.fromkeys(point["mechanism"] for point in points)):
        mine = sorted((point for point in points if point["mechanism"] == mechanism), key=lambda point: point[across])
        axes.errorbar(
            [point[across] for point in mine],
            [point["ratio"] for point in mine],
            yerr=[point["spread"] or 0.0 for point in mine],
            label=mechanism.replace(":", ", ").replace("=", " = "),
            marker=markers[place % len(markers)],
            markersize=4,
            linewidth=1.3,
            capsize=2,
        )
    axes.axhline(1.0, color="0.6", linewidth=0.8, linestyle="--")
    values = sorted({point[across] for point in points})
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel("number of clusters" if by_clusters else "total epsilon")
    axes.set_ylabel("accuracy / non-private accuracy")
    axes.set_title(dataset + (f", epsilon {points[0]['epsilon']:g}" if by_clusters else ""))
    axes.set_ylim(0, 1.05)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    written = []
    for suffix in (".png", ".svg"):
        path = stem.with_suffix(suffix)
        temporary = path.with_name(f".{path.name}.partial")
        figure.savefig(temporary, format=suffix[1:], dpi=160)
        temporary.replace(path)
        written.append(path)
    return written
