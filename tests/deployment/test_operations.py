"""What operators rely on: logs that hold nobody up, limits for strangers, signals, versions, what a page may show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import trio
from deployment_model import Model
from live_deployment import Live, free_addresses
from processes import Machine, fleet, program
from small import ONE_CLUSTER

from p2p_labeldp.deployment.admission import PROGRAM
from p2p_labeldp.deployment.certificates import init_certificates
from p2p_labeldp.deployment.dividing import STUDY, divide
from p2p_labeldp.deployment.health import METRICS, metrics
from p2p_labeldp.network.addresses import parse_address
from p2p_labeldp.scenario import parse_scenario, replace
from p2p_labeldp.stderr import Outlet

PATIENCE = 60.0
SMALL = parse_scenario(ONE_CLUSTER, overrides=["data.users=40", "data.groups=2", "mechanism.rounds=2"])


# Logs that nobody reads


def test_a_reader_who_stalls_or_goes_holds_nobody_up_and_what_is_lost_is_counted() -> None:
    reads, writes = os.pipe()
    outlet = Outlet(writes, most=100_000)
    line = "x" * 999 + "\n"
    kept = sum(outlet.write(line) for _ in range(500))
    assert outlet.dropped == 500 - kept > 0
    assert not outlet.drain(0.1)  # the pipe is full, and the thread waits for it; this one does not
    os.set_blocking(reads, False)
    got = b""
    deadline = time.monotonic() + PATIENCE
    while len(got) < kept * len(line) and time.monotonic() < deadline:
        try:
            got += os.read(reads, 1 << 20)
        except BlockingIOError:
            time.sleep(0.01)
    assert got == line.encode() * kept
    os.close(reads)
    before = outlet.dropped
    outlet.write(line)
    assert outlet.drain(PATIENCE)
    assert outlet.dropped == before + 1
    os.close(writes)


def test_a_node_whose_log_nobody_reads_works_and_ends(tmp_path: Path) -> None:
    """A coordinator whose standard error is a pipe that is full."""
    init_certificates(tmp_path / "certs")
    (address,) = free_addresses(1)
    divide(SMALL, 1, tmp_path / "study", None)
    words = ["node", "coordinator", str(tmp_path / "study" / STUDY), "--coordinator", address, "--away-limit", "2"]
    words += ["--certs", str(tmp_path / "certs/coordinator"), "--state", str(tmp_path / "state")]
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    try:
        while True:
            os.write(writes, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writes, True)
    process = subprocess.Popen(
        [sys.executable, "-m", "p2p_labeldp", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=writes,
    )
    os.close(writes)
    try:
        assert process.wait(PATIENCE) == 3  # nobody came; with a log that blocks it would be there for good
    finally:
        process.kill()
        process.wait()
        os.close(reads)


# Strangers


async def test_a_flood_of_strangers_leaves_a_page_of_log_and_the_number_of_the_rest(tmp_path: Path) -> None:
    live = Live(tmp_path / "live", SMALL, hosts=2)
    (health,) = free_addresses(1)
    async with live.running():
        node = await live.start("coordinator", deployment__health=health)
        for _ in range(400):
            stream = await trio.open_tcp_stream(*parse_address(live.address["coordinator"]))
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await trio.aclose_forcefully(stream)
        while node.health()["strangers_refused"] < 400:  # noqa: ASYNC110 - a counter wakes nobody
            await trio.sleep(0.01)
        assert 50 <= len(live.lines("coordinator", "refused")) <= 60
        node._transport.strangers.tell()
        left_out = sum(
            int(line["warning"].split()[0])
            for line in live.lines("coordinator", "warning")
            if "about strangers" in line["warning"]
        )
        assert left_out + len(live.lines("coordinator", "refused")) == 400
        assert "p2p_labeldp_strangers_refused_total 400" in metrics(node.health())


# Signals


@pytest.mark.parametrize(
    ("ignored", "enrolling"), [(False, False), (True, True)], ids=["a node", "a host that enrols, SIGINT ignored"]
)
def test_sigterm_ends_a_node(tmp_path: Path, ignored: bool, enrolling: bool) -> None:
    init_certificates(tmp_path / "certs", hosts=1)
    rows = divide(SMALL, 1, tmp_path / "study", None)["users-1"]
    rows.chmod(0o644)
    words = ["node", "users", str(tmp_path / "study" / STUDY), "--rows", str(rows), "--state", str(tmp_path / "state")]
    if enrolling:
        from p2p_labeldp.deployment.invitations import invite

        words += ["--join", str(invite(tmp_path / "certs", "clinic")), "--certs", str(tmp_path / "own")]
        words += ["--enrolment", free_addresses(1)[0]]
    else:
        words += ["--certs", str(tmp_path / "certs/users-1"), "--coordinator", free_addresses(1)[0]]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    with program(*words) as process:
        signal.signal(signal.SIGINT, before)
        assert process.stderr is not None
        said = [json.loads(process.stderr.readline()) for _ in range(1 if enrolling else 2)]
        if enrolling:
            assert said[0]["event"] == "unreachable"
        else:
            assert said[1]["warning"].startswith(f"{rows}: others may read it, and the labels in it")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 3
        assert "interrupted" in process.stderr.read()


# Versions


def test_another_version_is_refused_by_name_in_the_handshake_and_by_the_journal(
    machine: Machine, tmp_path: Path
) -> None:
    with fleet(machine, replace(SMALL, deployment__away_limit=5.0), 1, tmp_path / "work") as nodes:
        nodes.start("coordinator")
        nodes.wait_for("coordinator", "listening")
        modules = ("node", "admission")
        older = {f"p2p_labeldp.deployment.{module}.PROGRAM": "0.1.9" for module in modules}
        nodes.start("users-1", patches=older)
        assert nodes.wait("users-1") == {"users-1": 2}
        said = nodes.said("users-1")[-1]["text"]
        assert f"p2p-labeldp {PROGRAM}" in said
        assert "0.1.9" in said
        nodes.start("users-1")
        assert nodes.wait("users-1") == {"users-1": 2}
        assert f"the journal is of p2p-labeldp 0.1.9, and this is {PROGRAM}" in nodes.said("users-1")[-1]["text"]


async def test_a_program_that_does_not_name_itself_is_an_older_one(tmp_path: Path) -> None:
    live = Live(tmp_path / "live", SMALL, hosts=2)
    async with live.running():
        await live.start("coordinator")
        opening = live.opening()
        older = type(opening)(opening.version, opening.digest, opening.run, 0)
        async with live.dial("coordinator", "users-1", older) as raw:
            assert "users-1 runs an older p2p-labeldp" in await raw.goodbye()


# What a page may show


def pages(model: Model) -> dict[str, list[str]]:
    """Every page that anyone could have read at a node while it ran, in order, without repetitions."""
    seen: dict[str, list[str]] = {name: [] for name in model.names}
    more = True
    while more:
        for name, part in model.parts.items():
            found = part.shown
            if name == "coordinator" and found["waits_for"].count(", "):
                found["waits_for"] = found["waits_for"].count(", ")  # nodes, of which one or the other may be first
            page = metrics(found) + json.dumps(found)
            if not seen[name] or seen[name][-1] != page:
                seen[name].append(page)
        more = model.step()
    return seen


def test_no_page_depends_on_a_label_or_on_a_coin() -> None:
    """Nor on the order in which messages arrive: what is shown is public."""
    usual = pages(Model(SMALL, 3))
    for labels, coins in ((1, 0), (0, 1)):
        model = Model(replace(SMALL, coins__seed=coins), 3, seed=5, dataset=Model(SMALL, 3).dataset)
        model.dataset.labels[:] = (model.dataset.labels + labels) % 2
        model.parts = {name: model.make(name) for name in model.names}
        assert pages(model).keys() == usual.keys()
        assert all(set(found) <= set(usual[name]) for name, found in pages(model).items())
    assert len(usual["coordinator"]) >= 4
    # Nor on the time at which a host was done with a round, from which follows whom its users asked.
    assert sum("phase exchange" in page for page in usual["coordinator"]) == SMALL.mechanism.rounds
    assert np.all([name in metrics({}) for name in METRICS])
