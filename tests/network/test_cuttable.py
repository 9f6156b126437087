"""A node whose links are cut says and hears nothing; what was posted meanwhile arrives when they are mended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from p2p_labeldp.network.cuttable import CuttableSockets

NewNode = Callable[..., Any]


@pytest.mark.parametrize("listens", [True, False])
async def test_cut_links_carry_nothing_until_they_are_mended(listens: bool, new_node: NewNode) -> None:
    server, client = new_node("coordinator"), new_node("users-1")
    sockets = CuttableSockets()
    cut_off, other = (server, client) if listens else (client, server)
    cut_off.transport._sockets = sockets
    await server.start()
    client.transport.connect("coordinator", server.address)
    await client.start()
    await server.saw("connected")
    await client.saw("connected")
    sockets.cut()
    for node in (server, client):
        await node.saw("disconnected")
    for each, key in ((server, client.key), (client, "coordinator")):
        each.transport.post(key, 0, b"held")
    await client.saw("unreachable")
    assert len(cut_off.logged("connected")) == len(other.logged("connected")) == 1
    sockets.mend()
    assert [arrival.body for arrival in await server.receive(1)] == [b"held"]
    assert [arrival.body for arrival in await client.receive(1)] == [b"held"]


def test_signals_cut_and_mend() -> None:
    sockets = CuttableSockets()
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    try:
        sockets.obey_signals()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert sockets._cut
        os.kill(os.getpid(), signal.SIGUSR2)
        assert not sockets._cut
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
