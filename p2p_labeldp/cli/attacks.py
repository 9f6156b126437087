"""``attacks``: what the adversaries of a deployment achieved, from what its nodes have left."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from p2p_labeldp.cli.output import DataDir, Json, ScenarioArgument, Seed, Settings, find_scenario
from p2p_labeldp.cli.summary import finish
from p2p_labeldp.errors import RequestError


def command(
    run: Annotated[Path, typer.Argument(help="The learner's results with the auditor's trace beside them.")],
    scenario: ScenarioArgument,
    pooled: Annotated[
        list[Path] | None, typer.Option(help="The pooled.json that a host's colluders wrote; one for each host.")
    ] = None,
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Measure what a deployment's adversaries achieved, beside the bounds, given the data that were divided."""
    began = time.perf_counter()
    chosen = find_scenario(scenario, settings, seed)
    if not chosen.adversaries:
        raise RequestError(f"{scenario}: has no adversaries whose attacks could be measured")
    from p2p_labeldp.audit.folder import SUMMARY, find
    from p2p_labeldp.deployment.attacked import attacked
    from p2p_labeldp.deployment.misbehaving import Pool
    from p2p_labeldp.runs.summary import read_summary

    contents = []
    for path in pooled or ():
        try:
            contents.append(path.read_bytes())
            Pool.merged(contents[-1:])
        except OSError as error:
            raise RequestError(f"--pooled {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise RequestError(f"--pooled {path}: not what the colluders of a host wrote down") from None
    summary = read_summary(find(run, SUMMARY))
    finish(attacked(summary, run, chosen.settled(deployed=True), contents, data_dir), None, began, as_json=as_json)
