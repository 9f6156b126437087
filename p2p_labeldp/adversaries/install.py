"""Adversaries installed: the entries of ``[[adversaries]]`` put in place before a simulation runs.

Users who only look (curious peers, colluders, observers of the network) stay as they are, and may be anything else
besides. A behaviour is changed once at most: two for one user exclude each other. Named users are assigned
before any are drawn, so that a draw never takes one who is named elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.kinds import adversary_of
from p2p_labeldp.adversaries.record import Assignment, Setup
from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import View
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Entry, Scenario
from p2p_labeldp.streams import Purpose, choose, stream


def install(setup: Setup, scenario: Scenario) -> tuple[Assignment, ...]:
    """Put every adversary of the scenario in its place; who they are, one assignment for each entry."""
    population = setup.population
    total = len(population.labels)

    def cluster_of(victim: int) -> NDArray[np.int64]:
        everyone = np.arange(total)
        clusters = np.asarray(population.cluster(everyone, population.features))
        return np.flatnonzero(clusters == clusters[victim])

    assignments = assign(scenario, total, cluster_of)
    for assignment in assignments:
        record = adversary_of(assignment.entry)
        if record.install is not None:
            record.install(setup, scenario, assignment)
        for user in assignment.members:
            setup.users[user] = replaced(setup, scenario, assignment.entry, setup.users[user])
    return assignments


def replaced(
    setup: Setup, scenario: Scenario, entry: Entry, honest: User, moved: Callable[[int], int] = lambda victim: victim
) -> User:
    """Who stands in an honest user's place; ``moved`` says who the victim is where users are copies."""
    role = adversary_of(entry).replaces
    return honest if role is None else role(setup, scenario, entry, honest, moved)


def misbehaving(assignments: Sequence[Assignment]) -> list[str]:
    """The kinds of those who send what an honest party would not."""
    return [each.entry.name for each in assignments if adversary_of(each.entry).misbehaves]


def view_of_entry(entry: Entry) -> View | None:
    """Whose view an adversary has; None: it sees no label."""
    return adversary_of(entry).view(entry)


def present(assignments: Sequence[Assignment]) -> tuple[View, ...]:
    """The views of a run's adversaries, each once."""
    found = (view_of_entry(each.entry) for each in assignments)
    return tuple(dict.fromkeys(view for view in found if view is not None))


def colluding(assignments: Sequence[Assignment]) -> tuple[int, ...]:
    """All users who pool what they see with the learner, ascending."""
    pooled = (each.members for each in assignments if view_of_entry(each.entry) == View.COALITION)
    return tuple(sorted({user for members in pooled for user in members}))


def refuse_misbehaviour(scenario: Scenario) -> None:
    """Raise RequestError where some adversary sends what an honest party would not: that takes messages."""
    for number, entry in enumerate(scenario.adversaries, 1):
        if adversary_of(entry).misbehaves:
            where = Assignment(number, entry, ()).where
            raise RequestError(f"{where}: changes messages, which the actors engine has; use that one")


def assign(
    scenario: Scenario, total: int, cluster_of: Callable[[int], NDArray[np.int64]] | None = None
) -> tuple[Assignment, ...]:
    """Who of ``total`` users belongs to each entry, checked against each other.

    ``cluster_of`` gives a user's cluster, which colluders against her are drawn from.
    """
    taken: dict[int, str] = {}  # user, to what she is already
    members: dict[int, tuple[int, ...]] = {}
    entries = [Assignment(number, entry, ()) for number, entry in enumerate(scenario.adversaries, 1)]
    exchange = scenario.mechanism.exchange
    for each in entries:
        if exchange not in adversary_of(each.entry).exchanges:
            allowed = " or ".join(adversary_of(each.entry).exchanges)
            raise RequestError(f'{each.where}: mechanism.exchange = "{exchange}" has none; it must be "{allowed}"')
    _check_alone(entries)
    for drawing in (False, True):
        for each in entries:
            number, entry, where, victim = each.number, each.entry, each.where, each.victim
            if victim is not None and victim >= total:
                raise RequestError(f"{where}: there is no user {victim} to be its victim; users are 0 to {total - 1}")
            if drawing == bool(getattr(entry, "users", ())):
                continue
            generator = stream(scenario.coins.seed, Purpose.ADVERSARIES, number)
            pool = _pool(entry, total, taken, cluster_of)
            if drawing:
                count, fraction = adversary_of(entry).wanted(entry, scenario, where, total)
                if count > len(pool):
                    raise RequestError(f"{where}: needs {count} users, but only {len(pool)} can be drawn for it")
                found = pool[choose((), count, fraction, len(pool), generator, where)]
            else:
                found = choose(getattr(entry, "users", ()), 0, 0.0, total, generator, where)
            members[number] = tuple(found.tolist())
            _take(members[number], entry, where, victim, taken)
    return tuple(Assignment(each.number, each.entry, members[each.number]) for each in entries)


def _pool(
    entry: Entry, total: int, taken: dict[int, str], cluster_of: Callable[[int], NDArray[np.int64]] | None
) -> NDArray[np.int64]:
    """Whom an entry's members are drawn from."""
    pool, record = np.arange(total), adversary_of(entry)
    if not record.misbehaves:
        return pool
    if record.beside_victim and cluster_of is not None:
        pool = cluster_of(getattr(entry, "victim", 0))
    busy = [*taken, getattr(entry, "victim", total)]
    return pool[~np.isin(pool, busy)]


def _take(members: Sequence[int], entry: Entry, where: str, victim: int | None, taken: dict[int, str]) -> None:
    if not adversary_of(entry).misbehaves:
        return
    for user in members:
        if user == victim:
            raise RequestError(f"{where}: user {user} is the victim and cannot be one of those after her")
        if user in taken:
            raise RequestError(f"{where}: user {user} is one of {taken[user]} already")
        taken[user] = where


def _check_alone(entries: Sequence[Assignment]) -> None:
    """There is one coordinator and one learner."""
    parties: dict[str, str] = {}
    for each in entries:
        party = adversary_of(each.entry).alone
        if party and party in parties:
            raise RequestError(f"{each.where}: the {party} is {parties[party]} already")
        parties[party] = each.where
