"""The trade-off function of a view as a figure: the errors of whoever tries to tell two neighbours apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from p2p_labeldp.reporting.saving import save


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
