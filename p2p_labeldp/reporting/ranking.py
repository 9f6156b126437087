"""Which setting of a sweep or a comparison is best, and which are tied with it.

Settings that were asked for one epsilon are ranked by the mean of a metric over their trials. The difference to the
best one has a confidence interval of its own: in a paired sweep from the differences within each trial, which has one
test split and one seed for all settings, otherwise by Welch's. The intervals of all differences hold together
(Bonferroni), and a setting is **tied** with the best where its interval holds 0.

Balanced accuracy ranks unless another metric is asked for. It is accuracy where classes are even, so that no one need
look at private class shares to choose between the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

import scipy

from p2p_labeldp.experiments.compare import COUNT, EPSILON, Point, points
from p2p_labeldp.experiments.sweeps import Sweep
from p2p_labeldp.reporting.styles import style_of
from p2p_labeldp.reporting.sweeps import CONFIDENCE, Estimate, budget_note, estimate, show, within_limits
from p2p_labeldp.scenario import MECHANISMS, Scenario, parse_scenario

RANKED_BY = {"balanced_accuracy": 1, "accuracy": 1, "auc": 1, "log_loss": -1}
"""Metrics to rank by; 1 where more is better."""
METRIC_NAMES = {"balanced_accuracy": "balanced accuracy", "accuracy": "accuracy", "auc": "AUC", "log_loss": "log loss"}
SPENDS_MORE = 1 + 1e-6
"""Beyond this multiple of what was asked for, a setting is no answer to the question."""


@dataclass(frozen=True)
class Entry:
    """One setting."""

    setting: int
    mechanism: str
    """With its options, as ``compare --mechanisms`` takes it."""
    kind: str
    clusters: int | None
    """None where they do not matter."""
    others: str
    """Other keys that were varied, with their values."""
    spent: float
    delta: float
    trusts: str
    score: Estimate
    rank: int | None
    """From 1; None where it spends more than was asked for."""
    behind: Estimate | None
    """The best one's score less this one's, in a simultaneous interval; None of the best one."""
    tied: bool
    """Whether the interval of its difference from the best one holds 0."""

    @property
    def name(self) -> str:
        parts = [self.mechanism, f"{self.clusters} clusters" if self.clusters else "", self.others]
        return ", ".join(filter(None, parts))

    @property
    def line(self) -> str:
        """What tells it from the others but the number of its clusters."""
        return ", ".join(filter(None, (self.mechanism, self.others)))

    @property
    def count(self) -> str:
        """Of its clusters."""
        return "any" if self.clusters is None else f"{self.clusters}"


@dataclass(frozen=True)
class Ranking:
    """The settings of one epsilon, the best one first."""

    metric: str
    epsilon: float | None
    """What all were asked for; None where the noise was given."""
    entries: tuple[Entry, ...]
    nonprivate: Estimate | None
    majority: Estimate | None
    """Of always guessing the commonest label."""
    trials: int
    paired: bool

    @property
    def best(self) -> Entry | None:
        return self.entries[0] if self.entries and self.entries[0].rank else None

    @property
    def baselines(self) -> list[tuple[str, Estimate]]:
        """What every setting is held against, as far as it is known."""
        both = (("no privacy", self.nonprivate), ("commonest label", self.majority))
        return [(words, known) for words, known in both if known is not None]

    def by_trust(self) -> list[Entry]:
        """The best one of those that trust the same parties."""
        found: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.rank:
                found.setdefault(entry.trusts, entry)
        return list(found.values())


def rankings(found: Sweep, metric: str = "balanced_accuracy") -> list[Ranking]:
    """One for each epsilon that was asked for, ascending."""
    scenario = parse_scenario(found.scenario, "")
    groups: dict[float | None, dict[int, list[Mapping[str, Any]]]] = {}
    for row in found.rows:
        point = _point(row, scenario)
        groups.setdefault(point.epsilon or None, {}).setdefault(row["setting"], []).append(row)
    return [_ranking(found, scenario, metric, epsilon, groups[epsilon]) for epsilon in sorted(groups, key=_first)]


def _first(epsilon: float | None) -> float:
    return epsilon or 0.0


def _point(row: Mapping[str, Any], scenario: Scenario) -> Point:
    kind = {"mechanism.kind": scenario.mechanism.kind, EPSILON: scenario.mechanism.epsilon}
    return points([{**kind, **row}], scenario.clusters.count)[0]


def _ranking(
    found: Sweep,
    scenario: Scenario,
    metric: str,
    epsilon: float | None,
    settings: Mapping[int, Sequence[Mapping[str, Any]]],
) -> Ranking:
    sign = RANKED_BY[metric]
    scores = {
        setting: {row["replicate"]: sign * row[metric] for row in rows if row.get(metric) is not None}
        for setting, rows in settings.items()
    }
    scored = [setting for setting, values in scores.items() if values]
    over = {
        setting
        for setting in scored
        if epsilon and max(_point(row, scenario).spent for row in settings[setting]) > epsilon * SPENDS_MORE
    }
    order = sorted(scored, key=lambda setting: (setting in over, -fmean(scores[setting].values()), setting))
    ranked = [setting for setting in order if setting not in over]
    level = 1 - (1 - CONFIDENCE) / max(1, len(ranked) - 1)
    entries = []
    for place, setting in enumerate(order):
        behind = None
        if 0 < place < len(ranked):
            behind = _behind(scores[ranked[0]], scores[setting], level, paired=found.paired)
        entries.append(
            _entry(
                found, scenario, metric, settings[setting], setting,
                rank=place + 1 if setting not in over else None, behind=behind,
            )
        )  # fmt: skip
    every = [row for rows in settings.values() for row in rows]
    majority = [row.get(f"majority_{metric}") for row in every]
    return Ranking(
        metric=metric,
        epsilon=epsilon,
        entries=tuple(entries),
        nonprivate=_baseline(every, f"nonprivate_{metric}"),
        majority=Estimate(0.5, None, None, len(every)) if metric == "auc" else _baseline(every, f"majority_{metric}")
        if any(value is not None for value in majority) else None,
        trials=len({row["replicate"] for row in every}),
        paired=found.paired,
    )  # fmt: skip


def _baseline(rows: Sequence[Mapping[str, Any]], name: str) -> Estimate | None:
    """Over trials: settings of one trial that share its split have the same."""
    by_trial = {(row["replicate"], row.get(name)): row.get(name) for row in rows}
    known = estimate(by_trial.values())
    return None if known is None else within_limits(name, known)


def _entry(
    found: Sweep,
    scenario: Scenario,
    metric: str,
    rows: Sequence[Mapping[str, Any]],
    setting: int,
    *,
    rank: int | None,
    behind: Estimate | None,
) -> Entry:
    stated = [_point(row, scenario) for row in rows]
    kind = stated[0].kind
    score = estimate(row.get(metric) for row in rows)
    assert score is not None, "what is ranked has a score"
    others = [key for key in found.keys if key != COUNT and not key.startswith("mechanism.")]
    named = dict(zip(found.keys, found.settings[setting], strict=True))
    reads = MECHANISMS[rows[0].get("mechanism.kind") or scenario.mechanism.kind].clusters
    return Entry(
        setting=setting,
        mechanism=stated[0].curve,
        kind=kind,
        clusters=stated[0].clusters if reads and COUNT in found.keys else None,
        others=", ".join(f"{key} {show(named[key])}" for key in others if named[key] is not None),
        spent=max(point.spent for point in stated),
        delta=max(point.delta for point in stated),
        trusts=style_of(kind).trusts,
        score=within_limits(metric, score),
        rank=rank,
        behind=behind,
        tied=rank == 1 or (behind is not None and behind.low is not None and behind.low <= 0),
    )


def _behind(best: Mapping[int, float], mine: Mapping[int, float], level: float, *, paired: bool) -> Estimate | None:
    """How far a setting is behind; the interval is for one of several differences."""
    if paired:
        return estimate((best[trial] - mine[trial] for trial in best if trial in mine), level)
    a, b = list(best.values()), list(mine.values())
    difference = fmean(a) - fmean(b)
    if min(len(a), len(b)) < 2:
        return Estimate(difference, None, None, min(len(a), len(b)))
    parts = [variance(values) / len(values) for values in (a, b)]
    total = sum(parts)
    if total == 0:
        return Estimate(difference, difference, difference, len(b))
    freedom = total**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (a, b), strict=True))
    half = float(scipy.special.stdtrit(freedom, (1 + level) / 2)) * math.sqrt(total)
    return Estimate(difference, difference - half, difference + half, len(b))


def verdict(ranking: Ranking) -> str:
    """The answer in two sentences."""
    best = ranking.best
    if best is None:
        return "No setting kept to the epsilon that was asked for, so that none is ranked."
    words = METRIC_NAMES[ranking.metric]
    said = f"Best by {words}: {best.name}, {with_half(best.score)}"
    asked = f" at epsilon {ranking.epsilon:g}" if ranking.epsilon else ""
    if ranking.trials < 2:
        return f"{said}{asked}. One trial tells nothing of ties: ask for more (--trials)."
    tied = [entry for entry in ranking.entries[1:] if entry.tied]
    others = len([entry for entry in ranking.entries if entry.rank]) - 1
    if not others:
        return f"{said}{asked}."
    cannot = f"{len(tied)} of the {others} others are tied with it" if tied else "All others are behind"
    how = f"differences in {CONFIDENCE:.0%} intervals, all at once"
    return f"{said}{asked}. {cannot} over {ranking.trials} trials ({how})."


def best_by_trust(ranking: Ranking) -> str:
    """What to take for whom one trusts: often the question behind the question."""
    said = [f"{style_of(each.kind).trust}: {each.name} ({each.score.mean:.3f})" for each in ranking.by_trust()]
    return f"Best for each trusted party: {'; '.join(said)}."


def with_half(known: Estimate, digits: int = 3) -> str:
    half = known.half_width
    if known.low is not None and known.high is not None:
        half = max(known.high - known.mean, known.mean - known.low)
    return f"{known.mean:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


HOW_RANKED = (
    "Balanced accuracy is the mean recall over classes: accuracy where they are even, and no one need look at private "
    "class shares to choose between the two. ± is half of the 95% confidence interval of the mean over splits and "
    "coins of these rows."
)


def tuning(found: Sweep) -> list[str]:
    """What choosing by these numbers costs, and how to choose without."""
    return [
        budget_note(found),
        "The scores themselves were computed from true labels, which no epsilon covers: do not publish them for "
        "private labels.",
        "To tune without spending: ask the same of public or made-up data with as many rows and classes (--dataset, "
        "data.name = synthetic), or of people who are left out of the study; or do not tune: take the mechanism by "
        "whom you trust, and a cluster for every fifty rows.",
    ]
