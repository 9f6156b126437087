"""Somebody without a certificate who dials the nodes of a deployment, and wastes their time."""

from __future__ import annotations

import random
import ssl
from functools import cache

import trio

from p2p_labeldp.deployment.simulated.disk import Disk
from p2p_labeldp.deployment.simulated.machine import Fleet, Machine
from p2p_labeldp.deployment.simulated.meeting import HELLO
from p2p_labeldp.deployment.simulated.papers import papers

NAME, ADDRESS = "stranger", "10.0.9.9"


async def visit(fleet: Fleet, target: str, number: int) -> None:
    """Dial a machine once: say nothing, nonsense, half of a handshake, or all of it, with no certificate."""
    if NAME not in fleet.by_name:
        Machine(fleet, NAME, ADDRESS, Disk(papers(), random.Random(NAME)), NAME).boot()
    machine = fleet.by_name[NAME]
    process = machine.process
    assert process is not None
    address = fleet.by_name[target].address
    port = next((port for host, port in fleet.network.listeners if host == address), 0)
    try:
        end = await process.world.sockets.connect(address, port)
        if number % 4 == 1:
            await end.send_all(random.Random(number).randbytes(64))
        elif number % 4 == 2:
            await end.send_all(HELLO)
        elif number % 4 == 3:
            await process.world.sockets.secure(end, _nobody(), False).handshake()
        with trio.move_on_after(60):
            while await end.receive_some(100):
                pass
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass


@cache
def _nobody() -> ssl.SSLContext:
    """TLS as anyone has it, who knows the root and has no certificate."""
    context = ssl.create_default_context(cafile=papers() / "learner" / "ca.pem")
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
