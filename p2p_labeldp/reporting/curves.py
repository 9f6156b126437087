"""delta(epsilon) of several views in one figure.

``python -m p2p_labeldp.reporting.curves docs/privacy-curves.png`` draws the one of docs/privacy.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import VIEWS, Guarantee, Parameters, account

SUFFIXES = (".png", ".svg", ".pdf")
POINTS = 30
BETWEEN = 10
"""Drawn for each point that is computed: delta is convex in e^epsilon, so that chords over it lie above the truth."""
LEAST_DELTA = 1e-9  # smaller ones promise nothing more: they are left out of the figure
LARGEST_EPSILON = 10.0


class Accountant(Protocol):
    """Who can be asked for both halves of a promise."""

    def get_epsilon(self, target_delta: float, /) -> Guarantee: ...

    def curve(self, epsilons: npt.ArrayLike, /) -> npt.NDArray[np.float64]: ...


def draw_curves(
    accountants: Mapping[str, Accountant],
    path: Path,
    *,
    title: str = "",
    delta: float | None = None,
    points: int = POINTS,
) -> None:
    """One curve for each named accountant, on a logarithmic scale of delta; the format is the file's suffix.

    ``delta`` is marked with a line. The figure is written under a temporary name and moved.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 4.4), layout="constrained")
    axes = figure.subplots()
    for place, (name, accountant) in enumerate(accountants.items()):
        last = min(accountant.get_epsilon(LEAST_DELTA).epsilon, LARGEST_EPSILON)
        # Dense at both ends, where curves bend.
        epsilons = last * (1 - np.cos(np.linspace(0, np.pi, points))) / 2 if last > 0 else np.zeros(1)
        drawn = np.linspace(0, last, BETWEEN * len(epsilons))
        deltas = np.interp(np.exp(drawn), np.exp(epsilons), accountant.curve(epsilons))
        shown = deltas > 0
        axes.plot(drawn[shown], deltas[shown], label=name, linestyle=("-", "--", "-.", ":")[place % 4])
    if delta is not None:
        axes.axhline(delta, color="0.5", linewidth=0.8, label=f"delta = {delta:.3g}")
    axes.set(yscale="log", ylim=(LEAST_DELTA, 1), xlabel="epsilon", ylabel="delta(epsilon)", title=title)
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
    accountants = {}
    for view in VIEWS:
        colluders = 3 if view == "coalition" else 0
        name = f"{view}, {colluders} colluders" if colluders else view
        accountants[name] = account(view, Parameters(0.1, 0.5), cluster_size=500, colluders=colluders)
    draw_curves(accountants, Path(path), title="500 users in a cluster, alpha 0.1, theta 0.5, two labels, one round")


if __name__ == "__main__":
    main(sys.argv[1])
