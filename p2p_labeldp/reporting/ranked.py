"""The part of a sweep's page that answers the question: a ranking to sort and filter, drawn beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from p2p_labeldp.experiments.sweeps import Sweep
from p2p_labeldp.privacy.numbers import rounded_up, shown_epsilon
from p2p_labeldp.reporting.blocks import Block, Cell, Choice, Chooser, Note, Ranked, RankedRow, Section, Text
from p2p_labeldp.reporting.charts import figure_of
from p2p_labeldp.reporting.plots import Axis, Line, Plot, Scale, aside, span
from p2p_labeldp.reporting.ranking import (
    HOW_RANKED,
    METRIC_NAMES,
    Entry,
    Ranking,
    best_by_trust,
    rankings,
    tuning,
    verdict,
    with_half,
)
from p2p_labeldp.reporting.styles import kinds, looks, style_of
from p2p_labeldp.reporting.svg import element, line
from p2p_labeldp.reporting.sweeps import Estimate

METRIC = "balanced_accuracy"
BAR, TALL = 200.0, 20.0  # the drawing of one interval, in its own units
TIED = "best and tied"


def ranking_section(found: Sweep) -> Section:
    """What is best at each epsilon, by balanced accuracy."""
    every = rankings(found, METRIC)
    beside = {
        entry.setting: entry.score for each in rankings(found, "accuracy") for entry in each.entries
    }  # what many ask for first
    blocks: list[Block] = [Text(verdict(ranking)) for ranking in every]
    if len(every) == 1 and len(every[0].by_trust()) > 1:
        blocks.append(Text(best_by_trust(every[0])))
    blocks.append(_ranked(every, beside))
    blocks.append(Text(HOW_RANKED + " Behind the best: the difference, in intervals that all hold at once."))
    charts = [
        (f"{place}", figure_of(f"ranking-{place}", _plot(ranking)))
        for place, ranking in enumerate(every)
        if len({entry.clusters for entry in ranking.entries}) > 1
    ]
    if charts:
        options = [(f"{place}", _asked(every[int(place)])) for place, _ in charts]
        blocks.append(Chooser("ranking", [Choice("At", options)], charts))
    cost, scores, how = tuning(found)
    blocks += [Note(f"{cost} {scores}"), Text(how)]
    return Section("ranking", "Which is best", blocks)


def _asked(ranking: Ranking) -> str:
    return "the noise given" if ranking.epsilon is None else f"epsilon {ranking.epsilon:g}"


def _ranked(every: Sequence[Ranking], beside: dict[int, Estimate]) -> Ranked:
    several = len(every) > 1
    clusters = any(entry.clusters for each in every for entry in each.entries)
    ends = [end for each in every for entry in each.entries for end in _ends(entry.score)]
    ends += [end for each in every for _, known in each.baselines for end in _ends(known)]
    scale = Scale(min(ends, default=0.0), max(ends, default=1.0), 6.0, BAR - 6.0)
    head = ["rank", "mechanism"] + ["clusters"] * clusters
    head += [METRIC_NAMES[METRIC], "", "behind the best", "accuracy", "epsilon", "delta", "trusts"]
    rows = []
    for ranking in every:
        for entry in ranking.entries:
            rows.append(_row(entry, ranking, beside[entry.setting], scale, clusters=clusters))
        for words, known in ranking.baselines:
            rows.append(_baseline(words, ranking, known, scale, clusters=clusters))
    filters = [("Mechanism", 0), ("Trusts", 1)] + [("Clusters", 2)] * clusters + [("Epsilon", 3)] * several
    numeric = frozenset(place for place, name in enumerate(head) if name not in ("mechanism", "trusts", ""))
    title = f"Settings by {METRIC_NAMES[METRIC]}, the best one first"
    return Ranked(title, head, rows, numeric, [*filters, ("Show", 4)])


def _row(entry: Entry, ranking: Ranking, accuracy: Estimate, scale: Scale, *, clusters: bool) -> RankedRow:
    mark = "" if entry.rank is None else "best" if entry.rank == 1 else "tied" if entry.tied else ""
    behind = "–" if entry.behind is None else with_half(entry.behind)
    if entry.rank is None:
        behind = "spends more"
    cells = [
        Cell("–" if entry.rank is None else f"{entry.rank}", float(entry.rank or 1e9), mark=mark),
        Cell(entry.line),
    ]
    cells += [Cell(entry.count, float(entry.clusters or 0))] if clusters else []
    cells += [
        Cell(with_half(entry.score), entry.score.mean),
        Cell("", entry.score.mean, drawing=_bar(entry.name, entry.score, ranking, scale, f"k-{entry.kind}")),
        Cell(behind, 0.0 if entry.behind is None else entry.behind.mean),
        Cell(f"{accuracy.mean:.3f}", accuracy.mean),
        Cell(shown_epsilon(entry.spent), min(entry.spent, 1e9)),
        Cell(rounded_up(entry.delta), entry.delta),
        Cell(entry.trusts),
    ]
    shown = [TIED] if mark else []
    return RankedRow(cells, [[entry.kind], [entry.trusts], [entry.count], [_asked(ranking)], shown], mark)


def _baseline(words: str, ranking: Ranking, known: Estimate, scale: Scale, *, clusters: bool) -> RankedRow:
    cells = [Cell("–", 1e9), Cell(words)]
    cells += [Cell("", 0.0)] if clusters else []
    cells += [
        Cell(with_half(known), known.mean),
        Cell("", known.mean, drawing=_bar(words, known, ranking, scale, "s6")),
        *(Cell("") for _ in range(5)),
    ]
    return RankedRow(cells, [["baselines"], [], [], [_asked(ranking)], [TIED]], "baseline")


def _ends(known: Estimate) -> list[float]:
    return [end for end in (known.low, known.mean, known.high) if end is not None]


def _bar(name: str, known: Estimate, ranking: Ranking, scale: Scale, look: str) -> Markup:
    """A mean in its interval, on the scale of all rows; the best one's mean is a line through all of them."""
    words = f"{name}: {known.mean:.4f}"
    if known.low is not None and known.high is not None:
        words += f", 95% interval {known.low:.4f} to {known.high:.4f}, {known.count} trials"
    middle = TALL / 2
    parts = [element("title", words), line(scale.start, middle, scale.end, middle, "track")]
    if ranking.best is not None:
        at = scale(ranking.best.score.mean)
        parts.append(line(at, 1.0, at, TALL - 1, "level"))
    if known.low is not None and known.high is not None:
        parts.append(line(scale(known.low), middle, scale(known.high), middle, f"interval {look}"))
    at = scale(known.mean)
    parts.append(line(at, middle, at, middle, f"spot {look}"))
    return element(
        "svg", *parts, viewBox=f"0 0 {BAR:g} {TALL:g}", preserveAspectRatio="none", role="img", class_="bar-of-row"
    )


def _plot(ranking: Ranking) -> Plot:
    """The score against the number of clusters, one line for each mechanism; those that ignore clusters beside them."""
    counts = sorted({entry.clusters for entry in ranking.entries if entry.clusters is not None})
    ignoring = any(entry.clusters is None for entry in ranking.entries)
    names = [f"{count}" for count in counts] + ["any"] * ignoring
    lines: dict[str, list[Entry]] = {}
    for entry in sorted(ranking.entries, key=lambda entry: (kinds().index(entry.kind), entry.setting)):
        lines.setdefault(entry.line, []).append(entry)
    curves = []
    styles = looks(mine[0].kind for mine in lines.values())
    for place, ((words, mine), look) in enumerate(zip(lines.items(), styles, strict=True)):
        mine = sorted(mine, key=lambda entry: entry.clusters or 0)
        xs = [
            (counts.index(entry.clusters) if entry.clusters else len(counts)) + aside(place, len(lines))
            for entry in mine
        ]
        curves.append(
            Line(
                name=words,
                xs=xs,
                ys=[entry.score.mean for entry in mine],
                look=look,
                points=[(x, entry.score.mean) for x, entry in zip(xs, mine, strict=True)],
                lows=[entry.score.low for entry in mine],
                highs=[entry.score.high for entry in mine],
                joined=False,
                said=[f"{entry.name}: {with_half(entry.score, 4)}" for entry in mine],
            )
        )
    ends = [end for entry in ranking.entries for end in _ends(entry.score)]
    caption = f"Means over {ranking.trials} trials with 95% intervals." if ranking.trials > 1 else "One trial."
    caption += " Mechanisms at “any” do not use clusters." if ignoring else ""
    best = ranking.best
    caption += "" if best is None else f" The best one: {best.name}."
    trust = sorted({(style_of(entry.kind).trust, entry.kind) for entry in ranking.entries})
    caption += " Trust: " + "; ".join(f"{kind}: {words}" for words, kind in trust) + "."
    return Plot(
        title=f"{METRIC_NAMES[METRIC].capitalize()} against the number of clusters, {_asked(ranking)}",
        lines=curves,
        across=Axis("number of clusters", -0.5, len(names) - 0.5, names=names),
        up=Axis(METRIC_NAMES[METRIC], *span(ends, 0.05, least=0.05)),
        caption=caption,
        told="; ".join(f"{curve.name}: {', '.join(f'{y:.3f}' for y in curve.ys)}" for curve in curves),
    )
