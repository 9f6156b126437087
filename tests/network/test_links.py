"""Links: everything arrives exactly once and in order, however often connections break and nodes start again."""

from __future__ import annotations

import random

import pytest

from p2p_labeldp.network.frames import MAX_BODY, Item, decode
from p2p_labeldp.network.links import OVERHEAD, Link
from p2p_labeldp.protocol.messages import Refused


def items(data: bytes) -> list[Item]:
    """The items in a piece of a stream."""
    found = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        item, data = decode(data[4:end]), data[end:]
        assert isinstance(item, Item)
        found.append(item)
    return found


def link_with(count: int) -> Link:
    link = Link()
    for number in range(count):
        assert link.append(number, b"%d" % number) == number
    return link


def numbers(link: Link, size: int = 1 << 20) -> list[int]:
    return [item.number for item in items(link.take(size))]


# To the peer


def test_items_go_out_once_in_order_with_clock_and_body() -> None:
    link = link_with(3)
    assert items(link.take(1 << 20)) == [Item(0, 0, b"0"), Item(1, 1, b"1"), Item(2, 2, b"2")]
    assert link.take(1 << 20) == b""
    link.append(9, b"9")
    assert numbers(link) == [3]


def test_a_batch_is_about_as_large_as_asked_and_never_empty_while_there_is_something() -> None:
    link = Link()
    for _ in range(3):
        link.append(0, bytes(1000))
    assert [numbers(link, 1500), numbers(link, 1), numbers(link, 1)] == [[0, 1], [2], []]


def test_items_are_kept_until_they_are_acknowledged() -> None:
    link = link_with(5)
    link.take(1 << 20)
    assert link.unacknowledged == 5
    link.acknowledged(2)
    assert link.unacknowledged == 3
    link.acknowledged(2)  # again
    link.acknowledged(1)  # an old one
    assert link.unacknowledged == 3
    link.acknowledged(5)
    assert (link.unacknowledged, link.waiting) == (0, 0)


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    link = link_with(5)
    numbers(link, 1)
    with pytest.raises(Refused, match="out_of_order"):
        link.acknowledged(2)
    assert link.unacknowledged == 5


def test_bytes_that_wait_are_counted() -> None:
    link = Link()
    link.append(0, bytes(1000))
    one = link.waiting
    assert 1000 + OVERHEAD < one < 1040 + OVERHEAD
    link.append(0, bytes(1000))
    link.take(1 << 20)
    assert link.waiting == 2 * one
    link.acknowledged(1)
    assert link.waiting == one


def test_after_a_break_the_stream_goes_on_where_the_peer_says() -> None:
    link = link_with(6)
    link.take(1 << 20)
    link.acknowledged(2)
    for received in (2, 4, 6, 3):
        link.resume(received)
        assert numbers(link) == list(range(received, 6))
        assert link.unacknowledged == 4


def test_what_the_peer_has_is_kept_until_it_is_also_acknowledged() -> None:
    link = link_with(3)
    link.resume(3)
    assert link.unacknowledged == 3
    link.acknowledged(3)
    assert link.unacknowledged == 0


def test_a_peer_that_lost_its_journal_is_refused() -> None:
    link = link_with(5)
    link.take(1 << 20)
    link.acknowledged(4)
    with pytest.raises(Refused, match="has lost its journal"):
        link.resume(3)


def test_a_peer_that_has_more_than_was_made_is_refused() -> None:
    with pytest.raises(Refused, match="a journal was lost"):
        link_with(5).resume(6)


def test_a_body_too_large_for_a_frame_is_the_callers_fault() -> None:
    link = Link()
    link.append(0, bytes(MAX_BODY))
    with pytest.raises(ValueError, match="at most"):
        link.append(0, bytes(MAX_BODY + 1))
    assert link.made == 1


# From the peer


def test_new_items_are_taken_old_ones_are_duplicates_and_a_gap_is_refused() -> None:
    link = Link()
    assert [link.accept(0), link.accept(1), link.accept(0), link.accept(1)] == [True, True, False, False]
    with pytest.raises(Refused, match="item 3 came where 2 was due"):
        link.accept(3)
    assert link.taken == 2


def test_a_restored_link_takes_what_comes_after_the_journal() -> None:
    link = Link()
    link.restore(10)
    assert (link.taken, link.committed) == (10, 10)
    assert [link.accept(9), link.accept(10)] == [False, True]


# Both ends


@pytest.mark.parametrize("seed", range(20))
def test_breaks_and_restarts_lose_nothing_and_repeat_nothing(seed: int) -> None:
    """Two ends and a wire that is cut at random; each end may also start again from its journal."""
    chance = random.Random(seed)
    bodies = [b"%d" % number for number in range(200)]
    sender, receiver = Link(), Link()
    journal: list[bytes] = []
    taken: list[bytes] = []  # passed on, not in the journal yet
    made = 0
    while len(journal) < len(bodies):
        if chance.random() < 0.1:  # the receiver starts again
            receiver, taken = Link(), []
            receiver.restore(len(journal))
        if chance.random() < 0.1:  # the sender starts again and makes the same items as before
            sender = Link()
            for body in bodies[:made]:
                sender.append(0, body)
        sender.resume(receiver.taken)
        sender.acknowledged(receiver.committed)
        for _ in range(chance.randrange(5)):  # a connection, and how long it lasts
            for body in bodies[made : made + chance.randrange(5)]:
                sender.append(0, body)
                made += 1
            arriving = items(sender.take(chance.randrange(1, 100)))
            lost = chance.randrange(len(arriving) + 1) if chance.random() < 0.3 else 0
            for item in arriving[: len(arriving) - lost]:
                assert receiver.accept(item.number)
                taken.append(item.body)
            if lost:
                break
            if chance.random() < 0.5:
                journal += taken
                taken = []
                receiver.committed = receiver.taken
                sender.acknowledged(receiver.committed)
    assert journal == bodies
    assert (receiver.taken, sender.made) == (200, 200)
