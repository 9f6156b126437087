"""Who a node is, from its certificate: its own, ready for handshakes, and its peers'."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.words import why
from p2p_labeldp.protocol.messages import Fault, Refused

AUTHORITY = "p2p-labeldp authority"
_IDENTITY = re.compile(r"urn:p2p-labeldp:(coordinator|learner|auditor|users):([a-z0-9-]{1,64})")


@dataclass(frozen=True)
class Identity:
    """Who a certificate is for."""

    role: str
    name: str
    fingerprint: str

    @property
    def key(self) -> str:
        return self.fingerprint if self.role == "users" else self.role


def identity_of(connection: ssl.SSLObject) -> Identity:
    """Who is at the other end, from a certificate that has been verified.

    The enrolment authority signs for whoever holds a token, so what the root did not sign itself may
    speak for a user host and for nobody else.
    """
    certificate: dict[str, Any] | None = connection.getpeercert()
    encoded = connection.getpeercert(binary_form=True)
    if not certificate or not encoded:
        raise Refused(Fault.MALFORMED, "no certificate was shown")
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    found = _IDENTITY.fullmatch(names[0]) if len(names) == 1 else None
    if found is None:
        raise Refused(Fault.MALFORMED, "the certificate does not say who it is for in one urn:p2p-labeldp:ROLE:NAME")
    issuer = {name: value for part in certificate.get("issuer", ()) for name, value in part}
    if issuer.get("commonName") != AUTHORITY and found[1] != "users":
        detail = f"a certificate for the {found[1]} that the root authority did not sign itself"
        raise Refused(Fault.MISDIRECTED, detail)
    return Identity(found[1], found[2], hashlib.sha256(encoded).hexdigest())


@dataclass(frozen=True)
class Credentials:
    """A node's own certificate and key, ready for both sides of a handshake."""

    identity: Identity
    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    def load(cls, folder: Path) -> Credentials:
        """Read ``ca.pem``, ``cert.pem`` and ``key.pem``, and try them out: a node should not find out later."""
        ca, certificate, key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        for path in (ca, certificate, key):
            try:
                text = path.read_text(encoding="ascii")
                mode = path.stat().st_mode
            except OSError as error:
                raise RequestError(f"{path}: cannot be read: {error.strerror}") from None
            except ValueError:
                text = ""
            if "-----BEGIN " not in text:
                raise RequestError(f"{path}: not in PEM form")
            if path == key and os.name == "posix" and mode & 0o077:
                raise RequestError(f"{path}: others may read it; chmod 600 makes it yours alone")
        server = _context(ssl.PROTOCOL_TLS_SERVER, ca, certificate, key)
        server.num_tickets = 0  # nobody resumes a connection here, so no tickets
        client = _context(ssl.PROTOCOL_TLS_CLIENT, ca, certificate, key)
        return cls(_look_at_oneself(server, client, certificate), server, client)


def _context(protocol: int, ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the role or the fingerprint is checked instead
    context.verify_mode = ssl.CERT_REQUIRED
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
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    try:
        for end in (ours, theirs, ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
        return identity_of(theirs)
    except ssl.SSLCertVerificationError as error:
        raise RequestError(f"{certificate}: peers would not accept it: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise RequestError(f"{certificate}: cannot be used: {why(error)}") from None
    except Refused as refused:
        raise RequestError(f"{certificate}: {refused}") from None
