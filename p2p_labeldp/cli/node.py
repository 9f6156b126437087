"""``node``: one role of a deployment as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from p2p_labeldp.cli.added_options import with_deployment, with_settings
from p2p_labeldp.cli.output import ScenarioArgument, Seed, Settings, find_scenario
from p2p_labeldp.cli.summary import tell_withheld
from p2p_labeldp.errors import RequestError


@with_deployment()
def command(
    role: Annotated[
        str,
        typer.Argument(
            metavar="ROLE", help="coordinator, learner, auditor or users; curator or shuffler where there is one."
        ),
    ],
    scenario: ScenarioArgument,
    seed: Seed = None,
    rows: Annotated[
        Path | None, typer.Option(help="A user host's own rows, a CSV file.", envvar="P2P_LABELDP_ROWS")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="The learner's own test examples, if it has any.", envvar="P2P_LABELDP_TEST")
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where a learner or auditor writes its results; in --state if not given. {run} is the run's name. "
            "A user host asks for the model and writes it there.",
            envvar="P2P_LABELDP_OUT",
        ),
    ] = None,
    cuttable: Annotated[
        bool, typer.Option("--cuttable", help="For trying out partitions: SIGUSR1 cuts all links, SIGUSR2 mends them.")
    ] = False,
    **deployment: Any,
) -> None:
    """Run one role of a deployment until the coordinator dismisses it.

    Killed and started again with the same state folder, it resumes where it left off.
    """
    chosen = with_settings(find_scenario(scenario, settings, seed), deployment)
    for name in ("certs", "state"):
        if not getattr(chosen.deployment, name):
            raise RequestError(f"deployment.{name} is missing; --{name} names the folder")
    from p2p_labeldp.deployment.program import run_node

    tell_withheld(run_node(role, chosen, place=out, rows=rows, test=test, cuttable=cuttable))
