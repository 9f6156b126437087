"""The simulated world and the real one give a node the same: claims about network, disk and clock that hold in both."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from p2p_labeldp.deployment.simulated import clockwork
from p2p_labeldp.deployment.simulated.disk import Disk
from p2p_labeldp.deployment.simulated.history import History
from p2p_labeldp.deployment.simulated.machine import Fleet, Machine, Process
from p2p_labeldp.deployment.simulated.network import Cut, Network, Weather
from p2p_labeldp.deployment.simulated.papers import papers
from p2p_labeldp.deployment.world import World
from p2p_labeldp.network.credentials import Credentials

Claim = Callable[[World, World, str], Awaitable[None]]
"""(one node's world, another's, the address of the first)."""


def two_machines(folder: Path) -> tuple[Fleet, list[Process]]:
    history = History()
    fleet = Fleet(Network(history, random.Random(0), Weather(0.01)), history, {})
    processes = []
    for number, name in enumerate(("learner", "users-1")):
        disk = Disk(folder, random.Random(1))
        processes.append(Machine(fleet, name, f"10.0.0.{number + 1}", disk, "worlds").boot())
    return fleet, processes


@pytest.fixture(params=["real", "simulated"])
def in_a_world(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Claim], None]:
    async def real(claim: Claim) -> None:
        with trio.fail_after(60):
            await claim(World(), World(), "127.0.0.1")

    async def simulated(claim: Claim) -> None:
        fleet, processes = two_machines(tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.network.pump)
            with trio.fail_after(600):
                await claim(processes[0].world, processes[1].world, "10.0.0.1")
            nursery.cancel_scope.cancel()

    if request.param == "real":
        return lambda claim: trio.run(real, claim)
    return lambda claim: clockwork.run(simulated, claim, seed=0)


@asynccontextmanager
async def connected(one: World, other: World, host: str) -> AsyncIterator[tuple[Any, Any, Any]]:
    (listener,) = await one.sockets.listen(host, 0 if host.startswith("127") else 7400)
    theirs = await other.sockets.connect(*one.sockets.place_of(listener))
    mine = await listener.accept()
    try:
        yield mine, theirs, listener
    finally:
        for each in (mine, theirs, listener):
            await trio.aclose_forcefully(each)


def test_bytes_arrive_in_order_and_then_the_end(in_a_world: Callable[[Claim], None]) -> None:
    async def claim(one: World, other: World, host: str) -> None:
        async with connected(one, other, host) as (mine, theirs, _):
            for part in (b"first", b"second", b"third"):
                await theirs.send_all(part)
            await theirs.aclose()
            found = b""
            while part := await mine.receive_some(4):
                found += part
            assert found == b"firstsecondthird"
            assert one.sockets.origin_of(mine)[0].rpartition(".")[0] == host.rpartition(".")[0]

    in_a_world(claim)


def test_bytes_keep_their_order_over_a_cut_that_catches_some_of_them_on_their_way(tmp_path: Path) -> None:
    async def simulated() -> None:
        fleet, (one, other) = two_machines(tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.network.pump)
            async with connected(one.world, other.world, "10.0.0.1") as (mine, theirs, _):
                await theirs.send_all(b"before")
                fleet.network.cuts.append(Cut(frozenset(["users-1"]), frozenset(["learner"])))
                await theirs.send_all(b"during")
                await trio.sleep(1)
                fleet.network.cuts.clear()
                fleet.network.mended()
                await theirs.send_all(b"after")
                await theirs.aclose()
                found = b""
                while part := await mine.receive_some(100):
                    found += part
                assert found == b"beforeduringafter"
            nursery.cancel_scope.cancel()

    clockwork.run(simulated, seed=0)


def test_where_nobody_listens_a_connection_is_refused(in_a_world: Callable[[Claim], None]) -> None:
    async def claim(one: World, other: World, host: str) -> None:
        async with connected(one, other, host) as (_, _, listener):
            place = one.sockets.place_of(listener)
            await listener.aclose()
            with pytest.raises(OSError, match=r"refused|connect"):
                await other.sockets.connect(*place)

    in_a_world(claim)


def test_who_writes_to_who_has_gone_is_told(in_a_world: Callable[[Claim], None]) -> None:
    async def claim(one: World, other: World, host: str) -> None:
        async with connected(one, other, host) as (mine, theirs, _):
            await mine.aclose()

            async def write_on() -> None:
                while True:
                    await theirs.send_all(bytes(1000))
                    await trio.sleep(0.01)

            with pytest.raises(trio.BrokenResourceError):
                await write_on()

    in_a_world(claim)


def test_who_does_not_read_holds_up_who_writes(in_a_world: Callable[[Claim], None]) -> None:
    async def claim(one: World, other: World, host: str) -> None:
        async with connected(one, other, host) as (mine, theirs, _):
            with trio.move_on_after(0.5) as limit:
                for _ in range(1000):
                    await theirs.send_all(bytes(1 << 16))
            assert limit.cancelled_caught
            assert await mine.receive_some(10)

    in_a_world(claim)


async def met(one: World, other: World, host: str, server: ssl.SSLContext, client: ssl.SSLContext) -> list[Any]:
    async with connected(one, other, host) as (mine, theirs, _):
        ends = one.sockets.secure(mine, server, True), other.sockets.secure(theirs, client, False)
        found: list[Any] = [None, None]

        async def meet(place: int, stream: Any) -> None:
            try:
                await ends[place].handshake()
                await ends[place].send_all(b"hello")
                assert await ends[place].receive_some(5) == b"hello"
                found[place] = ends[place].identity().name
            except (ssl.SSLError, trio.BrokenResourceError) as error:
                found[place] = getattr(error, "reason", None) or type(error).__name__
                await trio.aclose_forcefully(stream)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(meet, 0, mine)
            nursery.start_soon(meet, 1, theirs)
        return found


def test_both_sides_know_the_other_by_its_certificate(in_a_world: Callable[[Claim], None]) -> None:
    learner, users = Credentials.load(papers() / "learner"), Credentials.load(papers() / "users-1")

    async def claim(one: World, other: World, host: str) -> None:
        assert await met(one, other, host, learner.server, users.client) == ["users-1", "learner"]

    in_a_world(claim)


def test_a_stranger_is_refused_by_the_server(in_a_world: Callable[[Claim], None]) -> None:
    learner = Credentials.load(papers() / "learner")
    stranger = ssl.create_default_context(cafile=papers() / "learner" / "ca.pem")
    stranger.check_hostname = False
    stranger.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

    async def claim(one: World, other: World, host: str) -> None:
        found = await met(one, other, host, learner.server, stranger)
        assert found[0] == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
        assert found[1] != "learner"

    in_a_world(claim)


def test_a_log_grows_is_one_programs_and_keeps_what_was_synced(
    in_a_world: Callable[[Claim], None], tmp_path: Path
) -> None:
    async def claim(one: World, other: World, host: str) -> None:
        path = tmp_path / "state" / "journal.log"
        log = one.disk.open_log(path)
        assert log.size == 0
        log.append(b"one, two")
        log.sync()
        log.cut(3)
        log.append(b"!")
        log.write_again(1)
        assert (log.size, log.read(0, 100), log.read(2, 1)) == (4, b"one!", b"e")
        log.close()
        again = one.disk.open_log(path)
        assert again.read(0, 100) == b"one!"
        again.close()
        one.disk.write(tmp_path / "results" / "trace", iter([b"a", b"b"]))
        one.disk.write(tmp_path / "results" / "trace", iter([b"c"]))
        assert (tmp_path / "results" / "trace").read_bytes() == b"c"
        one.disk.settle(tmp_path / "results")

    in_a_world(claim)


def test_the_clock_on_the_wall_goes_as_fast_as_the_one_that_limits_are_measured_by(
    in_a_world: Callable[[Claim], None],
) -> None:
    async def claim(one: World, other: World, host: str) -> None:
        wall, passed = one.time(), trio.current_time()
        await trio.sleep(0.2)
        assert one.time() - wall == pytest.approx(trio.current_time() - passed, abs=0.15)
        assert abs(one.time() - other.time()) < 1
        assert len(one.entropy(100)) == 100
        assert one.entropy(32) != one.entropy(32)
        assert 0 <= one.chance() < 1
        assert await one.work(lambda number: number + 1, 1) == 2

    in_a_world(claim)
