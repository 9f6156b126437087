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

    figure = Figure(figsize=(8.5, 4.4), layout="constrained")
    axes = figure.subplots()
    for place, (name, accountant) in enumerate(accountants.items()):
        last = min(accountant.get_epsilon(_LEAST_DELTA).epsilon, 10.0)
        # Dense at both ends, where curves bend.
        epsilons = last * (1 - np.cos(np.linspace(0, np.pi, points))) / 2 if last > 0 else np.zeros(1)
        deltas = accountant.curve(epsilons)
        shown = deltas > 0
        axes.plot(epsilons[shown], deltas[shown], label=name, linestyle=("-", "--", "-.", ":")[place % 4])
    axes.set_yscale("log")
    axes.set_ylim(_LEAST_DELTA, 1)
    axes.set_xlim(left=0)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta(epsilon)")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
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
