"""A node's part in a deployment, without I/O: items in, items out.

What a part does follows from its scenario and from what it took, in order, and from nothing else; that is what
lets a node that was killed replay its journal and say again, word for word and number for number, all that it
ever said. So a part draws no randomness but coins that are journaled, and reads no clock: ``now`` is handed in.

Mail may come from a peer that lies. Whom a peer may speak for is decided here, by the key that its
certificate gave it; whether a message fits the moment is decided by the role it is for. What a peer can make this
node keep, trace and log has an end (``deployment.costs``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from p2p_labeldp.deployment.costs import Costs
from p2p_labeldp.deployment.items import (
    PART,
    SAID_BY,
    Directory,
    Ended,
    Item,
    Mail,
    Over,
    Progress,
    Quiet,
    decode_item,
    encode_item,
    encode_mail,
    encode_records,
    salvage,
)
from p2p_labeldp.deployment.journal import EXPIRED, JOINED, SETTLED, TAKEN, Entry
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.roles import SINGLE_AT, SINGLES
from p2p_labeldp.deployment.shares import Shares
from p2p_labeldp.errors import CheckError, RequestError, RunError
from p2p_labeldp.protocol.beforehand import rounds_of
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    HOST,
    Fault,
    Message,
    Outgoing,
    Refusal,
    Refused,
    kind_of,
)
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import Scenario

EPOCH = 1 << 32  # ticks for each round: when one is closed clocks move on to the next epoch
MAX_CLOCK = 1 << 62  # no honest clock comes near it; clocks stand still there
LONGEST_QUEUE = 8 * PART  # messages that are kept until they are sent: as bytes they take a tenth of the memory
LATE = (Fault.OUT_OF_ORDER, Fault.DUPLICATE)  # faults of messages from which nobody honest is safe


class Part:
    """What the parts of all nodes have in common."""

    address: int
    """Of the role that this part carries."""

    def __init__(self, key: str, log: Log, scenario: Scenario) -> None:
        self.key = key
        self.log = log
        self._scenario = scenario
        self._rounds = rounds_of(scenario)
        self.shares: Shares | None = None
        self.costs = Costs(scenario, log)
        self.over = False
        """Everyone may go, this node too."""
        self.ended = False
        """Whether the coordinator has ended the run before its end."""
        self.failure: RequestError | RunError | None = None
        """Why the run is over before its end; the node's last words."""
        self.withheld: list[int] = []
        """Clusters that released nothing, since they would not keep the target; known to the learner."""
        self.asked: list[str] = []
        """Keys of the user hosts that would like to have the model; known to the learner."""
        self.dials: dict[str, str] = {}
        """Peers to which a connection is kept up from this side, and their addresses."""
        self.late: set[str] = set()
        """User hosts that were there in time and asked for a share too late; known to the coordinator."""
        self.clock = 0
        self.now = 0.0
        self._quiet = False
        self._progress: tuple[str, int, int] | None = None
        self._said: list[tuple[str, int, bytes]] = []
        self._mail: dict[str, list[Envelope]] = {}
        self._records: list[Envelope] = []
        self._local: deque[Envelope] = deque()
        self._peer = ("", "")  # key and name of whoever is being listened to
        self._size = 0  # bytes of what it says: of an item, or of a message on average

    # What a node asks of its part.

    @property
    def works_for_us(self) -> str:
        """The role of a node that takes its time over the results, where this part waits for it."""
        return ""

    def may_join(self, key: str) -> bool:
        """Whether a user host is one of this run, or may still become one."""
        return self.shares is not None and key in self.shares.by_key

    def join(self, address: str, now: float) -> None:
        """The first thing a user host says; nobody else does."""
        raise AssertionError("only user hosts join")

    @property
    def dealt(self) -> Shares:
        """Who has which users, once shares are dealt."""
        assert self.shares is not None
        return self.shares

    @property
    def run(self) -> str:
        """The run's name; empty until it is known."""
        return "" if self.shares is None else self.shares.directory.run

    @property
    def state(self) -> Literal["waiting", "working", "over"]:
        """Whether the run has begun, as far as this node knows."""
        return "over" if self.over else "waiting" if self.shares is None else "working"

    @property
    def closed(self) -> int:
        """How many rounds are closed, as far as this node was told."""
        return 0

    @property
    def stage(self) -> object:
        """What the limit on waiting holds for: it starts anew when this changes."""
        return None

    @property
    def limit(self) -> float | None:
        return None

    @property
    def whole(self) -> tuple[object, float | None]:
        """What a limit holds for that does not start anew with every stage, and the limit."""
        return None, None

    @property
    def waits_for(self) -> str:
        """For whom, in words an operator understands."""
        return ""

    @property
    def shown(self) -> dict[str, Any]:
        """What anyone may read of this node while it runs: nothing in it depends on a label or a coin."""
        return {
            "state": self.state,
            "users": 0 if self.shares is None else self.shares.directory.users,
            "hosts": 0 if self.shares is None else len(self.shares.hosts),
            "rounds_closed": self.closed,
            "run": self.run,
            "waits_for": self.waits_for,
        }

    @property
    def progress(self) -> tuple[str, int, int] | None:
        """(stage, how much of it is done, how much there is): the coordinator knows, and tells the others."""
        return self._progress

    def counts(self) -> Iterator[tuple[str, dict[str, int | str]]]:
        """(event, facts) for the log of a node whose operator wants counts: by cluster, or by kind of message."""
        yield from ()

    @property
    def finished(self) -> bool:
        """Whether the role that this part carries has said all that it will."""
        return False

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do but to have everything said arrive."""
        return self.finished and not self._quiet

    def apply(self, entry: Entry) -> None:
        """Act on what happened, now or as a journal tells it."""
        if entry.kind == TAKEN:
            self.take(entry.peer, entry.name, entry.clock, entry.body, entry.time)
        elif entry.kind == EXPIRED:
            self.expire(entry.time, entry.name.split(",") if entry.name else ())
        elif entry.kind == SETTLED:
            self.settle(entry.time)
        else:
            assert entry.kind == JOINED
            self.join(entry.name, entry.time)

    def take(self, key: str, name: str, clock: int, body: bytes, now: float) -> None:
        """Act on one item of a peer; whatever is wrong with it is refused, and the part stays as it was."""
        if key in self.costs.shunned:
            return
        self.costs.keep(key, len(body))
        # A user host's clock in an epoch that no run reaches is a lie, and would drive everyone's out of order.
        believed = key in SINGLES or clock < (self._rounds + 2) * EPOCH
        self._step(max(self.clock, clock if believed else 0) + 1, now)
        self._peer, self._size = (key, name), len(body)
        try:
            item = decode_item(body)
        except Refused as refused:
            self.reject("item", refused)
            self._deliver(key, (found for found in salvage(body) if isinstance(found, Envelope)))
        else:
            try:
                if SAID_BY.get(type(item), key) != key:
                    raise Refused(Fault.MISDIRECTED, f"only the {SAID_BY[type(item)]} may say this")
                if type(item) is not Mail:
                    self.hear(key, name, item)
                elif item.envelopes:
                    self._size //= len(item.envelopes)
                    self._deliver(key, item.envelopes)
                else:
                    raise Refused(Fault.MALFORMED, "mail without a message")
            except Refused as refused:
                self.reject(type(item).__name__.lower(), refused)
        self._peer = "", ""
        self._work_off()

    def expire(self, now: float, unreached: Sequence[str] = ()) -> None:
        """The limit has passed; ``unreached`` are the keys of those with whom there is no connection."""
        self._step(self.clock + 1, now)
        self.give_up(unreached)
        self._work_off()

    def settle(self, now: float) -> None:
        """All that was said has arrived, and ``done`` holds."""
        self._step(self.clock + 1, now)
        self.arrived()
        self._work_off()

    def said(self) -> list[tuple[str, int, bytes]]:
        """(peer, clock, body) of everything said since the last call, in order."""
        self._encode(list(self._mail))
        said, self._said = self._said, []
        return said

    # What a part does for its role.

    def hear(self, key: str, name: str, item: Item) -> None:
        """Act on a word between nodes, or raise Refused."""
        if type(item) is Progress:
            self._progress = item.phase, item.done, item.total
        elif type(item) is Over:
            self.over = True
        elif type(item) is Ended:
            self.ended = True
            kind = {1: CheckError, 2: RequestError, 3: RunError}[item.status]
            raise kind(f"the coordinator ended the run: {item.reason}")
        else:
            raise Refused(Fault.MISDIRECTED, f"nobody here takes {type(item).__name__.lower()}")

    def give_up(self, unreached: Sequence[str]) -> None: ...

    def arrived(self) -> None:
        self._quiet = True
        self.say("coordinator", Quiet())

    def carries(self, receiver: int) -> bool:
        return receiver == self.address

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        """Let the role that an envelope is for act on it, or raise Refused."""
        raise Refused(Fault.MISDIRECTED, f"nobody here takes {kind_of(envelope.message)}")

    def keys_for(self, receiver: int, message: Message) -> Sequence[str]:
        """The peers that carry a receiver; this node's own key where it carries her itself."""
        if receiver < 0:
            return SINGLE_AT.get(receiver, ())
        holder = self.shares.holder_of(receiver) if self.shares is not None else None
        return () if holder is None else (holder.key,)

    def say(self, key: str, item: Item) -> None:
        self._seal(key)
        self._said.append((key, self._clock_for(key), encode_item(item)))

    def send(self, sender: int, receiver: int, message: Any) -> None:
        """A message of a role: traced, and put into the mail or, for someone here, into the queue."""
        envelope = Envelope(sender, receiver, message)
        self._records.append(envelope)
        if receiver == AUDITOR:
            return  # who sees it in the trace
        for key in self.keys_for(receiver, message):
            if key == self.key:
                self._local.append(envelope)
            else:
                self._mail.setdefault(key, []).append(envelope)
        if len(self._records) >= LONGEST_QUEUE:
            # Not the learner's: where its items end must depend on reports alone.
            self._encode([key for key in self._mail if key != "learner"])

    def refuse(self, sender: int, receiver: int, kind: str, refused: Refused) -> None:
        """Trace a refusal; the log names the fault alone, since the detail may quote a label."""
        if self.costs.refuse(*self._peer, 0 if refused.fault in LATE else self._size):
            self.trace(receiver, Refusal(sender, kind, refused.fault, refused.detail))
            self.costs.log(*self._peer, sender=sender, kind=kind, fault=refused.fault)

    def trace(self, receiver: int, refusal: Refusal) -> None:
        if self.costs.trace():
            self._records.append(Envelope(receiver, AUDITOR, refusal))

    def reject(self, kind: str, refused: Refused) -> None:
        """Log that something which is no message was refused."""
        if self.costs.refuse(*self._peer, self._size):
            self.costs.log(*self._peer, peer=self._peer[1], kind=kind, fault=refused.fault)

    def know(self, directory: Directory) -> None:
        """Take the coordinator's word on who speaks for which users."""
        if self.shares is not None:
            raise Refused(Fault.DUPLICATE, "the directory is known")
        self.shares, self.costs.directory = Shares(directory), directory

    # Inner workings.

    def _step(self, clock: int, now: float) -> None:
        self.clock, self.now = min(clock, MAX_CLOCK), now

    def _deliver(self, key: str, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            if key in self.costs.shunned:
                return
            mine, its = self.carries(envelope.receiver), self._speaks_for(key, envelope.sender)
            if mine and its:
                self._act(envelope)
                continue
            why = "the sender is not the peer's to speak for" if mine else "the receiver is not here"
            self._misdirected(envelope, Refused(Fault.MISDIRECTED, why))

    def _misdirected(self, envelope: Envelope, refused: Refused) -> None:
        """Traced as bytes that are no message: whoever the addresses name, she has said nothing."""
        key, name = self._peer
        if self.costs.refuse(key, name, self._size):
            self.trace(self.address, Refusal(SINGLES.get(key, HOST), "frame", refused.fault, refused.detail))
            kind = kind_of(envelope.message)
            self.costs.log(key, name, peer=name, sender=envelope.sender, kind=kind, fault=refused.fault)

    def _speaks_for(self, key: str, sender: int) -> bool:
        if sender < 0:
            return SINGLES.get(key) == sender
        holder = None if self.shares is None else self.shares.by_key.get(key)
        return holder is not None and holder.first <= sender < holder.last

    def _act(self, envelope: Envelope) -> None:
        try:
            said = self.receive(envelope)
        except Refused as refused:
            self.refuse(envelope.sender, envelope.receiver, kind_of(envelope.message), refused)
            return
        for receiver, message in said:
            self.send(envelope.receiver, receiver, message)

    def _work_off(self) -> None:
        while self._local:
            self._act(self._local.popleft())

    def _encode(self, keys: list[str]) -> None:
        """What was traced so far, and sent to these peers, becomes items, each peer's in order."""
        for key in keys:
            self._seal(key)
        records, self._records = self._records, []
        told = 0.0 if self.shares is None else max(0.0, self.now - self.shares.directory.started)
        self._said += [("auditor", self.clock, body) for body in encode_records(told, records)]

    def _seal(self, key: str) -> None:
        envelopes = self._mail.pop(key, None)
        if envelopes:
            self._said += [(key, self._clock_for(key), body) for body in encode_mail(envelopes)]

    def _clock_for(self, key: str) -> int:
        """What an item carries. A clock counts the items that a node took, and these tell who asked whom: the learner
        is told the end of the epoch instead, which is ahead of them all and tells the round alone."""
        return (self.closed + 1) * EPOCH - 1 if key == "learner" else self.clock
