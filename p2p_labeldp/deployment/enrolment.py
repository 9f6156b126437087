"""How a user host without a certificate gets one: it shows a join token, the coordinator's enrolment authority signs.

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

from p2p_labeldp.deployment.certificates import check_token, make_request, read_token, sign_request, store_certificate
from p2p_labeldp.deployment.limiter import ConnectionLimiter
from p2p_labeldp.deployment.parts import Log
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.network.sockets import Secured, Sockets, TcpSockets
from p2p_labeldp.protocol.messages import Refused

MAX_REQUEST = 32 << 10  # bytes: a token and a signing request, which takes about 500
LIMIT = 10.0  # seconds for one exchange
MOST = 64  # exchanges at once
MAX_PAUSE = 2.0


class Enrol(msgspec.Struct, frozen=True, array_like=True, tag="enrol", forbid_unknown_fields=True):
    token: str
    request: bytes


class Enrolled(msgspec.Struct, frozen=True, array_like=True, tag="enrolled", forbid_unknown_fields=True):
    chain: bytes


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag="rejected", forbid_unknown_fields=True):
    reason: str


_LOST = (OSError, trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError)
_answers = msgspec.msgpack.Decoder(Enrolled | Rejected)


async def serve_enrolment(
    host: str,
    port: int,
    authority: Path,
    certificates: Path,
    log: Log,
    sockets: Sockets | None = None,
    *,
    task_status: Any = trio.TASK_STATUS_IGNORED,
) -> None:
    """Sign for whoever has the token, until cancelled; ``authority`` is the folder ``certs init`` calls enrolment.

    The coordinator shows its own certificate, in ``certificates``; who enrols has none to show yet.
    """
    token = read_token(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    limiter = ConnectionLimiter(LIMIT, MOST)
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
                answer = _answer(authority, token, asked)
                reason = {"reason": answer.reason} if isinstance(answer, Rejected) else {}
                log("refused" if reason else "enrolled", address=address, kind="enrolment", **reason)
                await _write(tls, msgspec.msgpack.encode(answer))
        except (*_LOST, ValueError, RecursionError) as error:
            log("refused", address=address, kind="enrolment", fault=type(error).__name__)
        except RunError as error:  # of ours: the authority's folder
            log("failed", address=address, kind="enrolment", reason=str(error))
        finally:
            await trio.aclose_forcefully(stream)

    listeners = await network.listen(host, port)
    task_status.started(network.place_of(listeners[0]))
    await trio.serve_listeners(exchange, listeners)


def _answer(authority: Path, token: str, asked: Enrol) -> Enrolled | Rejected:
    if not check_token(token, asked.token):
        return Rejected("the join token is wrong")
    try:
        return Enrolled(sign_request(authority, asked.request))
    except ValueError as error:
        return Rejected(f"the request is not one to sign: {error}")


async def enrol(folder: Path, join: Path, address: str, limit: float, log: Log, sockets: Sockets | None = None) -> None:
    """Get a certificate for this host into ``folder``; ``join`` holds ca.pem and the token."""
    try:
        authority = (join / "ca.pem").read_bytes()
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(join / "ca.pem"))
    except (OSError, ValueError) as error:
        raise RequestError(f"--join {join}: cannot be used: {error}") from None
    token = read_token(join)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    request = make_request(folder)
    host, _, port = address.rpartition(":")
    pause, noted = 0.1, ""
    with trio.move_on_after(limit):
        while True:
            try:
                answer = await _ask(sockets or TcpSockets(), context, host, int(port), Enrol(token, request))
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
            try:
                store_certificate(folder, answer.chain, authority)
            except ValueError as error:
                raise RunError(f"deployment.enrolment = {address}: {error}") from None
            log("enrolled", address=address)
            return
    raise RunError(f"nobody enrolled this host at {address} within {limit:g} seconds")


async def _ask(sockets: Sockets, context: ssl.SSLContext, host: str, port: int, asked: Enrol) -> Enrolled | Rejected:
    with trio.fail_after(LIMIT):
        stream = await sockets.connect(host, port)
        tls = sockets.secure(stream, context, server_side=False)
        try:
            await tls.handshake()
            if tls.identity().role != "coordinator":
                raise ValueError("not the coordinator")
            await _write(tls, msgspec.msgpack.encode(asked))
            answer: Enrolled | Rejected = _answers.decode(await _read(tls))
            return answer
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
