"""What must hold in every trace of an honest run, message by message, each rule with a name.

One pass over the trace steps a small model of the protocol: who has said hello, where everyone stands,
who asked whom, what she was answered. A message that does not fit is a violation with its position. In
seeded runs every coin is recomputed, so that even a message that fits is caught when it is not the one
the seed calls for. A message that its receiver refused does not count, provided the trace shows the
refusal. What cannot be seen when the coins are the operating system's is in ``docs/protocol.md``.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.rules import Broken, Violation, require, require_shape
from p2p_labeldp.audit.sample import Sample
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.peer_to_peer import Parameters
from p2p_labeldp.protocol.messages import FAULTS, HOST, VERSION
from p2p_labeldp.scenario import Network

MAX_VIOLATIONS = 20  # reported; after the first few the rest follows from them


@dataclass
class _Member:
    """What the model knows of one user in the present round."""

    cluster: int = -1
    place: int = -1
    round: int = 0
    began: float = -1.0  # when the message that lets her begin the round was sent
    noisy: int = -1  # the label she answers with, once it was seen
    peer: int = -1
    asked_at: float = -1.0
    answer: int = -1
    answered_at: float = -1.0
    reported: bool = False
    done: bool = False
    left: bool = False


class Checker:
    """Feed it every event in order, then ``finish``; violations and the sample for the tests come out."""

    def __init__(
        self,
        users: int,
        features: int,
        parameters: Parameters,
        network: Network,
        *,
        coins: Coins | None,
        clusters: NDArray[np.integer] | None = None,
        true_labels: NDArray[np.integer] | None = None,
        missing: Iterable[int] = (),
    ) -> None:
        self.users = users
        self.violations: list[Violation] = []
        self.kinds: Counter[str] = Counter()
        self.reports: list[dict[int, int]] = [{} for _ in range(parameters.rounds)]
        self.sample = Sample()
        self.last_time = 0.0
        self._shift = 0
        self._last_number = -1
        self._features = features
        self._parameters = parameters
        self._network = network
        self._coins = coins
        self._clusters = None if clusters is None else clusters.tolist()
        self._truth = None if true_labels is None else true_labels.tolist()
        self._missing = frozenset(missing)
        self._members: dict[int, _Member] = {}
        self._rosters: dict[int, list[int]] = {}
        self._assigned = 0
        self._round = 0
        self._round_began = -1.0
        self._closed_at = -1.0
        self._last_done = -1.0
        self._outcomes: Counter[str] = Counter()
        self._host_left = False
        self._drawn: list[list[float]] = []  # this round's coins, and those that decided the flips
        self._flips: list[list[float]] = []

    def feed(self, event: Event, refused: bool = False) -> None:
        """Check one event. A refused one is checked for its place and shape only."""
        try:
            self._place(event)
            require_shape(event, self.users)
            self.kinds[event.kind] += 1
            if not refused:
                _CHECKS[event.kind](self, event, *event.fields)
        except Broken as broken:
            self._note(broken.invariant, event.position, f"{event}: {broken}")

    def finish(self) -> None:
        """Check that nothing is missing."""
        for user in range(self.users):
            member = self._members.get(user)
            if user in self._missing:
                continue
            if member is None:
                self._note("hello_once", None, f"user {user} never said hello")
            elif member.cluster < 0:
                self._note("assigned_once", None, f"user {user} was never assigned")
            elif not member.left:
                self._note("goodbye_once", None, f"user {user} was never dismissed")
        if self._round < self._parameters.rounds and self._members:
            self._note("closed", None, f"round {self._round} was never closed")
        if self._members and not self._host_left:
            self._note("goodbye_once", None, "the host was never dismissed")

    def _note(self, invariant: str, position: int | None, detail: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(invariant, position, detail))

    def _place(self, event: Event) -> None:
        require(type(event.number) is int and type(event.time) is float, "shape", "not a record of a message")
        if event.number != event.position + self._shift:
            # Said once where it happens; what follows is checked for what it means.
            self._note("order", event.position, f"{event}: numbered {event.number} after {self._last_number}")
            self._shift = event.number - event.position
        self._last_number = event.number
        before, self.last_time = self.last_time, max(self.last_time, event.time)
        require(event.time >= before, "order", f"time {event.time} after {before}")

    def _window(self, event: Event, cause: float, what: str) -> None:
        """The event left when the message sent at ``cause`` arrived."""
        low = cause + self._network.latency
        high = low + self._network.jitter
        # Jittered arrival times are sums in another order, hence the rounding slack there.
        slack = 1e-9 if self._network.jitter else 0.0
        require(
            low - slack <= event.time <= high + slack,
            "timing",
            f"left at {event.time}, but {what} arrived between {low} and {high}",
        )

    def _member(self, user: int, invariant: str) -> _Member:
        member = self._members.get(user)
        require(member is not None and member.cluster >= 0, invariant, f"user {user} is not assigned")
        assert member is not None
        return member

    def _draw(self, round_: int) -> None:
        if self._coins is not None:
            self._drawn = self._coins.block(round_, 0, self.users).tolist()
            if round_ == 0 or self._parameters.noise == "fresh":
                self._flips = self._drawn

    def _size(self, member: _Member) -> int:
        return len(self._rosters[member.cluster])

    def _takes_part(self, member: _Member) -> bool:
        return self._size(member) >= self._parameters.minimum_size

    def _hello(self, event: Event, version: int, features: int) -> None:
        require(event.sender not in self._members, "hello_once", "said hello before")
        require(version == VERSION, "hello_once", f"version {version}")
        require(features == self._features, "hello_once", f"{features} features, not {self._features}")
        require(event.time == 0.0, "timing", "a hello leaves at time 0")
        require(self._round_began < 0, "hello_once", "said hello after users were assigned")
        self._members[event.sender] = _Member()

    def _begin_broadcast(self, event: Event) -> None:
        if self._round_began < 0:
            if len(self._members) == self.users:
                self._window(event, 0.0, "the last hello")
            else:
                limit = self._network.hello_limit
                require(event.time == limit, "timing", f"left at {event.time}, but the wait for hellos ends at {limit}")
            self._round_began = event.time
            self._draw(0)
        require(event.time == self._round_began, "timing", f"a broadcast that began at {self._round_began}")

    def _roster(self, event: Event, cluster: int, first: int, members: bytes) -> None:
        self._begin_broadcast(event)
        require(len(members) % 8 == 0 and len(members) > 0, "rosters", "members take 8 bytes each")
        known = self._rosters.setdefault(cluster, [])
        require(first == len(known), "rosters", f"begins at place {first}, not {len(known)}")
        for user in struct.unpack(f"<{len(members) // 8}q", members):
            member = self._members.get(user)
            require(member is not None, "rosters", f"lists user {user}, who did not say hello")
            assert member is not None
            require(member.place < 0, "rosters", f"lists user {user} again")
            require(not known or user > known[-1], "rosters", f"lists user {user} out of order")
            if self._clusters is not None:
                require(self._clusters[user] == cluster, "population", f"user {user} is in another cluster")
            member.place = len(known)
            known.append(user)

    def _assignment(self, event: Event, cluster: int, size: int, place: int) -> None:
        self._begin_broadcast(event)
        member = self._members.get(event.receiver)
        roster = self._rosters.get(cluster, [])
        require(member is not None, "assigned_once", "did not say hello")
        assert member is not None
        require(member.cluster < 0, "assigned_once", "was assigned before")
        require(size == len(roster), "assigned_once", f"size {size}, but the roster has {len(roster)}")
        fits = 0 <= place < len(roster) and roster[place] == event.receiver
        require(fits, "assigned_once", f"place {place} of cluster {cluster} is not hers")
        member.cluster = cluster
        member.began = event.time
        self._assigned += 1

    def _next_round(self, event: Event, round_: int) -> None:
        member = self._member(event.receiver, "rounds")
        open_round = 0 < round_ == self._round < self._parameters.rounds
        require(open_round, "rounds", f"round {round_} in place of {self._round}")
        require(member.round == round_ - 1, "rounds", f"follows her round {member.round}")
        require(event.time == self._closed_at, "timing", f"left at {event.time}, not when the round was closed")
        noisy = member.noisy if self._parameters.noise == "sticky" else -1
        self._members[event.receiver] = _Member(member.cluster, member.place, round_, event.time, noisy)

    def _ask(self, event: Event, round_: int) -> None:
        member = self._asking(event, round_, "asked_once")
        require(self._takes_part(member), "abstaining", "asks in a cluster below the minimum")
        require(member.peer < 0, "asked_once", "asks again")
        peer = self._members.get(event.receiver)
        inside = peer is not None and peer.cluster == member.cluster
        # The peer may be assigned later in the same broadcast; her roster is known by now all the same.
        inside = inside or event.receiver in self._rosters[member.cluster]
        require(inside, "asked_inside_cluster", f"asks outside cluster {member.cluster}")
        self._window(event, member.began, "her order to begin")
        member.peer = event.receiver
        member.asked_at = event.time
        assert peer is not None
        self.sample.choice(peer.place, member.place, self._size(member))
        if self._drawn:
            place = int(self._drawn[event.sender][1] * self._size(member))
            require(peer.place == place, "coins", f"the seed chooses place {place}, not {peer.place}")

    def _answer(self, event: Event, round_: int, label: int) -> None:
        asker = self._asking(event._replace(sender=event.receiver), round_, "answer_follows_ask")
        require(asker.peer == event.sender, "answer_follows_ask", "the receiver did not ask the sender")
        require(asker.answer < 0, "answer_follows_ask", "the receiver has her answer")
        require(0 <= label < self._parameters.labels, "shape", f"label {label}")
        member = self._member(event.sender, "answer_follows_ask")
        self._window(event, max(asker.asked_at, member.began), "the ask")
        asker.answer = label
        asker.answered_at = event.time
        require(member.noisy in (-1, label), "same_answer", f"answers {label}, but {member.noisy} before")
        first, member.noisy = member.noisy < 0, label
        if self._truth is not None and first:
            self.sample.flip(self._truth[event.sender], label, self._parameters.labels)
        if self._drawn and self._truth is not None:
            expected = self._expected_noisy(event.sender)
            require(label == expected, "coins", f"the seed gives her the noisy label {expected}, not {label}")

    def _expected_noisy(self, user: int) -> int:
        assert self._truth is not None
        labels = self._parameters.labels
        flip, _, _, other = self._flips[user]
        truth = int(self._truth[user])
        return (truth + 1 + int(other * (labels - 1))) % labels if flip < self._parameters.alpha else truth

    def _report(self, event: Event, round_: int, label: int) -> None:
        member = self._asking(event, round_, "report_is_answer")
        require(not member.reported, "reported_once", "reports again")
        require(member.answer == label, "report_is_answer", f"reports {label}, but was answered {member.answer}")
        self._window(event, member.answered_at, "her answer")
        self._kept(event.sender, True)
        member.reported = True
        self.reports[round_][event.sender] = label

    def _done(self, event: Event, round_: int, outcome: str) -> None:
        member = self._asking(event, round_, "done_once")
        require(not member.done, "done_once", "is done again")
        takes_part = self._takes_part(member)
        require(takes_part or outcome == "abstained", "abstaining", f"{outcome} in a cluster below the minimum")
        if takes_part:
            truth = "reported" if member.reported else "dropped" if member.answer >= 0 else "nothing"
            require(outcome == truth, "done_once", f"says {outcome}, but {truth} is what she did")
            self._window(event, member.answered_at, "her answer")
            if outcome == "dropped":
                self._kept(event.sender, False)
            self.sample.keep(outcome == "reported")
        else:
            self._window(event, member.began, "her order to begin")
        member.done = True
        self._outcomes[outcome] += 1
        self._last_done = max(self._last_done, event.time)

    def _kept(self, user: int, kept: bool) -> None:
        if self._drawn:
            expected = self._drawn[user][2] < self._parameters.theta
            require(kept == expected, "coins", f"the seed {'keeps' if expected else 'drops'} what she got")

    def _asking(self, event: Event, round_: int, invariant: str) -> _Member:
        member = self._member(event.sender, invariant)
        require(round_ == self._round, invariant, f"round {round_} during round {self._round}")
        require(member.round == round_ and not member.left, invariant, f"is not in round {round_}")
        return member

    def _closed(self, event: Event, round_: int, reports: int) -> None:
        require(round_ == self._round, "closed", f"round {round_} in place of {self._round}")
        waiting = [user for user, member in self._members.items() if not member.done or member.round < round_]
        unexplained = [user for user in waiting if user not in self._missing]
        require(not unexplained, "closed", f"user {unexplained[0] if unexplained else 0} is not done")
        expected = self._outcomes["reported"]
        require(reports == expected, "closed", f"{reports} reports, but users sent {expected}")
        if waiting:
            end = self._round_began + self._network.round_limit
            require(event.time == end, "timing", f"left at {event.time}, but the round ends at {end}")
        else:
            self._window(event, self._last_done, "the last word")
        self._closed_at = event.time
        self._round += 1
        if self._round < self._parameters.rounds:
            self._round_began = event.time
            self._draw(self._round)
        self._outcomes.clear()

    def _goodbye(self, event: Event) -> None:
        require(self._round == self._parameters.rounds, "goodbye_once", "before the last round is closed")
        require(event.time == self._closed_at, "timing", f"left at {event.time}, not when the round was closed")
        if event.receiver == HOST:
            require(not self._host_left, "goodbye_once", "was dismissed before")
            self._host_left = True
            return
        member = self._member(event.receiver, "goodbye_once")
        require(not member.left, "goodbye_once", "was dismissed before")
        member.left = True

    def _foreign(self, event: Event, *fields: int) -> None:
        require(False, "shape", "nobody hands over a label in this mechanism")

    def _refusal(self, event: Event, about: int, kind: str, reason: str) -> None:
        """Matched with what it refuses by ``refused_positions``."""
        require(reason.partition(":")[0] in FAULTS, "shape", f"reason {reason!r} names no fault")


_CHECKS: dict[str, Callable[..., None]] = {
    "hello": Checker._hello,
    "roster": Checker._roster,
    "assignment": Checker._assignment,
    "round": Checker._next_round,
    "ask": Checker._ask,
    "answer": Checker._answer,
    "report": Checker._report,
    "submit": Checker._foreign,
    "release": Checker._foreign,
    "done": Checker._done,
    "closed": Checker._closed,
    "goodbye": Checker._goodbye,
    "refusal": Checker._refusal,
}
