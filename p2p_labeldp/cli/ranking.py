"""The answer of a comparison or a paired sweep: what is best, what is tied with it, what tuning costs."""

from __future__ import annotations

from typing import Any

from p2p_labeldp.cli.output import console
from p2p_labeldp.cli.tables import print_table
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.sweeps import Sweep
from p2p_labeldp.privacy.numbers import rounded_up, shown_epsilon
from p2p_labeldp.reporting.ranking import (
    HOW_RANKED,
    METRIC_NAMES,
    RANKED_BY,
    Entry,
    Ranking,
    best_by_trust,
    rankings,
    tuning,
    verdict,
    with_half,
)
from p2p_labeldp.reporting.sweeps import Estimate

MOST_LINES, FEWER_LINES = 20, 5  # of one ranking; where there are several


def check_metric(metric: str) -> str:
    if metric not in RANKED_BY:
        raise RequestError(f"--metric {metric} is not allowed; it must be one of {', '.join(RANKED_BY)}")
    return metric


def print_ranking(found: Sweep, metric: str) -> None:
    """Every epsilon's table, then what is to be known of all of them."""
    every = rankings(found, metric)
    for ranking in every:
        console.print(verdict(ranking), soft_wrap=True, markup=False)
        _print_settings(ranking, MOST_LINES if len(every) == 1 else FEWER_LINES)
        console.print()
        if len(every) == 1 and len(ranking.by_trust()) > 1:
            console.print(f"{best_by_trust(ranking)}\n", soft_wrap=True, markup=False)
    if metric == "balanced_accuracy":
        console.print(HOW_RANKED, soft_wrap=True)
    if any(entry.tied and entry.rank != 1 for ranking in every for entry in ranking.entries):
        console.print("= tied with the best one: the interval of the difference holds 0.", soft_wrap=True)
    for line in tuning(found):
        console.print(line, soft_wrap=True, markup=False)


def _print_settings(ranking: Ranking, most: int) -> None:
    head = ("", "mechanism", "clusters", METRIC_NAMES[ranking.metric], "behind the best", "delta", "trusts")
    rows = []
    for entry in ranking.entries[:most]:
        sign = "" if entry.rank is None else f"{entry.rank}{'=' if entry.tied and entry.rank > 1 else ''}"
        rows.append(
            (
                sign,
                entry.line,
                entry.count,
                _tight(entry.score),
                _behind(entry),
                rounded_up(entry.delta),
                entry.trusts.removeprefix("the ").removeprefix("a "),
            )
        )
    left = len(ranking.entries) - most
    if left > 0:
        rows.append(("", f"({left} more)", "", "", "", "", ""))
    for words, known in ranking.baselines:
        rows.append(("", words, "", _tight(known), "", "", ""))
    print_table(head, rows, right=(0, 2, 3, 4, 5))


def _tight(known: Estimate) -> str:
    """A table on a terminal breaks lines at spaces."""
    return with_half(known).replace(" ", "")


def _behind(entry: Entry) -> str:
    if entry.rank is None:
        return f"spends {shown_epsilon(entry.spent)}"
    return "" if entry.behind is None else _tight(entry.behind)


def ranking_json(found: Sweep, metric: str) -> list[dict[str, Any]]:
    """One object for each epsilon."""
    return [
        {
            "epsilon": ranking.epsilon,
            "metric": ranking.metric,
            "trials": ranking.trials,
            "paired": ranking.paired,
            "verdict": verdict(ranking),
            "settings": [_as_json(entry) for entry in ranking.entries],
            "nonprivate": _estimate(ranking.nonprivate),
            "majority": _estimate(ranking.majority),
        }
        for ranking in rankings(found, metric)
    ]


def _as_json(entry: Entry) -> dict[str, Any]:
    return {
        "rank": entry.rank,
        "mechanism": entry.mechanism,
        "clusters": entry.clusters,
        "score": _estimate(entry.score),
        "behind": _estimate(entry.behind),
        "tied_with_best": entry.tied,
        "spent_epsilon": entry.spent if entry.spent != float("inf") else "inf",
        "delta": entry.delta,
        "trusts": entry.trusts,
        "setting": entry.setting,
    }


def _estimate(known: Estimate | None) -> dict[str, Any] | None:
    return None if known is None else {"mean": known.mean, "low": known.low, "high": known.high}
