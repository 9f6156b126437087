"""Revocation: the list of certificates that the root signs, and that every node's folder gets.

A standard CRL in PEM form, so that whoever runs an authority of her own can put hers in its place. It lists what was
ever revoked: a certificate's number stays after its end, which costs forty bytes and spares a question.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from p2p_labeldp.deployment.certificates import (
    CA,
    CERT,
    MOST_DAYS,
    certificate_of,
    load_authority,
    node_folders,
    whole_seconds,
)
from p2p_labeldp.deployment.disk import replace_file
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.credentials import REVOKED


def revoke(folder: Path, who: str, now: datetime | None = None) -> int:
    """Add a certificate to the list in a folder of ``certs init``; ``who`` is a node in it, or a serial number in hex.

    Returns the serial number. The list is written into the folder, the enrolment authority's and every node's.
    """
    root = load_authority(folder / "authority", CA)
    nodes = node_folders(folder)
    serial = _serial(nodes, who)
    now = whole_seconds(now)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(root.certificate.subject)
        .last_update(now)
        .next_update(now + timedelta(MOST_DAYS))
    )
    listed = {serial: now, **{entry.serial_number: entry.revocation_date_utc for entry in _listed(folder / REVOKED)}}
    for number, date in sorted(listed.items()):
        entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(date).build()
        builder = builder.add_revoked_certificate(entry)
    content = builder.sign(root.key, hashes.SHA256()).public_bytes(Encoding.PEM)
    try:
        for place in (folder, folder / "enrolment", *nodes):
            if place.is_dir():
                replace_file(place / REVOKED, [content])
    except OSError as error:
        raise RequestError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return serial


def _listed(file: Path) -> list[x509.RevokedCertificate]:
    try:
        return list(x509.load_pem_x509_crl(file.read_bytes()))
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise RequestError(f"{file}: cannot be read as a revocation list") from None


def _serial(nodes: list[Path], who: str) -> int:
    for node in nodes:
        if node.name == who:
            return certificate_of(node / CERT).serial_number
    try:
        serial = int(who, 16)
    except ValueError:
        serial = 0
    if not 0 < serial < 1 << 160 or len(who) < 16:
        names = ", ".join(node.name for node in nodes)
        raise RequestError(f"{who}: neither a node of this folder ({names}) nor a certificate's serial number in hex")
    return serial
