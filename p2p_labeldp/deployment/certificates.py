"""Who a node is: a root authority, an enrolment authority below it, and a certificate for every node.

A node's folder holds ``ca.pem`` (the root's certificate), ``cert.pem`` (its own, followed by the enrolment
authority's if that signed it) and ``key.pem``. A certificate says who it is for in one URI,
``urn:p2p-labeldp:ROLE:NAME``; host names play no part, so that a node may move.

The root's key is needed to make and to renew, never while nodes run: it can be kept off line. The enrolment
authority's key is on line, beside the coordinator, and signs for user hosts that come with an invitation.
Whoever steals it can pose as user hosts and as nothing else: it may not make further authorities (path
length 0), and a certificate it issued counts for the role ``users`` only, which whoever verifies checks by
the issuer: not the root itself.

Invariants: a file is readable by its owner alone from the moment it exists, and is never seen half-written.
``init_certificates`` moves a whole folder into place at the end. A renewal has two files to change, and one
rename that decides: the new key waits as ``key.pem.new`` until the certificate it belongs to is ``cert.pem``,
and ``settle`` finishes what an interruption left between the two.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from p2p_labeldp.deployment import disk
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.network.credentials import ROLES, require_private, role_and_name

FURTHER_ROLES = ("curator", "shuffler")  # of some mechanisms
SINGLE_ROLES = tuple(role for role in ROLES if role != "users")
USUAL_ROLES = tuple(role for role in SINGLE_ROLES if role not in FURTHER_ROLES)
ROOT_NAME = "p2p-labeldp authority"
ENROLMENT_NAME = "p2p-labeldp enrolment"
MOST_HOSTS = 10_000
MOST_DAYS = 3650

CA, CERT, KEY, NEXT_KEY = "ca.pem", "cert.pem", "key.pem", "key.pem.new"
TOKEN, SECRET = "token", "secret"  # of an invitation, and what makes them
HOSTS = "hosts.txt"  # the names of all hosts that were given a certificate or an invitation
_HOST_FOLDER = re.compile(r"users-([1-9][0-9]{0,4})")
CLOCKS_DIFFER = timedelta(hours=1)
"""How far a new certificate is dated back: a node whose clock is slow must accept it too."""


@dataclass(frozen=True)
class Described:
    """What a certificate says, and the fingerprint by which peers know a user host."""

    role: str
    name: str
    fingerprint: str
    not_after: datetime


@dataclass(frozen=True)
class Source:
    """Where keys, serial numbers and signatures get their chance from, and certificates their date."""

    entropy: Callable[[int], bytes]
    now: Callable[[], datetime]


SOURCE: ContextVar[Source | None] = ContextVar("source", default=None)
"""The operating system's randomness and clock, unless a simulated world, which must repeat itself, puts in its own."""


@dataclass(frozen=True)
class Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def init_certificates(
    folder: Path, hosts: int = 0, days: int = 365, now: datetime | None = None, roles: Sequence[str] = ()
) -> None:
    """Make authorities, and certificates for every node, as subfolders of a new folder.

    ``roles`` are those besides the usual ones that the mechanism has: a curator's or a shuffler's.
    The root is valid for ten years whatever ``days`` says, so that ``renew`` has something to renew under.
    """
    if not 0 <= hosts <= MOST_HOSTS:
        raise RequestError(f"--hosts {hosts} is not allowed; it must be 0 to {MOST_HOSTS}")
    check_days(days)
    for role in roles:
        if role not in FURTHER_ROLES:
            raise RequestError(f"--role {role} is not allowed; it must be one of {', '.join(FURTHER_ROLES)}")
    now = whole_seconds(now)
    place = Path(os.path.realpath(folder))
    made: list[Path] = []
    temporary: Path | None = None
    try:
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise RequestError(f"{folder}: exists already; name a folder that is new or empty")
        if place.is_mount():
            raise RequestError(f"{folder}: is a mount point, which nothing can be moved to; name a folder inside it")
        made = [parent for parent in place.parents if not parent.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        _fill(temporary, hosts, days, now, roles)
        temporary.replace(place)
    except BaseException as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        for parent in made:
            with contextlib.suppress(OSError):  # someone else may have begun to use it
                parent.rmdir()
        if isinstance(error, OSError):
            raise RequestError(f"{folder}: cannot be written: {error.strerror}") from None
        raise


def _fill(folder: Path, hosts: int, days: int, now: datetime, roles: Sequence[str]) -> None:
    root_key = new_key()
    root_certificate = issue(root_key.public_key(), ROOT_NAME, None, root_key, now, now + timedelta(MOST_DAYS), 1)
    root = Authority(root_certificate, root_key)
    ca = pem(root_certificate)
    make_folder(folder / "authority", {CA: ca, KEY: key_pem(root_key)})
    key, certificate = _issue_authority(root, days, now)
    make_folder(folder / "enrolment", {CA: ca, CERT: certificate, KEY: key, SECRET: secrets.token_urlsafe(32).encode()})
    names = [f"users-{number}" for number in range(1, hosts + 1)]
    disk.replace_file(folder / HOSTS, [f"{name}\n".encode() for name in names])
    for name in (*USUAL_ROLES, *sorted(set(roles)), *names):
        key, certificate = _issue_node(root, name, days, now)
        make_folder(folder / name, {CA: ca, CERT: certificate, KEY: key})


def renew(folder: Path, days: int = 365, now: datetime | None = None) -> None:
    """New keys and certificates for the enrolment authority and every node in ``folder``, under the same root.

    Certificates that the enrolment authority signed before stay good, since they carry its old one with them;
    so do invitations. Nothing is valid for longer than the root.
    """
    check_days(days)
    now = whole_seconds(now)
    nodes = node_folders(folder)
    root = load_authority(folder / "authority", CA)
    if now >= root.certificate.not_valid_after_utc:
        expired = f"{root.certificate.not_valid_after_utc:%Y-%m-%d}"
        raise RequestError(f"{folder / 'authority' / CA}: expired on {expired}; make a new folder with certs init")
    try:
        if (folder / "enrolment").is_dir():
            _replace_pair(folder / "enrolment", *_issue_authority(root, days, now))
        for node in nodes:
            _replace_pair(node, *_issue_node(root, node.name, days, now))
    except OSError as error:
        file = error.filename or folder
        raise RunError(f"{file}: cannot be written: {error.strerror}; nodes before it were renewed") from None


def settle(node: Path) -> None:
    """Finish a renewal that was interrupted between its two renames; otherwise do nothing.

    A node calls this before it loads its certificate. It never deletes: a key that belongs to no
    certificate yet may be that of a renewal going on at this moment.
    """
    try:
        waiting = load_pem_private_key((node / NEXT_KEY).read_bytes(), None).public_key()
        decided = x509.load_pem_x509_certificate((node / CERT).read_bytes()).public_key()
    except (OSError, ValueError, UnsupportedAlgorithm):
        return
    if waiting != decided:
        return
    try:
        (node / NEXT_KEY).replace(node / KEY)
    except FileNotFoundError:  # another process has just done the same
        pass
    except OSError as error:
        raise RequestError(f"{node / KEY}: cannot be written: {error.strerror}") from None


def describe(folder: Path) -> list[Described]:
    """What the certificate of every node in ``folder`` says; the single roles first."""
    return [_describe(node / CERT) for node in node_folders(folder)]


def describe_authorities(folder: Path) -> dict[str, Described]:
    """The same for the root and the enrolment authority, as far as they are there."""
    files = {"authority": folder / "authority" / CA, "enrolment": folder / "enrolment" / CERT}
    return {role: _describe(file, role) for role, file in files.items() if file.exists()}


def identity(certificate: x509.Certificate) -> tuple[str, str]:
    """The role and name that a certificate is for; ValueError if it does not say."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, x509.DuplicateExtension):
        uris = []
    return role_and_name(uris)


def fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


# Making certificates.


def _issue_authority(root: Authority, days: int, now: datetime) -> tuple[bytes, bytes]:
    key, until = new_key(), _until(root, days, now)
    certificate = issue(key.public_key(), ENROLMENT_NAME, root.certificate, root.key, now, until, path_length=0)
    return key_pem(key), pem(certificate)


def _issue_node(root: Authority, name: str, days: int, now: datetime) -> tuple[bytes, bytes]:
    key, until = new_key(), _until(root, days, now)
    uri = uri_of(name if name in SINGLE_ROLES else "users", name)
    return key_pem(key), pem(issue(key.public_key(), name, root.certificate, root.key, now, until, uri=uri))


def issue(
    public_key: ec.EllipticCurvePublicKey,
    name: str,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    until: datetime,
    path_length: int | None = None,
    uri: str | None = None,
) -> x509.Certificate:
    """One certificate: an authority if it has a path length, a node if it has a URI, the root without an issuer."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    authority = path_length is not None
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only"), False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public_key)
        .serial_number(_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=path_length), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **usage),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if uri is not None:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        builder = builder.add_extension(names, critical=False)
    made: x509.Certificate = signed(builder, issuer_key)
    return made


def signed(builder: Any, key: ec.EllipticCurvePrivateKey) -> Any:
    """The certificate or request that a builder has put together."""
    if SOURCE.get() is None:
        return builder.sign(key, hashes.SHA256())
    return builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)


def _serial_number() -> int:
    source = SOURCE.get()
    return x509.random_serial_number() if source is None else int.from_bytes(source.entropy(19), "big") + 1


def _until(root: Authority, days: int, now: datetime) -> datetime:
    return min(now + timedelta(days), root.certificate.not_valid_after_utc)


def uri_of(role: str, name: str) -> str:
    return f"urn:p2p-labeldp:{role}:{name}"


def new_key() -> ec.EllipticCurvePrivateKey:
    source, curve = SOURCE.get(), ec.SECP256R1()
    if source is None:
        return ec.generate_private_key(curve)
    return ec.derive_private_key(1 + int.from_bytes(source.entropy(31), "big"), curve)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def whole_seconds(now: datetime | None) -> datetime:
    source = SOURCE.get()
    return (now or (datetime.now(UTC) if source is None else source.now())).astimezone(UTC).replace(microsecond=0)


def check_days(days: int, flag: str = "--days") -> None:
    if not 1 <= days <= MOST_DAYS:
        raise RequestError(f"{flag} {days} is not allowed; it must be 1 to {MOST_DAYS}")


# Reading and writing folders.


def node_folders(folder: Path) -> list[Path]:
    hosts = {}
    try:
        for path in folder.iterdir():
            if number := _HOST_FOLDER.fullmatch(path.name):
                hosts[int(number[1])] = path
        found = [folder / role for role in SINGLE_ROLES] + [hosts[number] for number in sorted(hosts)]
        found = [path for path in found if (path / CERT).exists()]
    except OSError as error:
        raise RequestError(f"{folder}: cannot be read: {error.strerror}") from None
    if not found:
        raise RequestError(f"{folder}: holds no node's certificate; certs init makes them")
    return found


def _describe(file: Path, role: str | None = None) -> Described:
    certificate = certificate_of(file)
    try:
        role, name = (role, role) if role is not None else identity(certificate)
    except ValueError as error:
        raise RequestError(f"{file}: {error}") from None
    return Described(role, name, fingerprint(certificate), certificate.not_valid_after_utc)


def load_authority(folder: Path, certificate: str) -> Authority:
    found = Authority(certificate_of(folder / certificate), load_key(folder / KEY))
    if found.certificate.public_key() != found.key.public_key():
        raise RequestError(f"{folder}: {certificate} and {KEY} do not belong together")
    return found


def certificate_of(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise RequestError(f"{file}: not a certificate in PEM form") from None


def load_key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a passphrase
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RequestError(f"{file}: not an EC P-256 private key in PEM form without a passphrase")
    require_private(file)
    return key


def make_folder(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        disk.create(folder / name, [content], lasting=False)


def _replace_pair(node: Path, key: bytes, chain: bytes) -> None:
    settle(node)
    (node / NEXT_KEY).unlink(missing_ok=True)
    disk.create(node / NEXT_KEY, [key])
    disk.replace_file(node / CERT, [chain])
    settle(node)
