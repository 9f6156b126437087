"""What one adversary knows of one run, and nothing else: a filter over its trace.

An attack is a function of such a `View` and a victim. What is in it follows from ``sight``: which questions and answers
are seen, which labels of the mixed exchange; and from the view's record: whether the reports are. What was sent counts
as arrived, but for the reports of a recorded run: those are what the learner took.

Of a mixed exchange whoever sees who sends to whom sees sealed packets of one size in whole batches: nothing of a label,
beside the reports. A member knows her own noisy label and the label that was drawn for her. A relay opens the batch,
whose order tells nothing where another relay is honest: it sees every noisy label of the cluster, and not whose it is.
Only relays who all belong together know whose. What is in an opened packet no trace tells: noisy labels are worked out
from the seed, as in the shuffled view.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.array_views import UNSEEN, ClusterViews
from p2p_labeldp.audit.folder import RecordedRun
from p2p_labeldp.audit.rules import Broken, require_shape
from p2p_labeldp.audit.sight import Scope, Sight, one_peer_each, sight_of
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

    def cluster_of(self, user: int) -> int:
        """The cluster that a user is in."""
        try:
            return self._clusters_by_user[user]
        except KeyError:
            raise RequestError(f"user {user} is in no cluster of this run") from None

    def within(self, cluster: int) -> ClusterViews:
        """What it says about one cluster, to someone whose own users are all in it."""
        roster, rounds = self.clusters[cluster], range(self.parameters.rounds)
        places, members = {user: place for place, user in enumerate(roster)}, self.members.intersection(roster)

        def by_place(
            told: tuple[dict[int, int], ...] | None, what: Callable[[int], int] = lambda label: label
        ) -> NDArray[np.int32] | None:
            if told is None:
                return None
            shown = [[what(each[user]) if user in each else UNSEEN for user in roster] for each in told]
            return np.array([shown], dtype=np.int32)

        # Of a mixed exchange the answers are those of users to themselves: labels of which it is known whose they are.
        tied, asked = self.opened is not None, self.asks or ({},) * len(rounds)
        answers, surplus = np.full((1, len(rounds), len(roster)), UNSEEN, dtype=np.int32), []
        for user in roster:
            for round_, asker, labels in self._answers_by_user.get(user, ()):
                expected = asker in places and user == (asker if tied else asked[round_].get(asker))
                if expected:
                    answers[0, round_, places[asker]] = labels[0]
                surplus += [(0, round_, places[user], label) for label in labels[expected:]]
        unknown = (math.nan,) * 4
        coins = [[self.coins.get((user, round_), unknown) for user in sorted(members)] for round_ in rounds]
        return ClusterViews(
            adversary=self.adversary,
            parameters=self.parameters,
            cluster_size=len(roster),
            background={places[user]: self.background[user] for user in roster if user in self.background},
            members=frozenset(places[user] for user in members),
            runs=1,
            reports=by_place(self.reports),
            asks=by_place(self.asks, lambda peer: places.get(peer, len(roster))),
            answers=None if tied or self.answers is None else answers,
            coins=np.array(coins, dtype=np.float64).reshape(1, len(rounds), len(members), 4),
            draws=by_place(self.draws),
            opened=by_place(self.opened),
            tied=answers if tied else None,
            surplus=tuple(surplus),
        )

    @cached_property
    def _clusters_by_user(self) -> dict[int, int]:
        return {user: cluster for cluster, roster in self.clusters.items() for user in roster}

    @cached_property
    def _answers_by_user(self) -> dict[int, list[tuple[int, int, tuple[int, ...]]]]:
        """By who answers: (round, asker, labels)."""
        found: dict[int, list[tuple[int, int, tuple[int, ...]]]] = defaultdict(list)
        for round_, answers in enumerate(self.answers or ()):
            for (answerer, asker), labels in answers.items():
                found[answerer].append((round_, asker, labels))
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
    opened: list[dict[int, int]] = []
    if EXCHANGES[parameters.exchange].relayed:
        opened, tied = heard.batches(lambda: list(heard.shuffled(trace, coins, true_labels)))
        answers = [{(user, user): (label,) for user, label in known.items()} for known in tied]
    return View(
        adversary=adversary,
        parameters=parameters,
        clusters=rosters,
        background=dict(background or {}),
        reports=tuple(reports) if RECORDS[Name(adversary)].reports else None,
        asks=tuple(heard.asks) if sight.asks != "nothing" else None,
        answers=tuple(answers) if sight.answers != "nothing" else None,
        coins={} if coins is None else _coins_of(members, parameters.rounds, coins),
        members=frozenset(members),
        draws=tuple(heard.drawn) if sight.draws else None,
        opened=tuple(opened) if sight.opened != "never" else None,
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
        self.drawn: list[dict[int, int]] = [{} for _ in rounds]  # for the adversary's own users
        self.told: set[tuple[int, int]] = set()  # (round, user) of everyone for whom a label was drawn
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
        if event.kind not in ("ask", "answer", "report", "drawn", "passed"):
            return
        round_ = event.fields[0]
        label = event.fields[-1] if event.kind in ("answer", "report", "drawn") else 0
        if not (0 <= round_ < self.parameters.rounds and 0 <= label < self.parameters.labels):
            return
        sender, receiver = event.sender, event.receiver
        if event.kind == "passed":
            _, cluster, _, step, *_ = event.fields
            self.relays.setdefault((round_, cluster), {})[step] = sender
        elif event.kind == "drawn":
            self.told.add((round_, receiver))
            if receiver in self.members:
                self.drawn[round_].setdefault(receiver, label)
        elif event.kind == "report":
            # One report a round is taken from each user; whatever follows is refused.
            self.reports[round_].setdefault(sender, label)
        elif event.kind == "ask":
            if self._within(self.sight.asks, sender, receiver):
                self.asks[round_].setdefault(sender, receiver)
        elif self._within(self.sight.answers, sender, receiver):
            self.answers[round_][sender, receiver].append(label)

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

    def batches(self, noisy: Callable[[], list[dict[int, int]]]) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
        """Per round: labels of the batches that it opened, sorted; and everyone's where all relays were its users.

        A cluster that told nobody a label opened nothing.
        """
        rounds = range(self.parameters.rounds)
        opened, tied = ([dict[int, int]() for _ in rounds] for _ in range(2))
        held: list[dict[int, int]] = []
        for (round_, cluster), steps in self.relays.items():
            roster, inside = self.rosters.get(cluster, []), self.members.issuperset(steps.values())
            looks = self.sight.opened == "always" or (
                self.sight.opened == "as relay" and not self.members.isdisjoint(steps.values())
            )
            if not looks or not any((round_, user) in self.told for user in roster):
                continue
            held = held or noisy()
            labels = [held[round_][user] for user in roster]
            opened[round_].update(zip(roster, sorted(labels), strict=True))
            if inside:
                tied[round_].update(zip(roster, labels, strict=True))
        return opened, tied

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
