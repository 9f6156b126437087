"""A host: rosters come in parts, coins are drawn once for all its users."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from p2p_labeldp.mechanisms import SeededCoins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol import Host
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER, Ask, Goodbye, Message, Refused, Roster, Round


def roster(cluster: int, first: int, *members: int) -> Roster:
    return Roster(cluster, first, np.array(members, dtype="<i8").tobytes())


@pytest.fixture
def host() -> Host:
    return Host(Parameters(0.1, 1.0), SeededCoins(5), 10, 20)


def fault(host: Host, sender: int, message: Message) -> str:
    with pytest.raises(Refused) as caught:
        host.receive(sender, message)
    return caught.value.fault


def test_a_roster_is_put_together_from_its_parts(host: Host) -> None:
    assert host.receive(COORDINATOR, roster(0, 0, 3, 5)) == ()
    host.receive(COORDINATOR, roster(1, 0, 4))
    host.receive(COORDINATOR, roster(0, 2, 9))
    assert {cluster: list(members) for cluster, members in host.rosters.items()} == {0: [3, 5, 9], 1: [4]}


def test_a_part_that_is_known_is_a_duplicate(host: Host) -> None:
    host.receive(COORDINATOR, roster(0, 0, 3, 5))
    assert fault(host, COORDINATOR, roster(0, 0, 3, 5)) == "duplicate"
    assert fault(host, COORDINATOR, roster(0, 1, 5)) == "duplicate"
    assert list(host.rosters[0]) == [3, 5]


def test_a_part_that_leaves_a_gap_is_out_of_order_and_changes_nothing(host: Host) -> None:
    assert fault(host, COORDINATOR, roster(0, 2, 9)) == "out_of_order"
    assert not host.rosters


def test_half_a_member_is_malformed(host: Host) -> None:
    assert fault(host, COORDINATOR, Roster(0, 0, b"123")) == "malformed"


@pytest.mark.parametrize("members", [(5, 3), (3, 3), (-1, 3)], ids=["descending", "twice", "negative"])
def test_members_must_be_users_in_ascending_order(host: Host, members: tuple[int, ...]) -> None:
    """One user many times over would pass for a cluster of the minimum size."""
    assert fault(host, COORDINATOR, roster(0, 0, *members)) == "malformed"


def test_members_must_ascend_from_part_to_part(host: Host) -> None:
    host.receive(COORDINATOR, roster(0, 0, 3, 5))
    assert fault(host, COORDINATOR, roster(0, 2, 5)) == "malformed"


@pytest.mark.parametrize("sender", [0, LEARNER])
def test_only_the_coordinator_gives_orders(host: Host, sender: int) -> None:
    assert fault(host, sender, roster(0, 0, 3)) == "misdirected"
    assert fault(host, sender, Goodbye(False)) == "misdirected"
    assert not host.left


def test_other_messages_are_misdirected(host: Host) -> None:
    assert fault(host, COORDINATOR, Ask(0)) == "misdirected"


def test_a_host_leaves_once(host: Host) -> None:
    host.receive(COORDINATOR, Goodbye(False))
    assert host.left
    assert fault(host, COORDINATOR, Goodbye(False)) == "duplicate"


def test_a_host_hears_of_the_close_of_every_round_once(host: Host) -> None:
    assert fault(host, COORDINATOR, Round(2, False)) == "out_of_order"
    host.receive(COORDINATOR, Round(1, False))
    assert fault(host, COORDINATOR, Round(1, False)) == "duplicate"
    host.receive(COORDINATOR, Goodbye(False))
    assert host.closed == 2
    assert fault(host, COORDINATOR, Round(3, False)) == "out_of_order"


def test_a_user_gets_the_coins_that_she_would_draw_alone(host: Host) -> None:
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
