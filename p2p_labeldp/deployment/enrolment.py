"""How a user host gets its certificate: it shows an invitation, the coordinator's enrolment authority signs.

A host whose certificate nears its end shows that instead, and gets the next one for the same name and as long.

That the coordinator may admit hosts adds nothing to what it is trusted with: it deals the shares and tells
everyone which certificate speaks for which users. Its enrolment authority cannot make a coordinator, learner or
auditor: whoever verifies a certificate that it signed accepts the role of a user host alone.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import msgspec
import trio

from p2p_labeldp.deployment.certificates import KEY, load_key
from p2p_labeldp.deployment.invitations import NotYet, Register, check_token, read_secret, read_token
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.signing import make_request, own_key_digest, sign_request, store_certificate
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.limiter import ConnectionLimiter, LineLimiter
from p2p_labeldp.network.sockets import Secured, Sockets, TcpSockets
from p2p_labeldp.protocol.messages import Refused

MAX_REQUEST = 32 << 10  # bytes: a token and a signing request, which takes about 500
LIMIT = 10.0  # seconds for one exchange
MOST = 64  # exchanges at once
FIRST_PAUSE, MAX_PAUSE = 0.1, 2.0  # seconds before knocking again


class Enrol(msgspec.Struct, frozen=True, array_like=True, tag="enrol", forbid_unknown_fields=True):
    """``token`` is empty where a certificate is shown instead."""

    token: str
    request: bytes


class Enrolled(msgspec.Struct, frozen=True, array_like=True, tag="enrolled", forbid_unknown_fields=True):
    chain: bytes


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag="rejected", forbid_unknown_fields=True):
    reason: str


class Waits(msgspec.Struct, frozen=True, array_like=True, tag="waits", forbid_unknown_fields=True):
    """A person has to decide; ask again."""

    reason: str


Answer = Enrolled | Rejected | Waits

_LOST = (OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class Desk:
    """What the coordinator goes by when someone wants a certificate."""

    def __init__(self, authority: Path, allowed: frozenset[str] | None = None, approve: bool = False) -> None:
        """``authority`` is the folder ``certs init`` calls enrolment; ``approve``, whether a person decides."""
        self._authority = authority
        self._allowed = allowed
        self._approve = approve
        load_key(authority / KEY)  # found out before anyone comes: whether it can be read, and by its owner alone
        self._secret = read_secret(authority)
        self._register = Register(authority)
        self._register.prepare()

    def answer(self, asked: Enrol, shown: Identity | None) -> tuple[Answer, str]:
        """What to say to a request, and the name of the site where it is known. ``shown`` is the peer's certificate."""
        site = ""
        try:
            if asked.token:
                invitation = check_token(self._secret, asked.token)
                site = self._may_join(invitation.site)
                return Enrolled(self._register.enrol(invitation, asked.request, self._approve)), site
            if shown is None or shown.role != "users":
                raise ValueError("neither a join token nor a user host's certificate was shown")
            site = self._may_join(shown.name)
            return Enrolled(sign_request(self._authority, asked.request, site, shown.days)), site
        except NotYet as reason:
            return Waits(str(reason)), site
        except ValueError as error:
            return Rejected(str(error)), site

    def _may_join(self, site: str) -> str:
        if self._allowed is not None and site not in self._allowed:
            raise ValueError(f"{site} is not on the coordinator's list of hosts that may join")
        return site


async def serve_enrolment(
    address: str,
    desk: Desk,
    certificates: Path,
    log: Log,
    sockets: Sockets | None = None,
    *,
    task_status: Any = trio.TASK_STATUS_IGNORED,
) -> None:
    """Sign for whoever may have a certificate, until cancelled.

    The coordinator shows its own certificate, in ``certificates``; who enrols has none to show yet.
    """
    own = Credentials.load(certificates)
    context = own.server
    context.verify_mode = ssl.CERT_OPTIONAL
    limiter, strangers = ConnectionLimiter(LIMIT, MOST), LineLimiter(log)
    network = sockets or TcpSockets()

    async def exchange(stream: trio.abc.Stream) -> None:
        try:
            address = str(network.origin_of(stream)[0])
        except OSError:
            address = "someone who is gone"
        tls = network.secure(stream, context, server_side=True)
        try:
            with limiter.admitted():
                await tls.handshake()
                asked = msgspec.msgpack.decode(await _read(tls), type=Enrol)
                try:
                    answer, site = desk.answer(asked, None if asked.token else own.require_current(tls.identity()))
                except Refused as refused:
                    answer, site = Rejected(refused.detail), ""
                event = {Enrolled: "enrolled", Waits: "approval", Rejected: "refused"}[type(answer)]
                reason = {} if isinstance(answer, Enrolled) else {"reason": answer.reason}
                told = log if isinstance(answer, Enrolled) else strangers  # who asks for approval asks again and again
                told(event, address=address, kind="enrolment", **({"host": site} if site else {}), **reason)
                await _write(tls, msgspec.msgpack.encode(answer))
        except (*_LOST, ValueError, RecursionError) as error:
            strangers("refused", address=address, kind="enrolment", fault=type(error).__name__)
        except RunError as error:  # of ours: the authority's folder
            log("failed", address=address, kind="enrolment", reason=str(error))
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await network.listen(*parse_address(address))
    task_status.started(network.place_of(listeners[0]))
    await trio.serve_listeners(exchange, listeners)


async def enrol(folder: Path, join: Path, address: str, limit: float, log: Log, renewal: bool = False) -> None:
    """Get a certificate for this host into ``folder``; ``join`` holds ca.pem and the token.

    With ``renewal`` the certificate in ``folder`` is shown in place of the token.
    """
    try:
        authority = (join / "ca.pem").read_bytes()
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(join / "ca.pem"))
    except (OSError, ValueError) as error:
        raise RequestError(f"--join {join}: cannot be used: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if renewal:
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    asked = Enrol("" if renewal else read_token(join), make_request(folder))
    place = parse_address(address)
    pause, noted = FIRST_PAUSE, ""
    with trio.move_on_after(limit) as scope:
        while True:
            try:
                answer = await _ask(context, *place, asked)
            except (*_LOST, ValueError, RecursionError, Refused) as error:
                why = str(error) or type(error).__name__
                if why != noted:  # one line, however often it has to knock
                    noted = why
                    log("unreachable", address=address, kind="enrolment", reason=noted)
                await trio.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE)
                continue
            if isinstance(answer, Rejected):
                raise RequestError(f"deployment.enrolment = {address}: {answer.reason}")
            if isinstance(answer, Waits):
                if noted != answer.reason:
                    noted = answer.reason
                    log("approval", address=address, reason=f"a person has to approve key {own_key_digest(folder)}")
                scope.deadline = trio.current_time() + limit  # people take their time; the token's end is theirs too
                await trio.sleep(MAX_PAUSE)
                continue
            try:
                store_certificate(folder, answer.chain, authority)
            except ValueError as error:
                raise RunError(f"deployment.enrolment = {address}: {error}") from None
            log("enrolled", address=address)
            return
    raise RunError(f"nobody enrolled this host at {address} within {limit:g} seconds")


async def _ask(context: ssl.SSLContext, host: str, port: int, asked: Enrol) -> Answer:
    sockets = TcpSockets()
    with trio.fail_after(LIMIT):
        stream = await sockets.connect(host, port)
        tls = sockets.secure(stream, context, server_side=False)
        try:
            await tls.handshake()
            if tls.identity().role != "coordinator":
                raise ValueError("not the coordinator")
            await _write(tls, msgspec.msgpack.encode(asked))
            return _answers.decode(await _read(tls))
        finally:
            await trio.aclose_forcefully(stream)


async def _write(stream: Secured, data: bytes) -> None:
    await stream.send_all(len(data).to_bytes(4, "big") + data)


async def _read(stream: Secured) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        if len(data) >= 4 and int.from_bytes(data[:4], "big") > MAX_REQUEST:
            raise ValueError("the other side says more than it may")
        part = await stream.receive_some(MAX_REQUEST)
        if not part:
            raise ValueError("the other side stopped in the middle")
        data += part
    return data[4 : 4 + int.from_bytes(data[:4], "big")]
