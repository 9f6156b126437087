"""``p2p-labeldp compare``: accuracy against total epsilon, as a tidy table and a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from p2p_labeldp.cli.output import DataDir, Json, Seed, Settings, console, find_scenario, print_json, progress_bar
from p2p_labeldp.cli.sweep import all_runs
from p2p_labeldp.cli.tables import print_table
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

if TYPE_CHECKING:
    from p2p_labeldp.reporting.comparison import Panel

QUICK_USERS, QUICK_CLUSTERS, QUICK_TRIALS, QUICK_EPSILONS = 5000, 30, 2, (0.1, 0.5, 2.0)
MOST_CLUSTERS, USERS_PER_CLUSTER = 100, 50  # where no scenario says how many


def command(
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="A TOML file, a shipped name, or a CSV file.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A data set by name, instead of a scenario.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The label's column of a CSV file.")] = None,
    epsilons: Annotated[str | None, typer.Option(help="Total epsilons, separated by commas.")] = None,
    mechanisms: Annotated[str | None, typer.Option(help="Mechanisms, e.g. 'uniform_rr cluster_rr:tau=0.05'.")] = None,
    trials: Annotated[int | None, typer.Option(help="Models per point; 5 if not given.")] = None,
    vary: Annotated[str | None, typer.Option(help="clusters: vary their number at epsilon 0.5 instead.")] = None,
    counts: Annotated[str | None, typer.Option(help="Numbers of clusters for --vary, separated by commas.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A preview in a minute: fewer users, clusters, points and trials.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; -1, or not given: one for each core.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, host:port; give workers one thread each.")
    ] = None,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The folder; runs/NAME-compare if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Compare mechanisms on one data set. Run again after an interruption, it resumes where it left off."""
    if workers is not None and dask is not None:
        raise RequestError("--workers and --dask exclude each other: a cluster has workers of its own")
    if vary not in (None, "clusters"):
        raise RequestError(f"--vary {vary} is not allowed; it must be clusters")
    if counts and not vary:
        raise RequestError("--counts is for --vary clusters")
    from p2p_labeldp.experiments import compare as engine
    from p2p_labeldp.experiments.sweeps import sweep
    from p2p_labeldp.reporting.comparison import Panel, draw_comparison, summarise

    curves = [engine.parse_curve(text) for text in (mechanisms.split() if mechanisms else engine.COMPARED)]
    asked = _numbers("--epsilons", epsilons) or (QUICK_EPSILONS if quick and not vary else ())
    chosen_epsilons = asked or ((engine.VARIED_EPSILON,) if vary else engine.EPSILONS)
    chosen_counts = _whole("--counts", counts) or engine.CLUSTER_COUNTS if vary else ()
    chosen_trials = trials if trials is not None else QUICK_TRIALS if quick else 5
    name, chosen, counted = _scenario(scenario, dataset, label, settings, seed)
    # What is wrong with the request is said before the data is looked at.
    engine.comparison(chosen, curves, chosen_epsilons, chosen_counts, trials=chosen_trials)
    with progress_bar() as progress:
        progress("data", 0, 0)
        chosen, fewer = _sized(chosen, data_dir, counted=counted, quick=quick)
        fewer += [f"{chosen_trials} trials", f"{len(chosen_epsilons)} epsilons"] if quick else []
        cut = ", ".join(fewer)
        chosen_counts = _fitting(chosen_counts, chosen, data_dir, given=counts is not None)
        plan = engine.comparison(chosen, curves, chosen_epsilons, chosen_counts, trials=chosen_trials)
        suffix = "-clusters" if vary else ""
        place = out or Path("runs") / f"{name}-compare{suffix}{'-quick' if quick else ''}"
        found = sweep(
            plan, place, workers=-1 if workers is None else workers, dask=dask, data_dir=data_dir, progress=progress
        )
        if not found.rows:
            raise RunError(f"no row could be computed; the first failed since {found.failures[0]['reason']}")
        points = engine.points(found.rows, chosen.clusters.count)
        panel = Panel(chosen.data.name, points, "clusters" if vary else "epsilon", cut)
        progress("figure", 0, 0)
        figures = draw_comparison([panel], place / "compare")
    if as_json:
        told = {
            "points": summarise(panel),
            "failures": list(found.failures),
            "preview": cut or None,
            "all_runs": all_runs(found),
        }
        truth = points[0].nonprivate_accuracy
        print_json({"nonprivate_accuracy": truth, "purity": points[0].purity, **told, "out": str(place)})
    else:
        _print(panel, place, figures)
        from p2p_labeldp.reporting.sweeps import budget_note

        console.print(budget_note(found.spent, len(found.rows)), soft_wrap=True)
    if found.failures:
        first = found.failures[0]["reason"]
        raise RunError(f"{len(found.failures)} rows failed, see {place / 'failures.csv'}; the first: {first}")


def _scenario(
    scenario: str | None, dataset: str | None, label: str | None, settings: list[str] | None, seed: int | None
) -> tuple[str, Scenario, bool]:
    """A name for the folder, the scenario, and whether it says how many clusters there are."""
    if (scenario is None) == (dataset is None):
        raise RequestError("name a scenario or --dataset, one of the two")
    own = any(text.strip().startswith("clusters.count") for text in settings or ())
    if scenario is not None and scenario.endswith(".csv"):
        text = f'[data]\nname = "csv"\npath = {json.dumps(scenario)}\n'
        text += "" if label is None else f"label_column = {json.dumps(label)}\n"
        return Path(scenario).stem, parse_scenario(text, scenario, settings or (), seed), own
    if label is not None:
        raise RequestError("--label is for a CSV file; elsewhere use --set data.label_column=COLUMN")
    if scenario is not None:
        return Path(scenario).stem, find_scenario(scenario, settings, seed), True
    text = f"[data]\nname = {json.dumps(dataset)}\n"
    return str(dataset), parse_scenario(text, f"--dataset {dataset}", settings or (), seed), own


def _sized(scenario: Scenario, data_dir: Path | None, *, counted: bool, quick: bool) -> tuple[Scenario, list[str]]:
    """The scenario with clusters for the users there are, cut to a preview's size; what was cut, piece by piece."""
    from p2p_labeldp.runs.shared import shared

    everyone = len(shared(scenario, data_dir).dataset.labels)
    changes: dict[str, int] = {}
    said = []
    if quick and everyone > QUICK_USERS:
        changes["data__users"] = QUICK_USERS
        said.append(f"{QUICK_USERS:,} of {everyone:,} users")
    if scenario.clusters.method == "kmeans":
        count = scenario.clusters.count if counted else max(1, min(MOST_CLUSTERS, everyone // USERS_PER_CLUSTER))
        changes["clusters__count"] = min(count, QUICK_CLUSTERS) if quick else count
        said += [f"{QUICK_CLUSTERS} of {count} clusters"] if quick and count > QUICK_CLUSTERS else []
    return replace(scenario, **changes), said


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise RequestError(f"{option} {text} is not allowed; write numbers separated by commas") from None


def _whole(option: str, text: str | None) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        found = (0,)
    if any(count < 1 for count in found):
        raise RequestError(f"{option} {text} is not allowed; write whole numbers from 1, separated by commas")
    return found


def _fitting(counts: tuple[int, ...], scenario: Scenario, data_dir: Path | None, *, given: bool) -> tuple[int, ...]:
    """Numbers of clusters that the users suffice for; one that was asked for and is too large is refused."""
    from p2p_labeldp.runs.shared import shared

    if not counts:
        return ()
    users = scenario.data.users or len(shared(scenario, data_dir).dataset.labels)
    if given and max(counts) > users:
        raise RequestError(f"--counts {max(counts)} is not allowed; it must be at most the users, {users}")
    return tuple(count for count in counts if count <= users) or (1,)


def _print(panel: Panel, place: Path, figures: list[Path]) -> None:
    from p2p_labeldp.experiments.sweeps.tables import ROWS
    from p2p_labeldp.reporting.comparison import caption

    console.print(f"{panel.title}: {caption(panel)}.", soft_wrap=True)
    console.print("Accuracy over the non-private accuracy:\n")
    print_table(_table(panel))
    console.print()
    for mine in panel.lines().values():
        console.print(panel.label(mine), soft_wrap=True, markup=False)
    console.print(f"\nRows: {place / ROWS}; figures: {', '.join(map(str, figures))}", soft_wrap=True, markup=False)


def _table(panel: Panel) -> Table:
    from p2p_labeldp.reporting.sweeps import estimate

    columns = panel.values()
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(panel.across, no_wrap=True)
    for value in columns:
        table.add_column(f"{value:g}", justify="right")
    for (name, epsilon), mine in panel.lines().items():
        cells = []
        for value in columns:
            known = estimate(point.ratio for point in mine if getattr(point, panel.across) == value)
            half = "" if known is None or known.half_width is None else f"±{known.half_width:.3f}"
            cells.append("-" if known is None else f"{known.mean:.3f}{half}")
        table.add_row(f"{name}, epsilon {epsilon:g}" if epsilon else name, *cells)
    return table
