"""delta(epsilon) of every view in one figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import Account, Answer

POINTS = 60
FLOOR = 1e-12  # the figure's lower edge; below it a curve is as good as zero


class Curve(Protocol):
    @property
    def view(self) -> str: ...
    @property
    def answer(self) -> Answer: ...
    @property
    def account(self) -> Account: ...


def write_curves(curves: Sequence[Curve], path: Path, title: str) -> None:
    """Draw every view's curve; written under a temporary name and moved."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    local = curves[0].account.local_epsilon
    right = 1.05 * local if 0 < local < math.inf else 10.0
    epsilons = np.linspace(0, right, POINTS)
    styles = ("-", "--", "-.", ":")
    for place, curve in enumerate(curves):
        deltas = np.maximum(curve.account.curve(epsilons), FLOOR / 10)
        bound = "" if curve.answer.method == "exact" else " (bound)"
        axes.plot(epsilons, deltas, styles[place // 2 % 4], color=f"C{place}", label=curve.view + bound)
    delta = curves[0].answer.delta
    axes.axhline(delta, color="0.6", linewidth=0.8)
    axes.annotate(f"delta = {delta:.2g}", (0.01 * right, delta), va="bottom", fontsize=8, color="0.4")
    if 0 < local < math.inf:
        axes.axvline(local, color="0.6", linewidth=0.8)
        axes.annotate(f"local {local:.3g} ", (local, 1.5 * FLOOR), ha="right", fontsize=8, color="0.4")
    axes.set(yscale="log", ylim=(FLOOR, 1.5), xlim=(0, right), xlabel="epsilon", ylabel="delta", title=title)
    axes.legend(fontsize=8, loc="lower left")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.partial")
        figure.savefig(temporary, format=path.suffix[1:], dpi=150, metadata=_undated(path.suffix))
        temporary.replace(path)
    except OSError as error:
        raise RequestError(f"--out {path}: cannot be written: {error.strerror}") from None


def _undated(suffix: str) -> dict[str, str | None]:
    """The same figure gives the same bytes."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})  # type: ignore[return-value]
