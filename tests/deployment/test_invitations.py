"""Who may join: invitations, a list, a person who decides, a list of those who no longer may, other authorities."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from asking import Command
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from intruding import enrolled_in
from live_deployment import Live, free_addresses
from small import ONE_CLUSTER

from p2p_labeldp.deployment import enrolment, program
from p2p_labeldp.deployment.certificates import (
    CA,
    CERT,
    KEY,
    certificate_of,
    init_certificates,
    issue,
    key_pem,
    make_folder,
    new_key,
    pem,
)  # fmt: skip
from p2p_labeldp.deployment.enrolment import Desk, Enrol, Enrolled, Rejected, Waits, enrol, serve_enrolment
from p2p_labeldp.deployment.invitations import Register, check_token, invite, read_secret, read_token
from p2p_labeldp.deployment.journal import FILE, Journal
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.revocation import revoke
from p2p_labeldp.deployment.signing import make_request, own_key_digest, sign_request
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.credentials import Credentials
from p2p_labeldp.network.frames import Ack
from p2p_labeldp.scenario import parse_scenario, replace

LATER = datetime.now(UTC) + timedelta(days=8)
SMALL = parse_scenario(ONE_CLUSTER, overrides=["data.users=40", "data.groups=2"])


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    init_certificates(tmp_path / "certificates", hosts=2)
    return tmp_path / "certificates"


def desk(certificates: Path, **settings: Any) -> Desk:
    return Desk(certificates / "enrolment", **settings)


def asked(folder: Path, token: str) -> Enrol:
    return Enrol(token, make_request(folder))


# Invitations


def test_two_hundred_invented_hosts_with_one_token_get_one_certificate_between_them(
    certificates: Path, tmp_path: Path
) -> None:
    token = read_token(invite(certificates, "clinic"))
    at = desk(certificates)
    answers = [at.answer(asked(tmp_path / f"sybil-{number}", token), None)[0] for number in range(200)]
    assert isinstance(answers[0], Enrolled)
    refused = Rejected("the join token of clinic was used already, by another key")
    assert answers[1:] == [refused] * 199
    assert [entry.site for entry in Register(certificates / "enrolment").entries()] == ["clinic"]


def test_the_register_outlasts_the_coordinator_and_the_same_key_gets_the_same_certificate(
    certificates: Path, tmp_path: Path
) -> None:
    token = read_token(invite(certificates, "clinic"))
    request = asked(tmp_path / "host", token)
    first, again = desk(certificates).answer(request, None), desk(certificates).answer(request, None)
    assert first == again
    assert isinstance(first[0], Enrolled)
    assert isinstance(desk(certificates).answer(asked(tmp_path / "other", token), None)[0], Rejected)


def test_a_coordinator_killed_while_it_notes_a_certificate_leaves_a_register_that_can_be_read(
    certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, replace_file = desk(certificates), Path.replace
    request = asked(tmp_path / "host", read_token(invite(certificates, "clinic")))

    def killed(self: Path, target: Path) -> Path:
        if not target.name.startswith("."):
            raise KeyboardInterrupt
        return replace_file(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            at.answer(request, None)
    assert [entry.state for entry in Register(certificates / "enrolment").entries()] == ["approved"]


def test_a_token_names_its_site_and_its_end(certificates: Path) -> None:
    secret = read_secret(certificates / "enrolment")
    token = read_token(invite(certificates, "clinic", days=7, certificate_days=3))
    said = check_token(secret, token)
    assert (said.site, said.days) == ("clinic", 3)
    with pytest.raises(ValueError, match="the join token of clinic expired on"):
        check_token(secret, token, now=LATER)
    for place in range(0, len(token), 7):
        changed = token[:place] + ("0" if token[place] != "0" else "1") + token[place + 1 :]
        with pytest.raises(ValueError, match="the join token is wrong"):
            check_token(secret, changed)
    for invented in ("", "wrong", "t" * 20_000, "é", "\ud800"):
        with pytest.raises(ValueError, match="the join token is wrong"):
            check_token(secret, invented)
    init_certificates(certificates.parent / "others")
    with pytest.raises(ValueError, match="the join token is wrong"):
        check_token(read_secret(certificates.parent / "others/enrolment"), token)


def test_a_site_is_invited_once_and_listed(certificates: Path) -> None:
    invite(certificates, "clinic")
    with pytest.raises(RequestError, match="join-clinic: exists already"):
        invite(certificates, "clinic")
    assert (certificates / "hosts.txt").read_text().split() == ["users-1", "users-2", "clinic"]


@pytest.mark.parametrize("secret", ["join-clinic/token", "enrolment/key.pem", "enrolment/secret", f"state/{FILE}"])
def test_secrets_that_others_may_read_are_refused(certificates: Path, tmp_path: Path, secret: str) -> None:
    invite(certificates, "clinic")
    Journal(certificates / "state", owner="0f", secret=b"").close()
    (certificates / secret).chmod(0o640)
    uses = (
        lambda: read_token(certificates / "join-clinic"),
        lambda: sign_request(certificates / "enrolment", make_request(tmp_path / "host"), "clinic"),
        lambda: desk(certificates),
        lambda: Journal(certificates / "state", owner="0f", secret=b"").close(),
    )
    refused = []
    for use in uses:
        try:
            use()
        except (RequestError, RuntimeError) as error:
            refused.append(str(error))
    # The authority's key is looked at when the coordinator starts, and when it signs.
    assert len(refused) == (2 if secret == "enrolment/key.pem" else 1)
    for said in refused:
        assert said.endswith(f"{Path(secret).name}: others may read it; chmod 600 makes it yours alone")


# A list, and a person


def test_a_site_that_is_not_on_the_list_gets_no_certificate(certificates: Path, tmp_path: Path) -> None:
    at = desk(certificates, allowed=frozenset({"clinic"}))
    answer, _ = at.answer(asked(tmp_path / "host", read_token(invite(certificates, "hospital"))), None)
    assert answer == Rejected("hospital is not on the coordinator's list of hosts that may join")
    assert isinstance(
        at.answer(asked(tmp_path / "host", read_token(invite(certificates, "clinic"))), None)[0], Enrolled
    )


async def test_a_host_that_is_not_on_the_list_is_told_so_and_named(tmp_path: Path) -> None:
    allowed = tmp_path / "hosts.txt"
    allowed.write_text("users-1  # the clinic\n\nusers-3\n")
    live = Live(tmp_path / "live", SMALL, hosts=2, deployment__allow=str(allowed))
    async with live.running():
        await live.start("coordinator", "users-1")
        await live.saw("coordinator", "joined", host="users-1")
        node = live.make("users-2")
        with pytest.raises(ExceptionGroup) as group:
            await node.run()
        assert group.group_contains(RequestError, match="users-2 is not on the coordinator's list of hosts")
        await live.saw("coordinator", "refused", reason="users-2 is not on the coordinator's list")


async def test_a_person_decides(certificates: Path, tmp_path: Path, command: Command) -> None:
    place = str(certificates / "enrolment")
    at = desk(certificates, approve=True)
    good = asked(tmp_path / "host", read_token(invite(certificates, "clinic")))
    bad = asked(tmp_path / "other", read_token(invite(certificates, "casino")))
    key = own_key_digest(tmp_path / "host")
    assert at.answer(good, None) == (Waits(f"clinic waits for approval of its key {key}"), "clinic")
    assert isinstance(at.answer(bad, None)[0], Waits)
    status, shown, _ = command("certs", "sites", place, "--json")
    assert status == 0
    found = {row["site"]: (row["state"], row["key"]) for row in msgspec.json.decode(shown)["sites"]}
    assert found["clinic"] == ("waiting", key)
    assert command("certs", "approve", place, "clinic")[0] == command("certs", "deny", place, "casino")[0] == 0
    assert isinstance(at.answer(good, None)[0], Enrolled)
    assert at.answer(bad, None)[0] == Rejected("casino was not approved")
    status, _, err = command("certs", "approve", place, "casino")
    assert (status, err) == (2, "p2p-labeldp: casino does not wait; waiting: nobody\n")


async def test_a_host_waits_for_the_person_and_says_so(
    certificates: Path, tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrolment, "MAX_PAUSE", 0.01)
    lines: list[tuple[str, dict[str, Any]]] = []
    own = certificates / "coordinator"
    at = desk(certificates, approve=True)
    _, port = await nursery.start(serve_enrolment, "127.0.0.1:0", at, own, lambda *_, **__: None)
    join, host = invite(certificates, "clinic"), tmp_path / "host"

    def log(event: str, **facts: Any) -> None:
        lines.append((event, facts))
        if event == "approval":
            Register(certificates / "enrolment").decide("clinic", True)

    with trio.fail_after(60):
        await enrol(host, join, f"127.0.0.1:{port}", 60.0, log)
    assert [event for event, _ in lines] == ["approval", "enrolled"]
    assert lines[0][1]["reason"] == f"a person has to approve key {own_key_digest(host)}"
    assert Credentials.load(host).identity.name == "clinic"


# Short lives, and ends before their time


def enrolled(certificates: Path, host: Path, days: int, ago: timedelta) -> bytes:
    """A host whose certificate was made some time ago; its fingerprint."""
    enrolled_in(certificates, host, days, datetime.now(UTC) - ago)
    return (host / "cert.pem").read_bytes()


@pytest.mark.parametrize(
    ("age", "journal", "renewed"),
    [(3, False, True), (1, False, False), (3, True, False)],
    ids=["old", "young", "running"],
)
async def test_a_host_renews_its_certificate_between_studies(
    certificates: Path, tmp_path: Path, nursery: trio.Nursery, age: int, journal: bool, renewed: bool
) -> None:
    host = tmp_path / "host"
    before = enrolled(certificates, host, 4, timedelta(days=age))
    if journal:
        Journal(tmp_path / "state", owner="0f", secret=b"").close()
    own = certificates / "coordinator"
    address = free_addresses(1)[0]
    await nursery.start(serve_enrolment, address, desk(certificates), own, lambda *_, **__: None)
    settings = {"enrolment": address, "join": str(certificates / "authority"), "state": str(tmp_path / "state")}
    scenario = replace(SMALL, **{f"deployment__{name}": value for name, value in settings.items()})
    await trio.to_thread.run_sync(program._get_certificate, host, scenario, Logger("users"))
    after = (host / "cert.pem").read_bytes()
    assert (after != before) == renewed
    if renewed:
        leaf = certificate_of(host / "cert.pem")
        assert Credentials.load(host).identity.name == "clinic"
        assert timedelta(days=3.9) < leaf.not_valid_after_utc - datetime.now(UTC) < timedelta(days=4.1)


async def test_a_revoked_host_is_refused_by_name_and_by_serial(certificates: Path, tmp_path: Path) -> None:
    live = Live(tmp_path / "live", SMALL, hosts=2)
    chain = enrolled(live.certificates, tmp_path / "host", 30, timedelta(0))
    serial = x509.load_pem_x509_certificate(chain).serial_number
    async with live.running():
        await live.start("coordinator")
        async with live.dial("coordinator", "users-1", live.opening(), Ack(0)) as raw:
            await live.saw("coordinator", "connected", name="users-1")
            revoke(live.certificates, "users-1")
            assert await raw.goodbye() == "the certificate of users-1 was revoked"  # though it was there before
        revoke(live.certificates, f"{serial:x}")
        async with live.dial("coordinator", Credentials.load(tmp_path / "host").client, live.opening()) as raw:
            assert await raw.goodbye() == "misdirected: the certificate of clinic was revoked"
    with pytest.raises(RequestError, match=r"users-1/cert\.pem: was revoked"):
        Credentials.load(live.certificates / "users-1")
    assert Credentials.load(live.certificates / "users-2").identity.name == "users-2"


def test_a_revocation_list_of_somebody_else_is_refused(certificates: Path, tmp_path: Path) -> None:
    init_certificates(tmp_path / "others", hosts=1)
    revoke(tmp_path / "others", "users-1")
    shutil.copy(tmp_path / "others/learner/revoked.pem", certificates / "learner")
    with pytest.raises(RequestError, match=r"revoked\.pem: not signed by the authority in ca\.pem"):
        Credentials.load(certificates / "learner")
    (certificates / "learner/revoked.pem").write_text("?")
    with pytest.raises(RequestError, match=r"revoked\.pem: not a revocation list in PEM form"):
        Credentials.load(certificates / "learner")


# Authorities of others


def test_an_authority_below_another_one_with_any_name_will_do(tmp_path: Path) -> None:
    """As docs/deployment.md says of certificates from elsewhere: what ca.pem holds signs the single roles."""
    now, until = datetime.now(UTC), datetime.now(UTC) + timedelta(days=1)
    top_key, key, sub_key = new_key(), new_key(), new_key()
    top = issue(top_key.public_key(), "Ministry Root", None, top_key, now, until, 2)
    study = issue(key.public_key(), "Ministry Studies", top, top_key, now, until, 1)
    below = issue(sub_key.public_key(), "Ministry Sites", study, key, now, until, 0)

    def node(role: str, issuer: x509.Certificate, issuer_key: ec.EllipticCurvePrivateKey) -> Path:
        own = new_key()
        leaf = issue(own.public_key(), role, issuer, issuer_key, now, until, uri=f"urn:p2p-labeldp:{role}:{role}")
        folder = tmp_path / f"{role}-{issuer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value}"
        make_folder(folder, {CA: pem(study), CERT: pem(leaf) + pem(issuer), KEY: key_pem(own)})
        return folder

    assert Credentials.load(node("learner", study, key)).identity.role == "learner"
    assert Credentials.load(node("users", below, sub_key)).identity.role == "users"
    with pytest.raises(RequestError, match="the root authority did not sign itself"):
        Credentials.load(node("learner", below, sub_key))
    with pytest.raises(RequestError, match="peers would not accept it"):
        Credentials.load(node("users", top, top_key))


def test_the_hash_of_a_revocation_list_is_a_strong_one(certificates: Path) -> None:
    revoke(certificates, "users-2")
    listed = x509.load_pem_x509_crl((certificates / "coordinator/revoked.pem").read_bytes())
    assert isinstance(listed.signature_hash_algorithm, hashes.SHA256)
    assert len(listed) == 1
