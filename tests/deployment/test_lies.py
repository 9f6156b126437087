"""What a host that holds a share, or wants one, could do to others by lying; in a model, where the order can be chosen.

``test_intruders`` has what is refused on sight. Here the lies are words that a host may say, or would get
others to stumble over.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from deployment_model import Model
from roles import closed
from small import THREE_CLUSTERS

from p2p_labeldp.deployment.costs import MOST_REFUSED
from p2p_labeldp.deployment.items import (
    MAX_BODY,
    Begin,
    Column,
    Directory,
    Examples,
    Facts,
    Finish,
    Holder,
    Item,
    Join,
    Mail,
    Noise,
    Over,
    Quiet,
    Ready,
    Records,
    Result,
    Traced,
    Wanted,
    Written,
    decode_item,
    encode_item,
    encode_records,
)
from p2p_labeldp.deployment.journal import TAKEN, Entry
from p2p_labeldp.deployment.parts import MAX_CLOCK, Part
from p2p_labeldp.deployment.shares import Gathering
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.errors import RunError
from p2p_labeldp.experiments.run import run
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    VERSION,
    Answer,
    Ask,
    Assignment,
    Done,
    Fault,
    Features,
    Goodbye,
    Hello,
    Refusal,
    Report,
    Roster,
    Round,
    kind_of,
)
from p2p_labeldp.protocol.user import JOINING
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import parse_scenario, replace

SMALL = parse_scenario(THREE_CLUSTERS)


LIAR = f"{3:064x}"  # the key of the third host in a model
FAIR = MOST_REFUSED + 5 * 40


class AtOnce(UsersPart):
    """Sends reports as they come, whatever the coordinator says of the round."""

    def send(self, sender: int, receiver: int, message: Any) -> None:
        Part.send(self, sender, receiver, message)


def lying(send: Callable[..., None], kind: type[UsersPart] = UsersPart) -> dict[str, Any]:
    """A model's third host, which sends what ``send(part, sender, receiver, message)`` makes of every message."""

    class Liar(kind):  # type: ignore[valid-type, misc]
        def send(self, sender: int, receiver: int, message: Any) -> None:
            send(super().send, sender, receiver, message)

    return {LIAR: lambda name, log, model: model.make_users(name, log, Liar)}


def say(model: Model, receiver: str, *items: Item | bytes, sender: str = LIAR, clock: int = 0) -> None:
    """Let a peer say something out of turn."""
    for item in items:
        body = item if isinstance(item, bytes) else encode_item(item)
        name = sender if len(sender) < 20 else f"users-{sender[-2:]}"
        model.do(receiver, Entry(model.now, TAKEN, sender, name, clock, body))


def refused(model: Model, node: str, **facts: Any) -> list[dict[str, Any]]:
    """The facts of a node's refusals that have these among them."""
    found = [its for name, event, its in model.logged if (name, event) == (node, "refused")]
    return [its for its in found if facts.items() <= its.items()]


def reports(model: Model) -> dict[int, int]:
    users, labels = model.results[-1][0].rounds[0]
    return dict(zip(users.tolist(), labels.tolist(), strict=True))


@pytest.fixture(scope="module")
def honest() -> dict[int, int]:
    """What everyone reports when nobody lies."""
    users, labels = run(SMALL, engine="vectorized").outcome.rounds[0]
    return dict(zip(users.tolist(), labels.tolist(), strict=True))


# What is not its to say


def lies(mine: int, theirs: int, others: int) -> list[tuple[str, str, list[Item | Envelope | bytes]]]:
    """(to whom, the fault, what a host says) that has a user ``mine``: of the users of others, and as who it is not."""
    everyone = Directory("another", 0.0, 40, 2, 2, [Holder(LIAR, "users-03", "127.0.0.1:1", 0, 40)])
    roster = Roster(0, 0, np.arange(40, dtype="<i8").tobytes())
    as_coordinator: list[Item | Envelope | bytes] = [everyone, Begin(), Noise(0.0, 1e-3), Over(), Finish([])]
    records = [
        Envelope(theirs, LEARNER, Report(0, 1)),
        Envelope(COORDINATOR, mine, Goodbye(True)),
        Envelope(theirs, AUDITOR, Refusal(mine, "done", Fault.DUPLICATE, "x")),
    ]
    return [
        ("coordinator", "misdirected", [
            *(Envelope(sender, COORDINATOR, Done(0, "reported")) for sender in (theirs, COORDINATOR, LEARNER)),
            Envelope(mine, LEARNER, Report(0, 1)), Envelope(mine, COORDINATOR, closed(40)),
            Ready(), Quiet(), Traced({"ask": 1}), Written(), Column("clusters", 0, bytes(8)), *as_coordinator,
        ]),
        ("coordinator", "out_of_order", [Envelope(mine, COORDINATOR, Done(1, "reported")), Join("127.0.0.1:1", 40)]),
        ("learner", "misdirected", [
            Envelope(theirs, LEARNER, Report(0, 1)),
            *(Envelope(sender, LEARNER, closed(40)) for sender in (COORDINATOR, mine)),
            Facts([], [], {}, 0, 0.0, 1e-3), Column("missing", 0, bytes(8)), *as_coordinator,
        ]),
        ("learner", "out_of_order", [Envelope(mine, LEARNER, Report(1, 1))]),
        ("learner", "malformed", [Envelope(mine, LEARNER, Report(0, 9))]),
        ("auditor", "misdirected", [
            *(body for record in records for body in encode_records(1e300, [record])),
            Envelope(mine, AUDITOR, Done(0, "reported")), *as_coordinator,
        ]),
        ("auditor", "malformed", [*encode_records(float("nan"), [Envelope(mine, LEARNER, Report(0, 1))])]),
        (f"{1:064x}", "misdirected", [
            Envelope(COORDINATOR, HOST, roster), Envelope(COORDINATOR, HOST, Goodbye(True)),
            Envelope(COORDINATOR, theirs, Assignment(0, 40, theirs)), Envelope(mine, theirs, Assignment(0, 1 << 47, 3)),
            Envelope(COORDINATOR, theirs, Round(1, True)), Envelope(COORDINATOR, theirs, Goodbye(True)),
            *(Envelope(mine, to, Goodbye(True)) for to in (theirs, HOST)),
            *(Envelope(sender, theirs, Answer(0, 1)) for sender in (others, theirs)),
            *(Envelope(sender, theirs, Ask(0)) for sender in (others, -9)),
            *(Envelope(mine, to, Ask(0)) for to in (others, 1 << 40)), *as_coordinator,
        ]),
    ]  # fmt: skip


def said_as(lie: Item | Envelope | bytes) -> dict[str, Any]:
    """What a refusal of it names."""
    if isinstance(lie, Envelope):
        return {"sender": lie.sender, "kind": kind_of(lie.message)}
    decoded = lie if isinstance(lie, Item) else decode_item(lie)
    good = isinstance(decoded, Records) and decoded.time == decoded.time
    return {"peer": "users-03", "kind": "record" if good else type(decoded).__name__.lower()}


def test_a_host_speaks_for_its_own_users_and_for_nobody_else(honest: dict[int, int]) -> None:
    """In the middle of the exchange, with a clock that leaps; each lie is refused, and nothing else comes of it."""
    model = Model(SMALL, 3)
    model.until("clustered")
    while not all(user.state != JOINING for name in model.hosts for user in model.parts[name].users):  # type: ignore[attr-defined]
        assert model.step()
    first = [holder.first for holder in model.parts["coordinator"].dealt.hosts]
    for receiver, fault, told in lies(first[2], first[0], first[1]):
        for lie in told:
            before = len(refused(model, receiver))
            say(model, receiver, Mail([lie]) if isinstance(lie, Envelope) else lie, clock=2**62)
            (found,) = refused(model, receiver)[before:]
            assert found.items() >= (said_as(lie) | {"fault": fault}).items(), (receiver, lie)
    model.until("exchanged")
    while said := [pair for pair in model.waiting() if pair[0] in ("coordinator", LIAR)]:
        model.deliver(*said[0])
    reported = next(user for user in range(first[2], 40) if user in honest)
    say(model, "learner", Mail([Envelope(reported, LEARNER, Report(0, 1 - honest[reported]))]))
    assert refused(model, "learner", sender=reported, kind="report", fault="duplicate")
    say(model, "coordinator", Mail([Envelope(reported, COORDINATOR, Done(0, "dropped"))]))
    assert refused(model, "coordinator", sender=reported, kind="done", fault="out_of_order")
    model.run()
    assert max(part.clock for part in model.parts.values()) < 2**40
    assert reports(model) == honest
    assert model.results[-1][0].missing == []
    assert not any(event == "shunned" for _, event, _ in model.logged)


# Reports


def test_reports_that_nobody_announced_keep_no_others_out(honest: dict[int, int]) -> None:
    """The liar's users all report and tell the coordinator that they do not; the honest ones' reports come last."""

    def send(pass_on: Callable[..., None], sender: int, receiver: int, message: Any) -> None:
        if type(message) is Done:
            pass_on(sender, LEARNER, Report(0, 0))
            message = Done(0, "dropped")
        pass_on(sender, receiver, message)

    model = Model(SMALL, 3, parts=lying(send, AtOnce))
    late = [(name, "learner") for name in model.names[3:5]]
    while pairs := [pair for pair in model.waiting() if pair not in late]:
        model.deliver(*pairs[0])
    assert all(model.waiting().count(pair) for pair in late)
    model.run()
    mine = model.parts["coordinator"].shares.by_key[LIAR]  # type: ignore[union-attr]
    assert reports(model) == {user: label for user, label in honest.items() if not mine.first <= user < mine.last}
    assert model.results[-1][0].missing == []


def test_a_report_of_someone_who_was_never_assigned_does_not_count() -> None:
    def send(pass_on: Callable[..., None], sender: int, receiver: int, message: Any) -> None:
        if type(message) is Hello:
            pass_on(sender, LEARNER, Report(0, 1))
        else:
            pass_on(sender, receiver, message)

    model = Model(SMALL, 3, parts=lying(send, AtOnce))
    model.run()
    model.expire("coordinator")  # hellos
    model.run()
    mine = model.parts["coordinator"].shares.by_key[LIAR]  # type: ignore[union-attr]
    share = set(range(mine.first, mine.last))
    assert set(model.results[-1][0].missing) == share
    assert reports(model)
    assert not share & reports(model).keys()
    traced = list(msgpack.Unpacker(io.BytesIO(model.trace)))[1:]
    refusals = [message for *_, message in traced if message[0] == "refusal" and message[2] == "report"]
    assert {about for _, about, *_ in refusals} == share
    assert model.summary().accuracy is not None


def test_reports_after_the_results_are_written_change_nothing() -> None:
    model = Model(SMALL, 3)
    model.until("written")
    while not model.results:
        assert model.step()
    before = reports(model)
    mine = model.parts["coordinator"].shares.by_key[LIAR]  # type: ignore[union-attr]
    silent = next(user for user in range(mine.first, mine.last) if user not in before)
    say(model, "learner", Mail([Envelope(silent, LEARNER, Report(0, 1))]))
    assert refused(model, "learner", sender=silent, kind="report", fault="out_of_order")
    model.run()
    assert reports(model) == before


# Clusters


@pytest.mark.parametrize("features", [[3.4e38, -3.4e38], [1e30, 1e30], [1e-45, -0.0]], ids=str)
def test_features_beyond_all_measure_break_nothing(features: list[float]) -> None:
    """Warnings are errors here: an overflow in the clustering would be one."""

    def send(pass_on: Callable[..., None], sender: int, receiver: int, message: Any) -> None:
        if type(message) is Hello:
            row = np.resize(np.array(features, dtype=np.float32), len(message.features))
            message = Hello(message.version, Features(-row if sender % 2 else row))
        pass_on(sender, receiver, message)

    model = Model(SMALL, 3, parts=lying(send))
    model.run()
    assert model.results[-1][0].missing == []
    assert len(reports(model)) > 0
    assert model.results[-1][0].clusters.min() == 0


def test_clusters_are_told_once_in_order_and_in_whole_numbers() -> None:
    scenario = replace(SMALL, clusters__method="given")
    model = Model(scenario, 3)
    model.until("dealt")
    while model.parts[LIAR].shares is None:
        model.deliver("coordinator", LIAR)
    values = np.arange(40, dtype="<i8").tobytes()
    wrong = [
        (Column("clusters", 0, b"123"), "malformed"),
        (Column("clusters", 0, values), "misdirected"),
        (Column("missing", 0, values[:8]), "misdirected"),
        (Column("clusters", 1, values[:8]), "out_of_order"),
        (Column("clusters", 0, b""), "out_of_order"),
        (Column("clusters", 2**47, values[:8]), "misdirected"),
    ]
    for number, (column, fault) in enumerate(wrong):
        say(model, "coordinator", column)
        assert refused(model, "coordinator", kind="column")[number]["fault"] == fault
    model.deliver(LIAR, "coordinator")  # its own
    say(model, "coordinator", Column("clusters", 0, values[:8]))
    assert refused(model, "coordinator", kind="column")[-1]["fault"] == "out_of_order"
    model.run()
    assert model.digest == run(scenario, engine="vectorized").summary.noisy_sha256


def test_the_learner_refuses_a_column_of_people_and_goes_on() -> None:
    model = Model(SMALL, 3)
    say(model, "learner", Column("people", 0, bytes(8)), sender="coordinator")
    assert [each["kind"] for each in refused(model, "learner")] == ["column"]
    model.run()
    assert len(model.results) == 1


def test_hosts_that_name_no_clusters_at_all_stop_nobody() -> None:
    """A share of nobody's, and one whose host says that it is ready and no more."""
    model = Model(replace(SMALL, clusters__method="given"), 1)
    model.until("dealt")
    host = model.names[3]
    model.deliver("coordinator", host)
    model.streams[host, "coordinator"] = [
        said for said in model.streams[host, "coordinator"] if not isinstance(decode_item(said[1]), Column)
    ]
    model.run()
    assert set(model.results[-1][0].clusters.tolist()) == {0}
    assert model.results[-1][0].missing == []


def test_an_assignment_by_another_host_costs_nothing_and_ends_nothing() -> None:
    """Were it believed, the account of so large a cluster, or of one too small, would end the host."""
    model = Model(replace(SMALL, mechanism__epsilon=1.0), 3)
    model.until("clustered")
    mine = model.parts["coordinator"].shares.by_key[LIAR]  # type: ignore[union-attr]
    victims = model.names[3:5]
    for victim in victims:
        first = model.parts["coordinator"].shares.by_key[victim].first  # type: ignore[union-attr]
        while not model.parts[victim]._noise.noise:  # type: ignore[attr-defined]
            model.deliver("coordinator", victim)
        lies = [Envelope(mine.first, first, Assignment(0, size, 0)) for size in (5, 2**47)]
        say(model, victim, Mail(lies))
        assert len(refused(model, victim, kind="assignment", fault="misdirected", sender=mine.first)) == 2
    model.run()
    assert model.digest == run(model.scenario, engine="vectorized").summary.noisy_sha256


# Offers


@pytest.mark.parametrize(
    ("join", "why"),
    [
        (Join("nowhere", 40), "its address is not HOST:PORT"),
        (Join("host:99999", 40), "its address is not HOST:PORT"),
        (Join(":1", 40), "its address is not HOST:PORT"),
        (Join("host:1", 0), f"it brings 0 users; from 1 to {2**31} are allowed"),
        (Join("host:1", 2**47), f"it brings {2**47} users; from 1 to {2**31} are allowed"),
    ],
    ids=str,
)
def test_an_offer_that_cannot_be_used_is_declined_and_the_host_told_why(join: Join, why: str) -> None:
    model = Model(SMALL, 2)
    say(model, "coordinator", join)
    say(model, "coordinator", join)
    assert refused(model, "coordinator", peer="users-03", kind="join", reason=why)
    assert refused(model, "coordinator", peer="users-03", kind="join", fault="duplicate")
    ((_, body),) = model.streams.pop(("coordinator", LIAR))
    with pytest.raises(RunError, match="gives this host no share: "):
        model.do(model.names[3], Entry(model.now, TAKEN, "coordinator", "coordinator", 0, body))
    model = Model(SMALL, 2)
    say(model, "coordinator", join)
    del model.streams["coordinator", LIAR]
    model.run()
    assert model.digest == run(SMALL, engine="vectorized").summary.noisy_sha256


def test_whatever_hosts_call_themselves_their_directory_fits_into_a_frame() -> None:
    gathering = Gathering(SMALL, "a run")
    long, count = "h" * 250 + ":1", 0
    while not gathering.offer(f"{count:064x}", "u" * 64, Join(long, 40)):
        count += 1
    hosts = [Holder(key, name, join.address, 0, 2**48 - 1) for key, (name, join) in gathering.joined.items()]
    length = len(encode_item(Directory("a run", 1e9, 40, 2, 2, hosts)))
    assert 0.9 * MAX_BODY < length <= MAX_BODY
    assert gathering.offer("last", "u", Join(long, 40)) == "there are too many hosts"


# Features


def examples(first: int, rows: int, width: int = 2) -> Examples:
    return Examples(first, np.ones((rows, width), dtype="<f4").tobytes())


def test_features_are_taken_of_a_hosts_own_users_once_and_whole() -> None:
    model = Model(SMALL, 3)
    model.until("begun")
    while not model.parts["learner"]._known:  # type: ignore[attr-defined]
        model.deliver("coordinator", "learner")
    mine = model.parts["coordinator"].shares.by_key[LIAR]  # type: ignore[union-attr]
    lies = {
        "misdirected": (examples(mine.first - 1, 1), examples(mine.last - 1, 2), examples(2**40, 1)),
        "malformed": (
            Examples(mine.first, b""),
            Examples(mine.first, b"12345"),
            Examples(mine.first, np.full((1, 2), np.nan, dtype="<f4").tobytes()),
        ),
    }
    for fault, items in lies.items():
        say(model, "learner", *items)
        assert len(refused(model, "learner", kind="examples", fault=fault)) == 3
    say(model, "learner", examples(mine.first, 1), examples(mine.first, 1))
    assert refused(model, "learner", kind="examples", fault="duplicate")
    model.run()
    # What the liar said first stands, of its own user and nobody else's.
    _, _, _, _, known = model.results[-1]
    assert known.features[: mine.first].tolist() == model.dataset.features[: mine.first].tolist()
    assert model.digest == run(SMALL, engine="vectorized").summary.noisy_sha256


def test_a_file_is_taken_from_the_learner_alone_and_only_where_it_was_asked_for() -> None:
    model = Model(SMALL, 3)
    model.until("begun")
    victim = model.names[3]
    part = Result("model.npz", 0, 3, b"lie")
    say(model, victim, part)
    assert refused(model, victim, kind="result", fault="misdirected")
    say(model, victim, part, sender="learner")
    assert refused(model, victim, kind="result", fault="out_of_order")
    say(model, "learner", Wanted(), Wanted())
    assert refused(model, "learner", kind="wanted", fault="out_of_order")
    say(model, "learner", Wanted(), sender=f"{9:064x}")
    assert len(refused(model, "learner", kind="wanted", fault="out_of_order")) == 2


# Floods


@pytest.mark.parametrize("victim", ["coordinator", "learner", "auditor", f"{1:064x}"])
def test_refusals_are_told_of_so_often_and_no_more(victim: str, honest: dict[int, int]) -> None:
    model = Model(SMALL, 3)
    model.until("clustered")
    mine = model.parts["coordinator"].shares.by_key[LIAR].first  # type: ignore[union-attr]
    lie = Envelope(mine, COORDINATOR, Done(7, "reported"))
    lines = len(model.logged)
    say(model, victim, *[Mail([lie] * 500)] * 4, Mail([]), b"?", clock=2**63 - 1)
    assert (victim, "shunned", {"peer": "users-03", "count": FAIR + 1}) in model.logged
    assert len(model.logged) - lines == MOST_REFUSED + 2  # and that no more are logged, and that it is shunned
    traced = [decode_item(body) for _, body in model.streams[victim, "auditor"]]
    told = [record for item in traced if isinstance(item, Records) for record in item.records]
    assert sum(b"refusal" in bytes(record) for record in told) == (FAIR if victim != "auditor" else 0)
    model.kill(victim)  # it says the same again, and still listens to the liar no more
    assert model.parts[victim].costs.shunned == {LIAR}
    before = model.parts[victim].clock
    say(model, victim, Mail([lie]))
    assert model.parts[victim].clock == before
    assert model.parts[victim].said() == []


def test_what_is_sent_late_is_no_flood() -> None:
    """A host that is away for the whole exchange and comes back: all it says is refused, and it is heard to the end."""
    scenario = replace(SMALL, mechanism__rounds=2)
    model = Model(scenario, 3)
    model.until("clustered")
    model.away.add(LIAR)
    model.run()
    model.expire_round()  # the others go on, and wait for it no more
    model.run()
    model.away.clear()
    model.run()
    assert any(refused(model, name, kind="ask") for name in model.names[3:5])
    assert not any(event == "shunned" for _, event, _ in model.logged)
    assert all(part.over for part in model.parts.values())


def test_what_no_honest_host_says_counts_for_more_the_longer_it_is() -> None:
    model = Model(SMALL, 3)
    model.until("begun")
    mine = model.parts["coordinator"].shares.by_key[LIAR].first  # type: ignore[union-attr]
    refusals, weight = model.parts["coordinator"].costs.refused, 1 + MAX_BODY // (1 << 14)
    say(model, "coordinator", bytes(MAX_BODY))
    assert refusals[LIAR] == weight
    for message in (Roster(0, 0, bytes(1 << 18)), Hello(VERSION, Features(np.zeros(1 << 16, dtype=np.float32)))):
        before = refusals[LIAR]
        say(model, "coordinator", Mail([Envelope(mine, COORDINATOR, message)] * 3))
        assert refusals[LIAR] == before + 3 * (1 + (1 << 18) // (1 << 14))
    before = refusals[LIAR]
    say(model, "coordinator", Mail([Envelope(mine, COORDINATOR, Done(0, "dropped"))] * 3))  # it might be late
    assert refusals[LIAR] == before + 3


def test_the_trace_has_an_end_and_a_time_for_everything() -> None:
    model = Model(SMALL, 3)
    model.until("clustered")
    mine = model.parts["coordinator"].shares.by_key[LIAR].first  # type: ignore[union-attr]
    record = Envelope(mine, LEARNER, Report(0, 1))
    for time in (float("inf"), float("nan"), -1.0):
        say(model, "auditor", *encode_records(time, [record]))
    assert len(refused(model, "auditor", kind="records", fault="malformed")) == 3
    say(model, "auditor", Records(1.0, []))
    assert len(refused(model, "auditor", kind="records", fault="malformed")) == 4
    say(model, "auditor", msgpack.packb(["records", 1.0, [[mine, -3, ["refusal", 0, "ask", "x" * 2000]]]]))
    assert refused(model, "auditor", kind="record", fault="oversized")
    flood = next(iter(encode_records(1e300, [record] * 100)))
    for _ in range(2 * FAIR // 100 + 1):
        say(model, "auditor", flood, clock=2**62)
    assert refused(model, "auditor", kind="records", fault="out_of_order")
    model.run()
    header, *records = msgpack.Unpacker(io.BytesIO(model.trace), raw=False)
    assert header["hosts"] == 3
    assert len(records) < 2 * FAIR + 1000
    assert max(time for _, time, *_ in records) < 3700
    assert model.digest == run(SMALL, engine="vectorized").summary.noisy_sha256


def test_clocks_that_no_run_reaches_move_nobodys_and_clocks_end_before_they_overflow() -> None:
    """A host whose clock was believed drove the coordinator's so far ahead that others' could not follow: effects
    stood before their causes in the trace."""
    model = Model(SMALL, 3)
    for _ in range(10):
        say(model, "coordinator", b"?", clock=2**63 - 1)
    assert model.parts["coordinator"].clock == 10
    model.parts["coordinator"].clock = MAX_CLOCK - 5
    for _ in range(10):
        say(model, "coordinator", b"?", clock=2**63 - 1)
    assert model.parts["coordinator"].clock == MAX_CLOCK
    model.run()
    assert model.digest == run(SMALL, engine="vectorized").summary.noisy_sha256
