"""A user: Algorithm 2 as a state machine, message in and messages out.

    JOINING --assignment--> WAITING --answer--> DONE --round--> WAITING ... --goodbye--> LEFT

All her transitions are in `TRANSITIONS`. When she has her answer she tells the coordinator that she is done, and
nobody else anything. Her report leaves when the round is closed for everyone, and only if the close says so: from when
she reports the learner cannot tell when she was answered, or by whom. An answer that comes after the close is refused.

She flips her label once (once per round with fresh noise) and answers every asker of a round with that
one noisy label. She asks one uniformly chosen member of her cluster, herself included, and never chooses
again: if no answer comes before the round is over she reports nothing. In a cluster smaller than the
minimum size, or that her host distrusts, she abstains: she neither asks, answers nor reports. She takes part in as
many rounds as were agreed on and no more, since each may cost another flip.

An ask may overtake the message that lets her begin the round; it is held until then, one of each asker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    LEARNER,
    VERSION,
    Answer,
    Ask,
    Assignment,
    Done,
    Fault,
    Features,
    Goodbye,
    Hello,
    Message,
    Outgoing,
    Refusal,
    Refused,
    Report,
    Round,
    kind_of,
    name_of,
)


class State(IntEnum):
    JOINING = 0
    WAITING = 1
    DONE = 2
    ABSTAINING = 3
    LEFT = 4


class Event(IntEnum):
    BEGINS = 0  # a round, having been assigned or told so
    ABSTAINS = 1  # in a round that she was told to begin
    ANSWERED = 2
    DISMISSED = 3


JOINING, WAITING, DONE, ABSTAINING, LEFT = State
BEGINS, ABSTAINS, ANSWERED, DISMISSED = Event

TRANSITIONS: dict[State, dict[Event, State]] = {
    JOINING: {BEGINS: WAITING, ABSTAINS: ABSTAINING, DISMISSED: LEFT},
    WAITING: {BEGINS: WAITING, ABSTAINS: ABSTAINING, ANSWERED: DONE, DISMISSED: LEFT},
    DONE: {BEGINS: WAITING, ABSTAINS: ABSTAINING, DISMISSED: LEFT},
    ABSTAINING: {BEGINS: WAITING, ABSTAINS: ABSTAINING, DISMISSED: LEFT},
    LEFT: {},
}
"""What is not here does not happen: it is refused."""

# By number, which is found in a third of the time.
_NEXT = tuple(tuple(TRANSITIONS[state].get(event) for event in Event) for state in State)

MAX_EARLY = 1024  # asks held before a round begins, where whoever asks may ask often


class User:
    __slots__ = (
        "_answer", "_askers", "_early", "_keeps", "_peer", "_roster", "cluster", "host", "id", "label", "noisy",
        "round", "state",
    )  # fmt: skip

    def __init__(self, id_: int, label: int, host: Host) -> None:
        self.id = id_
        self.label = label
        self.host = host
        self.state: State = JOINING
        self.round = -1
        self._askers: list[int] | None = None
        self._early: list[tuple[int, Ask]] | None = None

    @property
    def flipped(self) -> bool:
        """Whether she has taken part: made her noisy label, flipped or not."""
        return hasattr(self, "noisy")

    def hello(self, features: Features) -> Outgoing:
        if self.host.check is not None:
            self.host.check.claim(self.id, features.row)
        return COORDINATOR, Hello(VERSION, features)

    def receive(self, sender: int, message: Message) -> Sequence[Outgoing]:
        """Act on one message, or raise Refused and stay as she was."""
        handler = self.handlers.get(type(message))
        if handler is None:
            raise Refused(Fault.MISDIRECTED, f"a user takes no {kind_of(message)}")
        return handler(self, sender, message)

    def _assigned(self, sender: int, message: Assignment) -> Sequence[Outgoing]:
        self._only_from_the_coordinator(sender)
        if self.state is not JOINING:
            raise Refused(Fault.DUPLICATE, f"user {self.id} is assigned already")
        roster = self.host.rosters.get(message.cluster)
        if roster is None or len(roster) != message.size:
            raise Refused(Fault.OUT_OF_ORDER, f"cluster {message.cluster} has no roster of {message.size} users here")
        if not (0 <= message.place < message.size and roster[message.place] == self.id):
            raise Refused(Fault.MISDIRECTED, f"place {message.place} of cluster {message.cluster} is another user's")
        self.cluster = message.cluster
        self._roster = roster
        self.host.assigned.add(message.cluster)
        return self._begin(0)

    def _next_round(self, sender: int, message: Round) -> Sequence[Outgoing]:
        self._only_from_the_coordinator(sender)
        if self.state in (JOINING, LEFT) or message.round != self.round + 1:
            again = self.state not in (JOINING, LEFT) and message.round <= self.round
            fault = Fault.DUPLICATE if again else Fault.OUT_OF_ORDER
            raise Refused(fault, f"round {message.round} cannot follow round {self.round}")
        if message.round >= self.host.parameters.rounds:
            raise Refused(Fault.OUT_OF_ORDER, f"round {self.round} is the last")
        report = self._released(message.release)
        begun = self._begin(message.round)
        return (*report, *begun) if report else begun

    def _released(self, release: bool) -> tuple[Outgoing, ...]:
        """What she reports at the close of a round: the answer she got and kept, if the close says so."""
        if release and self.state is DONE and self._keeps:
            return ((LEARNER, Report(self.round, self._answer)),)
        return ()

    def _begin(self, round_: int) -> Sequence[Outgoing]:
        self.round = round_
        said = self._abstain() if self._must_abstain() else self._take_part(round_)
        if self._early is None:
            return said
        early, self._early = self._early, None
        return [*said, *(self._reply(asker, held) for asker, held in early)]

    def _must_abstain(self) -> bool:
        host = self.host
        if len(self._roster) < host.parameters.minimum_size:
            return True
        return host.check is not None and not host.check.trusts(self.cluster, host.rosters)

    def _abstain(self) -> Sequence[Outgoing]:
        self._go(ABSTAINS)
        return ((COORDINATOR, Done(self.round, "abstained")),)

    def _take_part(self, round_: int) -> Sequence[Outgoing]:
        peer = self._toss(round_)
        # Select a random user of her cluster.
        place = int(peer * len(self._roster))
        if self.host.permuted:
            place = self.host.agreed(self.cluster, round_)[bisect_left(self._roster, self.id)]
        self._peer = self._roster[place]
        self._askers = None
        self._go(BEGINS)
        return ((self._peer, Ask(round_)),)

    def _toss(self, round_: int) -> float:
        """Add noise to her own label, and decide whether to keep what she hears; gives the coin for her peer."""
        parameters = self.host.parameters
        flip, peer, keep, other = self.host.coins(round_, self.id)
        if round_ == 0 or parameters.noise == "fresh":
            self.noisy = self.label
            if flip < parameters.alpha:
                self.noisy = (self.label + 1 + int(other * (parameters.labels - 1))) % parameters.labels
        self._keeps = keep < parameters.theta
        return peer

    def _go(self, event: Event) -> None:
        state = _NEXT[self.state][event]
        assert state is not None, f"{event.name} in state {self.state.name}"
        self.state = state

    def _reply(self, asker: int, held: Ask) -> Outgoing:
        """The answer to an ask that came early; a fault in it is the asker's, not that of what came since."""
        self.host.early.discard((asker, held.round))
        try:
            return self._asked(asker, held)[0]
        except Refused as refused:
            return AUDITOR, Refusal(asker, kind_of(held), refused.fault, refused.detail)

    def _asked(self, sender: int, message: Ask) -> Sequence[Outgoing]:
        state = self.state
        if message.round == self.round and (state is WAITING or state is DONE):
            self._require_member(sender)
            askers = self._askers
            if askers is None:
                self._askers = [sender]
            elif sender not in askers:
                askers.append(sender)
            elif self.host.one_answer:
                raise Refused(Fault.DUPLICATE, f"{name_of(sender)} asked already in round {message.round}")
            return ((sender, Answer(message.round, self.noisy)),)
        if state is ABSTAINING or state is LEFT:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} has {'left' if state is LEFT else 'abstained'}")
        if message.round != self.round + 1:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} is in round {self.round}, not {message.round}")
        self._hold(sender, message)
        return ()

    def _require_member(self, sender: int) -> None:
        roster = self._roster
        place = bisect_left(roster, sender)
        if place == len(roster) or roster[place] != sender:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is not in cluster {self.cluster}")

    def _hold(self, sender: int, message: Ask) -> None:
        if self.state is not JOINING:
            self._require_member(sender)
        if self.host.one_answer:
            # One for each asker and round among all users of this host: so many cannot keep others' asks out, and no
            # more are held than there are users.
            if (sender, message.round) in self.host.early:
                raise Refused(Fault.DUPLICATE, f"{name_of(sender)} asked already in round {message.round}")
            self.host.early.add((sender, message.round))
        elif self._early is not None and len(self._early) >= MAX_EARLY:
            raise Refused(Fault.OUT_OF_ORDER, f"user {self.id} holds {MAX_EARLY} early asks and no more")
        if self._early is None:
            self._early = []
        self._early.append((sender, message))

    def _answered(self, sender: int, message: Answer) -> Sequence[Outgoing]:
        if self.state is not WAITING or message.round != self.round:
            again = self.state is DONE and message.round == self.round and sender == self._peer
            raise Refused(Fault.DUPLICATE if again else Fault.OUT_OF_ORDER, f"user {self.id} waits for no such answer")
        if sender != self._peer:
            raise Refused(Fault.MISDIRECTED, f"user {self.id} did not ask {name_of(sender)}")
        return self._replace(message.label)

    def _replace(self, label: int) -> Sequence[Outgoing]:
        """Replace her own label with another user's noisy label, and subsample."""
        if not 0 <= label < self.host.parameters.labels:
            raise Refused(Fault.MALFORMED, f"label {label} is not below {self.host.parameters.labels}")
        self._go(ANSWERED)
        self._answer = label
        return ((COORDINATOR, Done(self.round, "reported" if self._keeps else "dropped")),)

    def _leave(self, sender: int, message: Goodbye) -> Sequence[Outgoing]:
        self._only_from_the_coordinator(sender)
        if self.state is LEFT:
            raise Refused(Fault.DUPLICATE, f"user {self.id} has left already")
        report = self._released(message.release)
        self._go(DISMISSED)
        return report

    def _only_from_the_coordinator(self, sender: int) -> None:
        if sender != COORDINATOR:
            raise Refused(Fault.MISDIRECTED, f"only the coordinator may send this, not {name_of(sender)}")

    handlers: ClassVar[dict[type, Callable[[Any, int, Any], Sequence[Outgoing]]]] = {
        Assignment: _assigned,
        Round: _next_round,
        Ask: _asked,
        Answer: _answered,
        Goodbye: _leave,
    }
    """What she does with each kind of message; all others are refused."""
