"""After a round nothing on a host's disk opens, links or repeats what was mixed in it; until then a node resumes."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack
import pytest
from live_deployment import Live
from processes import Machine, audited, expected_sha256, fleet
from small import ONE_CLUSTER

from p2p_labeldp.deployment.disk import RealDisk
from p2p_labeldp.deployment.erasure import Mark, RoundKeys
from p2p_labeldp.deployment.journal import SEALED
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.mixing import NONCE, Secret
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.scenario import parse_scenario, replace

MIXED = parse_scenario(
    ONE_CLUSTER,
    overrides=[
        "data.users=16",
        "mechanism.exchange=mixed",
        "mechanism.relays=3",
        "network.round_limit=600",  # whoever was killed is back within an attempt, on a busy machine too
        "deployment.away_limit=120",
    ],
)


class Planted:
    """Chance that a test knows: every call gives other bytes, easily found in a file."""

    numbers = itertools.count()

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.given.append((b"planted %06d " % next(self.numbers) * size)[:size])
        return self.given[-1]


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def keys_in(folder: Path, mark: Mark | None = None) -> tuple[RoundKeys, Planted]:
    chance = Planted()
    return RoundKeys(folder, RealDisk(), chance, mark or Mark()), chance


def test_a_round_s_key_lasts_until_it_is_erased_and_then_nothing_of_it_does(tmp_path: Path) -> None:
    keys, chance = keys_in(tmp_path)
    secret = keys.of(Secret.MEMBER, 0, 0, 7)
    sealed = keys.seal(0, b"a released key")
    key = chance.given[0]
    assert key in on_disk(tmp_path)
    again, _ = keys_in(tmp_path)
    assert again.of(Secret.MEMBER, 0, 0, 7) == secret
    assert again.open(sealed) == b"a released key"
    assert again.of(Secret.MEMBER, 1, 0, 7) != secret, "every round has its own"
    again.erase(1)
    assert key not in on_disk(tmp_path)
    assert again.open(sealed) is None
    assert again.of(Secret.MEMBER, 0, 0, 7) != secret


def test_a_crash_between_the_word_and_the_deed_is_made_good(tmp_path: Path) -> None:
    keys, chance = keys_in(tmp_path)
    keys.of(Secret.MEMBER, 0)
    keys.of(Secret.MEMBER, 1)
    keys_in(tmp_path, Mark(rounds=2, first=0))
    assert not any(key in on_disk(tmp_path) for key in chance.given)


@pytest.mark.parametrize("left", [b"", b"short", bytes(40)])
def test_a_key_that_a_crash_left_unfinished_is_made_anew(left: bytes, tmp_path: Path) -> None:
    (tmp_path / "round-0.key").write_bytes(left)
    (tmp_path / "round-0.key").chmod(0o600)
    keys, chance = keys_in(tmp_path)
    keys.of(Secret.MEMBER, 0)
    assert chance.given[0] in on_disk(tmp_path)


def test_a_key_that_is_not_the_journal_s_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    sealed = keys_in(tmp_path / "one")[0].seal(0, b"said")
    for place in ("other", "one"):
        (tmp_path / place / "round-0.key").unlink(missing_ok=True)
        with pytest.raises(RequestError, match=r"round-0.key is not the one that the journal was written with$"):
            keys_in(tmp_path / place)[0].open(sealed)


def released(trace: Path) -> list[bytes]:
    """Keys and nonces that relays told each other, as the auditor saw them."""
    with trace.open("rb") as file:
        _, *records = msgpack.Unpacker(file)
    return [message[3] for *_, message in records if message[0] in ("unlock", "reveal")]


async def test_no_key_no_nonce_and_no_secret_is_left_on_a_host_s_disk(tmp_path: Path) -> None:
    """Secrets that the test knows, since it planted them, and those that relays told each other, are looked for in
    all files of the hosts while the exchange is under way and afterwards. With nine relays each of the two hosts, who
    have eight users, has some."""
    chance: dict[str, Planted] = {}
    live = Live(tmp_path, replace(MIXED, mechanism__relays=9, clusters__minimum_size=9, coins__source="system"))
    make = live.make

    def planted(name: str, *facts: Any, **settings: Any) -> Any:
        node = make(name, *facts, **settings)
        if node._keys is not None:
            chance[name] = node._keys._entropy = Planted()
        return node

    live.make = planted  # type: ignore[method-assign]
    async with live.running():
        await live.start("coordinator", "learner", "auditor", "users-1", "users-2")
        summary = await live.finish()
    assert summary["reports"] > 0
    hosts = [tmp_path / "state" / name for name in ("users-1", "users-2")]
    told = released(tmp_path / "auditor" / "trace.msgpack")
    for folder, name in zip(hosts, chance, strict=True):
        found = on_disk(folder)
        assert SEALED.encode() in found
        assert not list(folder.glob("*.key"))
        root = chance[name].given[0]
        again = RoundKeys(tmp_path / "again" / name, RealDisk(), lambda size, root=root: root[:size], Mark())
        secrets = [again.of(Secret.MEMBER, 0, 0, user) for user in range(16)]
        secrets += [again.of(purpose, 0, 0, 0, place) for purpose in (Secret.ORDER, Secret.DRAW) for place in range(9)]
        onions = Onions()
        keys = [onions.secret_key(each[NONCE:], which) for each in secrets for which in (b"outer", b"inner")]
        assert set(keys) & set(told), "these are the keys that were used"
        for secret in (root, *secrets, *keys, *told):
            assert secret not in found
            assert secret.hex().encode() not in found


SHORT = ("users-1", "users-1")
LONG = ("users-1", "users-2", "coordinator", "users-1", "users-2")


@pytest.mark.parametrize(("killed", "rounds"), [(SHORT, 3), pytest.param(LONG, 8, marks=pytest.mark.slow)])
def test_hosts_killed_before_and_after_their_keys_are_erased_resume(
    killed: tuple[str, ...], rounds: int, machine: Machine, tmp_path: Path
) -> None:
    kills: Counter[str] = Counter()
    scenario = replace(MIXED, mechanism__rounds=rounds)
    with fleet(machine, scenario, 2, tmp_path / "work") as nodes:
        nodes.start()
        for name in killed:
            nodes.wait_for(name, "listening")
            if kills["users-1"]:
                nodes.wait_for("users-1", "erased")  # of a round that is over; others are to come
            nodes.wait_for_more(name)
            kills[name] += nodes.kill(name)
            nodes.start(name)
            nodes.wait_for_return(name)
        nodes.finish()
        assert kills == Counter(killed), "the run was not over before"
        for name in ("users-1", "users-2"):
            assert nodes.heard(name, "erased")
            assert not list((tmp_path / "work" / "state" / name).glob("*.key"))
        summary = nodes.collect(tmp_path / "run")
    assert summary.noisy_sha256 == expected_sha256(scenario)
    assert summary.missing == ()
    assert audited(tmp_path / "run").passed


def test_a_run_that_ends_early_leaves_no_key_either(machine: Machine, tmp_path: Path) -> None:
    hosts = ("users-1", "users-2")
    long = replace(MIXED, mechanism__rounds=8, deployment__away_limit=3.0)
    with fleet(machine, long, 2, tmp_path / "work") as nodes:
        nodes.start()
        nodes.wait_for("coordinator", "clustered")
        nodes.kill("learner")
        others = ("coordinator", "auditor", *hosts)
        assert nodes.wait(*others) == dict.fromkeys(others, 3)
        for name in hosts:
            assert "the learner stayed away" in nodes.said(name)[-1]["text"]
            assert nodes.heard(name, "erased")
            assert not list((tmp_path / "work" / "state" / name).glob("*.key"))
