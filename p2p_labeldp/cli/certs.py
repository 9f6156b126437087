"""``p2p-labeldp certs``: make, renew and show the certificates by which nodes know each other."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from p2p_labeldp.cli.output import Json, console, print_json

if TYPE_CHECKING:
    from p2p_labeldp.deployment.certificates import Described

app = typer.Typer(
    help="Make, renew and show the certificates by which nodes know each other.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder with a subfolder for every node.")]
Days = Annotated[int, typer.Option("--days", help="How long the certificates are valid, 1 to 3650 days.")]


@app.command("init")
def init(
    folder: Folder,
    hosts: Annotated[
        int,
        typer.Option("--hosts", envvar="P2P_LABELDP_HOSTS", help="User hosts with a certificate, 0 to 10000."),
    ] = 0,
    days: Days = 365,
    as_json: Json = False,
) -> None:
    """Make an authority, a join token, and a certificate for every node."""
    from p2p_labeldp.deployment.certificates import init_certificates

    init_certificates(folder, hosts, days)
    _show(folder, as_json)
    if not as_json:
        console.print("\nGive each node its own subfolder, and join to user hosts that are to enrol.", soft_wrap=True)
        console.print("Keep authority to yourself: it is needed to renew, and by no node.", soft_wrap=True)


@app.command("renew")
def renew(folder: Folder, days: Days = 365, as_json: Json = False) -> None:
    """Give every node a new key and certificate under the same authority."""
    from p2p_labeldp.deployment import certificates

    certificates.renew(folder, days)
    _show(folder, as_json)


@app.command("show")
def show(folder: Folder, as_json: Json = False) -> None:
    """Show whose certificates there are, and until when they are valid."""
    _show(folder, as_json)


def _show(folder: Path, as_json: bool) -> None:
    from p2p_labeldp.deployment.certificates import describe, describe_authorities

    nodes, authorities = describe(folder), describe_authorities(folder)
    if as_json:
        above = {role: _as_json(found) for role, found in authorities.items()}
        print_json({"folder": str(folder), **above, "nodes": [_as_json(node) for node in nodes]})
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("role", "name", "fingerprint", "valid until"):
        table.add_column(column, overflow="fold")
    now = datetime.now(UTC)
    for found in (*authorities.values(), *nodes):
        until = f"{found.not_after:%Y-%m-%d %H:%M} UTC" + (", expired" if found.not_after <= now else "")
        table.add_row(found.role, found.name, found.fingerprint[:16], until)
    console.print(table)


def _as_json(found: Described) -> dict[str, Any]:
    return {
        "role": found.role,
        "name": found.name,
        "fingerprint": found.fingerprint,
        "not_after": found.not_after.isoformat(),
    }
