"""``p2p-labeldp sweep``: a scenario under many settings and seeds, on one machine or a cluster; one tidy table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.output import (
    Dask,
    DataDir,
    Json,
    Metric,
    ScenarioArgument,
    Seed,
    Settings,
    Workers,
    console,
    find_scenario,
    print_json,
    progress_bar,
    require_one,
)
from p2p_labeldp.cli.report import Report, leave_report
from p2p_labeldp.cli.tables import print_table
from p2p_labeldp.errors import RequestError, RunError, meant

if TYPE_CHECKING:
    from p2p_labeldp.experiments.sweeps import Plan, Sweep

MOST_LINES = 40  # of a table on a terminal


def command(
    scenario: ScenarioArgument,
    seeds: Annotated[int, typer.Option(help="How often each setting is run, each time with a seed of its own.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2", help="Values of a key, e.g. mechanism.alpha=.01,.1; several make a grid."),
    ] = None,
    listed: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="A CSV file: its header names keys, each line is a setting."),
    ] = None,
    workers: Workers = None,
    dask: Dask = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Use the same seeds in every setting, and rank the settings by --metric.")
    ] = False,
    metric: Metric = "balanced_accuracy",
    plot: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC:KEY", help="What to draw; accuracy against the first key if not given."),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="vectorized or actors; if not given, actors only where messages matter.")
    ] = None,
    hosting: Annotated[str, typer.Option(help="With actors: one task per user, or per cluster.")] = "user",
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The folder; runs/NAME-sweep if not given.")] = None,
    report: Report = True,
    as_json: Json = False,
) -> None:
    """Run many settings many times. Run again after an interruption, it resumes where it left off."""
    require_one(workers, dask)
    chosen = find_scenario(scenario, settings, seed)
    from p2p_labeldp.cli.ranking import check_metric
    from p2p_labeldp.experiments.sweeps import make_plan, sweep
    from p2p_labeldp.reporting.files import save_both
    from p2p_labeldp.reporting.sweep_charts import metric_plot

    check_metric(metric)
    plan = make_plan(chosen, vary or (), listed, seeds=seeds, engine=engine, hosting=hosting, paired=paired)
    plots = _plots(plan, plot)
    place = out or Path("runs") / f"{Path(scenario).stem}-sweep"
    with progress_bar() as progress:
        found = sweep(
            plan,
            place,
            workers=-1 if workers is None else workers,
            dask=dask,
            data_dir=data_dir,
            progress=progress,
        )
        figures: list[Path] = []
        empty: list[str] = []
        for plotted, key in plots:
            progress("plots", 0, 0)
            drawn = metric_plot(found.rows, found.keys, plotted, key)
            figures += [] if drawn is None else save_both([drawn], place / f"{plotted}-by-{key}")
            empty += [plotted] if drawn is None else []
        if report:
            page = leave_report(place, progress)
            figures += [] if page is None else [page]
    failed = _failed(found)
    if as_json:
        print_json(_as_json(found, failed, figures, metric))
    else:
        _print(found, failed, figures, empty, metric)
    if failed:
        raise RunError(f"{len(failed)} of {len(found.settings)} settings failed; {place / 'failures.csv'} says why")


def _plots(plan: Plan, asked: list[str] | None) -> list[tuple[str, str]]:
    """(metric, key) of every figure, refused before anything runs where there can be none."""
    from p2p_labeldp.experiments.sweeps.replicate import numbers_of
    from p2p_labeldp.reporting.sweeps import numeric

    if asked is None:
        with_numbers = [
            key for place, key in enumerate(plan.keys) if numeric(setting[place] for setting in plan.settings)
        ]
        return [("accuracy", key) for key in (with_numbers or list(plan.keys))[:1]]
    known = list(dict.fromkeys(name for each in plan.kinds_of_scenarios() for name in numbers_of(each)))
    found = []
    for text in asked:
        metric, _, key = text.partition(":")
        key = key or next(iter(plan.keys), "")
        if key not in plan.keys:
            varied = f"varied are {', '.join(plan.keys)}" if plan.keys else "nothing is varied"
            raise RequestError(f"--plot {text}: {key or 'no key'} is not varied here; {varied}")
        if metric not in known:
            raise RequestError(f"--plot {text}: there is no metric {metric}; {meant(metric, known)}")
        found.append((metric, key))
    return found


def _failed(found: Sweep) -> list[dict[str, Any]]:
    """Each setting that failed, once: how many of its replicates, and why the first did."""
    failed: dict[int, dict[str, Any]] = {}
    for failure in found.failures:
        values = {key: failure[key] for key in found.keys}
        known = failed.setdefault(
            failure["setting"],
            {"setting": failure["setting"], "values": values, "replicates": 0, "reason": failure["reason"]},
        )
        known["replicates"] += 1
    return list(failed.values())


def _as_json(found: Sweep, failed: list[dict[str, Any]], figures: Sequence[Path], metric: str) -> dict[str, Any]:
    from p2p_labeldp.cli.ranking import ranking_json

    settings = []
    for number, rows in found.by_setting().items():
        values = dict(zip(found.keys, found.settings[number], strict=True))
        settings.append(
            {
                "setting": number,
                "values": values,
                "replicates": len(rows),
                "accuracy": _estimated(rows, "accuracy"),
                "epsilon.learner": _largest_stated(rows, "learner"),
            }
        )
    return {
        "out": str(found.folder),
        "engine": found.engine,
        "rows": len(found.rows),
        "settings": settings,
        **({"ranking": ranking_json(found, metric)} if found.paired else {}),
        "failures": failed,
        "warnings": _warnings(found),
        "all_runs": all_runs(found),
        "files": [str(path) for path in (*_tables(found), *figures)],
    }


def all_runs(found: Sweep) -> dict[str, Any]:
    """What all rows together would cost on private labels."""
    epsilon, delta = found.spent
    return {"runs": len(found.rows), "epsilon": "inf" if math.isinf(epsilon) else epsilon, "delta": delta}


def _estimated(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    from p2p_labeldp.reporting.sweeps import estimate

    known = estimate(row.get(name) for row in rows)
    return None if known is None else dataclasses.asdict(known)


def _largest_stated(rows: Sequence[dict[str, Any]], view: str) -> dict[str, Any] | None:
    """The largest epsilon of the runs; with the largest delta it holds for each of them."""
    from p2p_labeldp.reporting.sweeps import largest_stated

    known = largest_stated(rows, view)
    if known is None:
        return None
    return {
        "largest": "inf" if math.isinf(known.largest) else known.largest,
        "delta": {"smallest": known.deltas[0], "largest": known.deltas[-1]} if known.deltas else None,
        "method": known.method,
        "count": known.count,
    }


def _warnings(found: Sweep) -> list[str]:
    """What a reader of the table must know, a line each."""
    from p2p_labeldp.reporting.sweeps import delta_warning

    warning = delta_warning(found.rows, "learner")
    said = [warning] if warning else []
    warned = [row["warnings"] for row in found.rows if row["warnings"]]
    return said + ([f"{len(warned)} runs warned, first: {warned[0]}"] if warned else [])


def _tables(found: Sweep) -> list[Path]:
    from p2p_labeldp.experiments.sweeps.tables import FAILURES, PARQUET, ROWS

    return [path for name in (ROWS, PARQUET, FAILURES) if (path := found.folder / name).exists()]


def _print(
    found: Sweep, failed: list[dict[str, Any]], figures: Sequence[Path], empty: Sequence[str], metric: str
) -> None:
    from p2p_labeldp.reporting.sweeps import CONFIDENCE, budget_note, mean_cell, show, stated_cells

    rows = found.by_setting()
    lines = []
    for number in list(rows)[:MOST_LINES]:
        cells = (
            str(len(rows[number])),
            mean_cell(rows[number], "accuracy"),
            *stated_cells(rows[number], "learner")[:2],
        )
        lines.append((*map(show, found.settings[number]), *cells))
    head = (*found.keys, "runs", "accuracy", "epsilon", "delta")
    print_table(head, lines, right=range(len(head)))
    if len(rows) > MOST_LINES:
        console.print(f"... and {len(rows) - MOST_LINES} settings more.")
    said = (
        f"Accuracy: mean, ± half of the {CONFIDENCE:.0%} confidence interval of the mean. "
        f"Epsilon: against the learner, the largest of the runs, rounded up{_mixed(rows)}. "
        f"{found.engine.capitalize()} engine."
    )
    console.print(f"\n{said}", soft_wrap=True)
    if found.paired:
        from p2p_labeldp.cli.ranking import print_ranking

        console.print()
        print_ranking(found, metric)
    else:
        console.print(budget_note(found), soft_wrap=True)
    for line in failed[:MOST_LINES]:
        values = ", ".join(f"{key}={show(value)}" for key, value in line["values"].items()) or "the scenario"
        said = f"failed: {values}: {line['replicates']} of {found.seeds} runs: {line['reason']}"
        console.print(said, soft_wrap=True, markup=False)
    if len(failed) > MOST_LINES:
        console.print(f"... and {len(failed) - MOST_LINES} settings more failed.")
    for warning in _warnings(found):
        console.print(f"warning: {warning}", soft_wrap=True, markup=False)
    for metric in empty:
        console.print(f"no figure of {metric}: no row has a number for it", soft_wrap=True)
    from p2p_labeldp.experiments.sweeps.tables import has_parquet

    files = ", ".join(map(str, (*_tables(found), *figures)))
    console.print(f"Files: {files}", soft_wrap=True, markup=False)
    if not has_parquet():
        console.print("No Parquet: pip install 'p2p-labeldp[parquet]' for it.", markup=False)


def _mixed(rows: dict[int, list[dict[str, Any]]]) -> str:
    """Where some runs of a setting have an exact epsilon and others have not: what the largest is then."""
    from p2p_labeldp.reporting.sweeps import largest_stated
    from p2p_labeldp.runs.stated import METHODS

    every = [largest_stated(each, "learner") for each in rows.values()]
    worst = {known.methods[-1] for known in every if known is not None and len(known.methods) > 1}
    said = " or ".join(sorted(METHODS[name] for name in worst))
    return f" ({said}, where some runs are that and others exact)" if said else ""
