"""Certificates: what is in the folders, who can speak to whom, and what an interruption leaves."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID
from intruding import enrolled_in

from p2p_labeldp.deployment import disk
from p2p_labeldp.deployment.certificates import (
    describe,
    describe_authorities,
    fingerprint,
    identity,
    init_certificates,
    renew,
    settle,
)
from p2p_labeldp.deployment.signing import make_request, sign_request, store_certificate
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.network.credentials import Credentials, _look_at_oneself

NODE = {"ca.pem", "cert.pem", "key.pem"}
FOLDERS = {
    "authority": {"ca.pem", "key.pem"},
    "enrolment": NODE | {"secret"},
    "coordinator": NODE,
    "learner": NODE,
    "auditor": NODE,
    "users-1": NODE,
    "users-2": NODE,
}
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for two user hosts; tests that change them take ``own``."""
    folder = tmp_path_factory.mktemp("certificates") / "certs"
    init_certificates(folder, hosts=2)
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "certs"))


@pytest.fixture
def enrolled(made: Path, tmp_path: Path) -> Path:
    """A user host that made its own key and asked for a certificate."""
    return enrolled_in(made, tmp_path / "host")


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in paths}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def certificate(node: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((node / "cert.pem").read_bytes())


def is_pair(node: Path) -> bool:
    key = load_pem_private_key((node / "key.pem").read_bytes(), None)
    return certificate(node).public_key() == key.public_key()


def seen_by(server: Path, client: Path) -> str:
    """Who dials, as who is dialled sees it: a handshake in memory of what two nodes load."""
    return _look_at_oneself(Credentials.load(server).server, Credentials.load(client).client, client).name


def request_for(key: Any, name: str = "users") -> bytes:
    uri = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"urn:p2p-labeldp:{name}:{name}")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    )
    builder = builder.add_extension(uri, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM)


# What is in the folders


def test_every_node_has_its_folder_and_nothing_more(made: Path) -> None:
    folders = [path for path in made.iterdir() if path.name != "hosts.txt"]
    assert {path.name: {file.name for file in path.iterdir()} for path in folders} == FOLDERS
    assert (made / "hosts.txt").read_text() == "users-1\nusers-2\n"


def test_folders_and_files_are_their_owners_alone(made: Path) -> None:
    for name, mode in modes(made).items():
        assert mode == (0o700 if (made / name).is_dir() else 0o600), name


def test_a_file_is_private_from_the_moment_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    original = os.open

    def watching(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            opened.append((flags & os.O_EXCL != 0, mode))
        return original(path, flags, mode)

    monkeypatch.setattr(os, "open", watching)
    monkeypatch.setattr(os, "chmod", None)
    init_certificates(tmp_path / "certs")
    renew(tmp_path / "certs")
    make_request(tmp_path / "host")
    assert len(opened) > 20
    assert set(opened) == {(True, 0o600)}


def test_everyone_has_a_key_of_its_own(made: Path) -> None:
    assert len({path.read_bytes() for path in made.glob("*/key.pem")}) == 7


def test_the_enrolment_authority_is_below_the_root_and_makes_no_authorities(made: Path) -> None:
    enrolment = certificate(made / "enrolment")
    assert enrolment.issuer.rfc4514_string() == "CN=p2p-labeldp authority"
    assert enrolment.subject.rfc4514_string() == "CN=p2p-labeldp enrolment"
    assert enrolment.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    root = x509.load_pem_x509_certificate((made / "authority/ca.pem").read_bytes())
    enrolment.verify_directly_issued_by(root)
    assert len({path.read_bytes() for path in made.glob("*/ca.pem")}) == 1


def test_days_are_what_was_asked_for(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", days=10, now=LONG_AGO)
    assert {node.not_after for node in describe(tmp_path / "certs")} == {LONG_AGO + timedelta(days=10)}


# Who can speak to whom; more of it is in ``network/test_tls.py``


def test_a_certificate_is_good_for_a_node_whose_clock_is_half_an_hour_slow(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", hosts=1, now=datetime.now(UTC) + timedelta(minutes=30))
    assert seen_by(tmp_path / "certs/coordinator", tmp_path / "certs/users-1") == "users-1"


def test_certificates_keep_to_the_letter_of_the_standard(made: Path, enrolled: Path) -> None:
    server, client = Credentials.load(made / "coordinator").server, Credentials.load(enrolled).client
    server.verify_flags |= ssl.VERIFY_X509_STRICT
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert _look_at_oneself(server, client, enrolled).name == "clinic"


def test_an_enrolled_host_cannot_act_as_an_authority(made: Path, enrolled: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    chain = sign_request(enrolled, make_request(forged), "clinic") + (enrolled / "cert.pem").read_bytes()
    (forged / "cert.pem").write_bytes(chain)
    shutil.copy(made / "authority/ca.pem", forged)
    with pytest.raises(RequestError, match="peers would not accept it"):
        Credentials.load(forged)


# Enrolment


def test_an_enrolled_host_has_the_name_of_its_site_and_its_folder_is_private(enrolled: Path) -> None:
    assert identity(certificate(enrolled)) == ("users", "clinic")
    assert modes(enrolled) == {".": 0o700, "ca.pem": 0o600, "cert.pem": 0o600, "key.pem": 0o600}


def test_a_host_that_asks_again_keeps_its_key_and_name(made: Path, enrolled: Path) -> None:
    before = (enrolled / "key.pem").read_bytes()
    again = x509.load_pem_x509_certificate(sign_request(made / "enrolment", make_request(enrolled), "clinic"))
    assert (enrolled / "key.pem").read_bytes() == before
    assert identity(again) == identity(certificate(enrolled))


@pytest.mark.parametrize("role", ["coordinator", "learner", "auditor"])
def test_a_request_for_another_role_gets_role_users(role: str, made: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    signed = x509.load_pem_x509_certificate(sign_request(made / "enrolment", request_for(key, role), "clinic"))
    assert identity(signed)[0] == "users"
    assert role not in signed.subject.rfc4514_string()
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_an_enrolled_certificate_lasts_for_days_and_not_longer_than_its_authoritys(
    made: Path, enrolled: Path, tmp_path: Path
) -> None:
    assert certificate(enrolled).not_valid_after_utc - datetime.now(UTC) < timedelta(days=30)
    long = sign_request(made / "enrolment", make_request(tmp_path / "long"), "clinic", days=3650)
    assert (
        x509.load_pem_x509_certificate(long).not_valid_after_utc == certificate(made / "enrolment").not_valid_after_utc
    )


def test_an_expired_enrolment_authority_signs_nothing(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", now=LONG_AGO)
    with pytest.raises(RunError, match="expired on 2020-12-31"):
        sign_request(tmp_path / "certs/enrolment", make_request(tmp_path / "host"), "clinic")


def test_trouble_with_the_enrolment_folder_is_not_the_requesters_fault(made: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, made / "authority"):
        with pytest.raises(RunError):
            sign_request(folder, make_request(tmp_path / "host"), "clinic")


def signed_by_another() -> bytes:
    request = x509.load_pem_x509_csr(request_for(ec.generate_private_key(ec.SECP256R1())))
    der = bytearray(request.public_bytes(Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)


RUBBISH = b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (signed_by_another, "not signed with its own key"),
        (lambda: request_for(ec.generate_private_key(ec.SECP384R1())), "P-256"),
        (lambda: request_for(ec.generate_private_key(ec.SECP256K1())), "P-256"),
        (lambda: request_for(rsa.generate_private_key(65537, 2048)), "P-256"),
        (lambda: request_for(ed25519.Ed25519PrivateKey.generate()), "P-256"),
        (lambda: request_for(ec.generate_private_key(ec.SECP256R1())) + b"\n" * 16 * 1024, "16,384"),
        *((lambda rubbish=rubbish: rubbish, "not a signing request") for rubbish in (b"", b"\xff\x00", RUBBISH)),
    ],
    ids=["another key", "P-384", "secp256k1", "RSA", "Ed25519", "large", "nothing", "bytes", "rubbish"],
)
def test_what_is_no_request_for_a_p256_key_is_refused_with_a_reason(
    make: Callable[[], bytes], reason: str, made: Path
) -> None:
    with pytest.raises(ValueError, match=reason):
        sign_request(made / "enrolment", make(), "clinic")


def test_a_host_keeps_only_a_certificate_for_its_own_key_under_its_own_root(made: Path, tmp_path: Path) -> None:
    init_certificates(tmp_path / "others", hosts=1)
    host, ca = tmp_path / "host", (made / "authority/ca.pem").read_bytes()
    request = make_request(host)
    wrong = {
        "another key": sign_request(made / "enrolment", make_request(tmp_path / "neighbour"), "clinic"),
        "does not lead to the root": sign_request(tmp_path / "others/enrolment", request, "clinic"),
    }
    for reason, chain in wrong.items():
        with pytest.raises(ValueError, match=reason):
            store_certificate(host, chain, ca)
    shutil.copy(made / "learner/key.pem", host)
    with pytest.raises(ValueError, match="not for a user host"):
        store_certificate(host, (made / "learner/cert.pem").read_bytes(), ca)
    assert {path.name for path in host.iterdir()} == {"key.pem"}


def test_an_unreadable_key_is_named_and_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("rubbish")
    with pytest.raises(RequestError, match=r"key\.pem: not an EC P-256 private key"):
        make_request(tmp_path)
    assert (tmp_path / "key.pem").read_text() == "rubbish"


# Renewal


def test_renewal_keeps_the_root_and_the_token_and_changes_every_key_and_fingerprint(own: Path) -> None:
    before, seen, above = contents(own), describe(own), describe_authorities(own)
    renew(own, days=20, now=datetime.now(UTC) + timedelta(days=1))
    after, now_seen = contents(own), describe(own)
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {
        f"{node}/{file}" for node in FOLDERS if "cert.pem" in FOLDERS[node] for file in NODE - {"ca.pem"}
    }
    assert [(node.role, node.name) for node in now_seen] == [(node.role, node.name) for node in seen]
    assert not {node.fingerprint for node in now_seen} & {node.fingerprint for node in seen}
    assert describe_authorities(own)["authority"] == above["authority"]
    assert modes(own)["users-1/key.pem"] == modes(own)["enrolment/key.pem"] == 0o600


def test_renewed_nodes_speak_to_each_other_to_those_not_yet_renewed_and_to_enrolled_hosts_of_before_and_after(
    own: Path, made: Path, enrolled: Path, tmp_path: Path
) -> None:
    renew(own)
    later = enrolled_in(own, tmp_path / "later")
    for client in (own / "users-1", made / "users-1", enrolled, later):
        assert seen_by(own / "coordinator", client) in ("users-1", "clinic")
    assert seen_by(made / "coordinator", own / "users-1") == "users-1"


def test_nothing_outlives_the_root(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", now=LONG_AGO)
    root = describe_authorities(tmp_path / "certs")["authority"]
    renew(tmp_path / "certs", days=3650, now=LONG_AGO + timedelta(days=100))
    assert {node.not_after for node in describe(tmp_path / "certs")} == {root.not_after}
    with pytest.raises(RequestError, match="expired on"):
        renew(tmp_path / "certs", now=root.not_after)


def test_only_nodes_that_are_there_are_renewed(own: Path) -> None:
    shutil.rmtree(own / "users-1")
    shutil.rmtree(own / "enrolment")
    renew(own)
    assert not (own / "users-1").exists()
    assert [node.name for node in describe(own)] == ["coordinator", "learner", "auditor", "users-2"]


def test_without_the_roots_key_nothing_is_renewed(own: Path, made: Path) -> None:
    shutil.copy(made / "learner/key.pem", own / "authority/key.pem")
    before = contents(own)
    with pytest.raises(RequestError, match="do not belong together"):
        renew(own)
    (own / "authority/key.pem").unlink()
    with pytest.raises(RequestError, match=r"key\.pem: cannot be read"):
        renew(own)
    before.pop("authority/key.pem")
    assert contents(own) == before


class Killed(BaseException):
    """Stands for kill -9: nothing in the program may run after it."""


def renew_killed_at(step: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die at the given one of the steps that a renewal takes in the file system."""
    steps = count()
    create, replace = disk.create, Path.replace

    def dying_create(file: Path, parts: list[bytes], lasting: bool = True) -> None:
        if next(steps) == step:
            create(file, [parts[0][: len(parts[0]) // 2]], lasting)
            raise Killed
        create(file, parts, lasting)

    def dying_replace(self: Path, target: Path) -> Path:
        if next(steps) == step:
            raise Killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "create", dying_create)
        patch.setattr(Path, "replace", dying_replace)
        with pytest.raises(Killed):
            renew(folder)


@pytest.mark.parametrize("step", range(12))
def test_a_renewal_killed_anywhere_leaves_every_node_whole_and_can_be_repeated(
    step: int, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steps a node: the key, the certificate, and a rename of each."""
    renew_killed_at(step, own, monkeypatch)
    nodes = [own / name for name in FOLDERS if "cert.pem" in FOLDERS[name]]
    for node in nodes:
        settle(node)
        assert is_pair(node)
    assert seen_by(own / "coordinator", own / "users-1") == "users-1"
    fingerprints = {fingerprint(certificate(node)) for node in nodes}
    renew(own)
    assert not fingerprints & {fingerprint(certificate(node)) for node in nodes}
    assert all(is_pair(node) for node in nodes)
    assert not [*own.rglob("*.new"), *own.rglob(".*")]


def test_a_second_renewal_killed_early_does_not_undo_the_first_one_killed_late(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (3, 1):  # of the enrolment authority: before its last rename, then having settled that
        renew_killed_at(step, own, monkeypatch)
    settle(own / "enrolment")
    assert is_pair(own / "enrolment")


def test_signing_settles_an_interrupted_renewal_first(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew_killed_at(3, own, monkeypatch)
    assert not is_pair(own / "enrolment")
    assert seen_by(own / "coordinator", enrolled_in(own, tmp_path / "host")) == "clinic"


def test_settling_leaves_a_renewal_that_is_going_on_alone(own: Path) -> None:
    shutil.copy(own / "learner/key.pem", own / "auditor/key.pem.new")
    before = contents(own)
    settle(own / "auditor")
    assert contents(own) == before


def test_a_disk_that_fills_up_during_a_renewal_is_reported_in_one_line(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, parts: list[bytes], lasting: bool = True) -> None:
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr(disk, "create", full)
    with pytest.raises(RunError, match=r"key\.pem\.new: cannot be written: No space left on device"):
        renew(own)


# Interruptions and wrong requests


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("place", ["certs", "new/folders/certs", "empty"])
@pytest.mark.parametrize("step", [0, 7, 20])
def test_an_interrupted_init_leaves_nothing(
    error: BaseException, place: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    steps, create = count(), disk.create

    def breaking(file: Path, parts: list[bytes], lasting: bool = True) -> None:
        create(file, parts, lasting)
        if next(steps) == step:
            raise error

    monkeypatch.setattr(disk, "create", breaking)
    with pytest.raises(RequestError if isinstance(error, OSError) else KeyboardInterrupt):
        init_certificates(tmp_path / place, hosts=2)
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]


def test_the_folder_appears_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = disk.create

    def watching(file: Path, parts: list[bytes], lasting: bool = True) -> None:
        assert not (tmp_path / "certs").exists()
        assert modes(file.parent.parent)["."] == 0o700
        create(file, parts, lasting)

    monkeypatch.setattr(disk, "create", watching)
    init_certificates(tmp_path / "certs")
    assert [path.name for path in tmp_path.iterdir()] == ["certs"]


def test_an_empty_folder_and_a_link_to_one_are_filled(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("empty")
    init_certificates(tmp_path / "link")
    assert len(describe(tmp_path / "empty")) == 3
    assert modes(tmp_path / "empty")["."] == 0o700


def test_a_mount_point_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda self: self.name == "volume")
    with pytest.raises(RequestError, match="name a folder inside it"):
        init_certificates(tmp_path / "volume")
    init_certificates(tmp_path / "volume/certs")


def test_describe_gives_hosts_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    init_certificates(tmp_path / "certs", hosts=11)
    assert [node.name for node in describe(tmp_path / "certs")][3:] == [f"users-{number}" for number in range(1, 12)]


def test_describe_gives_the_fingerprint_that_a_peer_sees(made: Path) -> None:
    assert describe(made)[3].fingerprint == Credentials.load(made / "users-1").identity.fingerprint


def test_a_folder_without_certificates_or_with_broken_ones_is_refused(own: Path, tmp_path: Path) -> None:
    for folder, words in ((tmp_path / "none", "cannot be read"), (own / "authority", "holds no node's certificate")):
        with pytest.raises(RequestError, match=words):
            describe(folder)
    shutil.copy(own / "enrolment/cert.pem", own / "learner")
    with pytest.raises(RequestError, match=r"learner/cert\.pem: the certificate does not say who it is for"):
        describe(own)
    (own / "learner/cert.pem").write_text("rubbish")
    with pytest.raises(RequestError, match=r"learner/cert\.pem: not a certificate in PEM form"):
        describe(own)
