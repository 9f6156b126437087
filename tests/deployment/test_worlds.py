"""The simulated world and the real one give a node the same: claims about network, disk and clock that hold in both."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from p2p_labeldp.deployment.simulated import clockwork
from p2p_labeldp.deployment.simulated.disk import Disk
from p2p_labeldp.deployment.simulated.history import History
from p2p_labeldp.deployment.simulated.machine import Fleet, Machine
from p2p_labeldp.deployment.simulated.network import Cut, Network, Weather
from p2p_labeldp.deployment.simulated.papers import papers
from p2p_labeldp.deployment.world import World
from p2p_labeldp.network.credentials import Credentials


class Pair(NamedTuple):
    """Two nodes' worlds, the address of the first, and a folder."""

    one: World
    other: World
    host: str
    folder: Path


Claim = Callable[[Pair], Awaitable[None]]


@asynccontextmanager
async def two_machines(folder: Path) -> AsyncIterator[tuple[Fleet, Pair]]:
    history = History()
    fleet = Fleet(Network(history, random.Random(0), Weather(0.01)), history, {})
    worlds = []
    for number, name in enumerate(("learner", "users-1")):
        disk = Disk(folder, random.Random(1))
        worlds.append(Machine(fleet, name, f"10.0.0.{number + 1}", disk, "worlds").boot().world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fleet.network.pump)
        yield fleet, Pair(*worlds, "10.0.0.1", folder)
        nursery.cancel_scope.cancel()


def in_real(claim: Claim, folder: Path) -> None:
    async def run() -> None:
        with trio.fail_after(60):
            await claim(Pair(World(), World(), "127.0.0.1", folder))

    trio.run(run)


def in_simulated(claim: Claim, folder: Path) -> None:
    async def run() -> None:
        async with two_machines(folder) as (_, pair):
            with trio.fail_after(600):
                await claim(pair)

    clockwork.run(run, seed=0)


def in_both_worlds(claim: Claim) -> Callable[..., None]:
    @pytest.mark.parametrize("run", [in_real, in_simulated])
    def test(run: Callable[[Claim, Path], None], tmp_path: Path) -> None:
        run(claim, tmp_path)

    return test


@asynccontextmanager
async def connected(pair: Pair) -> AsyncIterator[tuple[Any, Any, Any]]:
    (listener,) = await pair.one.sockets.listen(pair.host, 0 if pair.host.startswith("127") else 7400)
    theirs = await pair.other.sockets.connect(*pair.one.sockets.place_of(listener))
    mine = await listener.accept()
    try:
        yield mine, theirs, listener
    finally:
        for each in (mine, theirs, listener):
            await trio.aclose_forcefully(each)


@in_both_worlds
async def test_bytes_arrive_in_order_and_then_the_end(pair: Pair) -> None:
    async with connected(pair) as (mine, theirs, _):
        for part in (b"first", b"second", b"third"):
            await theirs.send_all(part)
        await theirs.aclose()
        found = b""
        while part := await mine.receive_some(4):
            found += part
        assert found == b"firstsecondthird"
        assert pair.one.sockets.origin_of(mine)[0].rpartition(".")[0] == pair.host.rpartition(".")[0]


def test_bytes_keep_their_order_over_a_cut_that_catches_some_of_them_on_their_way(tmp_path: Path) -> None:
    async def simulated() -> None:
        async with two_machines(tmp_path) as (fleet, pair), connected(pair) as (mine, theirs, _):
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

    clockwork.run(simulated, seed=0)


@in_both_worlds
async def test_where_nobody_listens_a_connection_is_refused(pair: Pair) -> None:
    async with connected(pair) as (_, _, listener):
        place = pair.one.sockets.place_of(listener)
        await listener.aclose()
        with pytest.raises(OSError, match=r"refused|connect"):
            await pair.other.sockets.connect(*place)


@in_both_worlds
async def test_who_writes_to_who_has_gone_is_told(pair: Pair) -> None:
    async with connected(pair) as (mine, theirs, _):
        await mine.aclose()

        async def write_on() -> None:
            while True:
                await theirs.send_all(bytes(1000))
                await trio.sleep(0.01)

        with pytest.raises(trio.BrokenResourceError):
            await write_on()


@in_both_worlds
async def test_who_does_not_read_holds_up_who_writes(pair: Pair) -> None:
    async with connected(pair) as (mine, theirs, _):
        with trio.move_on_after(0.5) as limit:
            for _ in range(1000):
                await theirs.send_all(bytes(1 << 16))
        assert limit.cancelled_caught
        assert await mine.receive_some(10)


async def met(pair: Pair, server: ssl.SSLContext, client: ssl.SSLContext) -> list[Any]:
    async with connected(pair) as (mine, theirs, _):
        ends = pair.one.sockets.secure(mine, server, True), pair.other.sockets.secure(theirs, client, False)
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


@in_both_worlds
async def test_both_sides_know_the_other_by_its_certificate(pair: Pair) -> None:
    learner, users = Credentials.load(papers() / "learner"), Credentials.load(papers() / "users-1")
    assert await met(pair, learner.server, users.client) == ["users-1", "learner"]


@in_both_worlds
async def test_a_stranger_is_refused_by_the_server(pair: Pair) -> None:
    learner = Credentials.load(papers() / "learner")
    stranger = ssl.create_default_context(cafile=papers() / "learner" / "ca.pem")
    stranger.check_hostname = False
    stranger.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    found = await met(pair, learner.server, stranger)
    assert found[0] == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    assert found[1] != "learner"


@in_both_worlds
async def test_a_log_grows_is_one_programs_and_keeps_what_was_synced(pair: Pair) -> None:
    path = pair.folder / "state" / "journal.log"
    log = pair.one.disk.open_log(path)
    assert log.size == 0
    log.append(b"one, two")
    log.sync()
    log.cut(3)
    log.append(b"!")
    log.write_again(1)
    assert (log.size, log.read(0, 100), log.read(2, 1)) == (4, b"one!", b"e")
    log.close()
    again = pair.one.disk.open_log(path)
    assert again.read(0, 100) == b"one!"
    again.close()
    pair.one.disk.write(pair.folder / "results" / "trace", iter([b"a", b"b"]))
    pair.one.disk.write(pair.folder / "results" / "trace", iter([b"c"]))
    assert (pair.folder / "results" / "trace").read_bytes() == b"c"
    pair.one.disk.settle(pair.folder / "results")


@in_both_worlds
async def test_the_clock_on_the_wall_goes_as_fast_as_the_one_that_limits_are_measured_by(pair: Pair) -> None:
    wall, passed = pair.one.time(), trio.current_time()
    await trio.sleep(0.2)
    assert pair.one.time() - wall == pytest.approx(trio.current_time() - passed, abs=0.15)
    assert abs(pair.one.time() - pair.other.time()) < 1
    assert len(pair.one.entropy(100)) == 100
    assert pair.one.entropy(32) != pair.one.entropy(32)
    assert 0 <= pair.one.chance() < 1
    assert await pair.one.work(lambda number: number + 1, 1) == 2
