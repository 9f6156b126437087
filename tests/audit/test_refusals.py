"""Which of several messages a refusal is about."""

from __future__ import annotations

from typing import Any

from p2p_labeldp.audit.refusals import refused_positions
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.protocol.messages import AUDITOR, COORDINATOR, HOST, LEARNER
from p2p_labeldp.scenario import Network

LATE, AGAIN = ("out_of_order", "too late"), ("duplicate", "once is enough")


def trace(*messages: tuple[Any, ...]) -> list[Event]:
    """Events from (sender, receiver, kind, fields ...), one second apart."""
    return [
        Event(place, place, float(place), sender, receiver, kind, tuple(fields))
        for place, (sender, receiver, kind, *fields) in enumerate(messages)
    ]


def refused(*messages: tuple[Any, ...], network: Network | None = None, reports: Any = ()) -> dict[int, str]:
    found, wrong = refused_positions(trace(*messages), network, reports)
    assert wrong == []
    return found


def test_a_message_that_repeats_another_one_is_the_one_too_many() -> None:
    asks = [(1, 2, "ask", 0), (1, 2, "ask", 0), (2, 1, "answer", 0, 1)]
    assert refused(*asks, (2, AUDITOR, "refusal", 1, "ask", *AGAIN)) == {1: "duplicate"}
    # Refused for another reason it is still the second that had no effect.
    assert refused(*asks, (2, AUDITOR, "refusal", 1, "ask", *LATE)) == {1: "out_of_order"}


def test_what_was_acted_on_was_not_refused_even_if_that_is_seen_only_later() -> None:
    asks = [(1, 2, "ask", 0), (1, 2, "ask", 1), (2, AUDITOR, "refusal", 1, "ask", *LATE)]
    assert refused(*asks, (2, 1, "answer", 0, 1)) == {1: "out_of_order"}
    assert refused(*asks, (2, 1, "answer", 1, 1)) == {0: "out_of_order"}


def test_an_answer_that_was_asked_for_was_not_refused() -> None:
    said = [(1, 2, "ask", 1), (2, 1, "answer", 0, 1), (2, 1, "answer", 1, 1)]
    assert refused(*said, (1, AUDITOR, "refusal", 2, "answer", *LATE)) == {1: "out_of_order"}


def test_a_report_that_the_learner_took_was_not_refused() -> None:
    said = [
        (1, LEARNER, "report", 0, 2),
        (1, LEARNER, "report", 1, 2),
        (LEARNER, AUDITOR, "refusal", 1, "report", *LATE),
    ]
    assert refused(*said, reports={(0, 1, 2)}) == {1: "out_of_order"}
    assert refused(*said, reports={(1, 1, 2)}) == {0: "out_of_order"}


def test_of_messages_that_had_no_effect_the_oldest_was_late_first() -> None:
    said = [(1, COORDINATOR, "done", 0, "dropped"), (1, COORDINATOR, "done", 1, "dropped")]
    refusal = (COORDINATOR, AUDITOR, "refusal", 1, "done", *LATE)
    assert refused(*said, refusal) == {0: "out_of_order"}
    assert refused(*said, refusal, refusal) == {0: "out_of_order", 1: "out_of_order"}


def test_in_virtual_time_it_is_what_arrives_just_then() -> None:
    said = [(1, COORDINATOR, "done", 0, "dropped"), (1, COORDINATOR, "done", 1, "dropped")]
    refusal = (COORDINATOR, AUDITOR, "refusal", 1, "done", *LATE)
    assert refused(*said, refusal, network=Network(latency=1.0)) == {1: "out_of_order"}
    assert refused(*said, refusal, network=Network(latency=2.0)) == {0: "out_of_order"}
    _, wrong = refused_positions(trace(*said, refusal), Network(latency=0.5), ())
    assert [found.invariant for found in wrong] == ["timing"]


def test_a_refusal_refuses_one_message_that_stands_before_it() -> None:
    refusal = (COORDINATOR, AUDITOR, "refusal", 1, "hello", *AGAIN)
    for messages in (
        [refusal, (1, COORDINATOR, "hello", 1, 2)],
        [(1, COORDINATOR, "hello", 1, 2), refusal, refusal],
        [(2, COORDINATOR, "hello", 1, 2), refusal],
    ):
        _, wrong = refused_positions(trace(*messages), None, ())
        assert [found.invariant for found in wrong] == ["refusals"]


def test_bytes_that_are_no_message_are_not_looked_for() -> None:
    assert refused((2, AUDITOR, "refusal", 1, "frame", "malformed", "not MessagePack")) == {}


def test_a_message_of_another_attempt_repeats_nothing() -> None:
    """What came too late is the oldest, though a newer one of the same round was taken."""
    gos = [(1, 2, "go", 0, attempt, b"digest", b"shown", b"signature") for attempt in (0, 1)]
    assert refused(*gos, (2, AUDITOR, "refusal", 1, "go", *LATE)) == {0: "out_of_order"}
    assert refused(*gos, gos[1], (2, AUDITOR, "refusal", 1, "go", *AGAIN)) == {2: "duplicate"}


def test_what_one_host_of_a_deployment_refuses_others_may_have_taken() -> None:
    batch = (3, HOST, "batch", 0, 0, 0, 3, 0, [b"packet"], b"signature")
    refusal = (HOST, AUDITOR, "refusal", 3, "batch", *LATE)
    assert refused(batch, refusal, refusal) == {}
    assert refused(batch, refusal, network=Network(latency=1.0)) == {0: "out_of_order"}


def test_a_batch_that_a_relay_passed_on_was_not_refused() -> None:
    """Of two that she was sent in a round the later one came when its attempt was over."""
    batches = [(1, 2, "batch", 0, 0, attempt, 1, 0, [b"packet"], b"") for attempt in (0, 1)]
    passed = (2, COORDINATOR, "passed", 0, 0, 0, 1, b"taken", b"passed")
    late = (2, AUDITOR, "refusal", 1, "batch", *LATE)
    assert refused(*batches, passed, late) == {1: "out_of_order"}
    assert refused(*batches, late) == {0: "out_of_order"}


def test_a_hello_of_somebody_in_a_roster_was_not_refused_and_another_one_is_not_on_record() -> None:
    roster = (COORDINATOR, HOST, "roster", 0, 0, (7).to_bytes(8, "little"))
    said = trace((7, COORDINATOR, "hello", 5, 2), roster, (COORDINATOR, AUDITOR, "refusal", 7, "hello", *AGAIN))
    found, (wrong,) = refused_positions(said, None, ())
    assert found == {}
    assert (wrong.invariant, wrong.party, wrong.cause_of) == ("refusals", COORDINATOR, 7)
