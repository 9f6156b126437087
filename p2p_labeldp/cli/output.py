"""What commands share: where a scenario is found, progress for a terminal, JSON for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from p2p_labeldp.cli.scenarios import find_shipped, names
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import Scenario, documentation, load_scenario, parse_scenario


def settable() -> list[str]:
    """For completion in a shell: every key, ready for its value."""
    return [f"{dotted}=" for dotted, *_ in documentation()]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key, e.g. mechanism.alpha=0.2.", autocompletion=settable),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of everything random.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where data files are looked for first.")]
ScenarioArgument = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A TOML file, or a shipped name.", autocompletion=names)
]

Workers = Annotated[
    int | None, typer.Option("--workers", help="Processes on this machine; -1, or not given: one for each core.")
]
Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="A Dask scheduler, host:port; give workers one thread each."),
]
Metric = Annotated[str, typer.Option("--metric", help="Ranked by balanced_accuracy, accuracy, auc or log_loss.")]

console = Console(highlight=False, soft_wrap=False)


def find_scenario(name: str, settings: list[str] | None, seed: int | None) -> Scenario:
    """The scenario in a file, or one that ships under that name."""
    path = Path(name)
    if not path.exists() and not path.suffix and path.parent == Path():
        path = find_shipped(name)
    return load_scenario(path, settings or (), seed)


def csv_scenario(path: str, label: str | None, settings: list[str] | None, seed: int | None) -> Scenario:
    """A scenario of a CSV file and the defaults; ``label`` is its label's column, where it is not called so."""
    named = "" if label is None else f"label_column = {json.dumps(label)}\n"
    return parse_scenario(f'[data]\nname = "csv"\npath = {json.dumps(path)}\n{named}', path, settings or (), seed)


def require_one(workers: int | None, dask: str | None) -> None:
    """RequestError where the runs of a sweep are to be computed by both."""
    if workers is not None and dask is not None:
        raise RequestError("--workers and --dask exclude each other: a cluster has workers of its own")


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, allow_nan=False))


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A function (stage, done, total) that draws on a terminal and is silent in a pipe."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    # Speed is that of an hour: a single step may take longer than rich's half a minute.
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("starting", total=None)
        stage_shown = ""

        def show(stage: str, done: int, total: int) -> None:
            nonlocal stage_shown
            if stage != stage_shown:
                stage_shown = stage
                bar.reset(task, description=stage, total=total or None)
            bar.update(task, completed=min(done, total) if total else done)

        yield show
