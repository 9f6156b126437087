"""What a sweep says of a metric: means with confidence bands, or the largest of what is guaranteed.

A guarantee (``epsilon.*``, ``delta.*``) is no quantity to take a mean of: some run would have less than it
got. The largest epsilon of several runs, with their largest delta, holds for each of them.

``bands`` takes the rows of ``read_sweep(folder)`` and gives plain lists, for a figure of any kind:

    found = read_sweep(folder)
    for band in bands(found.rows, "accuracy", "mechanism.alpha", ("mechanism.theta",)):
        band.others, band.x, band.y, band.low, band.high, band.count, band.runs
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import scipy

from p2p_labeldp.privacy import REPETITION
from p2p_labeldp.privacy.numbers import rounded_up, shown_epsilon
from p2p_labeldp.runs.stated import METHODS

if TYPE_CHECKING:
    from p2p_labeldp.experiments.sweeps import Sweep

KEPT = "The folder is readable by its owner alone: rows hold seeds and what was computed from true labels."
CONFIDENCE = 0.95
GUARANTEES = ("epsilon.", "delta.")
"""Metrics of which the largest counts."""
SHARES = (
    "accuracy", "nonprivate_accuracy", "majority_accuracy", "balanced_accuracy", "nonprivate_balanced_accuracy",
    "majority_balanced_accuracy", "auc", "nonprivate_auc", "least_recall",
)  # fmt: skip
"""Metrics between 0 and 1."""
METRIC_WORDS = {
    "accuracy": "test accuracy (share of examples)",
    "nonprivate_accuracy": "test accuracy without privacy (share)",
    "majority_accuracy": "accuracy of always guessing the commonest label",
    "accuracy_ratio": "accuracy / accuracy without privacy",
    "balanced_accuracy": "balanced test accuracy (mean recall over labels)",
    "auc": "area under the ROC curve (mean over labels)",
    "log_loss": "log loss on test examples (nats)",
    "least_recall": "recall of the label that is found least",
    "reports": "reports that arrived",
    "alpha": "alpha, probability of a flip",
    "virtual_seconds": "virtual seconds",
    "phi": "phi, heterogeneity of clusters",
    "psi": "psi, distortion of label shares",
}
"""What a figure calls a metric, with its unit; others go by their names."""


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates; the interval is None where there are fewer than two, or one is infinite."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


@dataclass(frozen=True)
class Stated:
    """What holds for all of several runs, of one view."""

    largest: float
    """Of their epsilons."""
    deltas: tuple[float, ...]
    """Every delta that one of them stands at, ascending; the last one holds for all."""
    methods: tuple[str, ...]
    """Every method that one was found by; the last one is true of the whole."""
    count: int

    @property
    def method(self) -> str | None:
        return self.methods[-1] if self.methods else None


@dataclass(frozen=True)
class Band:
    """One line of a figure: a metric across the values of one key, the other keys being as ``others`` says."""

    others: dict[str, Any]
    x: list[Any]
    """Numbers ascending, or texts in the sweep's order."""
    y: list[float]
    """Means, or the largest values of a guarantee, which have no interval."""
    low: list[float | None]
    high: list[float | None]
    count: list[int]
    """How many runs have a value."""
    runs: list[int]
    """How many there are."""


def is_guarantee(metric: str) -> bool:
    return metric.startswith(GUARANTEES)


def estimate(values: Iterable[float | None], confidence: float = CONFIDENCE) -> Estimate | None:
    """Mean and confidence interval of the mean, by Student's t; None where there is no value."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    count = len(known)
    if not all(map(math.isfinite, known)):
        return Estimate(math.inf, None, None, count)
    mean = math.fsum(known) / count
    if count < 2:
        return Estimate(mean, None, None, count)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (count - 1))
    half = float(scipy.special.stdtrit(count - 1, (1 + confidence) / 2)) * spread / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, count)


def within_limits(metric: str, known: Estimate) -> Estimate:
    """Whatever the mean of a share is, it is a share: its interval ends at 0 and 1."""
    if known.low is None or known.high is None or metric not in SHARES:
        return known
    return replace(known, low=max(0.0, known.low), high=min(1.0, known.high))


def largest_stated(rows: Iterable[Mapping[str, Any]], view: str) -> Stated | None:
    """The largest epsilon of a view, and what it stands at; None where no row has one."""
    known = [row for row in rows if row.get(f"epsilon.{view}") is not None]
    if not known:
        return None
    methods = {str(row[f"method.{view}"]) for row in known if row.get(f"method.{view}") is not None}
    return Stated(
        largest=max(float(row[f"epsilon.{view}"]) for row in known),
        deltas=tuple(sorted({row[f"delta.{view}"] for row in known if row.get(f"delta.{view}") is not None})),
        methods=tuple(sorted(methods, key=list(METHODS).index)),
        count=len(known),
    )


def show_deltas(deltas: Sequence[float]) -> str:
    """One delta, or from the smallest to the largest, rounded up."""
    ends = dict.fromkeys(rounded_up(delta) for delta in (*deltas[:1], *deltas[-1:]))
    return " to ".join(ends) or "-"


def budget_note(sweep: Sweep) -> str:
    """What all runs of a sweep or a comparison would cost together on private labels, and who may see its folder."""
    epsilon, delta = sweep.spent
    cost = f"epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)}" if epsilon < math.inf else "everything"
    said = f"On private labels all {len(sweep.rows):,} runs together would cost: {cost}; {REPETITION}."
    return f"{said}\n{KEPT}" if sweep.private else said


def delta_warning(rows: Iterable[Mapping[str, Any]], view: str) -> str:
    """Why the epsilons of a view are not to be compared; empty where they are."""
    found = largest_stated((row for row in rows if row.get(f"epsilon.{view}") not in (None, math.inf)), view)
    if found is None or len(found.deltas) < 2:
        return ""
    said = f"epsilons at different deltas ({show_deltas(found.deltas)}) cannot be compared"
    positive = [delta for delta in found.deltas if delta > 0]
    return f"{said}; set privacy.delta" if len(positive) > 1 else f"{said}: some mechanisms need no delta"


def bands(rows: Iterable[Mapping[str, Any]], metric: str, across: str, others: Sequence[str] = ()) -> list[Band]:
    """A line for every combination of the other keys' values, in the order they come in; rows without a value are
    left out, and combinations without any."""
    lines: dict[tuple[Any, ...], dict[Any, list[Any]]] = {}
    order: dict[Any, int] = {}
    runs: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        runs[(*(row[key] for key in others), row[across])] += 1
        if row.get(metric) is not None and not isinstance(row[metric], str):
            order.setdefault(row[across], len(order))
            points = lines.setdefault(tuple(row[key] for key in others), {})
            points.setdefault(row[across], []).append(row[metric])
    found = []
    for values, points in lines.items():
        x = sorted(points) if numeric(points) else sorted(points, key=order.__getitem__)
        estimates = [_point(metric, points[value]) for value in x]
        found.append(
            Band(
                others=dict(zip(others, values, strict=True)),
                x=x,
                y=[known.mean for known in estimates],
                low=[known.low for known in estimates],
                high=[known.high for known in estimates],
                count=[known.count for known in estimates],
                runs=[runs[(*values, value)] for value in x],
            )
        )
    return found


def _point(metric: str, values: list[Any]) -> Estimate:
    known = estimate(values)
    assert known is not None, "a point has a value"
    if is_guarantee(metric):
        return Estimate(max(map(float, values)), None, None, known.count)
    return within_limits(metric, known)


def numeric(values: Iterable[Any]) -> bool:
    """Whether an axis can have these values as numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def show(value: Any) -> str:
    """A setting's value as a person writes it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def mean_cell(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """A metric's mean, ± half of its interval."""
    known = estimate(row.get(name) for row in rows)
    if known is None:
        return "-"
    half = "" if known.half_width is None else f" ± {known.half_width:.4f}"
    return f"{known.mean:.4f}{half}{_of_runs(known.count, rows)}"


def stated_cells(rows: Sequence[Mapping[str, Any]], view: str) -> tuple[str, str, str]:
    """The largest epsilon, its deltas and how it was found; where runs differ, what is true of all."""
    known = largest_stated(rows, view)
    if known is None:
        return "-", "-", "-"
    ways = [METHODS[name] for name in known.methods]
    way = f"{ways[-1]} ({', '.join(ways[:-1])} in some runs)" if len(ways) > 1 else "".join(ways)
    return f"{shown_epsilon(known.largest)}{_of_runs(known.count, rows)}", show_deltas(known.deltas), way or "-"


def _of_runs(count: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """Said behind a number that not all runs have."""
    return f" ({count} of {len(rows)} runs)" if count < len(rows) else ""
