"""Networks as they are: hosts that nobody can call, pairs without a way, a mesh that is too large, IPv6.

Every node has a network namespace of its own; what a firewall or an address translation does to calls from outside,
nft does here: it drops the first packet of every connection that comes in.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import Fleet, Machine, audited, expected_sha256, fleet
from small import ONE_CLUSTER

from p2p_labeldp.deployment.invitations import invite
from p2p_labeldp.scenario import parse_scenario, replace

SCENARIO = parse_scenario(ONE_CLUSTER, overrides=["data.users=90", "mechanism.rounds=2"])
NO_CALLS = "input iifname eth0 tcp flags & (syn | ack) == syn counter drop"


def relay_of(nodes: Fleet) -> tuple[str, str]:
    return "--relay", f"{nodes.address('coordinator')}:7402"


def assert_all_arrived(nodes: Fleet, out: Path) -> None:
    nodes.finish()
    summary = nodes.collect(out)
    assert summary.missing == summary.missing_hosts == summary.unreached == ()
    assert summary.noisy_sha256 == expected_sha256(SCENARIO)
    assert audited(out).passed


@pytest.mark.slow
def test_a_host_that_nobody_can_call_calls_the_others(lab: Machine, tmp_path: Path) -> None:
    """Each of the three in turn would have been the one that is to be called, for one order of keys or another."""
    with fleet(lab, SCENARIO, 3, tmp_path / "work", networks=True) as nodes:
        lab.filter("users-2", NO_CALLS)
        nodes.start()
        nodes.finish()
        assert {line["name"] for line in nodes.heard("users-2", "connected")} >= {"users-1", "users-3"}
        assert_all_arrived(nodes, tmp_path / "run")


def test_hosts_that_cannot_call_each_other_meet_at_the_relay(lab: Machine, tmp_path: Path) -> None:
    with fleet(lab, SCENARIO, 3, tmp_path / "work", networks=True) as nodes:
        for name in ("users-1", "users-2"):
            lab.filter(name, NO_CALLS)
        nodes.start(more=relay_of(nodes))
        nodes.finish()
        relayed = [line["name"] for line in nodes.heard("users-1", "connected") if "(relay)" in line["address"]]
        assert relayed == ["users-2"]
        assert_all_arrived(nodes, tmp_path / "run")


@pytest.mark.slow
def test_without_a_relay_the_pair_that_failed_is_named(lab: Machine, tmp_path: Path) -> None:
    hasty = replace(SCENARIO, network__round_limit=8.0, deployment__away_limit=10.0, mechanism__rounds=1)
    with fleet(lab, hasty, 3, tmp_path / "work", networks=True) as nodes:
        for name in ("users-1", "users-2"):
            lab.filter(name, NO_CALLS)
        nodes.start()
        nodes.finish()
        assert nodes.heard("coordinator", "unreached", host="users-1", peer="users-2")
        summary = nodes.collect(tmp_path / "run")
    assert set(summary.unreached) == {("users-1", "users-2"), ("users-2", "users-1")}
    assert summary.missing
    assert summary.missing_hosts == ()


def test_a_run_over_ipv6_alone_is_like_any_other(lab: Machine, tmp_path: Path) -> None:
    with fleet(lab, SCENARIO, 2, tmp_path / "work", networks=True) as nodes:
        for number, name in enumerate(nodes.names, 1):
            lab.ask("run", words=f"ip -n {name} address add fd77::{number}/64 dev eth0 nodad".split())
            lab.filter(name, "input ip protocol tcp drop")
        place = {name: f"[fd77::{number}]" for number, name in enumerate(nodes.names, 1)}
        ports = {"coordinator": 7400, "learner": 7410, "auditor": 7420}
        where = [word for role, port in ports.items() for word in (f"--{role}", f"{place[role]}:{port}")]
        where += ["--relay", f"{place['coordinator']}:7402", "--health", "[::1]:7480"]
        for name in nodes.names:
            own = ["--listen", f"{place[name]}:{ports.get(name, 0)}"]
            nodes.start(name, more=(*where, *own))
        assert_all_arrived(nodes, tmp_path / "run")
        for name in nodes.names:
            lab.ask("run", words=f"ip -n {name} address flush dev eth0 scope global".split())
            lab.ask("run", words=f"ip -n {name} address add {nodes.address(name)}/24 dev eth0".split())


@pytest.mark.slow
def test_sybils_with_a_token_that_was_used_get_no_part(lab: Machine, tmp_path: Path) -> None:
    """A clinic enrols; ten invented hosts that have got hold of its invitation do not."""
    with fleet(lab, SCENARIO, 2, tmp_path / "work", networks=True) as nodes:
        lab.namespace("crowd", 240)
        certificates, study = tmp_path / "work" / "certs", str(tmp_path / "work" / "study" / "study.toml")
        join = str(invite(certificates, "clinic"))
        enrolment = ("--enrolment", f"{nodes.address('coordinator')}:7401")

        def enrols(name: str, rows: Path) -> None:
            words = ["node", "users", study, "--rows", str(rows), *enrolment, "--join", join]
            words += ["--certs", str(tmp_path / name), "--state", str(tmp_path / f"{name}-state")]
            place = [*words, "--listen", "10.77.0.240:0"]
            nodes.pids[name] = lab.ask("start", words=place, log=str(nodes.log(name)), namespace="crowd")

        own = nodes._local.rows
        nodes.start("coordinator", more=(*enrolment, "--authority", str(certificates / "enrolment")))
        nodes.start("learner", "auditor")
        enrols("clinic", own["users-2"])
        nodes.wait_for("coordinator", "joined", host="clinic")
        sybils = [f"sybil-{number}" for number in range(10)]
        for name in sybils:
            enrols(name, own["users-1"])
        assert nodes.wait(*sybils) == dict.fromkeys(sybils, 2)
        for name in sybils:
            assert "the join token of clinic was used already, by another key" in nodes.said(name)[-1]["text"]
        nodes.start("users-1")
        ended = ("coordinator", "learner", "auditor", "users-1", "clinic")
        assert nodes.wait(*ended) == dict.fromkeys(ended, 0)
        summary = nodes.collect(tmp_path / "run")
    assert (summary.hosts, summary.users, summary.missing) == (2, 90, ())


@pytest.mark.slow
def test_thirty_hosts_on_thirty_machines_lose_nobody(lab: Machine, tmp_path: Path) -> None:
    """A full mesh of them fills the kernel's table of neighbours: what cannot be reached directly goes by the relay."""
    with fleet(lab, SCENARIO, 30, tmp_path / "work", networks=True) as nodes:
        nodes.start(more=relay_of(nodes))
        nodes.finish()
        relayed = sum("(relay)" in line["address"] for name in nodes.names for line in nodes.heard(name, "connected"))
        print(f"{relayed} ends of connections go by the relay")
        assert_all_arrived(nodes, tmp_path / "run")
