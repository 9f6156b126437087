"""A user host's part: it carries its own users, and speaks for nobody else.

It has rows of its own and no others. Features are public: the coordinator gets them in hellos, the learner as they are.
Labels leave it flipped, in answers to the users of the same clusters, or not at all; in mechanisms without an exchange
they go to whom these trust with them, flipped or as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.certified import CertifiedKey, HostSignatures
from p2p_labeldp.deployment.items import (
    Away,
    Begin,
    Certificates,
    Declined,
    Directory,
    Item,
    Join,
    Noise,
    Over,
    Ready,
    Result,
    Unreached,
    Wanted,
    encode_column,
    encode_examples,
    encode_stuck,
)
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.noise import NoiseCheck
from p2p_labeldp.deployment.outputs import Delivery, Keep
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.roles import SINGLES, gatherer_of
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.plan import Holder, Plan
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    LEARNER,
    Ask,
    Assignment,
    Batch,
    Done,
    Fault,
    Features,
    Goodbye,
    Halt,
    Message,
    Outgoing,
    Refused,
    Report,
    Roster,
    Round,
)
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.submitter import Responder, Submitter
from p2p_labeldp.protocol.user import User
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.scenario import EXCHANGES, Scenario

if TYPE_CHECKING:
    from p2p_labeldp.deployment.misbehaving import Pool


class UsersPart(Part):
    address = HOST

    def __init__(
        self,
        key: str,
        log: Log,
        scenario: Scenario,
        rows: Rows,
        plan: Plan,
        coins: Coins,
        keep: Keep | None = None,
        signing: CertifiedKey | None = None,
        keep_pool: Callable[[bytes], None] | None = None,
    ) -> None:
        """``plan`` is what is known before there are clusters.

        ``keep`` is None where the host does not ask for the model, ``signing`` where nothing is signed. ``keep_pool``
        takes what colluders among its users know, where the scenario has such.
        """
        super().__init__(key, log, scenario)
        self._plan = plan
        self._parameters = plan.parameters
        self._noise = NoiseCheck(scenario, plan)
        self._keep_pool = keep_pool
        self._pool: Pool | None = None
        self._shown_to: Callable[[Message, list[str]], list[str]] | None = None  # where relays may misbehave
        self._rows: Rows | None = rows
        self._count = len(rows)
        if scenario.clusters.method == "given" and rows.clusters is None:
            raise RequestError('clusters.method = "given" is not allowed: the rows name no clusters; use "kmeans"')
        self._features: NDArray[np.float32] = rows.features
        self._delivery = Delivery(keep)
        self._dismissed = False
        self._coins = coins
        self._signing = signing
        self._signatures: HostSignatures | None = None
        self._begun = False
        self._reports: list[tuple[int, Report]] = []  # of a round that is not closed yet for all users of this host
        self._dones: dict[int, list[tuple[int, Done]]] = {}  # by round, of which the coordinator is not told yet
        self._told = -1  # the newest round of which it is
        self._clustered: dict[int, list[str]] = {}  # by cluster, the hosts of its users
        self._away: frozenset[str] = frozenset()  # hosts that the coordinator goes on without
        self._unreached: frozenset[str] = frozenset()  # and those that this host had no way to when it waited
        self._stuck: dict[int, dict[int, None]] = {}  # by round, users who have asked one of those
        self.host: Host | None = None
        self.users: list[User] = []
        self._first = 0
        deployment = scenario.deployment
        self.dials["coordinator"] = deployment.coordinator

    def join(self, address: str, now: float) -> None:
        """The first thing a host says."""
        self._step(self.clock + 1, now)
        self.say("coordinator", Join(address, self._count, b"" if self._signing is None else self._signing.chain))

    @property
    def waits_for(self) -> str:
        if self.shares is None:
            return "the coordinator to hand out shares"
        if not self._begun:
            return "the coordinator to begin"
        if self.host is not None and not self.host.left:
            return "the round to end"
        if self._dismissed and self._delivery.due:
            return "the learner to hand over the model"
        return "the coordinator to dismiss everyone"

    @property
    def closed(self) -> int:
        return 0 if self.host is None else self.host.closed

    @property
    def stage(self) -> object:
        return None if self.host is None else (self.host.closed, self._waits, self.done, self._delivery.begun)

    @property
    def limit(self) -> float | None:
        """Before the coordinator's own limit is over: what it is told then counts."""
        if self._dismissed:
            return self._scenario.deployment.away_limit
        if self._waits:
            return self._scenario.network.round_limit / 2
        return self._scenario.deployment.away_limit / 2 if self.done else None

    @property
    def _waits(self) -> bool:
        """Whether some users of this host are done with the round and others are not."""
        return self.host is not None and self.host.closed in self._dones

    @property
    def finished(self) -> bool:
        return self.host is not None and self.host.left

    def take(self, key: str, name: str, clock: int, body: bytes, now: float) -> None:
        if key in self._unreached:  # there is a way again
            self._unreached -= {key}
        super().take(key, name, clock, body, now)

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Directory:
            self.know(item)
            self._take_share()
        elif type(item) is Declined:
            raise RunError(f"the coordinator gives this host no share: {item.reason}")
        elif type(item) is Begin:
            self._begin()
        elif type(item) is Certificates:
            if self._signatures is None or self._begun:
                raise Refused(Fault.OUT_OF_ORDER, "nobody asked for certificates now")
            self._signatures.take(item)
        elif type(item) is Noise:
            if self.host is None:
                raise Refused(Fault.OUT_OF_ORDER, "nobody asked for noise now")
            self.host.parameters = self._noise.take(item, self.dealt.directory.users)
        elif type(item) is Result:
            self._delivery.take(item)
            if not self._delivery.due:
                self.log("written", run=self.run)
                self.over = self._dismissed
        elif type(item) is Away:
            self._away = frozenset(item.keys)
        elif type(item) is Over:
            self._dismissed, self.over = True, not self._delivery.due
            self._write_pool()
        else:
            super().hear(key, name, item)

    def carries(self, receiver: int) -> bool:
        return receiver == HOST or 0 <= receiver - self._first < len(self.users)

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self.host is None:
            raise Refused(Fault.OUT_OF_ORDER, "this host has no share yet")
        if self._pool is not None and not 0 <= envelope.sender - self._first < len(self.users):
            self._pool.note(envelope.sender, envelope.receiver, envelope.message)
        if envelope.receiver == HOST:
            for sender, receiver, message in self.host.receive(envelope.sender, envelope.message):
                self.send(sender, receiver, message)
            if type(envelope.message) in (Round, Goodbye):
                self._release()
            elif type(envelope.message) is Roster and self._plan.holder is Holder.PEERS:
                self._dial_members(np.frombuffer(envelope.message.members, dtype="<i8"))
            return ()
        if type(envelope.message) is Assignment and envelope.sender == COORDINATOR:
            self._noise.check(envelope.message.size, self.host.parameters)  # before her label is flipped
        return self.users[envelope.receiver - self._first].receive(envelope.sender, envelope.message)

    def keys_for(self, receiver: int, message: Message) -> Sequence[str]:
        # The common case of a user asking or answering another one at the same host.
        if 0 <= receiver - self._first < len(self.users):
            return (self.key,)
        if receiver == HOST and isinstance(message, Batch | Halt):
            hosts = self._hosts_of(message.cluster)
            return hosts if self._shown_to is None else self._shown_to(message, hosts)
        return super().keys_for(receiver, message)

    def _hosts_of(self, cluster: int) -> list[str]:
        """The hosts of a cluster's users, this one among them."""
        assert self.host is not None
        if cluster not in self._clustered:
            holders = map(self.dealt.holder_of, self.host.rosters.get(cluster, ()))
            self._clustered[cluster] = list(dict.fromkeys(holder.key for holder in holders if holder is not None))
        return self._clustered[cluster]

    def send(self, sender: int, receiver: int, message: Any) -> None:
        if type(message) is Report:
            self._reports.append((sender, message))
        elif type(message) is Done and message.round > self._told:
            self._dones.setdefault(message.round, []).append((sender, message))
            self._stuck.get(message.round, {}).pop(sender, None)
            self._tell_if_all(message.round)
        else:
            if self._pool is not None:
                self._pool.note(sender, receiver, message)
            super().send(sender, receiver, message)
            if type(message) is Ask and self._gone and message.round > self._told:
                self._note_stuck(sender, receiver, message.round)

    def give_up(self, unreached: Sequence[str]) -> None:
        """Some users wait for answers that may never come: say who is done, and from now on whoever is.

        Or they are all done, and what they said does not arrive. Either way the coordinator is told whom this host
        cannot reach.
        """
        if self._dismissed:
            limit = self._scenario.deployment.away_limit
            raise RunError(f"the learner did not hand over the model within {limit:g} seconds; the run itself is done")
        told = [key for key in unreached if key != "coordinator"]
        if told:
            self.say("coordinator", Unreached(told))
        self._unreached = frozenset(told)
        if self.host is not None and not self.done:
            self._tell_done(self.host.closed)

    def _note_stuck(self, user: int, asked: int, round_: int) -> None:
        """Nobody need wait for a user who has asked somebody that is away; an answer in time counts all the same."""
        holder = self.dealt.holder_of(asked)
        if holder is not None and holder.key in self._gone:
            self._stuck.setdefault(round_, {})[user] = None
            self._tell_if_all(round_)

    def _tell_if_all(self, round_: int) -> None:
        """All users of this host are done, or stuck."""
        stuck = self._stuck.get(round_, {})
        if len(self._dones.get(round_, ())) + len(stuck) == len(self.users):
            self._tell_done(round_)
            for part in encode_stuck(round_, sorted(stuck)):
                self.say("coordinator", part)

    @property
    def _gone(self) -> frozenset[str]:
        return self._away | self._unreached

    def _tell_done(self, round_: int) -> None:
        """That users are done is told of all at once, in the order of users: when it is told says nothing of whom."""
        self._told = round_
        self._pass_on(COORDINATOR, self._dones.pop(round_, []))

    def _release(self) -> None:
        """Reports leave when all users of this host were told of the close, in the order of users."""
        assert self.host is not None
        self._dones.pop(self.host.closed - 1, None)  # the round was closed without them
        self._stuck.pop(self.host.closed - 1, None)
        reports, self._reports = self._reports, []
        self._pass_on(LEARNER, reports)

    def _pass_on(self, receiver: int, held: list[tuple[int, Any]]) -> None:
        for user, message in sorted(held, key=lambda pair: pair[0]):
            super().send(user, receiver, message)

    def _take_share(self) -> None:
        directory = self.dealt.directory
        rows, schema = self._rows, self._scenario.data.schema
        assert rows is not None
        assert rows.labels is not None
        mine = self.dealt.by_key.get(self.key)
        if mine is None:
            raise RunError("the coordinator has dealt the shares without this host; it came too late")
        if mine.last - mine.first != self._count:
            raise RunError(f"the coordinator counts {mine.last - mine.first} users of this host, not {self._count}")
        if (directory.features, directory.labels) != (schema.features, len(schema.classes)):
            raise RunError("the coordinator's features and labels are not those of the schema")
        self._first = mine.first
        labels = enumerate(rows.labels.tolist(), mine.first)
        if self._plan.holder is not Holder.PEERS:
            self.host = Host(self._parameters, self._coins, mine.first, mine.last)
            self.users = self._submitters(labels, self.host)
        elif EXCHANGES[self._parameters.exchange].relayed:
            from p2p_labeldp.protocol.onions import Onions  # a host that needs none of it stays small

            assert self._signing is not None
            self._signatures = HostSignatures(self._signing, self.dealt)
            host = MixingHost(self._parameters, self._coins, mine.first, mine.last, Onions(), self._signatures)
            host.run = directory.run
            self.host, self.users = host, [Depositor(user, label, host) for user, label in labels]
            host.member = self._member
        else:
            self.host = Host(self._parameters, self._coins, mine.first, mine.last)
            self.users = [User(user, label, self.host) for user, label in labels]
        if self._scenario.adversaries:
            self._misbehave(rows)
        self.host.defend(self._scenario.defences, self._scenario.clusters)
        self.log("share", first=mine.first, last=mine.last, hosts=len(directory.hosts))
        if self._scenario.clusters.method == "given":
            assert rows.clusters is not None
            for part in encode_column("clusters", rows.clusters):
                self.say("coordinator", part)
        if rows.persons:
            for part in encode_column("people", _digests(rows.persons, directory.run)):
                self.say("coordinator", part)
        self.say("coordinator", Ready(rows.person_rows))
        self._rows = None

    def _member(self, user: int) -> Depositor:
        found = self.users[user - self._first]
        assert isinstance(found, Depositor)
        return found

    def _misbehave(self, rows: Rows) -> None:
        """Put the scenario's adversaries into the places of some users."""
        from p2p_labeldp.deployment.misbehaving import Pool, assignments_of, misbehaving_users, shown_to

        assert self.host is not None
        found = assignments_of(self._scenario, self.dealt.directory.users)
        self.users = misbehaving_users(self._scenario, found, self.users, self.host, rows.features, rows.claims)
        self._pool = Pool.of(found, self.users)
        self._shown_to = shown_to(self.users)

    def _write_pool(self) -> None:
        if self._pool is not None and self._keep_pool is not None:
            self._pool.toss(self._coins, self._rounds, self._first, self._first + len(self.users))
            self._keep_pool(self._pool.to_json(run=self.run))

    def _submitters(self, labels: Iterable[tuple[int, int]], host: Host) -> list[User]:
        """Users who hand their labels over: of mechanisms in which nobody asks anybody."""
        stages, receiver = self._plan.stages, SINGLES[self._plan.holder.value]
        if stages is None:
            return [Submitter(user, label, host, receiver) for user, label in labels]
        return [Responder(user, label, host, stages) for user, label in labels]

    def _begin(self) -> None:
        if self._begun or self.shares is None:
            raise Refused(Fault.OUT_OF_ORDER, "the host has begun, or has no share")
        self._begun = True
        deployment = self._scenario.deployment
        between = gatherer_of(self._scenario)
        self.dials |= {name: getattr(deployment, name) for name in ("learner", "auditor", between)}
        for part in encode_examples(self._first, self._features):
            self.say("learner", part)
        if self._delivery.due:
            self.say("learner", Wanted())
        for user, row in zip(self.users, self._features, strict=True):
            self.send(user.id, *user.hello(Features(row)))
        self._features = self._features[:0]

    def _dial_members(self, members: NDArray[np.int64]) -> None:
        """As few connections as the clusters need: with the hosts whose users share one with this host's."""
        for holder in self.dealt.holders_of(members):
            if holder.key != self.key:
                self.dials[holder.key] = holder.address


def _digests(persons: Sequence[str], run: str) -> NDArray[np.int64]:
    """A number for each row that is the same for one person at any host of a run, and another in the next one."""
    words = (hashlib.sha256(f"{run}\0{person}".encode()).digest()[:8] for person in persons)
    return np.frombuffer(b"".join(words), dtype="<i8").astype(np.int64)
