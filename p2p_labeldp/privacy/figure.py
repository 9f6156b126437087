"""delta(epsilon) of every view, drawn.

python -m p2p_labeldp.privacy.figure docs/privacy-curves.png
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from p2p_labeldp.privacy.account import Account, account
from p2p_labeldp.privacy.views import VIEWS

# Smaller deltas promise nothing more: they are left out of the figure.
_LEAST_DELTA = 1e-9


def draw_curves(accountants: Mapping[str, Account], path: Path, *, points: int = 60, title: str = "") -> None:
    """One curve for each named accountant, on a logarithmic scale of delta; the format is the file's suffix."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for name, accountant in accountants.items():
        last = min(accountant.get_epsilon(_LEAST_DELTA).epsilon, 10.0)
        epsilons = last * np.linspace(0, 1, points) ** 0.7 if last > 0 else np.zeros(1)
        deltas = accountant.curve(epsilons)
        shown = deltas > 0
        axes.plot(epsilons[shown], deltas[shown], label=name)
    axes.set_yscale("log")
    axes.set_ylim(_LEAST_DELTA, 1)
    axes.set_xlim(left=0)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta(epsilon)")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower center", ncols=2)
    axes.set_title(title)
    figure.savefig(path, dpi=130)


def main(path: str) -> None:
    """The figure of docs/privacy.md."""
    settings = {"cluster_size": 500, "alpha": 0.1, "theta": 0.5}
    accountants = {
        view: account(view, **settings, colluders=3 if view == "coalition" else 0)  # type: ignore[arg-type]
        for view in VIEWS
    }
    named = {f"{view}, 3 colluders" if view == "coalition" else view: each for view, each in accountants.items()}
    draw_curves(named, Path(path), title="500 users in a cluster, alpha 0.1, theta 0.5, two labels, one round")


if __name__ == "__main__":
    main(sys.argv[1])
