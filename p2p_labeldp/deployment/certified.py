"""Signatures of the mixed exchange by the certificates of a deployment: ECDSA on P-256 with SHA-256.

A user's statements (``protocol.signatures``) are signed with the key of her host's certificate. Nonces are those of
RFC 6979, so that a node that was killed signs the same bytes again; r and s take 32 bytes each, whatever they are, so
that a message's size says nothing. Certificates travel once, with the hosts' offers and after the coordinator's
directory; each is believed if it has the fingerprint that the directory names, is a user host's and leads to the root
in ``ca.pem``. So the coordinator cannot put its own key in a host's place, and whoever has the root can check what was
signed long after.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from p2p_labeldp.deployment.certificates import CA, CERT, KEY, certificate_of, fingerprint, identity, load_key
from p2p_labeldp.deployment.items import MAX_BODY, Certificates, Holder
from p2p_labeldp.deployment.shares import Shares
from p2p_labeldp.mechanisms.mixing import digest
from p2p_labeldp.protocol.messages import Fault, Refused

MOST_CHAIN = 8192
"""Bytes of a certificate and those it leads to; a P-256 one in PEM form takes 700."""
_HALF = 32  # bytes of r, and of s
_SIGNING = ec.ECDSA(SHA256(), deterministic_signing=True)
_CHECKING = ec.ECDSA(SHA256())

Check = Callable[[bytes, bytes], bool]
"""Whether a signature is one of a statement: (statement, signature)."""


@dataclass(frozen=True)
class CertifiedKey:
    """A node's own key, and whether others' are what they should be; ``own`` is None for whoever only checks."""

    chain: bytes
    """By which others check what this node signs."""
    root: x509.Certificate
    own: ec.EllipticCurvePrivateKey | None = None
    size: int = 2 * _HALF

    @classmethod
    def load(cls, folder: Path) -> CertifiedKey:
        return cls((folder / CERT).read_bytes(), certificate_of(folder / CA), load_key(folder / KEY))

    def sign(self, statement: bytes) -> bytes:
        assert self.own is not None
        return b"".join(
            part.to_bytes(_HALF, "big") for part in decode_dss_signature(self.own.sign(statement, _SIGNING))
        )

    def check_of(self, key: str, chain: bytes) -> Check:
        """By which to check what the host of that key signs; ValueError where the chain is not its."""
        public = _public_key(key, chain, self.root)

        def check(statement: bytes, signature: bytes) -> bool:
            if len(signature) != 2 * _HALF:
                return False
            r, s = (int.from_bytes(part, "big") for part in (signature[:_HALF], signature[_HALF:]))
            try:
                public.verify(encode_dss_signature(r, s), statement, _CHECKING)
            except InvalidSignature:
                return False
            return True

        return check


def _public_key(key: str, chain: bytes, root: x509.Certificate) -> ec.EllipticCurvePublicKey:
    """Of a user host's certificate, if it has the fingerprint ``key`` and leads to the root."""
    if len(chain) > MOST_CHAIN:
        raise ValueError(f"its certificate takes more than {MOST_CHAIN} bytes")
    try:
        certificates = x509.load_pem_x509_certificates(chain)
        if fingerprint(certificates[0]) != key:
            raise ValueError("its certificate is not the one that it is known by")
        if identity(certificates[0])[0] != "users":
            raise ValueError("its certificate is not a user host's")
        for certificate, issuer in pairwise([*certificates, root]):
            certificate.verify_directly_issued_by(issuer)
            if not issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
                raise ValueError("its certificate was issued by no authority")
    except (InvalidSignature, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        raise ValueError("its certificate does not lead to the root") from None
    public = certificates[0].public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise ValueError("its certificate is not for an EC P-256 key")
    return public


class HostSignatures:
    """Those of all users of a deployment: each by the key of whoever speaks for her."""

    def __init__(self, own: CertifiedKey, shares: Shares) -> None:
        self.size = own.size
        self._own, self._shares = own, shares
        self._checks: dict[str, Check] = {}  # by key

    def take(self, part: Certificates) -> None:
        """The certificates of hosts, from place ``first`` of the directory on; what is wrong with one is refused."""
        for holder, chain in zip(self._shares.hosts[part.first :], part.chains, strict=False):
            try:
                self._checks[holder.key] = self._own.check_of(holder.key, chain)
            except ValueError as error:
                raise Refused(Fault.MALFORMED, f"{holder.name}: {error}") from None

    def sign(self, user: int, statement: bytes) -> bytes:
        return self._own.sign(statement)

    def verifies(self, user: int, statement: bytes, signature: bytes) -> bool:
        holder = self._shares.holder_of(user)
        check = None if holder is None else self._checks.get(holder.key)
        return check is not None and check(statement, signature)

    def signers(self, users: Sequence[int]) -> bytes:
        holders: Iterator[Holder | None] = map(self._shares.holder_of, users)
        runs = (
            (key, len(list(group))) for key, group in groupby(holders, lambda each: "" if each is None else each.key)
        )
        return digest(b"signers", [hashlib.sha256(f"{key} {count}".encode()).digest() for key, count in runs])


def encode_certificates(chains: Sequence[bytes]) -> Iterator[Certificates]:
    """All of them, in parts that fit a frame."""
    each = (MAX_BODY // 2) // MOST_CHAIN
    for first in range(0, len(chains), each):
        yield Certificates(first, list(chains[first : first + each]))
