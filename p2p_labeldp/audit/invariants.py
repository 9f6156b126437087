"""What must hold in every trace of an honest run, message by message, each rule with a name.

One pass over the trace steps a small model of the protocol: who has said hello, where everyone stands,
who asked whom, what she was answered. A message that does not fit is a violation with its position. In
seeded runs every coin is recomputed, so that even a message that fits is caught when it is not the one
the seed calls for. What cannot be seen is in ``docs/protocol.md``.

Users whom the summary lists as missing may fall silent at any point and may be late: what they say, and
what they are answered, may stand behind the end of its round, and is checked for what it says all the same.

A message that its receiver refused does not count, provided the trace shows the refusal. What is said by or to
the missing still counts as said, unless it was refused as a duplicate: they are refused for being late.

A host of a deployment that is lost for good may have said things that reached others, and not the trace: what follows
from them stands there without its cause. Where hosts stayed away such a cause is taken as said, if it would be one of
the missing's, and noted as lacking; whatever else is wrong is a violation. An answer to one of them who has asked
somebody else on record was asked for off the record, or by nobody: it is held against her, and not against who answers.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.expected import Expected
from p2p_labeldp.audit.rules import INVARIANTS, Broken, Violation, require, require_shape
from p2p_labeldp.audit.sample import Sample
from p2p_labeldp.audit.timing import Timing
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.privacy import Exchange, Parameters
from p2p_labeldp.protocol.messages import BY_KIND, CLOSED_PART, HOST, KINDS, VERSION, Fault
from p2p_labeldp.scenario import Network

MAX_VIOLATIONS = 20  # reported; after the first few the rest follows from them


@dataclass(slots=True)
class _Member:
    """A user who said hello in time; where she stands is known from the roster."""

    cluster: int = -1
    place: int = -1
    assigned: bool = False
    left: bool = False


@dataclass(slots=True)
class Turn:
    """What one user did in one round."""

    began: float  # when the message that lets her begin was sent
    peer: int = -1
    asked_at: float = -1.0
    answer: int = -1
    answered_at: float = -1.0
    said: str = ""  # with which outcome she was done
    counts: bool = False  # whether the close lists her
    released_at: float = -1.0  # when the message left that lets her report
    reported: bool = False


class Checker:
    """Feed it every event in order, then ``finish``; violations and the sample for the tests come out."""

    exchange: ClassVar[Exchange] = Exchange.PULL
    invariants: ClassVar[Mapping[str, str]] = INVARIANTS
    suspects: Mapping[int, str] = MappingProxyType({})
    """Address to kind, of parties that were set up to misbehave: what they break is counted, and blamed on the kind."""

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
        withheld: Iterable[int] = (),
        wall_clock: bool = False,
        away: bool = False,
    ) -> None:
        """``away`` says that hosts stayed away."""
        self._checks = self.checks()
        self.users = users
        self.violations: list[Violation] = []
        self.lacking: list[Violation] = []
        """Effects whose cause the trace lacks, which hosts that stayed away explains."""
        self.explained: dict[str, Counter[str]] = defaultdict(Counter)
        """By kind of adversary, how often its parties broke each invariant."""
        self.kinds: Counter[str] = Counter()
        self.reports: list[dict[int, int]] = [{} for _ in range(parameters.rounds)]
        """Per round, user to the label that she reported and that was not refused."""
        self.announced: list[int] = []
        """Per round that was closed, how many reports the learner was told to expect."""
        self.sample = Sample()
        self.last_time = 0.0
        self._timing = Timing(network, exact=not wall_clock)
        self._shift = 0
        self._last_number = -1
        self._features = features
        self._parameters = parameters
        truth = None if true_labels is None else true_labels.tolist()
        self._truth: list[int] | None = truth
        self._expected = Expected(coins, parameters, users, truth)
        self._clusters = None if clusters is None else clusters.tolist()
        self._missing = frozenset(missing)
        self._withheld = frozenset(withheld)
        self._away = away
        self._greeted: set[int] = set()
        self._members: dict[int, _Member] = {}
        self._rosters: dict[int, list[int]] = {}
        self._round = 0
        # By round, those that are over as well while someone may be late; noisy labels by the round of their flip.
        self._turns: dict[int, dict[int, Turn]] = defaultdict(dict)
        self._noisy: dict[int, dict[int, int]] = defaultdict(dict)
        self._listed = np.zeros(0, dtype=np.bool_)  # who counts in this round, as far as the close has been told
        self._host_told = 0  # of how many rounds the host knows that they are closed
        self._host_left = False
        self._said_once: set[tuple[object, ...]] = set()
        self._taken = True  # whether the event at hand was taken by its receiver, not refused

    @classmethod
    def checks(cls) -> dict[str, Callable[..., None]]:
        """What is checked of each kind of message: of an ask ``on_ask``, unless its class says all there is."""
        found: dict[str, Callable[..., None]] = {}
        for kind, message in BY_KIND.items():
            if cls.exchange not in message.record.exchanges:
                found[kind] = cls._foreign
            else:
                found[kind] = cls._once if message.record.once else getattr(cls, f"on_{kind}")
        return found

    @property
    def present(self) -> int:
        """How many users the rosters list."""
        return sum(map(len, self._rosters.values()))

    def feed(self, event: Event, fault: str = "") -> None:
        """Check one event; ``fault`` is what it was refused for."""
        try:
            self._place(event)
            require_shape(event, self.users)
            self.kinds[event.kind] += 1
            self._taken = not fault
            if not fault or self._still_said(event, fault):
                self._checks[event.kind](self, event, *event.fields)
        except Broken as broken:
            if self._explained_by_away(event):
                self._lack(event, broken.invariant, str(broken))
            else:
                party = event.sender if broken.party is None else broken.party
                self._note(broken.invariant, event.position, f"{event}: {broken}", party)

    def finish(self) -> None:
        """Check that nothing is missing."""
        for user in range(self.users):
            member = self._members.get(user)
            if user in self._missing:
                continue
            if member is None:
                self._note("hello_once", None, f"user {user} never said hello", user)
            elif not member.assigned:
                self._note("assigned_once", None, f"user {user} was never assigned", user)
            elif not member.left:
                self._note("goodbye_once", None, f"user {user} was never dismissed", user)
        if self._round < self._parameters.rounds:
            self._note("closed", None, f"round {self._round} was never closed")
        if self._rosters and not self._host_left:
            self._note("goodbye_once", None, "the host was never dismissed")
        self._require_reports(self._round - 1)

    def _note(self, invariant: str, position: int | None, detail: str, party: int | None = None) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.add([Violation(invariant, position, detail, party)])

    def add(self, found: Iterable[Violation]) -> None:
        """Note violations, or count them where they were to be expected of their party."""
        for each in found:
            if each.cause_of is not None and self._may_lack(each.cause_of):
                self.lacking.append(each)
                continue
            # Who refuses what a suspect sent, and did not put on record, is not to blame for that.
            parties = (each.party, each.cause_of if each.invariant == "refusals" else None)
            kind = next((self.suspects[one] for one in parties if type(one) is int and one in self.suspects), None)
            if kind is None:
                self.violations.append(each)
            else:
                self.explained[kind][each.invariant] += 1

    def _follows(self, holds: bool, event: Event, invariant: str, detail: str, cause_of: int) -> None:
        """Require what holds if a message of ``cause_of`` is on record; it may be lacking."""
        if not holds and self._may_lack(cause_of):
            self._lack(event, invariant, detail)
        else:
            require(holds, invariant, detail)

    def _may_lack(self, user: int) -> bool:
        return self._away and user in self._missing

    def _lack(self, event: Event, invariant: str, detail: str) -> None:
        self.lacking.append(Violation(invariant, event.position, f"{event}: {detail}", event.sender))

    def _explained_by_away(self, event: Event) -> bool:
        """Whether whatever is wrong with a message may be that others before it are not on record."""
        return False

    def _source(self, user: int, turn: Turn) -> int:
        """Who tells a user the label that she got."""
        return turn.peer

    def _place(self, event: Event) -> None:
        require(type(event.number) is int and type(event.time) is float, "shape", "not a record of a message")
        if event.number != event.position + self._shift:
            # Said once where it happens; what follows is checked for what it means.
            self._note("order", event.position, f"{event}: numbered {event.number} after {self._last_number}")
            self._shift = event.number - event.position
        self._last_number = event.number
        before, self.last_time = self.last_time, max(self.last_time, event.time)
        require(event.time >= before, "order", f"time {event.time} after {before}")

    def _still_said(self, event: Event, fault: str) -> bool:
        """Whether a message that was refused for ``fault`` is judged as what its sender said."""
        if event.kind == "hello" or fault == Fault.DUPLICATE:
            return False
        return event.sender in self._missing or event.receiver in self._missing

    def _rostered(self, user: int, invariant: str) -> _Member:
        member = self._members.get(user)
        require(member is not None and member.place >= 0, invariant, f"user {user} is in no roster")
        assert member is not None
        return member

    def _turn(self, user: int, round_: int, invariant: str, may_be_late: bool) -> Turn:
        in_time = round_ == self._round or (may_be_late and 0 <= round_ < self._round)
        require(in_time, invariant, f"round {round_} during round {self._round}")
        turn = self._turns[round_].get(user)
        require(turn is not None, invariant, f"user {user} was not told to begin round {round_}")
        assert turn is not None
        return turn

    def _size(self, user: int) -> int:
        return len(self._rosters[self._members[user].cluster])

    def _takes_part(self, user: int) -> bool:
        return self._size(user) >= self._parameters.minimum_size

    def on_hello(self, event: Event, version: int, features: int) -> None:
        require(event.sender not in self._greeted, "hello_once", "said hello before")
        require(version == VERSION, "hello_once", f"version {version}")
        require(features == self._features, "hello_once", f"{features} features, not {self._features}")
        self._timing.hello(event)
        self._greeted.add(event.sender)
        if self._rosters:
            require(event.sender in self._missing, "hello_once", "said hello after users were assigned")
        else:
            self._members[event.sender] = _Member()

    def _assigns(self, event: Event) -> None:
        self._timing.assigns(event, len(self._members) == self.users, bool(self._missing))

    def on_centre(self, event: Event, cluster: int, features: int) -> None:
        """Features are not traced, so that whether it is the right one is for the users' hosts to say."""
        self._assigns(event)
        require(not self._rosters, "rosters", "a centre after the first roster")
        require(features == self._features, "rosters", f"{features} features, not {self._features}")

    def on_roster(self, event: Event, cluster: int, first: int, members: bytes) -> None:
        self._assigns(event)
        require(len(members) % 8 == 0 and len(members) > 0, "rosters", "members take 8 bytes each")
        known = self._rosters.setdefault(cluster, [])
        require(first == len(known), "rosters", f"begins at place {first}, not {len(known)}")
        for user in struct.unpack(f"<{len(members) // 8}q", members):
            self._follows(user in self._members, event, "rosters", f"lists user {user}, who did not say hello", user)
            member = self._members.setdefault(user, _Member())
            require(member.place < 0, "rosters", f"lists user {user} again")
            require(not known or user > known[-1], "rosters", f"lists user {user} out of order")
            if self._clusters is not None:
                require(self._clusters[user] == cluster, "population", f"user {user} is in another cluster")
            member.cluster, member.place = cluster, len(known)
            known.append(user)

    def on_assignment(self, event: Event, cluster: int, size: int, place: int) -> None:
        self._assigns(event)
        member = self._rostered(event.receiver, "assigned_once")
        roster = self._rosters[member.cluster]
        require(not member.assigned, "assigned_once", "was assigned before")
        require(size == len(roster), "assigned_once", f"size {size}, but the roster has {len(roster)}")
        fits = (cluster, place) == (member.cluster, member.place)
        require(fits, "assigned_once", f"place {place} of cluster {cluster} is not hers")
        member.assigned = True
        self._turns[0][event.receiver] = Turn(event.time)

    def on_round(self, event: Event, round_: int, release: bool) -> None:
        open_round = 0 < round_ == self._round < self._parameters.rounds
        require(open_round, "rounds", f"round {round_} in place of {self._round}")
        self._timing.after_closing(event)
        if event.receiver == HOST:
            self._tell_host(round_, release, "rounds")
            return
        self._rostered(event.receiver, "rounds")
        require(event.receiver not in self._turns[round_], "rounds", "was told before")
        self._turns[round_][event.receiver] = Turn(event.time)
        self._releases(event, round_ - 1, release)

    def _tell_host(self, closed: int, release: bool, invariant: str) -> None:
        require(self._host_told == closed - 1 and not self._host_left, invariant, "the host was told before")
        require(not release, invariant, "a host has nothing to report")
        self._host_told = closed

    def _releases(self, event: Event, round_: int, release: bool) -> None:
        """What the close of a round says to one user."""
        turn = self._turns[round_].get(event.receiver)
        counts = turn is not None and turn.counts
        require(release == counts, "report_after_close", f"release = {release}, but she counts: {counts}")
        if turn is not None and release:
            turn.released_at = event.time

    def on_ask(self, event: Event, round_: int) -> None:
        turn = self._turn(event.sender, round_, "asked_once", event.sender in self._missing)
        member, peer = self._members[event.sender], self._members.get(event.receiver)
        require(self._takes_part(event.sender), "abstaining", "asks in a cluster below the minimum")
        require(turn.peer < 0, "asked_once", "asks again")
        inside = peer is not None and peer.cluster == member.cluster
        require(inside, "asked_inside_cluster", f"asks outside cluster {member.cluster}")
        assert peer is not None
        self._timing.follows(event, turn.began, "her order to begin", late=round_ < self._round)
        turn.peer, turn.asked_at = event.receiver, event.time
        size = self._size(event.sender)
        self._chosen(event, round_, member.cluster, size, member.place, peer.place)

    def _chosen(self, event: Event, round_: int, cluster: int, size: int, place: int, chosen: int) -> None:
        """The user at ``place`` asks the one at another, or herself."""
        self.sample.choice(chosen, place, size, event.sender, event.receiver, (round_, cluster))
        self._expected.choice(event.sender, round_, chosen, size)

    def on_answer(self, event: Event, round_: int, label: int) -> None:
        may_be_late = event.receiver in self._missing
        asker = self._turn(event.receiver, round_, "answer_follows_ask", may_be_late)
        if asker.peer < 0 and self._may_lack(event.receiver):
            self._lack(event, "answer_follows_ask", "the receiver did not ask the sender")
            asker.peer, asker.asked_at = event.sender, event.time
        again = asker.peer != event.sender and self._may_lack(event.receiver)
        if again:
            # Whoever is asked cannot know of another ask: if there was one off the record, it is the asker's.
            detail = f"{event}: the receiver asked user {asker.peer} on record, and the sender as well, or nobody else"
            self._note("asked_once", event.position, detail, event.receiver)
        require(again or asker.peer == event.sender, "answer_follows_ask", "the receiver did not ask the sender")
        require(again or asker.answer < 0, "answer_follows_ask", "the receiver has her answer")
        require(0 <= label < self._parameters.labels, "shape", f"label {label}")
        turn = self._turn(event.sender, round_, "answer_follows_ask", may_be_late)
        if not again:
            self._timing.follows(event, max(asker.asked_at, turn.began), "the ask", late=round_ < self._round)
            asker.answer, asker.answered_at = label, event.time
        flip_round = 0 if self._parameters.noise == "sticky" else round_
        known = self._noisy[flip_round]
        before = known.get(event.sender)
        require(before in (None, label), "same_answer", f"answers {label}, but {before} before")
        known[event.sender] = label
        if self._truth is not None and before is None:
            self.sample.flip(self._truth[event.sender], label, self._parameters.labels)
        self._expected.noisy(event.sender, flip_round, label)

    def on_report(self, event: Event, round_: int, label: int) -> None:
        turn = self._turn(event.sender, round_, "report_is_answer", True)
        require(not turn.reported, "reported_once", "reports again")
        require(turn.released_at >= 0, "report_after_close", f"was not told that she may report in round {round_}")
        right = turn.answer == label
        source = self._source(event.sender, turn) if turn.answer < 0 else -1
        self._follows(right, event, "report_is_answer", f"reports {label}, but was answered {turn.answer}", source)
        self._timing.follows(event, turn.released_at, "the close", late=round_ + 1 < self._round)
        turn.reported = True
        if self._taken:
            self.reports[round_][event.sender] = label

    def on_done(self, event: Event, round_: int, outcome: str) -> None:
        turn = self._turn(event.sender, round_, "done_once", event.sender in self._missing)
        require(not turn.said, "done_once", "is done again")
        takes_part, late = self._takes_part(event.sender), round_ < self._round
        require(takes_part or outcome == "abstained", "abstaining", f"{outcome} in a cluster below the minimum")
        if takes_part:
            source, wrong = self._source(event.sender, turn), f"says {outcome}, but her answer is {turn.answer}"
            require(outcome in ("reported", "dropped"), "done_once", wrong)
            self._follows(turn.answer >= 0, event, "done_once", wrong, source)
            self._timing.follows(event, turn.answered_at, "her answer", late)
            self._expected.kept(event.sender, round_, outcome == "reported")
            self.sample.keep(outcome == "reported")
        else:
            self._timing.follows(event, turn.began, "her order to begin", late)
        turn.said = outcome
        if not late:
            self._timing.done(event)

    def on_closed(self, event: Event, round_: int, first: int, counted: bytes, shares: int) -> None:
        open_round = round_ == self._round < self._parameters.rounds
        require(open_round, "closed", f"round {round_} in place of {self._round}")
        size = min(8 * CLOSED_PART, self.users - first)
        fits = first == len(self._listed) and size > 0 and len(counted) == -(-size // 8) and shares == 0
        require(fits, "closed", f"{len(counted)} bytes from user {first}, after {len(self._listed)} users")
        bits = np.unpackbits(np.frombuffer(counted, dtype=np.uint8), count=size, bitorder="little").astype(np.bool_)
        require(np.packbits(bits, bitorder="little").tobytes() == counted, "closed", "lists users who do not exist")
        waiting = [user for user in self._members if not self._said(user, round_)]
        if first == 0:
            # Whoever was missing in a round may not be waited for in the next one.
            excused = self._missing if round_ > 0 else ()
            everyone = all(self._members[user].place < 0 or user in excused for user in waiting)
            self._timing.closes(event, everyone, bool(self._missing))
        else:
            self._timing.after_closing(event)
        self._listed = np.concatenate([self._listed, bits])
        if len(self._listed) == self.users:
            self._end_round(event, round_, waiting)

    def _said(self, user: int, round_: int) -> str:
        turn = self._turns[round_].get(user)
        return "" if turn is None else turn.said

    def _end_round(self, event: Event, round_: int, waiting: list[int]) -> None:
        listed, self._listed = self._listed, self._listed[:0]
        self.announced.append(int(listed.sum()))
        self._round += 1
        self._expected.next_round()
        turns = self._turns[round_]
        for user in np.flatnonzero(listed).tolist():
            if user in turns:
                turns[user].counts = True
        self._require_reports(round_ - 1)
        if not self._missing:
            self._turns.pop(round_ - 1, None)
            if self._parameters.noise == "fresh":
                self._noisy.clear()
        unexplained = [user for user in waiting if user not in self._missing]
        require(not unexplained, "closed", f"user {unexplained[0] if unexplained else 0} is not done")
        self._require_listed(event, listed, round_)

    def _require_listed(self, event: Event, listed: NDArray[np.bool_], round_: int) -> None:
        """Those count who said that they would report; of the missing it may have come too late, or not at all."""
        would = {user for user in self._members if self._said(user, round_) == "reported"}
        for user in np.flatnonzero(listed).tolist():
            self._follows(user in would, event, "closed", f"user {user} counts, but would not report", user)
        left_out: dict[bool, list[int]] = {True: [], False: []}
        for user in sorted(would - self._missing):
            if self._members[user].cluster in self._withheld:
                left_out[True].append(user)
            elif not listed[user]:
                left_out[False].append(user)
        require(not left_out[False], "closed", f"user {(left_out[False] or [0])[0]} would report, and does not count")
        for cluster in sorted({self._members[user].cluster for user in left_out[True]}):
            said = {bool(listed[user]) for user in left_out[True] if self._members[user].cluster == cluster}
            last = round_ + 1 == self._parameters.rounds
            whole = len(said) == 1 and not (last and True in said)
            require(whole, "closed", f"cluster {cluster} was withheld, but some of its users count")

    def _require_reports(self, round_: int) -> None:
        """Whoever counted in a round that is long over has reported."""
        for user, turn in self._turns.get(round_, {}).items():
            if turn.counts and not turn.reported and user not in self._missing:
                said = f"user {user} counts in round {round_} and never reported"
                self._note("report_after_close", None, said, user)

    def on_goodbye(self, event: Event, release: bool) -> None:
        require(self._round == self._parameters.rounds, "goodbye_once", "before the last round is closed")
        self._timing.after_closing(event)
        if event.receiver == HOST:
            self._tell_host(self._round, release, "goodbye_once")
            self._host_left = True
            return
        member = self._rostered(event.receiver, "goodbye_once")
        require(not member.left, "goodbye_once", "was dismissed before")
        member.left = True
        self._releases(event, self._round - 1, release)

    def _foreign(self, event: Event, *fields: object) -> None:
        require(False, "shape", "no message of this mechanism and exchange")

    def _once(self, event: Event, *fields: object) -> None:
        round_ = fields[0] if KINDS[event.kind][:1] == ("round",) else None
        said = event.kind, event.sender, event.receiver, round_
        require(said not in self._said_once, "shape", "is said twice")
        self._said_once.add(said)

    def on_refusal(self, event: Event, about: int, kind: str, fault: str, reason: str) -> None:
        """Matched with what it refuses by ``refused_positions``."""
        require(fault in set(Fault), "shape", f"there is no fault {fault!r}")
