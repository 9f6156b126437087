"""Tens of thousands of things that no honest peer says: each is refused or understood, and no more happens.

Parts are taken from the middle of a run. What peers other than the coordinator say there, be it garbage or a real item
with a bit changed, may raise nothing, may make a part say nothing that is not its to say, and honest users
finish as if nothing had been said.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec
import pytest
from deployment_model import Model
from mutations import Mutations
from small import THREE_CLUSTERS

from p2p_labeldp.deployment import costs
from p2p_labeldp.deployment.items import (
    MAX_BODY,
    Column,
    Item,
    Join,
    Mail,
    Quiet,
    Ready,
    Records,
    Result,
    Traced,
    Written,
    decode_item,
    salvage,
)
from p2p_labeldp.deployment.journal import TAKEN, Entry
from p2p_labeldp.deployment.roles import SINGLES
from p2p_labeldp.deployment.shares import MOST_USERS
from p2p_labeldp.experiments.run import run
from p2p_labeldp.network import frames
from p2p_labeldp.protocol.messages import HOST, Hello, Refused
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import Scenario, parse_scenario, replace

SMALL = parse_scenario(
    THREE_CLUSTERS, overrides=["data.users=24", "clusters.count=2", "clusters.minimum_size=3", "mechanism.rounds=2"]
)
CALIBRATED = replace(SMALL, clusters__method="given", mechanism__epsilon=2.0)
ENEMY = f"{3:064x}"  # a host with a share
STRANGER = f"{9:064x}"  # one without
POINTS = (2, 9, 20, 45, 70, 90, 120)  # steps of a run: gathering, meeting, hellos, both rounds, the end
EACH = pytest.mark.parametrize(
    ("scenario", "point"), [*((SMALL, point) for point in POINTS), (CALIBRATED, POINTS[1]), (CALIBRATED, POINTS[3])]
)
TAKES = 200  # cases for each part, peer and point
HEARD = 0.8  # of these the least that are tried; the others might do what the peer has a right to do


@cache
def digest(scenario: Scenario) -> str:
    return run(scenario, engine="vectorized").summary.noisy_sha256


@cache
def corpus(scenario: Scenario = SMALL) -> list[bytes]:
    """Every item of an honest run."""
    model = Model(scenario, 3, seed=1)
    model.run()
    return [body for said in model.streams.values() for _, body in said]


@pytest.mark.parametrize(
    "shell", [b"", b"\x92\xa4mail", b"\x93\xa7records\xcb" + bytes(8)], ids=["", "mail", "records"]
)
@pytest.mark.parametrize("deep", [b"\x91", b"\x81\xa0", b"\xdd\xff\xff\xff\xff", b"\xc7\xff\x05"], ids=bytes.hex)
def test_a_million_levels_are_not_followed(shell: bytes, deep: bytes) -> None:
    data = shell + b"\x91" + deep * (1_000_000 // len(deep))
    with pytest.raises(Refused):
        decode_item(data)
    assert list(salvage(data)) == []
    with pytest.raises(Refused):
        frames.decode(data)
    model = Model(SMALL, 3)
    before = len(model.logged)
    model.do("auditor", Entry(0.0, TAKEN, ENEMY, "users-03", 0, data))
    assert [facts["kind"] for _, _, facts in model.logged[before:]] == ["item"]


# Parts in the middle of a run


class Watched(Model):
    """A model that looks at everything a part says."""

    ALLOWED: dict[str, tuple[type[Item], ...]] = {  # noqa: RUF012 - never changed
        "learner": (Ready, Quiet, Written, Records, Result),
        "auditor": (Ready, Traced),
    }

    def do(self, name: str, entry: Entry) -> None:
        before = {pair: len(said) for pair, said in self.streams.items()}
        super().do(name, entry)
        for pair, said in self.streams.items():
            for _, body in said[before.get(pair, 0) :]:
                assert pair[0] == name
                self.check(name, pair[1], body)

    def check(self, name: str, to: str, body: bytes) -> None:
        assert len(body) <= MAX_BODY
        assert to in self.names or (name, to) == ("coordinator", STRANGER)
        if to == "auditor":
            item = msgspec.msgpack.decode(body, type=list)
            assert item[0] in ("records", "directory", "progress", "finish", "over")
            senders = [record[0] for record in item[2]] if item[0] == "records" else []
        else:
            decoded = decode_item(body)
            senders = [envelope.sender for envelope in decoded.envelopes] if type(decoded) is Mail else []
            if name in self.ALLOWED:
                assert type(decoded) in self.ALLOWED[name]
        shares = self.parts["coordinator"].shares
        holder = shares.by_key.get(name) if shares is not None else None
        for sender in senders:
            own = SINGLES.get(name) == sender or (holder is not None and holder.first <= sender < holder.last)
            assert own or (sender == HOST and name not in SINGLES and to == "auditor")


def harmless(model: Model, peer: str, body: bytes) -> bool:
    """Whether an enemy's words can change nothing but what honest users hear from its own.

    It may describe its own users as it likes, which moves everyone's clusters, and anyone may offer to join.
    """
    try:
        item = decode_item(body)
    except Refused:
        envelopes = [found for found in salvage(body) if isinstance(found, Envelope)]
    else:
        if type(item) is Join:
            return not 1 <= item.users <= MOST_USERS
        if type(item) is Column:
            return peer != ENEMY or model.scenario.clusters.method != "given"
        envelopes = item.envelopes if type(item) is Mail else []
    return peer in SINGLES or not any(type(envelope.message) is Hello for envelope in envelopes)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is shunned, so that every case is heard; how often one may be refused is another test's business."""
    monkeypatch.setattr(costs, "MOST_REFUSED", 1 << 40)


def attacked(scenario: Scenario, point: int, peers: tuple[str, ...], bodies: Iterator[bytes]) -> tuple[Watched, int]:
    """A run in the middle of which peers have said such things to everyone, and which then went on to its end."""
    model = Watched(scenario, 3, seed=2)
    for _ in range(point):
        model.step()
    said = 0
    for peer in peers:
        for name in model.names:
            for _, body in zip(range(TAKES), bodies, strict=False):
                if name != peer and harmless(model, peer, body):
                    clock = (0, 7, 2**62, 2**63 - 1)[said % 4]
                    model.do(name, Entry(model.now, TAKEN, peer, "a liar", clock, body))
                    said += 1
    model.streams.pop(("coordinator", STRANGER), None)
    finish(model)
    return model, said


def finish(model: Model) -> None:
    """To the end, over any number of limits."""
    for _ in range(12):
        model.run()
        if all(part.over for name, part in model.parts.items() if name != ENEMY):
            return
        model.expire_round()
    raise AssertionError("no end in sight")


@EACH
@pytest.mark.usefixtures("patient")
def test_whatever_a_learner_an_auditor_or_a_stranger_says_the_result_is_the_same(
    scenario: Scenario, point: int
) -> None:
    mutations = Mutations(point, corpus(scenario))
    model, said = attacked(scenario, point, ("learner", "auditor", STRANGER), iter(mutations.draw, None))
    assert said > HEARD * 16 * TAKES
    assert model.digest == digest(scenario)
    for name in model.names:
        model.kill(name)


@EACH
@pytest.mark.usefixtures("patient")
def test_whatever_a_host_says_those_who_ask_honest_users_report_the_same(scenario: Scenario, point: int) -> None:
    mutations = Mutations(100 + point, corpus(scenario))
    model, said = attacked(scenario, point, (ENEMY,), iter(mutations.draw, None))
    assert said > HEARD * 5 * TAKES
    shares = model.parts["coordinator"].shares
    assert shares is not None
    theirs = shares.by_key[ENEMY]
    asked = {(user, round_): peer for user, round_, peer in choices(scenario)}
    outcome, whole = model.results[-1][0], run(scenario, engine="vectorized").outcome
    # A host may say that its users are stuck: their clusters then release nothing where there is a target.
    withheld = {user for user in range(24) if outcome.clusters[user] in outcome.withheld}
    spoiled = {int(outcome.clusters[user]) for user in range(theirs.first, theirs.last)}
    assert {*outcome.withheld} <= spoiled
    checked = 0
    for round_ in range(2):
        found, expected = (dict(zip(*map(list, each.rounds[round_]), strict=True)) for each in (outcome, whole))
        for user in range(24):
            if theirs.first <= user < theirs.last or theirs.first <= asked.get((user, round_), -1) < theirs.last:
                continue
            if user in withheld:
                assert found.get(user) in (None, expected.get(user))
                continue
            assert found.get(user) == expected.get(user), (user, round_)
            checked += 1
    assert checked > 10 or withheld
    for name in model.names:
        model.kill(name)


@cache
def choices(scenario: Scenario) -> list[tuple[int, int, int]]:
    """(user, round, whom she asks) where nobody lies."""
    model = Model(scenario, 3, seed=1)
    model.run()
    found = []
    for (_, to), said in model.streams.items():
        for _, body in said if to == "auditor" else ():
            item = msgspec.msgpack.decode(body, type=list)
            for sender, receiver, message in item[2] if item[0] == "records" else ():
                if message[0] == "ask":
                    found.append((sender, message[1], receiver))
    return found
