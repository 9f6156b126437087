"""``p2p-labeldp certs``: make, renew and show the certificates by which nodes authenticate each other."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2p_labeldp.cli.output import Json, console, print_json
from p2p_labeldp.cli.tables import print_table
from p2p_labeldp.systems import require_posix

if TYPE_CHECKING:
    from p2p_labeldp.deployment.certificates import Described
    from p2p_labeldp.deployment.invitations import Entry

app = typer.Typer(
    help="Make, renew and show the certificates by which nodes authenticate each other.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder with a subfolder for every node.")]
Enrolment = Annotated[Path, typer.Argument(metavar="ENROLMENT", help="The coordinator's enrolment folder.")]
Names = Annotated[list[str], typer.Argument(metavar="SITE...", help="Hosts that wait: names of sites, or keys.")]
Days = Annotated[int, typer.Option("--days", help="How long the certificates are valid, 1 to 3650 days.")]


@app.callback()
def _begin() -> None:
    require_posix("certs")


@app.command("init")
def init(
    folder: Folder,
    hosts: Annotated[
        int,
        typer.Option("--hosts", envvar="P2P_LABELDP_HOSTS", help="User hosts with a certificate, 0 to 10000."),
    ] = 0,
    days: Days = 365,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="A role besides the usual ones, if the mechanism has it: curator or shuffler."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an authority, and a certificate for every node."""
    from p2p_labeldp.deployment.certificates import init_certificates

    init_certificates(folder, hosts, days, roles=role or ())
    _show(folder, as_json)
    if not as_json:
        console.print(
            "\nGive each node its own subfolder; certs invite makes more, for hosts that are to enrol.", soft_wrap=True
        )
        console.print("Keep authority to yourself: it is needed to renew, and by no node.", soft_wrap=True)


@app.command("renew")
def renew(folder: Folder, days: Days = 365, as_json: Json = False) -> None:
    """Give every node a new key and certificate under the same authority."""
    from p2p_labeldp.deployment import certificates

    certificates.renew(folder, days)
    _show(folder, as_json)


@app.command("show")
def show(folder: Folder, as_json: Json = False) -> None:
    """List the certificates, and until when they are valid."""
    _show(folder, as_json)


@app.command("invite")
def invite(
    folder: Folder,
    sites: Annotated[list[str], typer.Argument(metavar="SITE...", help="Names of the sites, one host each.")],
    days: Annotated[int, typer.Option("--days", help="How long the invitation is good for, 1 to 3650 days.")] = 7,
    certificate_days: Annotated[
        int, typer.Option("--certificate-days", help="How long the host's certificate will be valid, 1 to 3650 days.")
    ] = 30,
    as_json: Json = False,
) -> None:
    """Write join-SITE, with which a host of that site gets its certificate from the coordinator, once."""
    from p2p_labeldp.deployment import invitations

    places = [str(invitations.invite(folder, site, days, certificate_days)) for site in sites]
    if as_json:
        print_json({"folders": places})
        return
    for place in places:
        console.print(f"{place}: give it to that site and nobody else", soft_wrap=True)


@app.command("sites")
def sites(enrolment: Enrolment, as_json: Json = False) -> None:
    """Show who has enrolled, and who waits for approval."""
    from p2p_labeldp.deployment.invitations import Register

    entries = Register(enrolment).entries()
    if as_json:
        print_json({"sites": [_as_row(entry) for entry in entries]})
        return
    print_table(("site", "state", "key", "serial", "valid until"), [[*_as_row(entry).values()] for entry in entries])


@app.command("approve")
def approve(enrolment: Enrolment, names: Names) -> None:
    """Let hosts that wait for approval have their certificates."""
    _decide(enrolment, names, True)


@app.command("deny")
def deny(enrolment: Enrolment, names: Names) -> None:
    """Refuse hosts that wait for approval."""
    _decide(enrolment, names, False)


@app.command("revoke")
def revoke(
    folder: Folder,
    who: Annotated[list[str], typer.Argument(metavar="WHO...", help="Nodes of the folder, or serial numbers in hex.")],
) -> None:
    """Revoke certificates: sign a new revocation list, and put it into every node's folder."""
    from p2p_labeldp.deployment import revocation

    for each in who:
        console.print(f"{each}: certificate {revocation.revoke(folder, each):x} is revoked", soft_wrap=True)
    console.print("\nHand revoked.pem out to the nodes; those that run read it within seconds.", soft_wrap=True)


def _decide(enrolment: Path, names: list[str], approved: bool) -> None:
    from p2p_labeldp.deployment.invitations import Register

    register = Register(enrolment)
    for name in names:
        entry = register.decide(name, approved)
        console.print(f"{entry.site} with key {entry.key}: {entry.state}", soft_wrap=True)


def _as_row(entry: Entry) -> dict[str, str]:
    leaf = entry.certificate
    return {
        "site": entry.site,
        "state": entry.state,
        "key": entry.key,
        "serial": "" if leaf is None else f"{leaf.serial_number:x}",
        "not_after": "" if leaf is None else leaf.not_valid_after_utc.isoformat(),
    }


def _show(folder: Path, as_json: bool) -> None:
    from p2p_labeldp.deployment.certificates import describe, describe_authorities

    nodes, authorities = describe(folder), describe_authorities(folder)
    if as_json:
        above = {role: _as_json(found) for role, found in authorities.items()}
        print_json({"folder": str(folder), **above, "nodes": [_as_json(node) for node in nodes]})
        return
    now = datetime.now(UTC)
    rows = []
    for found in (*authorities.values(), *nodes):
        until = f"{found.not_after:%Y-%m-%d %H:%M} UTC" + (", expired" if found.not_after <= now else "")
        rows.append((found.role, found.name, found.fingerprint[:16], until))
    print_table(("role", "name", "fingerprint", "valid until"), rows)


def _as_json(found: Described) -> dict[str, Any]:
    return dataclasses.asdict(found) | {"not_after": found.not_after.isoformat()}
