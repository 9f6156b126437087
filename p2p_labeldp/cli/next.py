"""``next``: begin the next of several studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from p2p_labeldp.cli.output import Json, console, print_json


def command(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The coordinator's state folder.")],
    as_json: Json = False,
) -> None:
    """Start the next study of a coordinator that runs several (deployment.studies)."""
    from p2p_labeldp.deployment.studies import start_next

    number = start_next(state)
    if as_json:
        print_json({"study": number})
    else:
        console.print(f"study {number} begins")
