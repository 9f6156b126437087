"""The actors' loops when someone is silent, rude or broken, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgpack
import numpy as np
import pytest
import trio
from small import population_of, simulated, sixty
from trio.testing import MockClock

from p2p_labeldp.adversaries.roles import Silent
from p2p_labeldp.engines.actors import Simulation
from p2p_labeldp.engines.outcome import Population
from p2p_labeldp.errors import RunError
from p2p_labeldp.experiments import run
from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Ask, Message, Outgoing, Report
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Network, parse_scenario, replace


class Trace:
    """Collects what a simulation writes, and reads it as anyone would."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def messages(self, kind: str) -> list[list[object]]:
        unpacker = msgpack.Unpacker()
        unpacker.feed(self.data)
        return [record for record in list(unpacker)[1:] if record[4][0] == kind]


def simulation(population: Population, trace: Trace, **settings: float) -> Simulation:
    network = Network(**{"latency": 1.0, "hello_limit": 30.0, "round_limit": 40.0} | settings)
    return simulated(population, Parameters(0.1, 1.0), network=network, write=trace.write)


class Rude(User):
    """Sends a message too many of each kind, and some to people it is not for."""

    __slots__ = ()

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        out = list(super().receive(sender, message))
        return [*out, *out, (COORDINATOR, Report(0, 1)), (LEARNER, Ask(0)), (10**9, Ask(0)), (-9, Ask(0))]


class Broken(User):
    __slots__ = ()

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        raise ZeroDivisionError("a bug")


async def test_who_gets_no_answer_reports_nothing_and_the_round_ends_at_its_limit(autojump_clock: MockClock) -> None:
    trace = Trace()
    made = simulation(population_of([0, 1, 0, 1], [0, 0, 0, 0]), trace)
    asked = [int(SeededCoins(1).block(0, 0, 4)[user, 1] * 4) for user in range(4)]
    made.users[asked[0]] = Silent(asked[0], 1, made.host)
    await made.main()
    unanswered = [user for user in range(4) if asked[user] == asked[0]]
    outcome = made.outcome()
    assert outcome.missing == unanswered
    assert outcome.rounds[0][0].tolist() == [user for user in range(4) if user not in unanswered]
    # hello at 0, roster at 1, so the round is closed at 1 + 40; everyone hears of it at 42, and reports arrive at 43.
    assert made.network.now == pytest.approx(43.0)
    assert trio.current_time() == pytest.approx(43.0, abs=1.0)


async def test_surplus_and_misdirected_messages_are_refused_and_traced_and_honest_users_finish(
    autojump_clock: MockClock,
) -> None:
    trace = Trace()
    made = simulation(population_of([0, 1, 0, 1, 1], [0] * 5), trace)
    made.users[3] = Rude(3, 1, made.host)
    await made.main()
    made.network.flush()
    reasons = {str(record[4][3]) for record in trace.messages("refusal")}  # type: ignore[index]
    assert reasons >= {"duplicate", "misdirected"}
    assert made.outcome().rounds[0][0].tolist() == [0, 1, 2, 3, 4]
    assert made.outcome().missing == []


def test_an_actor_that_breaks_is_named_with_time_seed_and_cause() -> None:
    made = simulation(population_of([0, 1, 0], [0, 0, 0]), Trace())
    made.users[1] = Broken(1, 1, made.host)
    with pytest.raises(RunError, match=r"user 1 broke at virtual time 2 s, seed 1: ZeroDivisionError: a bug"):
        made.run()


def test_the_trace_of_a_broken_run_holds_what_was_sent() -> None:
    trace = Trace()
    made = simulation(population_of([0, 1, 0], [0, 0, 0]), trace)
    made.users[1] = Broken(1, 1, made.host)
    with pytest.raises(RunError):
        made.run()
    assert len(trace.messages("hello")) == 3


@pytest.mark.parametrize("hosting", ["user", "cluster"])
@pytest.mark.parametrize("latency", [0.0, 0.5])
def test_what_a_curator_publishes_travels_as_messages_and_is_in_the_trace(
    hosting: str, latency: float, tmp_path: Path
) -> None:
    scenario = parse_scenario("""
        [data]
        name = "synthetic"
        users = 90
        labels = 3
        [clusters]
        count = 3
        minimum_size = 10
        [mechanism]
        kind = "centralized"
        epsilon = 2.0
        tau = 0.05
        beta = 0.3
    """)
    chosen = replace(scenario, network__latency=latency, network__jitter=latency)
    played = run(chosen, hosting=hosting, out=tmp_path / "run").outcome
    by_arrays = run(chosen, engine="vectorized").outcome
    assert played is not None
    assert by_arrays is not None
    assert played.shares is not None
    assert by_arrays.shares is not None
    assert played.shares.shape == (3, 3)
    assert played.shares.tolist() == by_arrays.shares.tolist()
    with (tmp_path / "run" / "trace.msgpack").open("rb") as file:
        messages = [record[4] for record in list(msgpack.Unpacker(file))[1:]]
    published = {fields[0]: np.frombuffer(fields[1], dtype="<f8") for kind, *fields in messages if kind == "shares"}
    assert np.stack([published[cluster] for cluster in range(3)]).tolist() == played.shares.tolist()


@pytest.mark.parametrize("kind", ["cluster_rr", "uniform_rr", "shuffle"])
def test_mechanisms_that_publish_no_distribution_send_none(kind: str) -> None:
    outcome = run(sixty(f"mechanism.kind={kind}", "mechanism.epsilon=1.0", "mechanism.rounds=1")).outcome
    assert outcome is not None
    assert outcome.shares is None
    assert "shares" not in outcome.messages
