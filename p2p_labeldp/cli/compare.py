"""``p2p-labeldp compare``: accuracy against total epsilon, as a table, a CSV file and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from p2p_labeldp.cli.output import DataDir, Json, Seed, Settings, console, find_scenario, print_json, progress_bar
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import parse_scenario, replace

QUICK_USERS = 5000


def command(
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="A TOML file, or a shipped name.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A data set by name, instead of a scenario.")] = None,
    epsilons: Annotated[str | None, typer.Option(help="Total epsilons, separated by commas.")] = None,
    mechanisms: Annotated[str | None, typer.Option(help="Mechanisms, e.g. 'uniform_rr cluster_rr:tau=0.05'.")] = None,
    trials: Annotated[int | None, typer.Option(help="Models per point; 5 if not given.")] = None,
    vary: Annotated[str | None, typer.Option(help="clusters: vary their number at epsilon 0.5 instead.")] = None,
    counts: Annotated[str | None, typer.Option(help="Numbers of clusters for --vary, separated by commas.")] = None,
    delta: Annotated[float, typer.Option(help="For mechanisms that need one; 0 takes 1/users.")] = 0.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A preview in a minute: fewer users, points and trials.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; -1 takes every core.")] = -1,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The folder; runs/NAME-compare if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Compare mechanisms on one data set. Stopped and started again, it goes on where it was."""
    if (scenario is None) == (dataset is None):
        raise RequestError("name a scenario or --dataset, one of the two")
    if vary not in (None, "clusters"):
        raise RequestError(f"--vary {vary} is not allowed; it must be clusters")
    if not 0 <= delta < 1:
        raise RequestError(f"--delta {delta:g} is not allowed; it must be at least 0 and below 1")
    if scenario is not None:
        name, chosen = Path(scenario).stem, find_scenario(scenario, settings, seed)
    else:
        text = f'[data]\nname = "{dataset}"\n[clusters]\ncount = 100'
        name, chosen = str(dataset), parse_scenario(text, f"--dataset {dataset}", settings or (), seed)
    from p2p_labeldp.experiments import compare as engine
    from p2p_labeldp.reporting.comparison import draw_comparison

    asked = _numbers("--epsilons", epsilons)
    if quick:
        if chosen.data.users == 0 or chosen.data.users > QUICK_USERS:
            few = {"digits": 0, "breast_cancer": 0}.get(chosen.data.name, QUICK_USERS)
            chosen = replace(chosen, data__users=few, clusters__count=min(chosen.clusters.count, 30))
        trials = trials or 2
        asked = asked or (0.1, 0.5, 2.0)
    varied = tuple(map(int, _numbers("--counts", counts))) or engine.CLUSTER_COUNTS if vary else ()
    plan = engine.Plan(
        chosen,
        tuple(mechanisms.split()) if mechanisms else engine.MECHANISMS,
        (asked or (engine.VARIED_EPSILON,)) if vary else (asked or engine.EPSILONS),
        varied,
        5 if trials is None else trials,
        delta,
    )
    suffix = "-clusters" if vary else ""
    place = out or Path("runs") / f"{name}-compare{suffix}{'-quick' if quick else ''}"
    with progress_bar() as progress:
        rows = engine.compare(plan, place, data_dir=data_dir, workers=workers, progress=progress)
    found = engine.summarise(rows)
    figures = draw_comparison(found, place / "compare", rows[0].dataset, by_clusters=vary is not None)
    if as_json:
        print_json({"nonprivate_accuracy": rows[0].nonprivate_accuracy, "points": found, "out": str(place)})
        return
    console.print(f"{rows[0].dataset}: {rows[0].nonprivate_accuracy:.4f} without privacy; below, accuracy over that.\n")
    console.print(_table(found, by_clusters=vary is not None))
    console.print(f"\nRows: {place / engine.ROWS}; figures: {', '.join(map(str, figures))}", soft_wrap=True)


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise RequestError(f"{option} {text} is not allowed; write numbers separated by commas") from None


def _table(points: list[dict[str, Any]], *, by_clusters: bool) -> Table:
    across = "clusters" if by_clusters else "epsilon"
    columns = sorted({point[across] for point in points})
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(across, no_wrap=True)
    for value in columns:
        table.add_column(f"{value:g}", justify="right")
    for mechanism in dict.fromkeys(point["mechanism"] for point in points):
        cells = []
        for value in columns:
            point = next(p for p in points if p["mechanism"] == mechanism and p[across] == value)
            spread = "" if point["spread"] is None else f"±{point['spread']:.2f}"
            cells.append(f"{point['ratio']:.3f}{spread}")
        table.add_row(mechanism, *cells)
    return table
