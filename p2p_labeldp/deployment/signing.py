"""How a user host's own key gets a certificate: the host asks, the enrolment authority signs; the key never travels.

What is signed is for the role ``users`` whatever the request asks for, carries the name that the authority was told,
and is good for days rather than years: a host whose certificate nobody renews is soon nobody.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from p2p_labeldp.deployment.certificates import (
    CA,
    CERT,
    KEY,
    identity,
    issue,
    key_pem,
    load_authority,
    load_key,
    new_key,
    pem,
    settle,
    signed,
    uri_of,
    whole_seconds,
)
from p2p_labeldp.deployment.disk import replace_file
from p2p_labeldp.errors import RequestError, RunError

MOST_REQUEST_BYTES = 16 * 1024
"""A request for a P-256 key takes half a kilobyte; strangers may send one, so there is a bound."""
HOST_DAYS = 30
"""How long an enrolled host's certificate is good for, unless its invitation says otherwise."""


def make_request(folder: Path) -> bytes:
    """A signing request for the key in ``folder``, which is made if it is not there. The same key each time."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / KEY).exists():
            replace_file(folder / KEY, [key_pem(new_key())])
    except OSError as error:
        raise RequestError(f"{folder}: cannot be written: {error.strerror}") from None
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "users")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    encoded: bytes = signed(request, load_key(folder / KEY)).public_bytes(Encoding.PEM)
    return encoded


def sign_request(
    enrolment_folder: Path, csr_pem: bytes, name: str, days: int = HOST_DAYS, now: datetime | None = None
) -> bytes:
    """The certificate chain for a request: a user host of that name, whatever subject it asks for.

    A bad request is a ValueError with a reason that may be sent back; trouble with the folder is a RunError,
    which may not. Nothing is valid for longer than the enrolment authority.
    """
    public_key = requested_key(csr_pem)
    now = whole_seconds(now)
    try:
        settle(enrolment_folder)
        enrolment = load_authority(enrolment_folder, CERT)
    except RequestError as error:
        raise RunError(str(error)) from None
    until = enrolment.certificate.not_valid_after_utc
    if now >= until:
        raise RunError(f"{enrolment_folder / CERT}: expired on {until:%Y-%m-%d}; certs renew makes a new one")
    until = min(until, now + timedelta(days))
    leaf = issue(public_key, name, enrolment.certificate, enrolment.key, now, until, uri=uri_of("users", name))
    return pem(leaf) + pem(enrolment.certificate)


def requested_key(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The key that a request is for, if it is one to sign; else a ValueError that says why not."""
    if len(csr_pem) > MOST_REQUEST_BYTES:
        raise ValueError(f"the signing request is larger than {MOST_REQUEST_BYTES:,} bytes")
    try:
        request = x509.load_pem_x509_csr(csr_pem)
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("this is not a signing request in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the signing request is not for an EC P-256 key")
    try:
        valid = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        valid = False
    if not valid:
        raise ValueError("the signing request is not signed with its own key")
    return key


def key_digest(key: ec.EllipticCurvePublicKey) -> str:
    """By which two people can compare a key over the telephone."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:32]


def own_key_digest(folder: Path) -> str:
    return key_digest(load_key(folder / KEY).public_key())


def store_certificate(folder: Path, chain_pem: bytes, ca_pem: bytes) -> None:
    """Keep what ``sign_request`` gave, if it is for the key in ``folder`` and leads to the given root."""
    chain = [*x509.load_pem_x509_certificates(chain_pem), x509.load_pem_x509_certificate(ca_pem)]
    if chain[0].public_key() != load_key(folder / KEY).public_key():
        raise ValueError("the certificate is for another key")
    if identity(chain[0])[0] != "users":
        raise ValueError("the certificate is not for a user host")
    for certificate, issuer in pairwise(chain):
        try:
            certificate.verify_directly_issued_by(issuer)
        except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):  # all the same to the host
            raise ValueError("the certificate does not lead to the root in ca.pem") from None
    try:
        replace_file(folder / CA, [ca_pem])
        replace_file(folder / CERT, [chain_pem])  # last: a folder with a certificate is complete
    except OSError as error:
        raise RequestError(f"{folder}: cannot be written: {error.strerror}") from None


def life_left(folder: Path, now: datetime | None = None) -> float:
    """The share of its life that the certificate in ``folder`` has left, 0 where it is over or there is none."""
    try:
        leaf = x509.load_pem_x509_certificate((folder / CERT).read_bytes())
    except FileNotFoundError:
        return 0.0
    except (OSError, ValueError):
        return 1.0  # whoever loads it says what is wrong with it
    until = leaf.not_valid_after_utc
    return max(0.0, (until - (now or whole_seconds(None))) / (until - leaf.not_valid_before_utc))
