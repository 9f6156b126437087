"""Fault rules one by one: what each touches, when, how often, and what it leaves alone."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from p2p_labeldp.errors import RequestError
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.network.memory import Mailbox, MemoryNetwork
from p2p_labeldp.network.rules import FIRST_PAUSE, LONGEST_PAUSE, NEVER, first_attempt_from, offset_of
from p2p_labeldp.protocol import Auditor
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    Ask,
    Closed,
    Fault,
    Message,
    Refusal,
    Roster,
)
from p2p_labeldp.scenario import make_entry
from p2p_labeldp.streams import KeyedStream, Purpose, choose, stream

USERS = 10
HORIZON = 100.0
TRAVEL = 0.5  # seconds a message takes without faults


def faults(*tables: dict[str, Any], users: int = USERS, seed: int = 1, horizon: float = HORIZON) -> Faults:
    return Faults([make_entry("faults", table) for table in tables], users, seed, horizon)


def arrivals(
    made: Faults, sender: int, receiver: int, message: Message | None = None, at: float = 0.0, number: int = 0
) -> list[float]:
    """When a message arrives, in seconds from when it was sent, to the nanosecond."""
    found = made.arrivals((number, at, sender, receiver, message or Ask(0)), TRAVEL)
    return [round(time - at, 9) for time in found]


def on_time(made: Faults, sender: int, receiver: int, at: float = 0.0) -> bool:
    return arrivals(made, sender, receiver, at=at) == [TRAVEL]


def everything(made: Faults, users: int = USERS) -> list[list[float]]:
    """What becomes of an ask from everyone to everyone else."""
    return [arrivals(made, a, b) for a in range(users) for b in range(users) if a != b]


# Sending again


def test_pauses_double_up_to_a_bound() -> None:
    pauses = np.diff([offset_of(attempt) for attempt in range(12)])
    assert pauses[:6] == pytest.approx([FIRST_PAUSE * 2**k for k in range(6)])
    assert pauses[6:] == pytest.approx(LONGEST_PAUSE)


@given(st.floats(0, 1e6))
def test_the_first_attempt_from_a_moment_on_is_the_first(offset: float) -> None:
    attempt = first_attempt_from(offset)
    assert offset_of(attempt) >= offset * (1 - 1e-12)
    assert attempt == 0 or offset_of(attempt - 1) < offset


def test_there_is_no_attempt_after_forever() -> None:
    assert first_attempt_from(math.inf) == NEVER


def test_what_is_lost_is_sent_again_and_arrives_at_the_first_attempt_that_no_rule_stops() -> None:
    made = faults({"rule": "partition", "users": [0], "end": 1.0})
    assert arrivals(made, 0, 1) == [pytest.approx(offset_of(4) + TRAVEL)]  # at 1.5 s, after 0, 0.1, 0.3 and 0.7
    assert made.delivery == {"sent_again": 1, "duplicates_dropped": 0, "lost_for_good": 0}


def test_several_rules_stop_attempts_each_in_its_window() -> None:
    made = faults(
        {"rule": "partition", "users": [0], "end": 1.0},
        {"rule": "loss", "probability": 1.0, "start": 1.2, "end": 3.0},
        {"rule": "crash", "users": [0], "at": 3.05, "restart": 2.0},
    )
    assert arrivals(made, 0, 1) == [pytest.approx(offset_of(6) + TRAVEL)]  # 1.5 and 3.1 are lost as well
    assert [rule["fired"] for rule in made.fired()] == [1, 1, 1]


@pytest.mark.parametrize(("end", "gets_through"), [(HORIZON - 10.0, True), (HORIZON + 10.0, False), (0.0, False)])
def test_a_message_is_given_up_when_the_runs_limits_are_over(end: float, gets_through: bool) -> None:
    made = faults({"rule": "partition", "users": [0], "end": end})
    assert (len(arrivals(made, 0, 1)) == 1) is gets_through
    assert made.delivery == {"sent_again": gets_through, "duplicates_dropped": 0, "lost_for_good": not gets_through}


def test_what_is_sent_after_the_limits_is_tried_once() -> None:
    made = faults({"rule": "loss", "probability": 0.5})
    fates = Counter(len(arrivals(made, 0, 1, Ask(round_), at=2 * HORIZON)) for round_ in range(100))
    assert set(fates) == {0, 1}


# Draws


def test_a_keyed_draw_depends_on_seed_purpose_and_key_and_on_nothing_else() -> None:
    one = KeyedStream(1, Purpose.FAULTS)
    keys = [(a, b) for a in range(-2, 20) for b in range(20)]
    forward = {key: one.uniform(*key) for key in keys}
    backward = {key: KeyedStream(1, Purpose.FAULTS).uniform(*key) for key in reversed(keys)}
    assert forward == backward
    others = [KeyedStream(2, Purpose.FAULTS), KeyedStream(1, Purpose.NETWORK)]
    assert len({one.uniform(3, 4), one.uniform(4, 3), one.uniform(3), *(o.uniform(3, 4) for o in others)}) == 5


def test_keyed_draws_are_uniform() -> None:
    """Kolmogorov-Smirnov at a fixed seed; a fair stream fails with probability 1e-6."""
    from scipy.stats import kstest

    draws = KeyedStream(5, Purpose.FAULTS)
    assert kstest([draws.uniform(a, b, 7) for a in range(100) for b in range(100)], "uniform").pvalue > 1e-6


def test_a_messages_fate_does_not_depend_on_what_else_is_sent_nor_when_it_is_asked_for() -> None:
    tables: tuple[dict[str, Any], ...] = (
        {"rule": "loss", "probability": 0.5},
        {"rule": "reorder", "probability": 0.5},
        {"rule": "delay", "probability": 0.5},
        {"rule": "churn", "fraction": 0.5, "end": 5.0},
    )
    made, again = faults(*tables), faults(*tables)
    pairs = [(a, b) for a in range(USERS) for b in range(USERS) if a != b]
    fates = {pair: arrivals(made, *pair) for pair in pairs}
    assert {pair: arrivals(again, *pair, number=9) for pair in reversed(pairs)} == fates
    assert len({tuple(fate) for fate in fates.values()}) > len(pairs) / 2


def test_other_seeds_choose_other_users_and_other_fates() -> None:
    found = [everything(faults({"rule": "loss", "probability": 0.5, "count": 5}, seed=seed)) for seed in range(3)]
    assert found[0] != found[1] != found[2] != found[0]


# Rule by rule


def test_loss_takes_its_share_of_attempts() -> None:
    """Of 9,900 messages each attempt is lost with probability 0.3; a gap this large has probability below 1e-6."""
    made = faults({"rule": "loss", "probability": 0.3}, users=100)
    attempts = Counter(first_attempt_from(time - TRAVEL - 1e-6) for (time,) in everything(made, 100))
    for attempt, expected in enumerate([0.7, 0.21, 0.063]):
        assert abs(attempts[attempt] / 9900 - expected) < 0.023
    assert made.fired() == [{"rule": "loss", "fired": 9900 - attempts[0]}]


def test_an_attempt_must_get_past_every_loss_rule() -> None:
    """As above; two rules at one half and a partition that changes nothing between them let a quarter pass."""
    half = {"rule": "loss", "probability": 0.5}
    made = faults(half, {"rule": "partition", "users": [0], "start": 90.0}, half, users=100)
    attempts = Counter(first_attempt_from(fate[0] - TRAVEL - 1e-6) for fate in everything(made, 100) if fate)
    for attempt, expected in enumerate([0.25, 0.1875, 0.140625]):
        assert abs(attempts[attempt] / 9900 - expected) < 0.023


def test_loss_outside_its_window_or_of_nothing_loses_nothing() -> None:
    assert everything(faults({"rule": "loss", "probability": 1.0, "start": 5.0})) == [[TRAVEL]] * 90
    assert everything(faults({"rule": "loss", "probability": 0.0})) == [[TRAVEL]] * 90


def test_delay_concerns_messages_to_and_from_its_users_in_its_window() -> None:
    made = faults({"rule": "delay", "users": [3], "seconds": 2.0, "start": 1.0, "end": 4.0})
    assert arrivals(made, 3, 1, at=1.0) == arrivals(made, 1, 3, at=3.9) == [TRAVEL + 2.0]
    assert on_time(made, 1, 2, at=2.0)
    assert on_time(made, 3, 1, at=0.9)
    assert on_time(made, 3, 1, at=4.0)
    assert made.fired() == [{"rule": "delay", "fired": 2}]


def test_a_rule_that_names_nobody_concerns_everyone_the_other_parties_too() -> None:
    made = faults({"rule": "delay", "seconds": 2.0})
    late = [TRAVEL + 2.0]
    assert arrivals(made, 3, 1) == arrivals(made, 3, LEARNER) == arrivals(made, COORDINATOR, 3) == late
    assert arrivals(made, COORDINATOR, LEARNER, Closed(0, 0, b"", 0)) == late


def test_reorder_holds_some_messages_back_for_up_to_so_long() -> None:
    made = faults({"rule": "reorder", "probability": 0.5, "seconds": 4.0}, users=30)
    held = np.array([time - TRAVEL for (time,) in everything(made, 30)])
    assert 0 <= held.min() < held.max() < 4.0
    assert 0.4 < np.mean(held > 0) < 0.6
    assert 1.8 < held[held > 0].mean() < 2.2


def test_a_slow_user_takes_her_time_with_what_she_gets() -> None:
    made = faults({"rule": "slow", "users": [3], "seconds": 2.0})
    assert arrivals(made, 1, 3) == [TRAVEL + 2.0]
    assert on_time(made, 3, 1)


def test_a_partition_stops_what_crosses_it_both_ways() -> None:
    made = faults({"rule": "partition", "users": [0, 1], "end": 1.0})
    for crossing in ((0, 2), (2, 0), (1, LEARNER), (COORDINATOR, 1)):
        assert arrivals(made, *crossing) == [pytest.approx(1.5 + TRAVEL)]
    assert on_time(made, 0, 1)
    assert on_time(made, 2, 3)
    assert on_time(made, COORDINATOR, LEARNER)


def test_a_one_way_partition_stops_what_its_users_send() -> None:
    made = faults({"rule": "partition", "users": [0, 1], "one_way": True, "end": 1.0})
    assert arrivals(made, 0, 2) == arrivals(made, 1, LEARNER) == [pytest.approx(1.5 + TRAVEL)]
    assert on_time(made, 2, 0)
    assert on_time(made, COORDINATOR, 1)
    assert on_time(made, 0, 1)


def test_users_who_are_down_and_users_who_are_back_are_counted() -> None:
    made = faults(
        {"rule": "crash", "users": [0, 1], "at": 1.0, "restart": 4.0},
        {"rule": "crash", "users": [1], "at": 6.0, "restart": 1.0},
        {"rule": "crash", "users": [2], "at": 2.0},
    )
    assert [made.away(time) for time in (0.5, 1.0, 2.0, 5.0, 6.5, 7.0)] == [
        (0, 0), (2, 0), (3, 0), (1, 2), (2, 1), (1, 2),
    ]  # fmt: skip


def test_a_user_who_is_down_neither_sends_nor_receives() -> None:
    made = faults({"rule": "crash", "users": [0], "at": 1.0, "restart": 4.0})
    at_5_1 = [pytest.approx(offset_of(5) + TRAVEL)]  # the first attempt after her return
    assert arrivals(made, 0, 1, at=2.0) == arrivals(made, 1, 0, at=2.0) == at_5_1
    assert on_time(made, 0, 1, at=0.9)  # it has left when she goes down
    assert on_time(made, 0, 1, at=5.0)
    assert on_time(made, 1, 2, at=2.0)


def test_what_arrives_while_its_receiver_is_down_is_sent_again() -> None:
    made = faults({"rule": "crash", "users": [0], "at": 1.0, "restart": 4.0})
    assert on_time(made, 1, 0, at=0.4)
    (time,) = arrivals(made, 1, 0, at=0.6)  # would come at 1.1
    assert 0.6 + time >= 5.0
    (time,) = arrivals(made, 1, 0, at=4.6)  # leaves while she is down, comes when she is back
    assert time == TRAVEL


def test_who_never_comes_back_gets_nothing_more() -> None:
    made = faults({"rule": "crash", "users": [0], "at": 1.0})
    assert on_time(made, 1, 0, at=0.4)
    assert arrivals(made, 1, 0, at=1.0) == arrivals(made, 0, 1, at=1.0) == []
    assert made.delivery["lost_for_good"] == 2


def test_in_churn_each_user_is_away_once_at_a_moment_of_her_own() -> None:
    made = faults({"rule": "churn", "fraction": 0.5, "start": 2.0, "end": 8.0, "seconds": 3.0}, users=100)
    times = np.arange(0.0, 14.0, 0.05)
    away: list[tuple[float, float]] = []
    for user in range(100):
        down = [t for t in times if not on_time(made, user, LEARNER, at=t)]
        if down:
            assert len(down) == pytest.approx(3.0 / 0.05, abs=1)  # one spell of three seconds
            assert down[-1] - down[0] == pytest.approx(3.0, abs=0.1)
            away.append((down[0], down[-1]))
    assert len(away) == 50
    assert min(first for first, _ in away) >= 2.0 - 0.05
    assert max(first for first, _ in away) <= 8.05
    assert len({first for first, _ in away}) > 20


# What is not on the network


@pytest.mark.parametrize(
    ("sender", "receiver", "message"),
    [
        pytest.param(COORDINATOR, HOST, Roster(0, 0, b""), id="a roster"),
        pytest.param(3, AUDITOR, Refusal(1, "ask", Fault.DUPLICATE, "again"), id="a refusal"),
        pytest.param(3, 3, Ask(0), id="a self-ask"),
        pytest.param(3, 10**9, Ask(0), id="to nobody"),
        pytest.param(3, -9, Ask(0), id="to nobody either"),
    ],
)
def test_no_rule_touches_what_is_not_on_the_network(sender: int, receiver: int, message: Message) -> None:
    made = faults(
        {"rule": "loss", "probability": 1.0},
        {"rule": "delay"},
        {"rule": "reorder", "probability": 1.0},
        {"rule": "duplicate", "probability": 1.0},
        {"rule": "slow", "fraction": 1.0},
        {"rule": "partition", "users": [3]},
    )
    assert arrivals(made, sender, receiver, message) == [TRAVEL]
    assert all(rule["fired"] == 0 for rule in made.fired())


def test_a_user_who_is_down_hears_herself_when_she_is_back_or_never() -> None:
    made = faults(
        {"rule": "crash", "users": [0], "at": 1.0, "restart": 4.0},
        {"rule": "crash", "users": [0], "at": 4.5, "restart": 2.0},
        {"rule": "crash", "users": [1], "at": 1.0},
    )
    assert on_time(made, 0, 0, at=0.4)
    assert arrivals(made, 0, 0, at=0.6) == [pytest.approx(6.5 - 0.6)]
    assert arrivals(made, 1, 1, at=0.6) == []


# Copies


def test_a_copy_comes_with_the_next_attempt() -> None:
    made = faults({"rule": "duplicate", "probability": 1.0})
    assert arrivals(made, 0, 1) == [TRAVEL, pytest.approx(TRAVEL + FIRST_PAUSE)]


def test_a_copy_that_a_rule_stops_is_none() -> None:
    made = faults(
        {"rule": "duplicate", "probability": 1.0}, {"rule": "loss", "probability": 1.0, "start": 0.05, "end": 1.0}
    )
    assert on_time(made, 0, 1)
    assert made.fired()[0]["fired"] == 0


def test_the_link_lets_the_first_copy_pass_whichever_it_is() -> None:
    made = faults({"rule": "duplicate", "probability": 1.0})
    records = [(number, 0.0, 0, 1, Ask(number)) for number in range(3)]
    for record in records:
        made.arrivals(record, TRAVEL)
    other = (7, 0.0, 0, 1, Ask(7))
    assert [made.is_new(record) for record in (*records, other, *reversed(records))] == [True] * 4 + [False] * 3
    assert made.delivery["duplicates_dropped"] == 3


@pytest.mark.trio
async def test_roles_see_a_doubled_message_once_and_the_trace_shows_it_once(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    made = faults({"rule": "duplicate", "probability": 1.0}, {"rule": "reorder", "probability": 1.0, "seconds": 3.0})
    trace: list[bytes] = []
    network = MemoryNetwork(USERS, Auditor(), trace.append, faults=made)
    network.boxes[1] = box = Mailbox()
    nursery.start_soon(network.carry)
    for round_ in range(50):
        network.send(0, 1, Ask(round_))
    network.flush()
    await trio.sleep(10)
    heard = [record[4].round for record in box.take()]  # type: ignore[attr-defined]
    assert sorted(heard) == list(range(50)) != heard
    assert made.delivery == {"sent_again": 0, "duplicates_dropped": 50, "lost_for_good": 0}
    assert dict(network.kinds) == {Ask: 50}


@pytest.mark.trio
async def test_what_is_lost_for_good_reaches_nobody_and_leaves_the_carrier_at_work(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    made = faults({"rule": "loss", "probability": 1.0, "users": [0]})
    network = MemoryNetwork(USERS, Auditor(), lambda _: None, faults=made)
    network.boxes[1] = box = Mailbox()
    nursery.start_soon(network.carry)
    await trio.testing.wait_all_tasks_blocked()
    network.send(0, 1, Ask(0))
    await trio.testing.wait_all_tasks_blocked()
    network.send(2, 1, Ask(1))
    await trio.sleep(2 * HORIZON)
    assert [record[4] for record in box.take()] == [Ask(1)]
    await network.settled()


# Counting


def test_a_rule_that_never_fired_is_warned_of() -> None:
    made = faults({"rule": "loss", "probability": 1.0, "end": 1.0}, {"rule": "crash", "users": [3], "at": 50.0})
    everything(made)
    assert made.fired() == [{"rule": "loss", "fired": 90}, {"rule": "crash", "fired": 0}]
    (line,) = made.warnings()
    assert line.startswith("faults[2] (crash) never fired")


# Choosing users


def test_listed_users_are_those_listed() -> None:
    assert choose((7, 2), 0, 0.0, 10, stream(1, Purpose.FAULTS), "here").tolist() == [2, 7]


@pytest.mark.parametrize(
    ("count", "fraction", "expected"), [(4, 0.0, 4), (0, 0.25, 25), (0, 1.0, 100), (100, 0.0, 100)]
)
def test_a_number_or_a_share_is_drawn_without_repetition(count: int, fraction: float, expected: int) -> None:
    chosen = choose((), count, fraction, 100, stream(1, Purpose.FAULTS), "here").tolist()
    assert chosen == sorted(set(chosen))
    assert len(chosen) == expected
    assert set(chosen) <= set(range(100))


def test_every_user_is_as_likely_to_be_chosen() -> None:
    """4,000 times 5 of 20: each about 1,000 times, further off than 170 with probability below 1e-8."""
    generator = stream(1, Purpose.FAULTS)
    times = Counter(user for _ in range(4000) for user in choose((), 5, 0.0, 20, generator, "here").tolist())
    assert max(abs(times[user] - 1000) for user in range(20)) < 170


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"users": [3, 10]}, r"faults\[2\] \(slow\): there is no user 10; users are 0 to 9"),
        ({"count": 11}, r"faults\[2\] \(slow\): count = 11 is not allowed; it must be at most the users, 10"),
    ],
)
def test_users_who_do_not_exist_are_refused_with_the_entrys_position(table: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        faults({"rule": "loss"}, {"rule": "slow", **table})
