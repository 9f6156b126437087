"""``p2p-labeldp schema``: propose a public schema for a CSV file, and say what to look at."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2p_labeldp.cli.output import Json, print_json
from p2p_labeldp.errors import RequestError


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Rows of one party.")],
    label: Annotated[str, typer.Option(help="The label's column.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Write the start of the scenario to this new file, not to the terminal.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Propose a schema for a table: the start of a scenario, for a person to edit.

    Warnings on standard error say what looks wrong: identifiers, dates, a continuous label, missing values, separators,
    encodings, copied rows, columns that give the label away. Those that do not depend on
    labels are written as comments, too.
    """
    from p2p_labeldp.data.propose import propose

    found = propose(file, label)
    scenario = found.to_toml(Path.cwd() if out is None else out.parent)
    if out is not None:
        try:
            with out.open("x", encoding="utf-8") as target:
                target.write(scenario)
        except OSError as error:
            raise RequestError(f"--out {out}: cannot be written: {error.strerror}") from None
    if as_json:
        print_json({
            "rows": found.rows,
            "label": found.label,
            "features": found.schema.features,
            "classes": list(found.schema.classes),
            "ignored": list(found.schema.ignore),
            "warnings": found.warnings,
            "scenario": scenario,
            "out": str(out) if out is not None else None,
        })  # fmt: skip
        return
    if out is None:
        print(scenario, end="")
    for warning in found.warnings:
        print(f"p2p-labeldp: look at this: {warning}", file=sys.stderr)
