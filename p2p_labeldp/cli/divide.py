"""``p2p-labeldp divide``: a data set into one file of rows for each user host, for a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from p2p_labeldp.cli.output import DataDir, Json, Seed, Settings, console, csv_scenario, find_scenario, print_json
from p2p_labeldp.errors import RequestError


def command(
    source: Annotated[
        str, typer.Argument(metavar="FILE.csv|SCENARIO", help="A CSV file, a scenario file, or a shipped name.")
    ],
    hosts: Annotated[int, typer.Option("--hosts", help="Into how many files, 1 to 256.")],
    out: Annotated[Path, typer.Option(help="The study's folder, new or empty.")],
    label: Annotated[str, typer.Option(help="The label's column of a CSV file.")] = "",
    seed: Seed = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Divide a data set: a folder for each node with its own rows, and the scenario of the study for all of them."""
    from p2p_labeldp.deployment.dividing import STUDY, divide

    if Path(source).suffix == ".csv":
        if not label:
            raise RequestError(f"--label is missing; it names the label's column of {source}")
        scenario = csv_scenario(source, label, settings, seed)
    else:
        if label:
            raise RequestError("--label is for a CSV file; a scenario names its own in data.label_column")
        scenario = find_scenario(source, settings, seed)
    found = divide(scenario, hosts, out, data_dir)
    if as_json:
        print_json({"out": str(out), "study": str(out / STUDY), "rows": {k: str(v) for k, v in found.items()}})
        return
    console.print(f"{out / STUDY}: for everyone", soft_wrap=True)
    for name, path in found.items():
        console.print(f"{path}: for {name} alone", soft_wrap=True)
