"""A finished run folder, read for its report: plain values, each checked before anything is drawn from it.

The folder may have come from anywhere. What is missing is left out of the report; what is there must make sense, and if
it does not, one line names the file. Texts stay texts: the page escapes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.folder import (
    MANIFEST,
    POPULATION,
    REPORTS,
    SCENARIO,
    SUMMARY,
    TRACE,
    find,
    read_arrays,
    read_json,
)
from p2p_labeldp.errors import RequestError
from p2p_labeldp.reporting.exchanges import Known
from p2p_labeldp.runs.summary import Summary, read_summary
from p2p_labeldp.scenario import Scenario, load_scenario

MOST_REPORTS = 20_000_000
"""More are not counted by label: half a gigabyte of them would have to be read."""


@dataclass(frozen=True)
class Recorded:
    """One finished run."""

    path: Path
    summary: Summary
    scenario: Scenario
    scenario_text: str
    manifest: dict[str, Any]
    classes: tuple[str, ...]
    clusters: NDArray[np.int64] | None
    """By user id; -1: in none. Simulations only."""
    true_labels: NDArray[np.int64] | None
    reports: dict[str, NDArray[np.int64]] | None
    """Arrays user and label; None where there are too many to count here."""
    shown: bool = True
    """Whether true labels, flips and who asked whom may be shown."""

    @property
    def deployed(self) -> bool:
        return self.summary.engine == "deployment"

    @property
    def known(self) -> Known:
        """What a diagram of its messages takes."""
        wrong = {user: entry.kind.replace("_", " ") for entry in self.summary.adversaries for user in entry.members}
        return Known(self.scenario, self.classes, self.true_labels, wrong)

    @property
    def trace(self) -> Path | None:
        found = find(self.path, TRACE)
        return found if self.shown and found.exists() else None


def read_run(path: Path, *, show_true_labels: bool = False) -> Recorded:
    """Everything of a run folder but its trace, which is read as a stream.

    What tells of single people is read only where they are not real, or where that is asked for.
    """
    require_run(path)
    scenario = load_scenario(path / SCENARIO)
    shown = scenario.ships or show_true_labels
    summary = read_summary(find(path, SUMMARY) if shown else path / SUMMARY)
    if not shown:
        summary = summary.shareable()
    manifest = read_json(path / MANIFEST)
    classes = manifest.get("classes", [])
    if not isinstance(classes, list) or any(not isinstance(name, str | int | float) for name in classes):
        raise RequestError(f"{path / MANIFEST}: classes must list the labels' names")
    names = tuple(str(name) for name in classes[: summary.labels])
    names += tuple(f"label {label}" for label in range(len(names), summary.labels))
    clusters, true_labels = _population(find(path, POPULATION), summary) if shown else (None, None)
    return Recorded(
        path=path,
        summary=summary,
        scenario=scenario,
        scenario_text=(path / SCENARIO).read_text(encoding="utf-8"),
        manifest=manifest,
        classes=names,
        clusters=clusters,
        true_labels=true_labels,
        reports=_reports(path, summary),
        shown=shown,
    )


def require_run(path: Path) -> None:
    """One line says what a folder is instead of a finished run."""
    if not path.is_dir():
        raise RequestError(f"{path}: not a run folder; name one that `p2p-labeldp run` or `deploy` has written")
    if path.name.endswith(".interrupted") or (not (path / SUMMARY).exists() and find(path, TRACE).exists()):
        raise RequestError(f"{path}: the run was interrupted; only a finished one has a report")
    if not (path / SUMMARY).exists():
        made = "`p2p-labeldp run`, `deploy` and `sweep` make folders that have reports"
        raise RequestError(f"{path}: not a run folder: {SUMMARY} is missing; {made}")


def _population(file: Path, summary: Summary) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    if not file.exists():
        return None, None
    arrays = read_arrays(file, ("cluster", "true_label"))
    clusters, labels = arrays["cluster"], arrays["true_label"]
    if len(clusters) != summary.users:
        raise RequestError(f"{file}: must have one row for each of {summary.users} users, not {len(clusters)}")
    _within(file, "cluster", clusters, -1, min(summary.clusters, summary.users))
    _within(file, "true_label", labels, 0, summary.labels)
    return clusters, labels


def _reports(path: Path, summary: Summary) -> dict[str, NDArray[np.int64]] | None:
    file = path / REPORTS
    if not file.exists() or summary.reports > MOST_REPORTS:
        return None
    arrays = read_arrays(file, ("round", "user", "label"))
    if len(arrays["user"]) != summary.reports:
        raise RequestError(
            f"{file}: must hold {summary.reports} reports, as the summary says, not {len(arrays['user'])}"
        )
    _within(file, "user", arrays["user"], 0, summary.users)
    _within(file, "label", arrays["label"], 0, summary.labels)
    return arrays


def _within(file: Path, name: str, values: NDArray[np.int64], low: int, end: int) -> None:
    if len(values) and not (low <= int(values.min()) and int(values.max()) < end):
        raise RequestError(f"{file}: {name} must lie within {low}..{end - 1}")
