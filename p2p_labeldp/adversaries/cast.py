"""Who plays which part: the entries of ``[[adversaries]]`` put in place before a simulation runs.

Users who only look (curious peers, colluders, observers of the network) stay as they are, and may have any
part besides. A behaviour is changed once at most: two for one user exclude each other. Named users have their parts
before any are drawn, so that a draw never takes one who is named elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.leaders import Isolator, Replayer, TwoRosters
from p2p_labeldp.adversaries.roles import Focused, FreshAnswerer, Liar, Plant, Silent, Sybil, TwoFaced
from p2p_labeldp.errors import RequestError
from p2p_labeldp.protocol.coordinator import Coordinator
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import Features
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Entry, Scenario, entries
from p2p_labeldp.streams import KeyedStream, Purpose, choose, stream

ONLOOKERS = (entries.CuriousPeers, entries.Collusion, entries.Observer)
"""Adversaries who send what honest parties would: any engine runs them."""


class Examples(Protocol):
    """The part of a population that casting looks at."""

    @property
    def features(self) -> NDArray[np.float32]: ...
    @property
    def labels(self) -> NDArray[np.int64]: ...
    @property
    def cluster(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], NDArray[np.integer]]: ...


class Stage(Protocol):
    """A simulation that has not begun."""

    users: list[User]
    host: Host
    coordinator: Coordinator
    learner: Learner

    @property
    def population(self) -> Examples: ...


@dataclass(frozen=True)
class Part:
    """One entry of ``[[adversaries]]``, and the users who play or look for it, ascending."""

    number: int
    """The entry's position, from 1."""
    entry: Entry
    members: tuple[int, ...]

    @property
    def victim(self) -> int | None:
        return getattr(self.entry, "victim", None)


def cast(stage: Stage, scenario: Scenario) -> tuple[Part, ...]:
    """Put every adversary of the scenario in its place; who they are, one part for each entry."""
    population = stage.population
    total = len(population.labels)

    def cluster_of(victim: int) -> NDArray[np.int64]:
        everyone = np.arange(total)
        clusters = np.asarray(population.cluster(everyone, population.features))
        return np.flatnonzero(clusters == clusters[victim])

    parts = parts_of(scenario, total, cluster_of)
    for part in parts:
        _play(stage, scenario, part)
    return parts


def kinds_of(parts: Sequence[Part]) -> list[str]:
    """The kinds of those who send what an honest party would not."""
    return [part.entry.name for part in parts if not isinstance(part.entry, ONLOOKERS)]


def refuse_players(scenario: Scenario) -> None:
    """Raise RequestError where some adversary sends what an honest party would not: that takes messages."""
    for number, entry in enumerate(scenario.adversaries, 1):
        if not isinstance(entry, ONLOOKERS):
            raise RequestError(f"{_where(number, entry)}: changes messages, which the actors engine has; use that one")


def parts_of(
    scenario: Scenario, total: int, cluster_of: Callable[[int], NDArray[np.int64]] | None = None
) -> tuple[Part, ...]:
    """Who of ``total`` users belongs to each entry, checked against each other.

    ``cluster_of`` gives a user's cluster, which colluders against her are drawn from.
    """
    taken: dict[int, str] = {}  # user, to what she is already
    members: dict[int, tuple[int, ...]] = {}
    numbered = list(enumerate(scenario.adversaries, 1))
    _check_alone(numbered)
    for drawing in (False, True):
        for number, entry in numbered:
            where = _where(number, entry)
            victim = getattr(entry, "victim", None)
            if victim is not None and victim >= total:
                raise RequestError(f"{where}: there is no user {victim} to be its victim; users are 0 to {total - 1}")
            if drawing == bool(getattr(entry, "users", ())):
                continue
            generator = stream(scenario.coins.seed, Purpose.ADVERSARIES, number)
            pool = _pool(entry, total, taken, cluster_of)
            if drawing:
                count, fraction = _wanted(entry, scenario, where, total)
                if count > len(pool):
                    raise RequestError(f"{where}: needs {count} users, but only {len(pool)} can be drawn for it")
                found = pool[choose((), count, fraction, len(pool), generator, where)]
            else:
                found = choose(_named(entry), 0, 0.0, total, generator, where)
            members[number] = tuple(found.tolist())
            _take(members[number], entry, where, victim, taken)
    return tuple(Part(number, entry, members[number]) for number, entry in numbered)


def _where(number: int, entry: Entry) -> str:
    return f"adversaries[{number}] ({entry.name})"


def _named(entry: Entry) -> Sequence[int]:
    users: Sequence[int] = getattr(entry, "users", ())
    return users


def _wanted(entry: Entry, scenario: Scenario, where: str, total: int) -> tuple[int, float]:
    """How many users are drawn for an entry that names none: a count, or a fraction."""
    if isinstance(entry, entries.IsolatingCoordinator):
        if entry.size > total:
            raise RequestError(f"{where}: size = {entry.size} is not allowed; it must be at most the users, {total}")
        if entry.way == "small_cluster":
            return 0, 0.0
        return max(1, (entry.size or scenario.clusters.minimum_size) - 1), 0.0
    return getattr(entry, "count", 0), getattr(entry, "fraction", 0.0)


def _pool(
    entry: Entry, total: int, taken: dict[int, str], cluster_of: Callable[[int], NDArray[np.int64]] | None
) -> NDArray[np.int64]:
    """Whom an entry's members are drawn from."""
    pool = np.arange(total)
    if isinstance(entry, ONLOOKERS):
        return pool
    if isinstance(entry, entries.Focus | entries.RepeatAskers) and cluster_of is not None:
        pool = cluster_of(entry.victim)
    busy = [*taken, getattr(entry, "victim", total)]
    return pool[~np.isin(pool, busy)]


def _take(members: Sequence[int], entry: Entry, where: str, victim: int | None, taken: dict[int, str]) -> None:
    if isinstance(entry, ONLOOKERS):
        return
    for user in members:
        if user == victim:
            raise RequestError(f"{where}: user {user} is the victim and cannot be one of those after her")
        if user in taken:
            raise RequestError(f"{where}: user {user} is one of {taken[user]} already")
        taken[user] = where


def _check_alone(numbered: Sequence[tuple[int, Entry]]) -> None:
    """There is one coordinator and one learner."""
    for kind in (entries.IsolatingCoordinator, entries.ReplayingLearner):
        found = [_where(number, entry) for number, entry in numbered if isinstance(entry, kind)]
        if len(found) > 1:
            party = kind.name.rpartition("_")[2]
            raise RequestError(f"{found[1]}: the {party} is {found[0]} already")


def _play(stage: Stage, scenario: Scenario, part: Part) -> None:
    entry, where = part.entry, _where(part.number, part.entry)
    if isinstance(entry, entries.IsolatingCoordinator):
        _isolate(stage, scenario, part, entry)
        return
    if isinstance(entry, entries.ReplayingLearner):
        stage.learner = Replayer(stage.learner, entry.times)
        return
    if isinstance(entry, entries.Liars) and entry.lie == "label" and entry.label >= stage.host.parameters.labels:
        raise RequestError(
            f"{where}: label = {entry.label} is not allowed; it must be below {stage.host.parameters.labels}"
        )
    if isinstance(entry, entries.Sybils) and scenario.clusters.method == "given":
        raise RequestError(f'{where}: claims features, but clusters.method = "given" asks nobody for them')
    for user in part.members:
        stage.users[user] = player(stage, scenario, entry, stage.users[user])


def player(
    stage: Stage, scenario: Scenario, entry: Entry, honest: User, moved: Callable[[int], int] = lambda victim: victim
) -> User:
    """Who plays an entry's part in place of an honest user; ``moved`` says who the victim is where users are copies."""
    identity = honest.id, honest.label, honest.host
    match entry:
        case entries.Liars():
            return Liar(*identity, entry)
        case entries.TwoFaced():
            return TwoFaced(*identity)
        case entries.Silent():
            return Silent(*identity)
        case entries.FreshAnswers():
            return FreshAnswerer(*identity, KeyedStream(scenario.coins.seed, Purpose.ADVERSARIES))
        case entries.Focus():
            return Focused(*identity, moved(entry.victim))
        case entries.RepeatAskers():
            return Focused(*identity, moved(entry.victim), entry.times)
        case entries.Sybils():
            return Sybil(*identity, Features(stage.population.features[moved(entry.victim)]))
        case entries.IsolatingCoordinator():
            return Plant(*identity, moved(entry.victim))
    return honest


def _isolate(stage: Stage, scenario: Scenario, part: Part, entry: entries.IsolatingCoordinator) -> None:
    """In a small cluster she is among honest users, few as they are; else among users of the coordinator's own."""
    if entry.way == "small_cluster":
        others = np.delete(np.arange(len(stage.users)), entry.victim)
        drawn = stream(scenario.coins.seed, Purpose.ADVERSARIES, part.number).permutation(others)
        stage.coordinator = Isolator(stage.coordinator, entry.victim, drawn[: max(0, entry.size - 1)].tolist())
        return
    kind = TwoRosters if entry.way == "inconsistent" else Isolator
    stage.coordinator = kind(stage.coordinator, entry.victim, part.members)
    for user in part.members:
        stage.users[user] = player(stage, scenario, entry, stage.users[user])
