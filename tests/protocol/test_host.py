"""A host: rosters come in parts, coins are drawn once for all its users."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from roles import Row, assert_refused, hearing, roster

from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol import Host, User
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Ask, Assignment, Goodbye, Roster, Round


def make() -> Host:
    return Host(Parameters(0.1, 1.0, rounds=2), SeededCoins(5), 10, 20)


def assigned() -> Host:
    host = hearing(make(), (COORDINATOR, roster(0, [12, 13])))
    User(13, 0, host).receive(COORDINATOR, Assignment(0, 2, 1))
    return host


TOLD, ROUND, GONE = (COORDINATOR, roster(0, [3, 5])), (COORDINATOR, Round(1, False)), (COORDINATOR, Goodbye(False))
KNOWN = [roster(0, [3, 5]), roster(0, [5], first=1)]
REFUSED: dict[str, Row] = {
    "a part of a roster that is known": (make, [TOLD], [COORDINATOR], KNOWN, "duplicate"),
    "a part that leaves a gap": (make, [], [COORDINATOR], [roster(0, [9], first=2)], "out_of_order"),
    # She abstained since it was small, or checked her flips for its size.
    "members who come after a user was assigned": (
        assigned, [], [COORDINATOR], [roster(0, [15], first=2)], "out_of_order",
    ),
    "half a member": (make, [], [COORDINATOR], [Roster(0, 0, b"123")], "malformed"),
    # One user many times over would pass for a cluster of the minimum size.
    "members descending, twice or negative": (
        make, [], [COORDINATOR], [roster(0, [5, 3]), roster(0, [3, 3]), roster(0, [-1, 3])], "malformed",
    ),
    "members that do not ascend from part to part": (
        make, [TOLD], [COORDINATOR], [roster(0, [5], first=2)], "malformed",
    ),
    "orders of anyone but the coordinator": (make, [], [0, LEARNER], [roster(0, [3]), Goodbye(False)], "misdirected"),
    "messages for others": (make, [], [COORDINATOR], [Ask(0)], "misdirected"),
    "leaving twice": (make, [GONE], [COORDINATOR], [Goodbye(False)], "duplicate"),
    "a round that is left out": (make, [], [COORDINATOR], [Round(2, False)], "out_of_order"),
    "the close of a round twice": (make, [ROUND], [COORDINATOR], [Round(1, False)], "duplicate"),
    "a round after the last": (make, [ROUND], [COORDINATOR], [Round(2, False)], "out_of_order"),
    "a round after it has left": (make, [GONE], [COORDINATOR], [Round(2, False)], "out_of_order"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_and_stays_as_it_was(what: str) -> None:
    assert_refused(*REFUSED[what])


def test_a_roster_is_put_together_from_its_parts() -> None:
    host = hearing(make(), TOLD, (COORDINATOR, roster(1, [4])), (COORDINATOR, roster(0, [9], first=2)))
    assert {cluster: list(members) for cluster, members in host.rosters.items()} == {0: [3, 5, 9], 1: [4]}


def test_a_host_counts_the_rounds_that_are_closed_and_leaves_with_the_last() -> None:
    host = hearing(make(), ROUND)
    assert (host.closed, host.left) == (1, False)
    host.receive(*GONE)
    assert (host.closed, host.left) == (2, True)


def test_a_user_gets_the_coins_that_she_would_draw_alone() -> None:
    host = make()
    for round_ in (0, 1, 2):
        for user in (10, 19, 13):
            assert host.coins(round_, user) == SeededCoins(5).block(round_, user, user + 1)[0].tolist()


class CountingCoins:
    def __init__(self) -> None:
        self.calls: list[int] = []

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        self.calls.append(round_)
        return np.full((stop - start, 4), len(self.calls) / 10)


def test_a_rounds_coins_are_drawn_once_for_all_users() -> None:
    coins = CountingCoins()
    host = Host(Parameters(0.1, 1.0), coins, 0, 5)
    assert [host.coins(round_, user) for round_ in (0, 1) for user in range(5)] == [[0.1] * 4] * 5 + [[0.2] * 4] * 5
    assert coins.calls == [0, 1]


def test_a_user_who_lags_behind_has_coins_of_her_own_drawn() -> None:
    """A round closes at its limit while some user's assignment is still on its way."""
    coins = CountingCoins()
    host = Host(Parameters(0.1, 1.0, rounds=3), coins, 0, 2)
    assert host.coins(0, 0) == [0.1] * 4
    assert host.coins(1, 0) == [0.2] * 4
    assert host.coins(0, 1) == [0.3] * 4
    assert coins.calls == [0, 1, 0]


def test_with_seeded_coins_lagging_behind_changes_nothing() -> None:
    host = Host(Parameters(0.1, 1.0, rounds=3), SeededCoins(5), 0, 3)
    host.coins(2, 0)
    assert host.coins(1, 2) == SeededCoins(5).block(1, 0, 3)[2].tolist()
