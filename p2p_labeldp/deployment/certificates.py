"""Who a node is: a root authority, an enrolment authority below it, and a certificate for every node.

A node's folder holds ``ca.pem`` (the root's certificate), ``cert.pem`` (its own, followed by the enrolment
authority's if that signed it) and ``key.pem``. A certificate says who it is for in one URI,
``urn:p2p-labeldp:ROLE:NAME``; host names play no part, so that a node may move.

The root's key is needed to make and to renew, never while nodes run: it can be kept off line. The enrolment
authority's key is on line, beside the coordinator, and signs for user hosts that come with the join token.
Whoever steals it can pose as user hosts and as nothing else: it may not make further authorities (path
length 0), and a certificate it issued counts for the role ``users`` only, which whoever verifies checks by
the issuer's common name.

Invariants: a file is readable by its owner alone from the moment it exists, and is never seen half-written.
``init_certificates`` moves a whole folder into place at the end. A renewal has two files to change, and one
rename that decides: the new key waits as ``key.pem.new`` until the certificate it belongs to is ``cert.pem``,
and ``settle`` finishes what an interruption left between the two.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from p2p_labeldp.errors import RequestError, RunError

ROLES = ("coordinator", "learner", "auditor", "users")
SINGLE_ROLES = ROLES[:3]
ROOT_NAME = "p2p-labeldp authority"
ENROLMENT_NAME = "p2p-labeldp enrolment"
MOST_HOSTS = 10_000
MOST_DAYS = 3650
MOST_REQUEST_BYTES = 16 * 1024
"""A request for a P-256 key takes half a kilobyte; strangers may send one, so there is a bound."""

_CA, _CERT, _KEY, _NEXT_KEY, _TOKEN = "ca.pem", "cert.pem", "key.pem", "key.pem.new", "token"
_IDENTITY = re.compile(rf"urn:p2p-labeldp:({'|'.join(ROLES)}):([a-z0-9-]{{1,64}})")
_HOST_FOLDER = re.compile(r"users-([1-9][0-9]{0,4})")
_CLOCKS_DIFFER = timedelta(hours=1)
"""How far a new certificate is dated back: a node whose clock is slow must accept it too."""


@dataclass(frozen=True)
class Described:
    """What a certificate says, and the fingerprint by which peers know a user host."""

    role: str
    name: str
    fingerprint: str
    not_after: datetime


@dataclass(frozen=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def init_certificates(folder: Path, hosts: int = 0, days: int = 365, now: datetime | None = None) -> None:
    """Make authorities, a join token, and certificates for every node, as subfolders of a new folder.

    The root is valid for ten years whatever ``days`` says, so that ``renew`` has something to renew under.
    """
    if not 0 <= hosts <= MOST_HOSTS:
        raise RequestError(f"--hosts {hosts} is not allowed; it must be 0 to {MOST_HOSTS}")
    _check_days(days)
    now = _whole_seconds(now)
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
        _fill(temporary, hosts, days, now)
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


def _fill(folder: Path, hosts: int, days: int, now: datetime) -> None:
    root_key = _new_key()
    root_certificate = _issue(root_key.public_key(), ROOT_NAME, None, root_key, now, now + timedelta(MOST_DAYS), 1)
    root = _Authority(root_certificate, root_key)
    ca = _pem(root_certificate)
    token = secrets.token_urlsafe(32).encode()
    _make_folder(folder / "authority", {_CA: ca, _KEY: _key_pem(root_key)})
    _make_folder(folder / "join", {_CA: ca, _TOKEN: token})
    key, certificate = _issue_authority(root, days, now)
    _make_folder(folder / "enrolment", {_CA: ca, _CERT: certificate, _KEY: key, _TOKEN: token})
    for name in (*SINGLE_ROLES, *(f"users-{number}" for number in range(1, hosts + 1))):
        key, certificate = _issue_node(root, name, days, now)
        _make_folder(folder / name, {_CA: ca, _CERT: certificate, _KEY: key})


def renew(folder: Path, days: int = 365, now: datetime | None = None) -> None:
    """New keys and certificates for the enrolment authority and every node in ``folder``, under the same root.

    Certificates that the enrolment authority signed before stay good, since they carry its old one with them;
    so does the join token. Nothing is valid for longer than the root.
    """
    _check_days(days)
    now = _whole_seconds(now)
    nodes = _node_folders(folder)
    root = _load_authority(folder / "authority", _CA)
    if now >= root.certificate.not_valid_after_utc:
        expired = f"{root.certificate.not_valid_after_utc:%Y-%m-%d}"
        raise RequestError(f"{folder / 'authority' / _CA}: expired on {expired}; make a new folder with certs init")
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
        waiting = load_pem_private_key((node / _NEXT_KEY).read_bytes(), None).public_key()
        decided = x509.load_pem_x509_certificate((node / _CERT).read_bytes()).public_key()
    except (OSError, ValueError, UnsupportedAlgorithm):
        return
    if waiting != decided:
        return
    try:
        (node / _NEXT_KEY).replace(node / _KEY)
    except FileNotFoundError:  # another process has just done the same
        pass
    except OSError as error:
        raise RequestError(f"{node / _KEY}: cannot be written: {error.strerror}") from None


def describe(folder: Path) -> list[Described]:
    """What the certificate of every node in ``folder`` says; the three single roles first."""
    return [_describe(node / _CERT) for node in _node_folders(folder)]


def describe_authorities(folder: Path) -> dict[str, Described]:
    """The same for the root and the enrolment authority, as far as they are there."""
    files = {"authority": folder / "authority" / _CA, "enrolment": folder / "enrolment" / _CERT}
    return {role: _describe(file, role) for role, file in files.items() if file.exists()}


def identity(certificate: x509.Certificate) -> tuple[str, str]:
    """The role and name that a certificate is for; ValueError if it does not say."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = [_IDENTITY.fullmatch(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    except (x509.ExtensionNotFound, x509.DuplicateExtension):
        found = []
    if len(found) != 1 or found[0] is None:
        raise ValueError("the certificate does not say who it is for in one urn:p2p-labeldp:ROLE:NAME")
    return found[0][1], found[0][2]


def fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


# Enrolment: a user host makes its own key and asks; its key never travels.


def make_request(folder: Path) -> bytes:
    """A signing request for the key in ``folder``, which is made if it is not there. The same key each time."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / _KEY).exists():
            _replace(folder / _KEY, _key_pem(_new_key()))
    except OSError as error:
        raise RequestError(f"{folder}: cannot be written: {error.strerror}") from None
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "users")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return request.sign(_load_key(folder / _KEY), hashes.SHA256()).public_bytes(Encoding.PEM)


def sign_request(enrolment_folder: Path, csr_pem: bytes, now: datetime | None = None) -> bytes:
    """The certificate chain for a request: role users, named after its key, whatever subject it asks for.

    A bad request is a ValueError with a reason that may be sent back; trouble with the folder is a RunError,
    which may not. The certificate is valid for as long as the enrolment authority.
    """
    public_key = _requested_key(csr_pem)
    now = _whole_seconds(now)
    try:
        settle(enrolment_folder)
        enrolment = _load_authority(enrolment_folder, _CERT)
    except RequestError as error:
        raise RunError(str(error)) from None
    until = enrolment.certificate.not_valid_after_utc
    if now >= until:
        raise RunError(f"{enrolment_folder / _CERT}: expired on {until:%Y-%m-%d}; certs renew makes a new one")
    encoded = public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    name = f"users-{hashlib.sha256(encoded).hexdigest()[:8]}"
    leaf = _issue(public_key, name, enrolment.certificate, enrolment.key, now, until, uri=_uri("users", name))
    return _pem(leaf) + _pem(enrolment.certificate)


def _requested_key(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
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
        signed = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        signed = False
    if not signed:
        raise ValueError("the signing request is not signed with its own key")
    return key


def store_certificate(folder: Path, chain_pem: bytes, ca_pem: bytes) -> None:
    """Keep what ``sign_request`` gave, if it is for the key in ``folder`` and leads to the given root."""
    chain = [*x509.load_pem_x509_certificates(chain_pem), x509.load_pem_x509_certificate(ca_pem)]
    if chain[0].public_key() != _load_key(folder / _KEY).public_key():
        raise ValueError("the certificate is for another key")
    if identity(chain[0])[0] != "users":
        raise ValueError("the certificate is not for a user host")
    for certificate, issuer in pairwise(chain):
        try:
            certificate.verify_directly_issued_by(issuer)
        except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):  # all the same to the host
            raise ValueError("the certificate does not lead to the root in ca.pem") from None
    try:
        _replace(folder / _CA, ca_pem)
        _replace(folder / _CERT, chain_pem)  # last: a folder with a certificate is complete
    except OSError as error:
        raise RequestError(f"{folder}: cannot be written: {error.strerror}") from None


def read_token(folder: Path) -> str:
    """The join token in an enrolment or join folder."""
    try:
        token = (folder / _TOKEN).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        token = ""
    if not token:
        raise RequestError(f"{folder / _TOKEN}: cannot be read as a join token")
    return token


def check_token(expected: str, given: str) -> bool:
    """Compare in a time that does not depend on where they differ; an empty token never fits."""
    return bool(expected) and hmac.compare_digest(
        expected.encode(errors="surrogatepass"), given.encode(errors="surrogatepass")
    )


# Making certificates.


def _issue_authority(root: _Authority, days: int, now: datetime) -> tuple[bytes, bytes]:
    key, until = _new_key(), _until(root, days, now)
    certificate = _issue(key.public_key(), ENROLMENT_NAME, root.certificate, root.key, now, until, path_length=0)
    return _key_pem(key), _pem(certificate)


def _issue_node(root: _Authority, name: str, days: int, now: datetime) -> tuple[bytes, bytes]:
    key, until = _new_key(), _until(root, days, now)
    uri = _uri(name if name in SINGLE_ROLES else "users", name)
    return _key_pem(key), _pem(_issue(key.public_key(), name, root.certificate, root.key, now, until, uri=uri))


def _issue(
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
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
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
    return builder.sign(issuer_key, hashes.SHA256())


def _until(root: _Authority, days: int, now: datetime) -> datetime:
    return min(now + timedelta(days), root.certificate.not_valid_after_utc)


def _uri(role: str, name: str) -> str:
    return f"urn:p2p-labeldp:{role}:{name}"


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _whole_seconds(now: datetime | None) -> datetime:
    return (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)


def _check_days(days: int) -> None:
    if not 1 <= days <= MOST_DAYS:
        raise RequestError(f"--days {days} is not allowed; it must be 1 to {MOST_DAYS}")


# Reading and writing folders.


def _node_folders(folder: Path) -> list[Path]:
    hosts = {}
    try:
        for path in folder.iterdir():
            if number := _HOST_FOLDER.fullmatch(path.name):
                hosts[int(number[1])] = path
        found = [folder / role for role in SINGLE_ROLES] + [hosts[number] for number in sorted(hosts)]
        found = [path for path in found if (path / _CERT).exists()]
    except OSError as error:
        raise RequestError(f"{folder}: cannot be read: {error.strerror}") from None
    if not found:
        raise RequestError(f"{folder}: holds no node's certificate; certs init makes them")
    return found


def _describe(file: Path, role: str | None = None) -> Described:
    certificate = _load_certificate(file)
    try:
        role, name = (role, role) if role is not None else identity(certificate)
    except ValueError as error:
        raise RequestError(f"{file}: {error}") from None
    return Described(role, name, fingerprint(certificate), certificate.not_valid_after_utc)


def _load_authority(folder: Path, certificate: str) -> _Authority:
    found = _Authority(_load_certificate(folder / certificate), _load_key(folder / _KEY))
    if found.certificate.public_key() != found.key.public_key():
        raise RequestError(f"{folder}: {certificate} and {_KEY} do not belong together")
    return found


def _load_certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise RequestError(f"{file}: not a certificate in PEM form") from None


def _load_key(file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a passphrase
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RequestError(f"{file}: not an EC P-256 private key in PEM form without a passphrase")
    return key


def _make_folder(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        _create(folder / name, content)


def _replace_pair(node: Path, key: bytes, chain: bytes) -> None:
    settle(node)
    (node / _NEXT_KEY).unlink(missing_ok=True)
    _create(node / _NEXT_KEY, key, lasting=True)
    _replace(node / _CERT, chain)
    settle(node)


def _replace(file: Path, content: bytes) -> None:
    new = file.with_name(file.name + ".new")
    new.unlink(missing_ok=True)
    _create(new, content, lasting=True)
    new.replace(file)


def _create(file: Path, content: bytes, lasting: bool = False) -> None:
    """A new file, its owner's alone from the start; ``lasting`` ones survive a power cut."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(content)
        if lasting:
            opened.flush()
            os.fsync(opened.fileno())
