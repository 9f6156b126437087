"""``deploy``: the whole deployment as local processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.cli.deployment import with_deployment, with_settings
from p2p_labeldp.cli.output import (
    DataDir,
    Json,
    ScenarioArgument,
    Seed,
    Settings,
    find_scenario,
    progress_bar,
)
from p2p_labeldp.cli.report import Report, leave_report
from p2p_labeldp.cli.summary import finish

DEFAULT_HOSTS = 2


@with_deployment("hosts", "away_limit")
def command(
    scenario: ScenarioArgument,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME if not given.")] = None,
    report: Report = True,
    as_json: Json = False,
    **deployment: Any,
) -> None:
    """Run a scenario as processes of this machine over TLS: coordinator, learner, auditor and user hosts."""
    began = time.perf_counter()
    chosen = with_settings(find_scenario(scenario, settings, seed), deployment)
    from p2p_labeldp.deployment.local import deploy
    from p2p_labeldp.runs.folder import free_name

    place = out if out is not None else free_name(Path("runs") / Path(scenario).stem)
    hosts = chosen.deployment.hosts
    if hosts == 0 and deployment["hosts"] is None:  # nobody is to be waited for where all are started here
        hosts = DEFAULT_HOSTS
    with progress_bar() as progress:
        summary = deploy(chosen, hosts=hosts, out=place, data_dir=data_dir, progress=progress)
        page = leave_report(place, progress) if report else None
    finish(summary, page, began, as_json=as_json)
