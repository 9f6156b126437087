"""Intruders against a live deployment: each is refused, the node that met it says so, and honest users finish.

The first tests are of strangers and of hosts without a share. In the later ones a host holds a share: its
own users are its own to lie for, everyone else's are not.
"""

from __future__ import annotations

import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from intruding import Raw, context_of, enrolled_in, forge
from journals import facts_of
from live_deployment import Held, Live, mail
from small import THREE_CLUSTERS

from p2p_labeldp.audit.runs import audit_runs
from p2p_labeldp.deployment.admission import PROGRAM
from p2p_labeldp.deployment.certificates import init_certificates, renew
from p2p_labeldp.deployment.items import (
    encode_item,
    encode_records,
)
from p2p_labeldp.deployment.journal import FILE
from p2p_labeldp.deployment.node import Node
from p2p_labeldp.errors import RequestError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.network.credentials import Credentials
from p2p_labeldp.network.frames import Ack, Bye, Item, Open
from p2p_labeldp.network.sockets import TlsStream
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    LEARNER,
    VERSION,
    Assignment,
    Done,
    Report,
)
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import parse_scenario, replace

SMALL = parse_scenario(THREE_CLUSTERS)
NODES = ("coordinator", "learner", "auditor", "users-1")


@pytest.fixture(scope="module")
def expected() -> Any:
    """What the vectorized engine makes of the same scenario."""
    return run(SMALL, engine="vectorized")


@pytest.fixture
def live(tmp_path: Path) -> Live:
    return Live(tmp_path / "live", SMALL)


# Strangers


async def turned_away(live: Live, name: str, context: ssl.SSLContext, why: str, **facts: Any) -> None:
    """Whoever dials so hears nothing that an honest node would be told, and the node says why."""
    before = len(live.lines(name, "refused", reason=why, **facts))
    async with live.dial(name, context, live.opening(), Ack(0)) as raw:
        frames = await raw.rest()
    assert all(isinstance(frame, Bye) for frame in frames), frames
    await live.saw(name, "refused", before + 1, reason=why, **facts)


async def test_nobody_gets_in_without_a_certificate_that_counts(live: Live, expected: Any, tmp_path: Path) -> None:
    init_certificates(tmp_path / "others", hosts=1)
    shutil.copytree(live.certificates, tmp_path / "old")
    renew(tmp_path / "old", days=1, now=datetime.now(UTC) - timedelta(days=9))
    async with live.running():
        await live.start(*NODES)
        for name in NODES:
            await turned_away(live, name, context_of(), "peer did not return a certificate")
            other = context_of(tmp_path / "others" / "users-1")
            await turned_away(live, name, other, "unable to get local issuer certificate")
            expired = context_of(tmp_path / "old" / "users-3")
            await turned_away(live, name, expired, "certificate has expired")
            ancient = context_of(live.certificates / "users-3", maximum_version=ssl.TLSVersion.TLSv1_2)
            await turned_away(live, name, ancient, "unsupported protocol")
        for role in ("coordinator", "learner", "auditor"):
            forged = forge(tmp_path / role, live.certificates, "enrolment", f"urn:p2p-labeldp:{role}:{role}")
            for name in NODES:
                why = f"a certificate for the {role} that the root authority did not sign itself"
                await turned_away(live, name, context_of(forged), why, fault="misdirected")
        await live.start("users-2")
        assert (await live.finish())["noisy_sha256"] == expected.summary.noisy_sha256


async def test_a_host_without_a_share_gets_nowhere(live: Live, expected: Any) -> None:
    async with live.running():
        await live.start(*NODES)
        held = await live.start("users-2", kind=Held)
        assert isinstance(held, Held)
        await held.assigned.wait()
        for name in ("learner", "auditor", "users-1"):
            async with live.dial(name, "users-3", live.opening(), Ack(0), Item(0, 0, b"?")) as raw:
                assert await raw.goodbye() == "misdirected: this host has no share"
            await live.saw(name, "refused", reason="misdirected: this host has no share")
        async with live.dial("coordinator", "users-3", live.opening(), Ack(0)) as raw:
            assert "shares are dealt already" in await raw.goodbye()
        async with live.dial("coordinator", "users-3", Open(VERSION, "data.users=none", "", 0, PROGRAM), Ack(0)) as raw:
            assert "the scenario differs in" in await raw.goodbye()
        async with live.dial("coordinator", "users-2", live.opening(run="another"), Ack(0)) as raw:
            assert "belongs to another run" in await raw.goodbye()
        version = live.opening().version + 1
        async with live.dial("learner", "users-1", Open(version, live.opening().digest, "", 0, PROGRAM), Ack(0)) as raw:
            assert f"protocol version {version}" in await raw.goodbye()
        held.exchange.set()
        held.leave.set()
        assert (await live.finish())["noisy_sha256"] == expected.summary.noisy_sha256


async def test_a_host_that_enrols_after_shares_are_dealt_is_told_so(
    live: Live, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = enrolled_in(live.certificates, tmp_path / "late")
    async with live.running():
        await live.start(*NODES)
        held = await live.start("users-2", kind=Held)
        assert isinstance(held, Held)
        await held.assigned.wait()
        latecomer = Node(
            "users", live.scenario, certificates=late, state=tmp_path / "late-state", rows=live.rows("users-1")
        )
        monkeypatch.setattr(latecomer, "log", lambda *_, **__: None)
        monkeypatch.setattr(latecomer._transport, "_log", lambda *_, **__: None)
        with pytest.raises(ExceptionGroup) as group:
            await latecomer.run()
        latecomer.journal.close()
        assert group.group_contains(RequestError, match="the coordinator refuses this node: .*shares are dealt")
        name = latecomer.credentials.identity.key
        await live.saw("coordinator", "refused", peer=name, fault="misdirected")
        held.exchange.set()
        held.leave.set()
        assert (await live.finish())["noisy_sha256"] == expected.summary.noisy_sha256


# Those who pretend to be someone else


async def test_a_host_at_the_learners_address_hears_nothing(live: Live, expected: Any) -> None:
    """It waits where hosts expect the learner; after two of them have turned their backs it lets them through."""
    heard: list[Any] = []
    server = Credentials.load(live.certificates / "users-3").server

    async def pose(near: trio.SocketStream) -> None:
        raw = Raw(TlsStream(near, server, server_side=True))
        await raw.stream.handshake()
        heard.append(await raw.rest())

    async def pass_on(source: trio.SocketStream, sink: trio.SocketStream) -> None:
        while data := await source.receive_some():
            await sink.send_all(data)

    async def serve(near: trio.SocketStream) -> None:
        if len(heard) < 2:
            await pose(near)
            return
        far = await trio.open_tcp_stream(*parse_address(live.address["learner"]))
        async with far, trio.open_nursery() as nursery:
            nursery.start_soon(pass_on, far, near)
            await pass_on(near, far)
            nursery.cancel_scope.cancel()

    async with live.running(), trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        posing = "{}:{}".format(*listeners[0].socket.getsockname())
        await live.start("coordinator", "learner", "auditor")
        await live.start("users-1", "users-2", deployment__learner=posing)
        assert (await live.finish())["noisy_sha256"] == expected.summary.noisy_sha256
        nursery.cancel_scope.cancel()
    assert len(heard) >= 2
    assert all(len(frames) == 1 and isinstance(frames[0], Bye) for frames in heard)
    why = f"misdirected: here is users-3, known as {live.key('users-3')}, and not learner"
    refused = [line for name in ("users-1", "users-2") for line in live.lines(name, "refused", reason=why)]
    assert len(refused) == len(heard)


async def test_there_is_one_coordinator_whatever_certificates_the_root_has_signed(
    live: Live, expected: Any, tmp_path: Path
) -> None:
    uri = "urn:p2p-labeldp:coordinator:coordinator"
    second = context_of(forge(tmp_path / "second", live.certificates, "authority", uri))
    why = "misdirected: the coordinator of this run has another certificate"
    async with live.running():
        await live.start(*NODES)
        await live.saw("coordinator", "joined", host="users-1")
        name = live.nodes["coordinator"]._part.run
        for victim in ("learner", "auditor", "users-1"):
            await live.saw(victim, "connected", name="coordinator")
            async with live.dial(victim, second, live.opening(name), Ack(0), Item(0, 9, b"?")) as raw:
                assert await raw.goodbye() == why
            await live.saw(victim, "refused", reason=why)
            assert not live.lines(victim, "replaced")
        async with live.dial("coordinator", second, live.opening(name), Ack(0)) as raw:
            assert "there is one coordinator, and this is it" in await raw.goodbye()
        await live.start("users-2")
        assert (await live.finish())["noisy_sha256"] == expected.summary.noisy_sha256
    first = Credentials.load(live.certificates / "coordinator").identity.fingerprint
    found = facts_of(live.folder / "state" / "learner" / FILE)  # who was first is known after a restart too
    assert found["known coordinator"] == first


# A host with a share of its own


async def test_a_host_speaks_for_its_own_users_and_for_nobody_else(tmp_path: Path, expected: Any) -> None:
    """To every node it says what is not its to say, and then does its part: nothing has changed.

    All that it could say stands in ``test_lies``.
    """
    live = Live(tmp_path / "live", SMALL, hosts=3)
    async with live.running():
        await live.start("coordinator", "learner", "auditor", "users-1", "users-2")
        held = await live.start("users-3", kind=Held)
        assert isinstance(held, Held)
        await held.assigned.wait()
        theirs = next(iter(set(range(40)) - set(held.share)))
        away = held._part.shares.holder_of(theirs)
        assert away is not None
        # In the middle of the exchange, with a clock that leaps.
        done = mail(
            *((user, COORDINATOR, Done(round_, "reported")) for user, round_ in ((theirs, 0), (held.share[0], 1)))
        )
        await held.inject("coordinator", done, clock=2**62)
        await held.inject("learner", mail((theirs, LEARNER, Report(0, 1))), clock=2**62)
        await held.inject(away.key, mail((COORDINATOR, theirs, Assignment(0, 40, theirs))), clock=2**62)
        await held.inject("auditor", *encode_records(0.0, [Envelope(theirs, LEARNER, Report(0, 1))]), clock=2**62)
        for name, kind in (("coordinator", "done"), ("learner", "report"), (away.name, "assignment")):
            assert live.lines(name, "refused", peer="users-3", kind=kind, fault="misdirected"), name
        assert live.lines("auditor", "refused", peer="users-3", kind="record", fault="misdirected")
        assert held._part.clock < 2**40
        held.exchange.set()
        await held.settled.wait()
        # It calls the learner once more and listens, until its own node calls too.
        async with live.dial("learner", "users-3", live.opening(held._part.run), Ack(0)) as raw:
            first, *acknowledged, last = [type(frame) for frame in await raw.rest()]
            assert (first, {*acknowledged}, last) == (Open, {Ack}, Bye)
        held.leave.set()
        summary = await live.finish()
    assert summary["noisy_sha256"] == expected.summary.noisy_sha256
    assert summary["missing"] == summary["missing_hosts"] == []
    # It told the auditor nothing of its lies; that others refused them gives it away.
    shutil.copy(live.folder / "auditor" / "trace.msgpack", live.folder / "learner" / "trace.msgpack")
    (audit,) = audit_runs([live.folder / "learner"]).runs
    assert {"refusals"} <= {violation.invariant for violation in audit.violations}


def assert_lost(live: Live, summary: dict[str, Any], expected: Any) -> None:
    """The third host is named; what arrived is a part of what would have, and so is whoever is not in it."""
    assert summary["missing_hosts"] == ["users-3"]
    users, labels = expected.outcome.rounds[0]
    whole = dict(zip(users.tolist(), labels.tolist(), strict=True))
    found = np.load(live.folder / "learner" / "reports.npz")
    reports = dict(zip(found["user"].tolist(), found["label"].tolist(), strict=True))
    assert reports.items() <= whole.items()
    assert {user for user in whole if user not in reports} <= set(summary["missing"])
    assert 0 < len(reports) < len(whole)


async def test_a_host_that_floods_is_listened_to_no_more(tmp_path: Path, expected: Any) -> None:
    live = Live(tmp_path / "live", replace(SMALL, network__round_limit=6.0), hosts=3, deployment__away_limit=2.0)
    names = ["coordinator", "learner", "auditor", "users-1", "users-2"]
    async with live.running():
        await live.start(*names)
        held = await live.start("users-3", kind=Held)
        assert isinstance(held, Held)
        await held.assigned.wait()
        mine = held.share[0]
        flood = mail(*[(mine, COORDINATOR, Done(7, "reported"))] * 100)
        for key in ("coordinator", "learner", "auditor", live.key("users-1")):
            for _ in range(20):
                held._transport.post(key, held._part.clock, encode_item(flood))
        for name in ("coordinator", "learner", "auditor", "users-1"):
            assert (await live.saw(name, "shunned", peer="users-3"))["count"] == 1201
            await live.saw(name, "disconnected", peer=live.key("users-3"))
            assert len(live.lines(name, "refused", kind="done")) == 1000
        summary = await live.finish(*names)
    assert_lost(live, summary, expected)


@pytest.mark.slow
async def test_a_host_that_only_chatters_does_not_stop_the_clock(tmp_path: Path, expected: Any) -> None:
    """It is in the way of every limit: something arrives all the time. And nobody can reach it at its address."""
    live = Live(tmp_path / "live", replace(SMALL, network__round_limit=6.0), hosts=3, deployment__away_limit=2.0)
    names = ["coordinator", "learner", "auditor", "users-1", "users-2"]

    async def chatter() -> None:
        while True:
            for key in ("coordinator", "learner", "auditor", live.key("users-1"), live.key("users-2")):
                held._transport.post(key, 0, b"?")
            await trio.sleep(0.01)

    async with live.running(), trio.open_nursery() as nursery:
        await live.start(*names)
        held = await live.start("users-3", kind=Held, deployment__advertise="no..where")
        assert isinstance(held, Held)
        await held.assigned.wait()
        nursery.start_soon(chatter)
        summary = await live.finish(*names)
        nursery.cancel_scope.cancel()
    assert live.lines("coordinator", "refused", peer="users-3", kind="item", fault="malformed")
    assert live.lines("coordinator", "limit", phase="exchange")
    assert_lost(live, summary, expected)
