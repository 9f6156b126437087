"""What a node serves besides its part: its health, certificates for hosts that enrol, a place where hosts meet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trio

from p2p_labeldp.deployment.enrolment import Desk, serve_enrolment
from p2p_labeldp.deployment.health import serve_health
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.addresses import format_address, parse_address
from p2p_labeldp.network.credentials import Credentials, Identity
from p2p_labeldp.network.relay import Relay
from p2p_labeldp.network.sockets import Sockets
from p2p_labeldp.scenario import Deployment


async def serve(
    nursery: trio.Nursery,
    deployment: Deployment,
    part: Part,
    health: Callable[[], dict[str, Any]],
    desk: Desk | None,
    certificates: Path,
    credentials: Credentials,
    log: Logger,
    sockets: Sockets,
) -> None:
    """What the scenario asks for; ``desk`` is where a coordinator has hosts enrolled."""
    if deployment.health:
        with _address_errors("health", deployment.health):
            await nursery.start(serve_health, *parse_address(deployment.health), health, sockets)
    if desk is not None:
        with _address_errors("enrolment", deployment.enrolment):
            address = _beside(deployment, deployment.enrolment)
            await nursery.start(serve_enrolment, address, desk, certificates, log, sockets)
    if credentials.identity.role == "coordinator" and deployment.relay:

        def may_meet(caller: Identity, called: str) -> bool:
            """Both are of this run."""
            hosts = {} if part.shares is None else part.shares.by_key
            return caller.key in hosts and called in hosts and not part.costs.shunned & {caller.key, called}

        relay = Relay(credentials, may_meet, log, sockets)
        with _address_errors("relay", deployment.relay):
            await nursery.start(relay.serve, _beside(deployment, deployment.relay))


def _beside(deployment: Deployment, address: str) -> str:
    """Where to listen for what others reach under this address: at the interface that this node listens at."""
    host, port = parse_address(address)
    return format_address(parse_address(deployment.listen)[0] if deployment.listen else host, port)


@contextlib.contextmanager
def _address_errors(name: str, address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RequestError(f"deployment.{name} = {address}: cannot listen there: {error.strerror}") from None
