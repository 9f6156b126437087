"""Whatever crooked relays and members of the mixed exchange do together, they learn no more than the account says.

The protocol stands here once more, as rules about who may do what, without any of the package's roles. Every strategy
of the crooked over three attempts is played against it: whose packets they keep from the batch that all are shown, to
whom their relays say that they gave up, who of them says go to which relay and comes along to the next attempt. What
they end up with is, for every attempt that was opened, the honest members' noisy labels in no order; or all labels, if
all relays of an attempt are theirs.

What each member sees before anything is opened is sealed, so that nothing that the crooked do depends on a label.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import every_coin
import pytest

from p2p_labeldp.privacy import Parameters, account

ATTEMPTS = 3
Group = frozenset[int]
Opened = tuple[Group, ...]
"""The honest members of each attempt that was opened."""


def groups(users: Group) -> list[Group]:
    return [frozenset(chosen) for count in range(len(users) + 1) for chosen in itertools.combinations(users, count)]


@cache
def reachable(
    honest: Group, crooked: Group, relays: int, least: int, alone: bool, attempt: int = 0
) -> frozenset[Opened]:
    """What the crooked can have opened from this attempt on, whose members these are, if one relay of each is honest.

    ``alone``: those who come along to another attempt go on without the others, as long as they are enough.
    """
    found: set[Opened] = {()}
    if attempt == ATTEMPTS or len(honest) + len(crooked) < max(relays, least) or not honest:
        return frozenset(found)
    for drawn in itertools.combinations(sorted(honest | crooked), relays):
        fair = honest.intersection(drawn)
        if not fair:
            continue  # the chance of that is counted apart
        for go, released, told in moves(honest, fair):
            now: Opened = (honest,) if released == fair else ()
            found.add(now)
            silent = released or len(fair) < relays  # whether some relay may not have said that it gave up
            staying = frozenset(user for user in go if released or (silent and user not in told))
            if staying and not alone:
                continue
            for joining in groups(crooked):
                rest = reachable(honest - staying, joining, relays, least, alone, attempt + 1)
                found.update(now + later for later in rest)
    return frozenset(found)


def moves(honest: Group, fair: Group) -> Iterator[tuple[Group, Group, Group]]:
    """Who finds her packet and says go, which honest relays hold all gos and release, and to whom the crooked relays
    say that they gave up. A relay releases only with a go of everyone."""
    for go in groups(honest):
        for released in groups(fair) if go == honest else [frozenset[int]()]:
            for told in groups(honest):
                yield go, released, told


def delta(opened: Opened, honest: Group, alpha: float, epsilon: float) -> float:
    """Of user 0, for the worst labels of the others: how many ones there are in everything that was opened."""
    users = sorted(honest)
    noisy = every_coin.every_label(len(users), 2)
    ones = [noisy[[users.index(user) for user in group]].sum(axis=0) for group in opened]
    seen = every_coin.flipped(every_coin.listed(ones), len(users), 2, alpha)
    return every_coin.worst(seen, 2, epsilon)


@cache
def all_theirs(honest: int, crooked: int, relays: int, attempts: int) -> float:
    """The best chance that all relays of an attempt are crooked: they spoil attempts, and some of them may leave."""
    if attempts == 0:
        return 0.0
    best = 0.0
    for joining in range(crooked + 1):
        once = math.comb(joining, relays) / math.comb(honest + joining, relays) if honest + joining >= relays else 0.0
        best = max(best, once + (1 - once) * all_theirs(honest, joining, relays, attempts - 1))
    return best


CASES = [(size, crooked, relays) for size in (2, 3, 4) for crooked in range(1, size) for relays in range(1, size + 1)]


@pytest.mark.parametrize(("size", "crooked", "relays"), CASES)
def test_no_strategy_of_crooked_relays_and_members_beats_the_account(size: int, crooked: int, relays: int) -> None:
    theirs = frozenset(range(size - crooked, size))
    honest = frozenset(range(size)) - theirs
    found = reachable(honest, theirs, relays, least=1, alone=False)
    chance = all_theirs(len(honest), crooked, relays, ATTEMPTS)
    assert found == {(), (honest,)}, "nothing, or all of the honest together and once"
    for alpha, epsilon in itertools.product((0.1, 0.3), (0.0, 0.2, 0.7, 1.5)):
        parameters = Parameters(alpha, exchange="mixed", relays=relays, attempts=ATTEMPTS)
        stated = account("coalition", parameters, cluster_size=size, colluders=crooked, relaying=True)
        local = max(0.0, 1 - alpha - math.exp(epsilon) * alpha)
        most = max(delta(opened, honest, alpha, epsilon) for opened in found)
        assert chance * local + (1 - chance) * most == pytest.approx(stated.get_delta(epsilon).delta, abs=1e-12)


def test_were_some_to_go_on_without_the_others_a_relay_could_single_out_anyone() -> None:
    """It keeps the victim's packet from the batch; she says no-go, everyone else go, and the others are never told that
    it gave up: she alone comes along to the next attempt, with the crooked."""
    honest, crooked = frozenset({0, 1}), frozenset({2, 3})
    found = reachable(honest, crooked, 2, least=2, alone=True)
    assert (frozenset({0}),) in found
    parameters = Parameters(0.1, exchange="mixed", relays=2, attempts=ATTEMPTS)
    stated = account("coalition", parameters, cluster_size=4, colluders=2, relaying=True).get_delta(1.5).delta
    local = 0.9 - math.exp(1.5) * 0.1
    assert delta((frozenset({0}),), honest, 0.1, 1.5) == pytest.approx(local)
    assert local > stated
    # A minimum size leaves her that many less the crooked.
    assert not any(frozenset({0}) in opened for opened in reachable(honest, crooked, 2, least=4, alone=True))


def test_two_batches_of_one_round_would_give_the_difference_away() -> None:
    """Why nobody who said go takes part again unless every relay has given up."""
    both, one = frozenset({0, 1, 2}), frozenset({1, 2})
    assert delta((both, one), both, 0.1, 1.0) == pytest.approx(0.9 - math.e * 0.1)
    assert delta((both,), both, 0.1, 1.0) < 0.9 - math.e * 0.1
