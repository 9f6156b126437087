"""delta(epsilon) of several views in one figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from p2p_labeldp.reporting.saving import save
from p2p_labeldp.runs.curves import chords
from p2p_labeldp.runs.summary import Curve

LEAST_DELTA = 1e-12
DECADES = 5
"""Of delta, below the stated one, that are drawn at most."""
DASHES: tuple[tuple[float, ...], ...] = (
    (), (4, 2), (1, 1.5), (6, 1.5, 1, 1.5), (8, 3), (2, 1), (1, 3), (6, 1.5, 1, 1.5, 1, 1.5), (3, 4), (9, 1.5, 3, 1.5)
)  # fmt: skip
"""Lengths of strokes and gaps of each line, in widths of it; the first has no gap. No two views share one."""


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
