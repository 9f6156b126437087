"""delta(epsilon) of several views in one figure.

``python -m p2p_labeldp.reporting.curves docs/privacy-curves.png`` draws the one of docs/privacy.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from p2p_labeldp.errors import RequestError
from p2p_labeldp.runs.curves import chords
from p2p_labeldp.runs.summary import Curve

SUFFIXES = (".png", ".svg", ".pdf")
LEAST_DELTA = 1e-12
DECADES = 5
"""Of delta, below the stated one, that are drawn at most."""


def draw_curves(curves: Mapping[str, Curve], path: Path, *, title: str = "", delta: float) -> None:
    """One line for each named curve, on a logarithmic scale of delta; the format is the file's suffix.

    ``delta``, at which guarantees are stated, is marked with a line. The figure is written under a temporary name and
    moved.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 4.4), layout="constrained")
    axes = figure.subplots()
    floor = max(LEAST_DELTA, min(delta or 1.0, 1e-4) * 10.0**-DECADES)
    for place, (name, curve) in enumerate(curves.items()):
        shown = [(epsilon, value) for epsilon, value in zip(*chords(curve, floor), strict=True) if value > 0]
        if shown:
            axes.plot(*zip(*shown, strict=True), label=name, linestyle=("-", "--", "-.", ":")[place % 4])
    axes.axhline(delta, color="0.5", linewidth=0.8, label=f"delta = {delta:.3g}")
    axes.set(yscale="log", ylim=(floor, 1), xlabel="epsilon", ylabel="delta", title=title)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.partial")
        figure.savefig(temporary, format=path.suffix[1:], dpi=130)
        temporary.replace(path)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from None


def main(path: str) -> None:
    """The figure of docs/privacy.md."""
    from p2p_labeldp.mechanisms import make_plan
    from p2p_labeldp.privacy import Parameters
    from p2p_labeldp.reporting.guarantees import short
    from p2p_labeldp.runs.curves import curves
    from p2p_labeldp.runs.guarantees import Circumstances, guarantees

    size, delta = 500, 4e-6
    parameters = Parameters(0.1, 0.5)
    plan = make_plan("peer_to_peer", labels=2, sizes=[size], delta=delta, parameters=parameters, alpha=0.1)
    found = Circumstances({size: 0}, delta, colluders={size: 3})
    table = guarantees(plan, found)
    drawn = curves(plan, found, table, finer=3)
    named = {short(view, guarantee): drawn[view] for view, guarantee in table.items()}
    draw_curves(named, Path(path), title=f"{size} users in a cluster, alpha 0.1, theta 0.5, two labels", delta=delta)


if __name__ == "__main__":
    main(sys.argv[1])
