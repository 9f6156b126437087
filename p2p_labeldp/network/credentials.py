"""Who a node is, from its certificate: its own, ready for handshakes, and its peers'."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.words import why
from p2p_labeldp.protocol.messages import HOST, PARTIES, Fault, Refused

REVOKED = "revoked.pem"
ROLES = (*(name for name, address in PARTIES.items() if address != HOST), "users")
_IDENTITY = re.compile(rf"urn:p2p-labeldp:({'|'.join(ROLES)}):([a-z0-9-]{{1,64}})")


@dataclass(frozen=True)
class Identity:
    """Who a certificate is for."""

    role: str
    name: str
    fingerprint: str
    serial: int = 0
    days: int = 0
    """For how long the certificate was made."""

    @property
    def key(self) -> str:
        return self.fingerprint if self.role == "users" else self.role


def role_and_name(uris: Sequence[str]) -> tuple[str, str]:
    """Whom a certificate with these URIs is for; ValueError if they do not say."""
    found = _IDENTITY.fullmatch(uris[0]) if len(uris) == 1 else None
    if found is None:
        raise ValueError("the certificate does not say who it is for in one urn:p2p-labeldp:ROLE:NAME")
    return found[1], found[2]


def identity_of(connection: ssl.SSLObject) -> Identity:
    """Who is at the other end, from a certificate that has been verified.

    The enrolment authority signs for whoever holds an invitation, so what the root in ``ca.pem`` did not sign itself
    may speak for a user host and for nobody else. The signature was verified, so the issuer's name tells the two apart.
    """
    certificate: dict[str, Any] | None = connection.getpeercert()
    encoded = connection.getpeercert(binary_form=True)
    if not certificate or not encoded:
        raise Refused(Fault.MALFORMED, "no certificate was shown")
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    try:
        role, name = role_and_name(names)
    except ValueError as error:
        raise Refused(Fault.MALFORMED, str(error)) from None
    roots = [root.get("subject") for root in connection.context.get_ca_certs()]
    if role != "users" and certificate.get("issuer") not in roots:
        detail = f"a certificate for the {role} that the root authority did not sign itself"
        raise Refused(Fault.MISDIRECTED, detail)
    began, until = (ssl.cert_time_to_seconds(certificate[name]) for name in ("notBefore", "notAfter"))
    fingerprint, serial = hashlib.sha256(encoded).hexdigest(), int(certificate["serialNumber"], 16)
    return Identity(role, name, fingerprint, serial, max(1, (until - began) // 86400))


class RevocationList:
    """The certificates that are revoked: ``revoked.pem``, a CRL that the root in ``ca.pem`` has signed.

    It is read again when the file changes, so that it can be handed to nodes while they run.
    """

    def __init__(self, folder: Path) -> None:
        self._file, self._authority = folder / REVOKED, folder / "ca.pem"
        self._seen: tuple[int, int] | None = None
        self._serials: frozenset[int] = frozenset()

    def refresh(self) -> bool:
        """Whether there is a newer list. One that cannot be used is a RequestError, and the old one stays."""
        try:
            found = self._file.stat()
        except OSError:
            return False
        if (found.st_mtime_ns, found.st_size) == self._seen:
            return False
        try:
            listed = x509.load_pem_x509_crl(self._file.read_bytes())
            root = x509.load_pem_x509_certificate(self._authority.read_bytes())
            signed = listed.is_signature_valid(root.public_key())  # type: ignore[arg-type]
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
            raise RequestError(f"{self._file}: not a revocation list in PEM form") from None
        if not signed or listed.issuer != root.subject:
            raise RequestError(f"{self._file}: not signed by the authority in ca.pem")
        self._serials = frozenset(entry.serial_number for entry in listed)
        self._seen = found.st_mtime_ns, found.st_size
        return True

    def __contains__(self, identity: Identity) -> bool:
        return identity.serial in self._serials


def is_private(path: Path) -> bool:
    """Whether its owner alone may read or write a file."""
    return os.name != "posix" or not path.stat().st_mode & 0o077


def require_private(path: Path) -> None:
    """Secrets are their owner's alone; a file that others may read or write is refused."""
    if not is_private(path):
        raise RequestError(f"{path}: others may read it; chmod 600 makes it yours alone")


@dataclass(frozen=True)
class Credentials:
    """A node's own certificate and key, ready for both sides of a handshake."""

    identity: Identity
    server: ssl.SSLContext
    client: ssl.SSLContext
    revoked: RevocationList = field(compare=False)

    def require_current(self, found: Identity) -> Identity:
        """A peer as its certificate names it; Refused where that was revoked."""
        with contextlib.suppress(RequestError):  # the list that was good stays in force
            self.revoked.refresh()
        if found in self.revoked:
            raise Refused(Fault.MISDIRECTED, f"the certificate of {found.name} was revoked")
        return found

    @classmethod
    def load(cls, folder: Path) -> Credentials:
        """Read ``ca.pem``, ``cert.pem`` and ``key.pem``, and try them out: a node should not find out later."""
        ca, certificate, key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        for path in (ca, certificate, key):
            try:
                text = path.read_text(encoding="ascii")
            except OSError as error:
                raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
            except ValueError:
                text = ""
            if "-----BEGIN " not in text:
                raise RequestError(f"{path}: not in PEM form")
            if path == key:
                require_private(path)
        server = _context(ssl.PROTOCOL_TLS_SERVER, ca, certificate, key)
        server.num_tickets = 0  # nobody resumes a connection here, so no tickets
        client = _context(ssl.PROTOCOL_TLS_CLIENT, ca, certificate, key)
        revoked = RevocationList(folder)
        revoked.refresh()
        own = _look_at_oneself(server, client, certificate)
        if own in revoked:
            raise RequestError(f"{certificate}: was revoked; ask for another one")
        return cls(own, server, client, revoked)


def _context(protocol: int, ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the role or the fingerprint is checked instead
    context.verify_mode = ssl.CERT_REQUIRED
    # The root may be an authority below another one, of an organisation: what counts is what ca.pem holds.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, ca)
    _trust(ssl.SSLContext(protocol), certificate)  # to see whether it can be read: any other fault is the key's then
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # without this, OpenSSL would ask the user
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise RequestError(f"{key}: not the key of {certificate.name}") from None
        raise RequestError(f"{key}: not a private key in PEM form without a passphrase") from None
    return context


def _trust(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise RequestError(f"{path}: not a certificate in PEM form") from None


def _look_at_oneself(server: ssl.SSLContext, client: ssl.SSLContext, certificate: Path) -> Identity:
    """Shake hands with oneself in memory: what peers would say of the certificate, and who it is for."""
    _, theirs, errors = shake_hands(client, server)
    for error in errors.values():
        if isinstance(error, ssl.SSLCertVerificationError):
            raise RequestError(f"{certificate}: peers would not accept it: {error.verify_message}")
        raise RequestError(f"{certificate}: cannot be used: {why(error)}")
    try:
        return identity_of(theirs)
    except Refused as refused:
        raise RequestError(f"{certificate}: {refused}") from None


def shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext
) -> tuple[ssl.SSLObject, ssl.SSLObject, dict[ssl.SSLObject, ssl.SSLError]]:
    """Client and server of a TLS 1.3 handshake in memory, and why one does not go on, the first one first."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    errors: dict[ssl.SSLObject, ssl.SSLError] = {}
    for end in (ours, theirs, ours, theirs):
        if end not in errors:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                errors[end] = error
    return ours, theirs, errors
