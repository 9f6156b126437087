"""Signatures by certificates: test vectors, and whose certificate is believed."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from p2p_labeldp.deployment.certificates import fingerprint, init_certificates, issue, load_authority, pem, uri_of
from p2p_labeldp.deployment.certified import CertifiedKey, HostSignatures, encode_certificates
from p2p_labeldp.deployment.items import MAX_BODY, Certificates, Directory, Holder, encode_item
from p2p_labeldp.deployment.shares import Shares
from p2p_labeldp.protocol.messages import Refused
from p2p_labeldp.protocol.signatures import SIGNED_GO, statement


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("certified") / "certs"
    init_certificates(place, 2)
    return place


def key_of(chain: bytes) -> str:
    return fingerprint(x509.load_pem_x509_certificate(chain))


def test_a_signature_is_that_of_rfc_6979() -> None:
    """Appendix A.2.5, P-256 and SHA-256, the message "sample"; so a node that is restarted signs the same bytes."""
    number = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
    key = CertifiedKey(b"", None, ec.derive_private_key(number, ec.SECP256R1()))  # type: ignore[arg-type]
    assert key.sign(b"sample").hex().upper() == (
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
        "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
    )


def test_what_is_signed_does_not_change_unnoticed() -> None:
    said = statement(SIGNED_GO, 7, bytes(64))
    assert hashlib.sha256(said).hexdigest() == "cacefa95e2fa8b29323d878dbf1cc07bbed9bd29e1ab9c33548664f0609228fa"


def test_a_host_s_signature_is_checked_by_its_certificate(folder: Path) -> None:
    one, other = (CertifiedKey.load(folder / name) for name in ("users-1", "users-2"))
    check = other.check_of(key_of(one.chain), one.chain)
    signature = one.sign(b"said")
    assert len(signature) == 64
    assert check(b"said", signature)
    assert not check(b"says", signature)
    assert not check(b"said", other.sign(b"said"))
    assert not check(b"said", signature[:-1])
    assert not check(b"said", bytes(64))


def test_whose_certificate_is_believed(folder: Path, tmp_path: Path) -> None:
    own = CertifiedKey.load(folder / "users-1")
    chain = CertifiedKey.load(folder / "users-2").chain
    learner = CertifiedKey.load(folder / "learner").chain
    init_certificates(tmp_path / "others", 1)
    stranger = CertifiedKey.load(tmp_path / "others" / "users-1").chain
    with pytest.raises(ValueError, match="not the one that it is known by"):
        own.check_of(key_of(own.chain), chain)
    with pytest.raises(ValueError, match="not a user host's"):
        own.check_of(key_of(learner), learner)
    with pytest.raises(ValueError, match="does not lead to the root"):
        own.check_of(key_of(stranger), stranger)
    with pytest.raises(ValueError, match="takes more than"):
        own.check_of(key_of(chain), chain * 20)
    with pytest.raises(ValueError):
        own.check_of("nobody", b"no certificate")


def test_a_host_cannot_issue_certificates(folder: Path) -> None:
    own = CertifiedKey.load(folder / "users-1")
    assert own.own is not None
    now = datetime.now(UTC).replace(microsecond=0)
    issuer = x509.load_pem_x509_certificate(own.chain)
    forged = issue(
        ec.generate_private_key(ec.SECP256R1()).public_key(), "users-9", issuer, own.own, now, now + timedelta(1),
        uri=uri_of("users", "users-9"),
    )  # fmt: skip
    chain = pem(forged) + own.chain
    with pytest.raises(ValueError, match="issued by no authority"):
        own.check_of(key_of(chain), chain)


def test_one_that_the_enrolment_authority_signed_is_believed(folder: Path) -> None:
    own, enrolment = CertifiedKey.load(folder / "users-1"), load_authority(folder / "enrolment", "cert.pem")
    now = datetime.now(UTC).replace(microsecond=0)
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = issue(
        key.public_key(), "site", enrolment.certificate, enrolment.key, now, now + timedelta(1),
        uri=uri_of("users", "site"),
    )  # fmt: skip
    chain = pem(leaf) + pem(enrolment.certificate)
    assert own.check_of(key_of(chain), chain)(b"x", CertifiedKey(chain, own.root, key).sign(b"x"))


def test_each_user_s_statements_are_her_host_s(folder: Path) -> None:
    keys = [CertifiedKey.load(folder / f"users-{number}") for number in (1, 2)]
    holders = [Holder(key_of(key.chain), "users", "host:1", 5 * place, 5 * place + 5) for place, key in enumerate(keys)]
    found = HostSignatures(keys[0], Shares(Directory("", 0.0, 10, 1, 2, holders)))
    signature = found.sign(3, b"said")
    assert not found.verifies(3, b"said", signature), "no certificate is known yet"
    with pytest.raises(Refused, match="not the one that it is known by"):
        found.take(Certificates(0, [keys[1].chain]))
    for part in encode_certificates([key.chain for key in keys]):
        found.take(part)
    assert [found.verifies(user, b"said", signature) for user in (3, 4, 5, 10)] == [True, True, False, False]
    assert found.signers([3, 4, 5]) != found.signers([3, 5, 6])


def test_certificates_of_many_hosts_come_in_parts_that_fit_a_frame() -> None:
    parts = list(encode_certificates([b"x" * 8192] * 200))
    assert sum(len(part.chains) for part in parts) == 200
    assert [part.first for part in parts] == [
        sum(len(before.chains) for before in parts[:at]) for at in range(len(parts))
    ]
    assert all(len(encode_item(part)) <= MAX_BODY for part in parts)
