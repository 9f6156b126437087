"""What one adversary knows of one run, and nothing else: a filter over its trace.

An attack is a function of such a `View` and a victim. What is in it follows from ``sight``: which questions and answers
are seen, which labels of the mixed exchange; and from the view's record: whether the reports are.

`view_of` filters a trace; ``array_views`` does the same to the arrays of the vectorized engine. What was sent counts as
arrived, but for the reports of a recorded run: those are what the learner took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.folder import RecordedRun
from p2p_labeldp.audit.mixed_views import Seen, seen_of
from p2p_labeldp.audit.rules import Broken, require_shape
from p2p_labeldp.audit.sight import Scope, Sight, seen_in, sight_of
from p2p_labeldp.audit.trace import Event, Trace
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import Coins, SeededCoins
from p2p_labeldp.mechanisms.exchange import flip
from p2p_labeldp.privacy import RECORDS, Parameters
from p2p_labeldp.privacy import View as Name
from p2p_labeldp.protocol.messages import HOST
from p2p_labeldp.scenario import EXCHANGES


@dataclass(frozen=True)
class View:
    """Everything that one adversary knows of one run."""

    adversary: str
    parameters: Parameters
    users: int
    clusters: dict[int, tuple[int, ...]]
    """Public: who is in which cluster, user ids ascending."""
    background: dict[int, int]
    """True labels that the adversary is assumed to know."""
    reports: tuple[dict[int, int], ...] | None
    """Per round, user to the label that the learner got from her; in the shuffled view each cluster's labels
    are sorted, so that whose they are cannot be told."""
    asks: tuple[dict[int, int], ...] | None
    """Per round, asker to peer, where seen."""
    answers: tuple[dict[tuple[int, int], tuple[int, ...]], ...] | None
    """Per round, (answerer, asker) to the labels answered, in order; several only if someone misbehaves."""
    coins: dict[tuple[int, int], tuple[float, ...]]
    """(user, round) to the coins of the adversary's own users."""
    members: frozenset[int]
    """The adversary's own users."""
    draws: tuple[dict[int, int], ...] | None = None
    """Mixed exchange, per round: what was drawn for the adversary's own users."""
    opened: tuple[dict[int, int], ...] | None = None
    """Mixed exchange, per round: the noisy labels of clusters whose batch it opened, sorted as in the shuffled view.
    Where its users were all of the relays everyone's is among ``answers``, as if told by herself."""

    @property
    def sees_the_wire(self) -> bool:
        """Whether a user of whom no question is seen must have asked herself."""
        return seen_in(Name(self.adversary), self.parameters.exchange).asks == "wire"

    def noisy_of(self, member: int, round_: int) -> int | None:
        """What one of the adversary's own users deposited; None where her label or her coins are not known."""
        coins = self.coins.get((member, 0 if self.parameters.noise == "sticky" else round_))
        if coins is None or member not in self.background:
            return None
        true = np.array([self.background[member]])
        return int(flip(true, np.array([coins]), self.parameters.alpha, self.parameters.labels)[0])

    def cluster_of(self, user: int) -> int:
        """The cluster that a user is in."""
        try:
            return self._clusters_by_user[user]
        except KeyError:
            raise RequestError(f"user {user} is in no cluster of this run") from None

    def answers_by(self, user: int, round_: int) -> list[tuple[int, tuple[int, ...]]]:
        """(asker, labels) of every answer of hers that is seen."""
        return self._answers_by_user[round_].get(user, [])

    def within(self, cluster: int) -> View:
        """What it says about one cluster, to someone whose own users are all in it."""
        roster = self.clusters[cluster]
        reports, asks, draws, opened = (
            None if rounds is None else tuple({user: seen[user] for user in roster if user in seen} for seen in rounds)
            for rounds in (self.reports, self.asks, self.draws, self.opened)
        )
        answers = self.answers and tuple(
            {(user, asker): labels for user in roster for asker, labels in self.answers_by(user, round_)}
            for round_ in range(len(self.answers))
        )
        members = self.members.intersection(roster)
        keys = [(user, round_) for user in sorted(members) for round_ in range(self.parameters.rounds)]
        return View(
            adversary=self.adversary,
            parameters=self.parameters,
            users=self.users,
            clusters={cluster: roster},
            background={user: self.background[user] for user in roster if user in self.background},
            reports=reports,
            asks=asks,
            answers=answers,
            coins={key: self.coins[key] for key in keys if key in self.coins},
            members=members,
            draws=draws,
            opened=opened,
        )

    @cached_property
    def _clusters_by_user(self) -> dict[int, int]:
        return {user: cluster for cluster, roster in self.clusters.items() for user in roster}

    @cached_property
    def _answers_by_user(self) -> list[dict[int, list[tuple[int, tuple[int, ...]]]]]:
        found: list[dict[int, list[tuple[int, tuple[int, ...]]]]] = []
        for answers in self.answers or [{}] * self.parameters.rounds:
            found.append(defaultdict(list))
            for (answerer, asker), labels in answers.items():
                found[-1][answerer].append((asker, labels))
        return found


def view_of(
    source: RecordedRun | Trace,
    adversary: str,
    *,
    members: Collection[int] = (),
    background: Mapping[int, int] | None = None,
    parameters: Parameters | None = None,
    coins: Coins | None = None,
    true_labels: NDArray[np.integer] | None = None,
) -> View:
    """What ``adversary`` knows of a run, from its trace.

    A recorded run brings its parameters and, if they were seeded, its coins; a trace alone needs to be told them.
    ``background`` are the true labels that the adversary is assumed to know. ``true_labels`` are asked for by the
    shuffled view of a peer-to-peer run: what a shuffler would have been handed is in no trace.
    """
    trace = source
    if isinstance(source, RecordedRun):
        trace, parameters = source.trace, source.parameters
        true_labels = source.true_labels if true_labels is None else true_labels
        if source.scenario.coins.source == "seeded":
            coins = SeededCoins(source.scenario.coins.seed)
    assert isinstance(trace, Trace)
    if parameters is None:
        raise RequestError(f"{trace.path}: a trace does not tell the mechanism's parameters; give them")
    sight = sight_of(adversary, members, parameters.exchange)
    heard = _Heard(trace.header["users"], parameters, sight, frozenset(members))
    for event in trace:
        heard.take(event)
    rosters = {cluster: tuple(roster) for cluster, roster in heard.rosters.items()}
    reports: list[dict[int, int]] = heard.reports
    if adversary == "shuffle":
        reports = [_sorted_within(rosters, labels) for labels in heard.shuffled(trace, coins, true_labels)]
    elif isinstance(source, RecordedRun):
        reports = [dict(zip(users.tolist(), labels.tolist(), strict=True)) for users, labels in source.reports]
    one_peer_each(adversary, members, rosters)
    answers = [{pair: tuple(labels) for pair, labels in given.items()} for given in heard.answers]
    mixed = Seen(None, None, ())
    if EXCHANGES[parameters.exchange].relayed:
        mixed = heard.mixed(trace, coins, true_labels)
        answers = [{(user, user): (label,) for user, label in tied.items()} for tied in mixed.tied]
    return View(
        adversary=adversary,
        parameters=parameters,
        users=int(trace.header["users"]),
        clusters=rosters,
        background=dict(background or {}),
        reports=tuple(reports) if RECORDS[Name(adversary)].reports else None,
        asks=tuple(heard.asks) if sight.asks != "nothing" else None,
        answers=tuple(answers) if sight.answers != "nothing" else None,
        coins={} if coins is None else _coins_of(members, parameters.rounds, coins),
        members=frozenset(members),
        draws=mixed.draws,
        opened=mixed.opened,
    )


class _Heard:
    """Gathers what an adversary sees from the events of a trace."""

    def __init__(self, users: int, parameters: Parameters, sight: Sight, members: frozenset[int]) -> None:
        self.users = users
        rounds = range(parameters.rounds)
        self.parameters, self.sight, self.members = parameters, sight, members
        self.rosters: dict[int, list[int]] = {}
        self.beside: set[int] = set()  # who is in a cluster with one of the adversary's own users
        self.reports: list[dict[int, int]] = [{} for _ in rounds]
        self.asks: list[dict[int, int]] = [{} for _ in rounds]
        self.answers: list[dict[tuple[int, int], list[int]]] = [defaultdict(list) for _ in rounds]
        self.released: dict[int, int] | None = None
        self.drawn: list[dict[int, int]] = [{} for _ in rounds]
        self.relays: dict[tuple[int, int], dict[int, int]] = {}  # by round and cluster, of the last attempt: by step

    def take(self, event: Event) -> None:
        try:
            require_shape(event, self.users)
        except Broken:
            return  # nobody could read it
        if event.kind == "roster":
            if event.receiver != HOST:
                return  # a curator or a shuffler is told the same
            cluster, _, members = event.fields
            members = members[: len(members) // 8 * 8]
            self.rosters.setdefault(cluster, []).extend(np.frombuffer(members, dtype="<i8").tolist())
            if not self.members.isdisjoint(self.rosters[cluster]):
                self.beside.update(self.rosters[cluster])
            return
        if event.kind == "release":
            user, label = event.fields
            self.released = self.released or {}
            self.released.setdefault(user, label)
            return
        if event.kind == "passed":
            round_, cluster, _, step, *_ = event.fields
            self.relays.setdefault((round_, cluster), {})[step] = event.sender
            return
        if event.kind == "drawn":
            round_, _, label = event.fields
            if 0 <= round_ < self.parameters.rounds and 0 <= label < self.parameters.labels:
                self.drawn[round_].setdefault(event.receiver, label)
            return
        if event.kind not in ("ask", "answer", "report"):
            return
        round_, *label = event.fields
        if not 0 <= round_ < self.parameters.rounds or (label and not 0 <= label[0] < self.parameters.labels):
            return
        sender, receiver = event.sender, event.receiver
        if event.kind == "report":
            # One report a round is taken from each user; whatever follows is refused.
            self.reports[round_].setdefault(sender, label[0])
        elif event.kind == "ask":
            if self._within(self.sight.asks, sender, receiver):
                self.asks[round_].setdefault(sender, receiver)
        elif self._within(self.sight.answers, sender, receiver):
            self.answers[round_][sender, receiver].append(label[0])

    def _within(self, scope: Scope, one: int, other: int) -> bool:
        match scope:
            case "nothing":
                return False
            case "own":
                return one in self.members or other in self.members
            case "cluster":
                return one in self.beside
            case "wire":
                return one != other
            case "all":
                return True

    def mixed(self, trace: Trace, coins: Coins | None, true_labels: NDArray[np.integer] | None) -> Seen:
        """What is seen of a mixed exchange; a cluster that told nobody a label opened nothing."""
        sight = self.sight
        relays = {
            (round_, cluster): tuple(steps[step] for step in sorted(steps))
            for (round_, cluster), steps in self.relays.items()
            if any(user in self.drawn[round_] for user in self.rosters.get(cluster, ()))
        }
        looks = sight.opened == "always" or (
            sight.opened == "as relay" and any(self.members.intersection(each) for each in relays.values())
        )
        noisy = list(self.shuffled(trace, coins, true_labels)) if looks else None
        rosters = {cluster: tuple(roster) for cluster, roster in self.rosters.items()}
        return seen_of(sight, rosters, relays, self.drawn, noisy, self.members)

    def shuffled(
        self, trace: Trace, coins: Coins | None, true_labels: NDArray[np.integer] | None
    ) -> Iterator[dict[int, int]]:
        """The noisy labels of everyone who takes part, per round: as released, or as her coins say."""
        parameters = self.parameters
        if self.released is not None:
            yield self.released
            return
        if coins is None or true_labels is None:
            raise RequestError(
                f"{trace.path}: noisy labels that nobody asked for are in no trace; "
                "the shuffled view needs seeded coins and the true labels"
            )
        noisy = true_labels
        for round_ in range(parameters.rounds):
            if round_ == 0 or parameters.noise == "fresh":
                drawn = coins.block(round_, 0, len(true_labels))
                noisy = flip(true_labels, drawn, parameters.alpha, parameters.labels)
            large = [roster for roster in self.rosters.values() if len(roster) >= parameters.minimum_size]
            yield {user: int(noisy[user]) for roster in large for user in roster}


def _sorted_within(rosters: Mapping[int, tuple[int, ...]], labels: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for roster in rosters.values():
        found.update(zip(roster, sorted(labels[user] for user in roster if user in labels), strict=False))
    return found


def _coins_of(members: Collection[int], rounds: int, coins: Coins) -> dict[tuple[int, int], tuple[float, ...]]:
    return {
        (user, round_): tuple(coins.block(round_, user, user + 1)[0].tolist())
        for user in sorted(members)
        for round_ in range(rounds)
    }


def one_peer_each(adversary: str, members: Collection[int], rosters: Mapping[int, tuple[int, ...]]) -> None:
    """Two peers who put together what they know are a coalition."""
    if adversary == "peer" and any(len(set(roster).intersection(members)) > 1 for roster in rosters.values()):
        raise RequestError("the view peer takes one member of a cluster; several of them are a coalition")
