"""``p2p-labeldp run``: run a scenario, print what happened, leave a run folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2p_labeldp.cli.output import (
    DataDir,
    Json,
    ScenarioArgument,
    Seed,
    Settings,
    find_scenario,
)
from p2p_labeldp.cli.report import Report
from p2p_labeldp.cli.watch import Paused, Progress, Watch, WatchPort, carry_out, require_watch
from p2p_labeldp.errors import RequestError
from p2p_labeldp.scenario import ENGINES, Engine
from p2p_labeldp.scenario.engines import check_options

if TYPE_CHECKING:
    from p2p_labeldp.runs.summary import Summary

_ENGINE_HELP = " or ".join(f"{engine} ({record.words})" for engine, record in ENGINES.items()) + "."


def command(
    scenario: ScenarioArgument,
    engine: Annotated[str, typer.Option(help=_ENGINE_HELP)] = "actors",
    hosting: Annotated[str, typer.Option(help="One task per user, or per cluster.")] = "user",
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME if not given.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Split the vectorized engine's run over this Dask scheduler's workers."),
    ] = None,
    watch: Watch = False,
    watch_port: WatchPort = None,
    paused: Paused = False,
    report: Report = True,
    as_json: Json = False,
) -> None:
    """Run a scenario, print a summary and write the run folder."""
    began = time.perf_counter()
    check_options(engine, hosting)
    require_watch(watch, watch_port, paused)
    if watch and not ENGINES[Engine(engine)].sends_messages:
        raise RequestError(f"--watch is not allowed with --engine {engine}, which sends no messages; it must be actors")
    chosen = find_scenario(scenario, settings, seed)
    from p2p_labeldp.experiments.run import run
    from p2p_labeldp.runs.folder import free_name

    place = out if out is not None else free_name(Path("runs") / Path(scenario).stem)
    watched = None
    if watch:
        from p2p_labeldp.reporting.watching.simulated import WatchedSimulation

        watched = WatchedSimulation(chosen, Path(scenario).stem, paused=paused)

    def work(progress: Progress) -> Summary:
        return run(
            chosen, engine=engine, hosting=hosting, data_dir=data_dir, out=place, progress=progress, dask=dask,
            observer=watched,
        ).summary  # fmt: skip

    carry_out(work, place, began, watched=watched, port=watch_port, report=report, as_json=as_json)
