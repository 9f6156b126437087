"""A scenario's adversaries in a deployment: which node carries whom, and what colluders pool.

Who misbehaves follows from the scenario and the number of users, so that every node works it out for itself: user hosts
carry the roles of ``adversaries`` in place of honest users, a coordinator that isolates somebody runs the role that
does. The programs around them stay as they are. Users who collude with the learner write down what they know: their own
labels and coins, whom they asked and who asked them, what was answered; in the mixed exchange what was drawn for them,
and the batches that they opened as relays. Each host puts that of its own into a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.install import assign, colluding, replaced
from p2p_labeldp.adversaries.kinds import adversary_of
from p2p_labeldp.adversaries.mixers import CrookedMember
from p2p_labeldp.adversaries.record import Assignment
from p2p_labeldp.audit.views import View
from p2p_labeldp.deployment.pooled_batches import Batches
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.coordinator import Coordinator
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import Answer, Ask, Batch, Message
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import EXCHANGES, Scenario

POOLED = "pooled.json"
"""What colluders know: of a host in its state folder, of all in the run folder's private one."""


def require_deployable(scenario: Scenario) -> None:
    """Not every adversary that can be simulated can be deployed."""
    for number, entry in enumerate(scenario.adversaries, 1):
        if not adversary_of(entry).deployed:
            where = Assignment(number, entry, ()).where
            raise RequestError(f"{where}: is for simulations; a deployment cannot carry it")


def assignments_of(scenario: Scenario, users: int) -> tuple[Assignment, ...]:
    """Who the adversaries are; none where the scenario has none."""
    return assign(scenario, users) if scenario.adversaries else ()


@dataclass
class _Known:
    """Features by user id: those of a host's own users, and those of others that its adversaries have got hold of."""

    first: int
    own: NDArray[np.float32]
    others: Mapping[int, NDArray[np.float32]]

    def __getitem__(self, user: int) -> NDArray[np.float32]:
        if 0 <= user - self.first < len(self.own):
            row: NDArray[np.float32] = self.own[user - self.first]
            return row
        if user not in self.others:
            raise RequestError(
                f"--rows: features of user {user} are missing; `p2p-labeldp divide` hands them to sybils"
            )
        return self.others[user]


def _setup(**found: Any) -> Any:
    """What adversaries are installed in, as far as one node has it."""
    return SimpleNamespace(**{"host": None, "coordinator": None, "learner": None, "population": None} | found)


def misbehaving_users(
    scenario: Scenario,
    assignments: Iterable[Assignment],
    honest: Sequence[User],
    host: Host,
    features: NDArray[np.float32],
    others: Mapping[int, NDArray[np.float32]],
) -> list[User]:
    """A host's users, adversaries in the places of some."""
    users, first = list(honest), honest[0].id
    population = SimpleNamespace(features=_Known(first, features, others))
    setup = _setup(users=users, host=host, population=population)
    for assignment in assignments:
        record = adversary_of(assignment.entry)
        if record.install is not None and not record.alone:
            record.install(setup, scenario, assignment)
        for user in assignment.members:
            if 0 <= user - first < len(users):
                users[user - first] = replaced(setup, scenario, assignment.entry, users[user - first])
    return users


def misbehaving_coordinator(scenario: Scenario, assignments: Iterable[Assignment], honest: Coordinator) -> Coordinator:
    setup = _setup(users=range(honest.users), coordinator=honest)
    for assignment in assignments:
        record = adversary_of(assignment.entry)
        if record.install is not None and record.alone == "coordinator":
            record.install(setup, scenario, assignment)
    found: Coordinator = setup.coordinator
    return found


def shown_to(users: Iterable[User]) -> Callable[[Message, list[str]], list[str]]:
    """To which of the hosts of a cluster a batch, or a halt, of these users goes: a relay that shows two batches shows
    the second to every other host."""
    crooked = [user for user in users if isinstance(user, CrookedMember)]

    def chosen(message: Message, hosts: list[str]) -> list[str]:
        shows = [user for user in crooked if type(message) is Batch and user.shows_two(message)]
        if not shows:
            return hosts
        assert isinstance(message, Batch)
        return hosts[1::2] if shows[0].shows_second(message) else hosts[::2]

    return chosen


@dataclass
class Pool:
    """What the colluders of one host, or of all, know."""

    members: frozenset[int]
    asks: dict[tuple[int, int, int], None] = field(default_factory=dict)
    """(round, asker, peer)."""
    answers: dict[tuple[int, int, int, int], None] = field(default_factory=dict)
    """(round, answerer, asker, label)."""
    labels: dict[int, int] = field(default_factory=dict)
    coins: dict[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    """Of (user, round)."""
    batches: Batches = field(default_factory=Batches)
    """Of the mixed exchange."""

    @classmethod
    def of(cls, assignments: Sequence[Assignment], users: Iterable[User]) -> Pool | None:
        """For the colluders among a host's users; None where there are none."""
        pooled = set(colluding(assignments))
        mine = [user for user in users if user.id in pooled]
        labels = {user.id: user.label for user in mine}
        return cls(frozenset(labels), labels=labels, batches=Batches.of(mine)) if labels else None

    def note(self, sender: int, receiver: int, message: Message) -> None:
        """Something that a user of this host said or was told."""
        if sender in self.members or receiver in self.members:
            if type(message) is Ask:
                self.asks[message.round, sender, receiver] = None
            elif type(message) is Answer:
                self.answers[message.round, sender, receiver, message.label] = None
            else:
                self.batches.note(sender, receiver, message)

    def toss(self, coins: Coins, rounds: int, first: int, last: int) -> None:
        """Note the coins of the colluders."""
        for round_ in range(rounds):
            block = coins.block(round_, first, last)
            self.coins |= {(user, round_): tuple(block[user - first].tolist()) for user in sorted(self.members)}

    def to_json(self, **facts: Any) -> bytes:
        content = {
            **facts,
            "labels": sorted(self.labels.items()),
            "coins": [[*key, *values] for key, values in sorted(self.coins.items())],
            "asks": sorted(self.asks),
            "answers": sorted(self.answers),
            **self.batches.to_json(),
        }
        return json.dumps(content).encode()

    @classmethod
    def merged(cls, contents: Iterable[bytes]) -> Pool:
        """Of all hosts together."""
        found = cls(frozenset())
        for content in contents:
            read = json.loads(content)
            found.labels |= dict(read["labels"])
            found.coins |= {(user, round_): tuple(values) for user, round_, *values in read["coins"]}
            found.asks |= dict.fromkeys(map(tuple, read["asks"]))
            found.answers |= dict.fromkeys(map(tuple, read["answers"]))
            found.batches.take(read)
        found.members = frozenset(found.labels)
        return found

    def view(
        self,
        parameters: Parameters,
        clusters: NDArray[np.int64],
        reports: Sequence[tuple[NDArray[np.int64], NDArray[np.integer]]],
        background: Mapping[int, int],
    ) -> View:
        """What they know together with the learner, given everyone else's labels: what an attack reads."""
        rounds = range(parameters.rounds)
        asks: list[dict[int, int]] = [{} for _ in rounds]
        for round_, asker, peer in sorted(self.asks):
            asks[round_].setdefault(asker, peer)
        answers: list[dict[tuple[int, int], tuple[int, ...]]] = [{} for _ in rounds]
        for round_, answerer, asker, label in sorted(self.answers):
            answers[round_][answerer, asker] = (*answers[round_].get((answerer, asker), ()), label)
        rosters = {cluster: np.flatnonzero(clusters == cluster).tolist() for cluster in range(int(clusters.max()) + 1)}
        mixed: dict[str, Any] = {"asks": tuple(asks)}
        if EXCHANGES[parameters.exchange].relayed:
            draws, opened, tied = self.batches.seen(parameters.rounds, parameters.labels, rosters)
            answers = [{(user, user): (label,) for user, label in found.items()} for found in tied]
            mixed = {"asks": None, "draws": draws, "opened": opened}
        return View(
            adversary="coalition",
            parameters=parameters,
            clusters={cluster: tuple(roster) for cluster, roster in rosters.items()},
            background=dict(background),
            reports=tuple(dict(zip(users.tolist(), labels.tolist(), strict=True)) for users, labels in reports),
            answers=tuple(answers),
            coins=dict(self.coins),
            members=self.members,
            **mixed,
        )
