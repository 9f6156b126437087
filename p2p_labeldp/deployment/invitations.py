"""Who may enrol: invitations that name a site, expire, and admit one key each.

A token says for which site it is, until when, and for how many days the certificate will be good; a keyed digest
under the enrolment folder's ``secret`` makes it one that ``certs invite`` wrote. So the coordinator need not be told of
invitations in advance. What it must remember is which were used, and by which key: the ``register`` beside its
enrolment authority, which outlasts every study. The same key may come again with the same token and gets the same
certificate, since its first answer may have been lost on the way; another key may not.

With ``approve`` a key waits in the register until a person decides (``certs approve`` or ``deny``). Only a valid token
gets anyone that far, so strangers cannot fill the register.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
from cryptography import x509

from p2p_labeldp.deployment.certificates import (
    CA,
    HOSTS,
    SECRET,
    TOKEN,
    check_days,
    make_folder,
    whole_seconds,
)
from p2p_labeldp.deployment.disk import replace_file
from p2p_labeldp.deployment.signing import HOST_DAYS, key_digest, requested_key, sign_request
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.network.credentials import ROLES, require_private

REGISTER = "register"
TOKEN_DAYS = 7
MOST_TOKEN = 200  # characters
_SITE = re.compile(r"[a-z0-9-]{1,64}")
_TOKEN = re.compile(r"([a-z0-9-]{1,64})\.([0-9]{1,12})\.([0-9]{1,4})\.([0-9a-f]{32})\.([0-9a-f]{64})")

State = Literal["waiting", "approved", "denied", "enrolled"]


class Invitation(msgspec.Struct, frozen=True):
    """What a token says."""

    site: str
    until: datetime
    days: int
    number: str


class Entry(msgspec.Struct, frozen=True):
    """What became of one invitation."""

    site: str
    key: str
    asked: datetime
    state: State
    chain: str = ""

    @property
    def certificate(self) -> x509.Certificate | None:
        return x509.load_pem_x509_certificate(self.chain.encode()) if self.chain else None


class NotYet(Exception):
    """A person has to decide first."""


def invite(folder: Path, site: str, days: int = TOKEN_DAYS, certificate_days: int = HOST_DAYS) -> Path:
    """Write ``join-SITE`` into a folder of ``certs init``: what a host of that site needs to enrol, once."""
    if not _SITE.fullmatch(site) or site in ROLES:
        raise RequestError(f"site {site!r} is not allowed; it takes up to 64 of a-z, 0-9 and -, and is no role's name")
    check_days(days)
    check_days(certificate_days, "--certificate-days")
    secret = read_secret(folder / "enrolment")
    place = folder / f"join-{site}"
    until = whole_seconds(None) + timedelta(days)
    said = f"{site}.{int(until.timestamp())}.{certificate_days}.{secrets.token_hex(16)}"
    try:
        ca = (folder / "enrolment" / CA).read_bytes()
        if place.exists():
            raise RequestError(f"{place}: exists already; remove it to invite {site} once more")
        make_folder(place, {CA: ca, TOKEN: f"{said}.{_digest(secret, said)}\n".encode()})
        listed = (folder / HOSTS).read_text(encoding="ascii").split() if (folder / HOSTS).exists() else []
        if site not in listed:
            replace_file(folder / HOSTS, [f"{name}\n".encode() for name in (*listed, site)])
    except OSError as error:
        raise RequestError(f"{error.filename or place}: cannot be written: {error.strerror}") from None
    return place


def read_token(folder: Path) -> str:
    """The token in a join folder."""
    return _read_private(folder / TOKEN, "a join token")


def read_secret(folder: Path) -> str:
    """What makes tokens, in an enrolment folder."""
    return _read_private(folder / SECRET, "the secret of an enrolment authority")


def check_token(secret: str, token: str, now: datetime | None = None) -> Invitation:
    """What a token says, if ``secret`` made it and its time is not over; else a ValueError that may be sent back."""
    found = _TOKEN.fullmatch(token) if len(token) <= MOST_TOKEN else None
    said, _, digest = token.rpartition(".")
    # Compared in a time that does not depend on where they differ.
    if found is None or not hmac.compare_digest(_digest(secret, said), digest):
        raise ValueError("the join token is wrong")
    until = datetime.fromtimestamp(int(found[2]), UTC)
    if (now or datetime.now(UTC)) >= until:
        raise ValueError(f"the join token of {found[1]} expired on {until:%Y-%m-%d}; ask for another invitation")
    return Invitation(found[1], until, int(found[3]), found[4])


class Register:
    """Which invitations were used, by which key, and what came of it: a file for each, in the enrolment folder."""

    def __init__(self, authority: Path) -> None:
        self._authority = authority
        self._folder = authority / REGISTER

    def prepare(self) -> None:
        """Found out before anyone comes: whether the register can be written."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            probe = self._folder / f".{os.getpid()}"
            replace_file(probe, [b""])
            probe.unlink()
        except OSError as error:
            raise RequestError(f"--authority {self._authority}: cannot be written: {error.strerror}") from None

    def enrol(self, invitation: Invitation, request: bytes, approve: bool) -> bytes:
        """The certificate chain for a key that comes with an invitation; ValueError or NotYet says why not."""
        key = key_digest(requested_key(request))
        file = self._folder / invitation.number
        entry = Entry(invitation.site, key, whole_seconds(None), "waiting" if approve else "approved")
        try:
            if not self._claim(file, entry):
                entry = _read(file)
            if entry.key != key:
                raise ValueError(f"the join token of {entry.site} was used already, by another key")
            if entry.state == "denied":
                raise ValueError(f"{entry.site} was not approved")
            if entry.state == "waiting":
                raise NotYet(f"{entry.site} waits for approval of its key {key}")
            if entry.state == "approved":
                chain = sign_request(self._authority, request, entry.site, invitation.days).decode()
                entry = msgspec.structs.replace(entry, state="enrolled", chain=chain)
                replace_file(file, [msgspec.json.encode(entry)])
        except OSError as error:
            raise RunError(f"{file}: {error.strerror}") from None
        return entry.chain.encode()

    @staticmethod
    def _claim(file: Path, entry: Entry) -> bool:
        """Whether this is the first to use an invitation; whole or not at all, whoever else tries."""
        mine = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        replace_file(mine, [msgspec.json.encode(entry)])
        try:
            os.link(mine, file)
        except FileExistsError:
            return False
        finally:
            mine.unlink()
        return True

    def entries(self) -> list[Entry]:
        """Oldest first."""
        try:
            files = [file for file in self._folder.iterdir() if not file.name.startswith(".")]
            return sorted((_read(file) for file in files), key=lambda entry: (entry.asked, entry.site))
        except FileNotFoundError:
            if not (self._authority / SECRET).exists():
                raise RequestError(f"{self._authority}: not the folder of an enrolment authority") from None
            return []
        except OSError as error:
            raise RequestError(f"{self._folder}: cannot be read: {error.strerror}") from None

    def decide(self, site: str, approved: bool) -> Entry:
        """A person's word on whoever waits under that name, or with that key."""
        waiting = [entry for entry in self.entries() if entry.state == "waiting"]
        chosen = [entry for entry in waiting if site in (entry.site, entry.key)]
        if len(chosen) != 1:
            names = ", ".join(f"{entry.site} ({entry.key})" for entry in waiting) or "nobody"
            what = "waits more than once; name the key" if chosen else "does not wait"
            raise RequestError(f"{site} {what}; waiting: {names}")
        decided = msgspec.structs.replace(chosen[0], state="approved" if approved else "denied")
        for file in self._folder.iterdir():
            if not file.name.startswith(".") and _read(file) == chosen[0]:
                replace_file(file, [msgspec.json.encode(decided)])
        return decided


def read_allowed(file: str) -> frozenset[str] | None:
    """The names and fingerprints in a list of hosts that may join, one on each line; None without a list: all may."""
    if not file:
        return None
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise RequestError(f"deployment.allow = {file}: cannot be read: {reason}") from None
    names = [line.partition("#")[0].strip() for line in lines]
    for number, name in enumerate(names, 1):
        if name and not _SITE.fullmatch(name):
            raise RequestError(f"deployment.allow = {file}: line {number} is neither a name nor a fingerprint")
    return frozenset(name for name in names if name)


def _read(file: Path) -> Entry:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Entry)
    except msgspec.DecodeError:
        raise RunError(f"{file}: damaged") from None


def _digest(secret: str, said: str) -> str:
    return hmac.new(secret.encode(), said.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def _read_private(file: Path, what: str) -> str:
    found = ""
    with contextlib.suppress(OSError, ValueError):
        found = file.read_text(encoding="ascii").strip()
    if not found:
        raise RequestError(f"{file}: cannot be read as {what}")
    require_private(file)
    return found
