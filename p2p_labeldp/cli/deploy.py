"""``deploy``: the whole deployment as local processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.added_options import with_deployment, with_settings
from p2p_labeldp.cli.output import (
    DataDir,
    Json,
    ScenarioArgument,
    Seed,
    Settings,
    find_scenario,
)
from p2p_labeldp.cli.report import Report
from p2p_labeldp.cli.watch import Progress, Watch, WatchPort, carry_out, require_watch

if TYPE_CHECKING:
    from p2p_labeldp.runs.summary import Summary

DEFAULT_HOSTS = 2


@with_deployment("hosts", "away_limit")
def command(
    scenario: ScenarioArgument,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME if not given.")] = None,
    watch: Watch = False,
    watch_port: WatchPort = None,
    report: Report = True,
    as_json: Json = False,
    **deployment: Any,
) -> None:
    """Run a scenario as processes of this machine over TLS: coordinator, learner, auditor and user hosts."""
    began = time.perf_counter()
    require_watch(watch, watch_port)
    chosen = with_settings(find_scenario(scenario, settings, seed), deployment)
    from p2p_labeldp.deployment.local import deploy
    from p2p_labeldp.runs.folder import free_name

    place = out if out is not None else free_name(Path("runs") / Path(scenario).stem)
    hosts = chosen.deployment.hosts
    if hosts == 0 and deployment["hosts"] is None:  # nobody is to be waited for where all are started here
        hosts = DEFAULT_HOSTS
    watched = None
    if watch:
        from p2p_labeldp.reporting.watching.deployed import WatchedDeployment

        watched = WatchedDeployment(chosen, Path(scenario).stem, data_dir)

    def work(progress: Progress) -> Summary:
        told = None if watched is None else watched.hear
        return deploy(chosen, hosts=hosts, out=place, data_dir=data_dir, progress=progress, told=told)

    carry_out(work, place, began, watched=watched, port=watch_port, report=report, as_json=as_json)
