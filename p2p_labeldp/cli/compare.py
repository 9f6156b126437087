"""``p2p-labeldp compare``: which mechanism and how many clusters at a total epsilon: a ranking, a page, a figure."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_labeldp.cli.output import (
    Dask,
    DataDir,
    Json,
    Metric,
    Seed,
    Settings,
    Workers,
    console,
    csv_scenario,
    find_scenario,
    print_json,
    progress_bar,
    require_one,
)
from p2p_labeldp.cli.report import Report, leave_report
from p2p_labeldp.cli.sweep import all_runs
from p2p_labeldp.cli.tables import print_table
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

if TYPE_CHECKING:
    from p2p_labeldp.reporting.comparison import Panel

QUICK_USERS, QUICK_CLUSTERS, QUICK_TRIALS, QUICK_EPSILONS = 5000, 30, 2, (0.1, 0.5, 2.0)
TRIALS, TRIALS_OF_ONE_EPSILON = 5, 10
MOST_CLUSTERS, USERS_PER_CLUSTER = 100, 50  # where no scenario says how many


def command(
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="A TOML file, a shipped name, or a CSV file.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A data set by name, instead of a scenario.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="The label's column of a CSV file.")] = None,
    epsilons: Annotated[str | None, typer.Option(help="Total epsilons, separated by commas.")] = None,
    mechanisms: Annotated[str | None, typer.Option(help="Mechanisms, e.g. 'uniform_rr cluster_rr:tau=0.05'.")] = None,
    trials: Annotated[
        int | None, typer.Option(help="Splits and models per setting; if not given 10 for one epsilon, else 5.")
    ] = None,
    metric: Metric = "balanced_accuracy",
    vary: Annotated[
        str | None, typer.Option(help="clusters: vary their number even where a scenario gives one.")
    ] = None,
    counts: Annotated[str | None, typer.Option(help="Numbers of clusters to try, separated by commas.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A preview in a minute: fewer users, clusters, points and trials.")
    ] = False,
    workers: Workers = None,
    dask: Dask = None,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The folder; runs/NAME-compare if not given.")] = None,
    report: Report = True,
    as_json: Json = False,
) -> None:
    """Compare mechanisms and numbers of clusters at one total epsilon. Run again, it resumes where it left off.

    Where no scenario gives the number of clusters, several are tried, which follow from the number of rows.
    """
    require_one(workers, dask)
    if vary not in (None, "clusters"):
        raise RequestError(f"--vary {vary} is not allowed; it must be clusters")
    from p2p_labeldp.cli.ranking import check_metric, print_ranking, ranking_json
    from p2p_labeldp.experiments import compare as engine
    from p2p_labeldp.experiments.sweeps import sweep
    from p2p_labeldp.privacy.numbers import plural
    from p2p_labeldp.reporting.comparison import Panel, plot_of, spread, summarise
    from p2p_labeldp.reporting.files import save_both
    from p2p_labeldp.reporting.ranking import tuning

    check_metric(metric)
    asked = _numbers("--epsilons", epsilons) or (QUICK_EPSILONS if quick and not vary else ())
    chosen_epsilons = asked or ((engine.VARIED_EPSILON,) if vary else engine.EPSILONS)
    chosen_counts = _whole("--counts", counts)
    few = QUICK_TRIALS if quick else TRIALS_OF_ONE_EPSILON if len(chosen_epsilons) == 1 else TRIALS
    chosen_trials = trials if trials is not None else few
    name, chosen, counted = _scenario(scenario, dataset, label, settings, seed)
    looked_for = not counted and not vary and not chosen_counts and chosen.clusters.method == "kmeans"
    usual = engine.ASKED if looked_for else engine.COMPARED
    curves = [engine.parse_curve(text) for text in (mechanisms.split() if mechanisms else usual)]
    # What is wrong with the request is said before the data is looked at.
    engine.comparison(chosen, curves, chosen_epsilons, chosen_counts, trials=chosen_trials)
    with progress_bar() as progress:
        progress("data", 0, 0)
        chosen, users, fewer = _sized(chosen, data_dir, counted=counted, quick=quick)
        fewer += [plural(chosen_trials, "trial"), plural(len(chosen_epsilons), "epsilon")] if quick else []
        cut = ", ".join(fewer)
        if looked_for:
            chosen_counts = engine.counts_for(users)
            chosen_counts = tuple(n for n in chosen_counts if n <= QUICK_CLUSTERS)[-2:] if quick else chosen_counts
        elif vary or chosen_counts:
            chosen_counts = _fitting(chosen_counts, engine.CLUSTER_COUNTS, users)
        plan = engine.comparison(chosen, curves, chosen_epsilons, chosen_counts, trials=chosen_trials)
        suffix = "-clusters" if vary else ""
        place = out or Path("runs") / f"{name}-compare{suffix}{'-quick' if quick else ''}"
        found = sweep(
            plan, place, workers=-1 if workers is None else workers, dask=dask, data_dir=data_dir, progress=progress
        )
        if not found.rows:
            raise RunError(f"no row could be computed; the first failed since {found.failures[0]['reason']}")
        points = engine.points(found.rows, chosen.clusters.count)
        across = "clusters" if chosen_counts else "epsilon"
        panel = Panel(chosen.data.name, spread(points, chosen_counts), across, cut)
        progress("figure", 0, 0)
        files = save_both([plot_of(panel)], place / "compare")
        page = leave_report(place, progress) if report else None
        files += [] if page is None else [page]
    if as_json:
        told = {
            "points": summarise(dataclasses.replace(panel, points=points)),
            "ranking": ranking_json(found, metric),
            "failures": list(found.failures),
            "preview": cut or None,
            "all_runs": all_runs(found),
            "tuning": tuning(found),
            "report": None if page is None else str(page),
        }
        truth = points[0].nonprivate_accuracy
        print_json({"nonprivate_accuracy": truth, "purity": points[0].purity, **told, "out": str(place)})
    else:
        _print(panel, users)
        print_ranking(found, metric)
        _print_files(place, files)
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
        return Path(scenario).stem, csv_scenario(scenario, label, settings, seed), own
    if label is not None:
        raise RequestError("--label is for a CSV file; elsewhere use --set data.label_column=COLUMN")
    if scenario is not None:
        return Path(scenario).stem, find_scenario(scenario, settings, seed), True
    text = f"[data]\nname = {json.dumps(dataset)}\n"
    return str(dataset), parse_scenario(text, f"--dataset {dataset}", settings or (), seed), own


def _sized(scenario: Scenario, data_dir: Path | None, *, counted: bool, quick: bool) -> tuple[Scenario, int, list[str]]:
    """The scenario with clusters and one delta for the users there are, cut to a preview's size.

    Also how many users that is, and what was cut, piece by piece.
    """
    from p2p_labeldp.experiments.compare import delta_for
    from p2p_labeldp.runs.shared import shared

    everyone = len(shared(scenario, data_dir).dataset.labels)
    changes: dict[str, float] = {}
    said = []
    users = everyone
    if quick and everyone > QUICK_USERS:
        changes["data__users"] = users = QUICK_USERS
        said.append(f"{QUICK_USERS:,} of {everyone:,} users")
    if scenario.clusters.method == "kmeans":
        count = scenario.clusters.count if counted else max(1, min(MOST_CLUSTERS, everyone // USERS_PER_CLUSTER))
        changes["clusters__count"] = min(count, QUICK_CLUSTERS) if quick else count
        said += [f"{QUICK_CLUSTERS} of {count} clusters"] if quick and counted and count > QUICK_CLUSTERS else []
    if not scenario.privacy.delta:
        changes["privacy__delta"] = delta_for(users)
    return replace(scenario, **changes), users, said


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


def _fitting(asked: tuple[int, ...], usual: tuple[int, ...], users: int) -> tuple[int, ...]:
    """Numbers of clusters that the users suffice for; one that was asked for and is too large is refused."""
    if asked and max(asked) > users:
        raise RequestError(f"--counts {max(asked)} is not allowed; it must be at most the users, {users}")
    return asked or tuple(count for count in usual if count <= users) or (1,)


def _print(panel: Panel, users: int) -> None:
    from p2p_labeldp.reporting.comparison import caption

    console.print(f"{panel.title}: {users:,} users to learn from; {caption(panel)}.", soft_wrap=True)
    if panel.across == "epsilon" and len(panel.values()) > 1:
        console.print("Accuracy over the non-private accuracy:\n")
        _print_ratios(panel)
    console.print()


def _print_files(place: Path, files: list[Path]) -> None:
    from p2p_labeldp.experiments.sweeps.tables import ROWS

    shown = ", ".join(map(str, (place / ROWS, *files)))
    console.print(f"Files: {shown}", soft_wrap=True, markup=False)


def _print_ratios(panel: Panel) -> None:
    columns = panel.values()
    rows = []
    for (name, epsilon), mine in panel.lines().items():
        cells = []
        for known in panel.ratios(mine):
            half = "" if known is None or known.half_width is None else f"±{known.half_width:.3f}"
            cells.append("-" if known is None else f"{known.mean:.3f}{half}")
        rows.append((f"{name}, epsilon {epsilon:g}" if epsilon else name, *cells))
    head = (panel.across, *(f"{value:g}" for value in columns))
    print_table(head, rows, right=range(1, len(head)))
