"""The coordinator's part: gathers hosts, deals shares, lets the role run, and sees the deployment to its end.

    GATHERING --every host, or the limit--> MEETING --everyone knows everyone--> RUNNING
    --> CLOSING (all that was said has arrived) --> TRACING --> WRITING --> LEAVING

It loads no data: how many users there are it learns from the hosts (``deployment.shares``), and their features from
the users' hellos. No label reaches it, and no digest of labels either, from which those of a few users could be
guessed. Where rows are told apart by person it gets a digest of each person's name, so that nobody takes part at two
hosts; it can recognise those whose names it can guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse  # noqa: F401 - by which rosters are made: loaded before everyone waits for them
from numpy.typing import NDArray

from p2p_labeldp.deployment.absence import Absence
from p2p_labeldp.deployment.certified import CertifiedKey, HostSignatures, encode_certificates
from p2p_labeldp.deployment.items import (
    LARGEST_FEATURE,
    Away,
    Begin,
    Column,
    Declined,
    Directory,
    Ended,
    Facts,
    Finish,
    Holder,
    Item,
    Join,
    Noise,
    Over,
    Progress,
    Quiet,
    Ready,
    Stuck,
    Traced,
    Unreached,
    Written,
    encode_column,
    whole_numbers,
)
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.misbehaving import assignments_of, misbehaving_coordinator
from p2p_labeldp.deployment.parts import EPOCH, Part
from p2p_labeldp.deployment.phases import (
    CLOSING,
    GATHERING,
    LEAVING,
    MEETING,
    RUNNING,
    TRACING,
    TRANSITIONS,
    WRITING,
    Phase,
)
from p2p_labeldp.deployment.roles import SINGLES, gatherer_of, singles_of
from p2p_labeldp.deployment.shares import Columns, Gathering
from p2p_labeldp.errors import CheckError, RequestError, RunError
from p2p_labeldp.mechanisms.mixing import Secrets
from p2p_labeldp.network.frames import MAX_REASON
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.assembly import Mixing
from p2p_labeldp.protocol.beforehand import parameters_of
from p2p_labeldp.protocol.coordinator import HELLOS, Coordinator
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    Closed,
    Committed,
    Fault,
    Message,
    Opened,
    Outgoing,
    Refused,
    Roster,
    Stop,
)
from p2p_labeldp.protocol.mixing_coordinator import MixingCoordinator
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.wire import Envelope
from p2p_labeldp.runs.clusters import ClusterPlan
from p2p_labeldp.runs.resolve import resolve
from p2p_labeldp.scenario import EXCHANGES, MECHANISMS, Scenario

DUE: dict[Phase, type[Item]] = {MEETING: Ready, CLOSING: Quiet, TRACING: Traced, WRITING: Written}
"""What those that are awaited say in a phase."""
COUNTED, COUNTED_A_LINE = 48, 12  # clusters of which the log says how many are done, where it is to


class CoordinatorPart(Part):
    address = COORDINATOR

    def __init__(
        self,
        key: str,
        log: Log,
        scenario: Scenario,
        name: str,
        root: bytes = b"",
        expected: Sequence[str] = (),
        signing: CertifiedKey | None = None,
    ) -> None:
        """``name`` is the run's; ``root`` is what its nonces of the mixed exchange are made from, and ``signing`` what
        it checks others' signatures by.

        ``expected`` are names, or keys, of hosts that may join.
        """
        super().__init__(key, log, scenario)
        self._root, self._signing = root, signing
        self._holders: dict[int, list[str]] = {}  # by cluster, the hosts of its users
        self._run_name = name
        self.phase: Phase = GATHERING
        self.role: Coordinator | None = None
        self._gathering = Gathering(scenario, name)
        self._joined = self._gathering.joined
        self._awaited: set[str] = set()
        self._columns: Columns | None = None
        self._person_rows = 1
        self._noise: Noise | None = None
        self._noise_said = False
        self._unconnected: frozenset[str] = frozenset()  # when a limit was last over
        self._spoke: set[str] = set()  # hosts, in the stage of the role that is
        self._spoke_in: object = (HELLOS, -1)
        self._prolonged = False  # whether hosts were given more time, as another node was away
        self._expected = expected
        self._away_said: frozenset[int] = frozenset()
        self._progress_told: Progress | None = None
        self._kinds: dict[str, int] = {}
        self._closed = 0
        deployment = scenario.deployment
        self._others = singles_of(scenario)[1:]
        self._absence = Absence(self._others)
        self._gatherer = gatherer_of(scenario)
        # Whether the flips for an epsilon, or the relays that withstand colluders, follow from the clusters, so that
        # hosts are told of them.
        self._targets = scenario.mechanism.epsilon > 0 and MECHANISMS[scenario.mechanism.kind].by_cluster
        self._tells_noise = self._targets or scenario.mechanism.withstand > 0
        self.dials |= {name: getattr(deployment, name) for name in self._others}

    @property
    def run(self) -> str:
        return self._run_name

    @property
    def _hosts(self) -> list[Holder]:
        return self.dealt.hosts

    @property
    def _running(self) -> Coordinator:
        """The role, from when the run begins."""
        assert self.role is not None
        return self.role

    @property
    def closed(self) -> int:
        return self._closed

    @property
    def stage(self) -> object:
        if self.phase == GATHERING:
            return self.phase, len(self._joined)
        if self.phase == RUNNING:
            return self.phase, self._running.stage
        # Whoever is heard from shows that there is progress.
        return self.phase, len(self._awaited)

    @property
    def limit(self) -> float | None:
        deployment = self._scenario.deployment
        enough = len(self._joined) >= max(1, deployment.minimum_hosts)
        if self.phase == GATHERING and enough and deployment.hosts == 0:
            return deployment.settle
        if self.phase == RUNNING:
            return self._running.limit
        if self.phase == CLOSING and self._gatherer != "learner":
            # Labels of a host that is lost are waited for there, before anything is passed on.
            return deployment.away_limit + self._scenario.network.round_limit
        return deployment.away_limit

    @property
    def whole(self) -> tuple[object, float | None]:
        """Those that come one after another prolong the wait for the next, but not for ever."""
        first_came = self.phase == GATHERING and bool(self._joined)
        return (self.phase, first_came), self._scenario.deployment.away_limit if first_came else None

    @property
    def waits_for(self) -> str:
        if self.phase == GATHERING:
            wanted = self._scenario.deployment.hosts
            return f"user hosts: {len(self._joined)} came" + (f" of {wanted}" if wanted else "")
        if self.phase == RUNNING:
            return f"{self._running.awaited} users in phase {self._running.phase}"
        return ", ".join(sorted(self._name(key) for key in self._awaited))

    @property
    def shown(self) -> dict[str, Any]:
        """How many users are awaited is for this node's own log: when a host is done follows from whom its users asked,
        and where it has one user that she was done at once says that she asked herself."""
        if self.phase == RUNNING:
            return super().shown | {"waits_for": f"users in phase {self._running.phase}"}
        return super().shown

    @property
    def progress(self) -> tuple[str, int, int] | None:
        if self.phase == GATHERING:
            return "hosts", len(self._joined), self._scenario.deployment.hosts
        if self.phase == RUNNING:
            total = self.dealt.directory.users
            return self._running.phase, total - self._running.awaited, total
        return self.phase, 0, 0

    def counts(self) -> Iterator[tuple[str, dict[str, int | str]]]:
        """Of each cluster, as many as a few lines hold, how many are done and how many it has; how many are full."""
        if self.role is None or self.phase == GATHERING:
            return
        heard, sizes = (each.tolist() for each in self.role.filled())
        pairs = [(done, size) for done, size in zip(heard, sizes, strict=True) if size]
        full = sum(done == size for done, size in pairs)
        for first in range(0, min(len(pairs), COUNTED), COUNTED_A_LINE):
            some = " ".join(f"{done}/{size}" for done, size in pairs[first : first + COUNTED_A_LINE])
            yield "filled", {"first": first, "clusters": some, "done": full, "total": len(pairs)}

    @property
    def works_for_us(self) -> str:
        return {TRACING: "auditor", WRITING: "learner"}.get(self.phase, "")

    def may_join(self, key: str) -> bool:
        """Whether a user host is one of this run, or may still become one."""
        return self.phase == GATHERING or key in self._joined

    def take(self, key: str, name: str, clock: int, body: bytes, now: float) -> None:
        self._spoke.add(key)
        if self.phase == RUNNING:
            for place in sorted(self._running.away):
                if self._hosts[place].key == key:
                    self._running.welcome(place)
                    self._say_away()
        super().take(key, name, clock, body, now)

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Join:
            self._join(key, name, item)
        elif type(item) is Column and self.phase == MEETING:
            assert self._columns is not None
            self._columns.take(key, item)
        elif self._awaits(key, type(item)):
            if isinstance(item, Traced):
                self._kinds = item.kinds
            if isinstance(item, Ready) and self.shares is not None and key in self.shares.by_key:
                here = self.shares.by_key[key]
                self._person_rows = max(self._person_rows, min(item.person_rows, here.last - here.first))
            self._heard(key)
        elif type(item) is Stuck:
            self._excuse(key, item)
        elif type(item) is Unreached:
            known = () if self.shares is None else self.shares.by_key
            for other in self._absence.note_unreached(key, item.keys, known):
                self.log("unreached", host=name, peer=self._name(other))
        elif type(item) is Quiet and self._absence.is_lost(key):
            pass  # it is back, too late to be waited for
        else:
            super().hear(key, name, item)

    def _awaits(self, key: str, kind: type[Item]) -> bool:
        """Whether a node's word that it is ready, or done, is due; only the learner may be done before the rounds."""
        due = DUE.get(self.phase) is kind or (kind, self.phase, key) == (Quiet, RUNNING, "learner")
        return due and key in self._awaited

    def give_up(self, unreached: Sequence[str]) -> None:
        """Go on without those who stayed away, if that makes sense."""
        self._unconnected = frozenset(unreached)
        away = ", ".join(sorted(self._name(key) for key in self._awaited))
        limit = self._scenario.deployment.away_limit
        if self.phase == GATHERING:
            if not self._joined:
                self._end(RunError(f"no user host came within {limit:g} seconds"))
                return
            self._deal()
        elif self.phase == RUNNING:
            self.log("limit", phase=self._running.phase, missing=self._running.awaited)
            try:
                said = self._running.expire()
            except (CheckError, RequestError) as error:
                self._end(error)
                return
            for to, message in self._and_advance(said):
                self.send(COORDINATOR, to, message)
        elif singles := self._awaited & {*self._others}:
            missing = " and ".join(self._name(key) for key in sorted(singles))
            self._end(RunError(f"{missing} stayed away for {limit:g} seconds"))
        elif (
            self.phase == CLOSING
            and not self._prolonged
            and (node := self._absence.keeps_waiting(unreached, self._awaited))
        ):
            # Hosts that say so are there: it is not they who stayed away.
            self._prolonged = True
            self.log("away", nodes=self._name(node), phase=self.phase)
        elif self.phase == CLOSING and (node := self._absence.reached_by_nobody(holder.key for holder in self._hosts)):
            who = ", ".join(sorted(self._name(key) for key in self._absence.unreached))
            address = getattr(self._scenario.deployment, node)
            self._end(RunError(f"no user host could reach the {node} at {address}: not {who}"))
        else:
            self.log("away", nodes=away, phase=self.phase)
            if self.phase == CLOSING:
                self._absence.lost += [holder for holder in self._hosts if holder.key in self._awaited]
            self._awaited.clear()
            self._advance()

    def receive(self, envelope: Envelope) -> Iterable[Outgoing]:
        if self.role is None or self.phase not in (RUNNING, CLOSING):
            raise Refused(Fault.OUT_OF_ORDER, f"the coordinator is {self.phase}")
        try:
            said = self.role.receive(envelope.sender, envelope.message)
        except (CheckError, RequestError) as error:
            self._end(error)
            return ()
        return self._and_advance(said) if said else ()

    def send(self, sender: int, receiver: int, message: Any) -> None:
        if type(message) is Closed:  # the first word on the end of a round
            self._closed = message.round + 1
            self.clock = max(self.clock, self._closed * EPOCH)
        super().send(sender, receiver, message)

    def keys_for(self, receiver: int, message: Message) -> Sequence[str]:
        if receiver != HOST:
            return super().keys_for(receiver, message)
        if type(message) is Roster:
            members = np.frombuffer(message.members, dtype="<i8")
            keys = [holder.key for holder in self._hosts if _any_between(members, holder.first, holder.last)]
            known = self._holders.setdefault(message.cluster, [])
            known += [key for key in keys if key not in known]
            return keys
        if isinstance(message, Committed | Opened | Stop):
            return self._holders.get(message.cluster, [])
        return [holder.key for holder in self._hosts]

    def _excuse(self, key: str, item: Stuck) -> None:
        """A host says that some of its users wait for hosts that are away."""
        holder = None if self.shares is None else self.shares.by_key.get(key)
        users = np.unique(whole_numbers(item.users))
        if holder is None or len(users) == 0 or users[0] < holder.first or users[-1] >= holder.last:
            raise Refused(Fault.MISDIRECTED, "a host speaks for its own users")
        if self.role is None or self.phase != RUNNING:
            raise Refused(Fault.OUT_OF_ORDER, f"the coordinator is {self.phase}")
        try:
            said = self.role.excuse(item.round, users)
        except (CheckError, RequestError) as error:
            self._end(error)
            return
        for to, message in self._and_advance(said) if said else ():
            self.send(COORDINATOR, to, message)

    def _and_advance(self, said: Iterable[Outgoing]) -> Iterator[Outgoing]:
        """What the role says; the phase changes once all of it is said."""
        self._note_who_is_there()
        self._say_noise()
        self._say_away()
        yield from said
        self._advance()
        self._tell_progress()

    def _note_who_is_there(self) -> None:
        """A host none of whose users was heard of is not away if it has spoken itself, or was connected all the same:
        they may all have asked somebody who is."""
        role, gone = self._running, self._unconnected - self._spoke
        role.away = frozenset(place for place in role.away if self._hosts[place].key in gone)
        if role.stage[:2] != self._spoke_in:
            self._spoke_in = role.stage[:2]
            self._spoke.clear()

    def _go(self, phase: Phase) -> None:
        assert phase in TRANSITIONS[self.phase], f"{phase} after {self.phase}"
        self.phase = phase
        self._tell_progress()

    # Gathering and meeting.

    def _join(self, key: str, name: str, join: Join) -> None:
        if key in SINGLES:
            raise Refused(Fault.MISDIRECTED, "only user hosts join")
        if self.phase != GATHERING:
            if key not in self._joined:
                self.late.add(key)
            raise Refused(Fault.OUT_OF_ORDER, "shares are dealt already")
        if wrong := self._uncertified(key, join) or self._gathering.offer(key, name, join):
            self._decline(key, name, wrong)
            return
        self.log("joined", host=name, hosts=len(self._joined))
        if len(self._joined) == self._scenario.deployment.hosts:
            self._deal()

    def _uncertified(self, key: str, join: Join) -> str:
        """What is wrong with the certificate by which others are to check what a host signs."""
        if self._signing is not None:
            try:
                self._signing.check_of(key, join.chain)
            except ValueError as error:
                return str(error)
        return ""

    def _decline(self, key: str, name: str, reason: str) -> None:
        self.log("refused", peer=name, kind="join", fault="malformed", reason=reason)
        self.say(key, Declined(reason))

    def _deal(self) -> None:
        """Ids for everyone's users; a host that never came has none."""
        self._note_never_joined()
        hosts, schema = self._gathering.holders(), self._scenario.data.schema
        users = hosts[-1].last
        count = self._scenario.clusters.count
        if self._scenario.clusters.method == "kmeans" and count > users:
            why = f"clusters.count = {count} is not allowed; it must be at most the users, {users}"
            self._end(RequestError(why))
            return
        if short := self._shortage(len(hosts), users):
            self._end(CheckError(short))
            return
        self.know(Directory(self._run_name, self.now, users, schema.features, len(schema.classes), hosts))
        self._columns = Columns(self.dealt)
        self._go(MEETING)
        everyone = [holder.key for holder in hosts] + self._others
        self._awaited = set(everyone)
        for key in everyone:
            self.say(key, self.dealt.directory)
        self.log("dealt", hosts=len(hosts), users=users)

    def _shortage(self, hosts: int, users: int) -> str:
        """What the scenario asks for and these do not fulfil; empty where there is nothing."""
        wanted = self._scenario.deployment
        if hosts < wanted.minimum_hosts:
            who = f" ({', '.join(self._absence.hosts)})" if self._absence.hosts else ""
            return f"{hosts} user hosts take part; deployment.minimum_hosts is {wanted.minimum_hosts}{who}"
        if users < wanted.minimum_users:
            return f"{users} users take part; deployment.minimum_users is {wanted.minimum_users}"
        return ""

    def _require_enough(self, users: NDArray[np.int64]) -> None:
        if short := self._shortage(len(self.dealt.holders_of(users)), len(users)):
            raise CheckError(short)

    def _note_never_joined(self) -> None:
        came = {*self._joined, *(name for name, _ in self._joined.values())}
        wanted = self._scenario.deployment.hosts or len(self._expected)
        lacking = wanted - len(self._joined)
        if lacking > 0:
            self._absence.note_never_joined(self._expected, came, lacking, wanted)
            self.log("away", nodes=", ".join(self._absence.never_joined), phase=self.phase)

    def _end(self, why: RequestError | RunError) -> None:
        """Before the run's end: everyone is told why, and goes."""
        self._go(LEAVING)
        self.failure = why
        status: Literal[1, 2, 3] = 1 if isinstance(why, CheckError) else 2 if isinstance(why, RequestError) else 3
        for key in [*self._joined, *self._others]:
            self.say(key, Ended(str(why)[:MAX_REASON], status))
        self.over = True

    def _heard(self, key: str) -> None:
        self._awaited.discard(key)
        if not self._awaited or self.phase == RUNNING:
            self._advance()

    def _begin(self) -> None:
        assert self._columns is not None
        if found := self._columns.shared_people():
            self._end(RequestError(found))
            return
        directory, network = self.dealt.directory, self._scenario.network
        users = directory.users
        given = self._columns.clusters if self._scenario.clusters.method == "given" else None
        self._plan = ClusterPlan(self._scenario, users, given)
        parameters = parameters_of(self._scenario, directory.labels)
        made: Callable[..., Coordinator] = Coordinator
        if EXCHANGES[parameters.exchange].relayed:
            made = partial(MixingCoordinator, mixing=self._mixing(parameters))
        self.role = made(
            users,
            directory.features,
            self._rounds,
            self._cluster,
            network.hello_limit,
            network.round_limit,
            SINGLES[self._gatherer],
            # The flips are worked out for the clusters that came about, so that each of them keeps it if all take part.
            target=(lambda size: True) if self._targets else None,
        )
        self.role.hosts = [(holder.first, holder.last) for holder in self._hosts]
        self.role.require = self._require_enough
        if self._scenario.defences.check_assignment:
            self.role.centres = self._plan.centres
        if self._scenario.adversaries:
            self.role = misbehaving_coordinator(self._scenario, assignments_of(self._scenario, users), self.role)
        self._spoke.clear()
        self._go(RUNNING)
        self._awaited = {holder.key for holder in self._hosts} | {"learner", self._gatherer}
        self._tell_hosts(Begin())
        self.log("begun", users=users)

    def _mixing(self, parameters: Parameters) -> Mixing:
        """What it needs for the mixed exchange; the hosts are told each other's certificates."""
        assert self._signing is not None
        signatures = HostSignatures(self._signing, self.dealt)
        for part in encode_certificates([self._joined[holder.key][1].chain for holder in self._hosts]):
            signatures.take(part)
            self._tell_hosts(part)
        secrets = Secrets(self._root)
        return Mixing(Onions(), signatures, secrets, parameters.relays, parameters.minimum_size, self._run_name)

    def _cluster(self, ids: NDArray[np.int64], features: NDArray[np.float32]) -> NDArray[np.int64]:
        """What the role asks for once all hellos are in; the flips for an epsilon follow from it."""
        found = self._plan(ids, np.clip(features, -LARGEST_FEATURE, LARGEST_FEATURE, out=features))
        if MECHANISMS[self._scenario.mechanism.kind].by_cluster:
            self._noise = self._noise_for(np.bincount(found).tolist())
        self.log("clustered", clusters=int(found.max(initial=-1)) + 1, users=len(ids))
        return found

    def _noise_for(self, sizes: list[int]) -> Noise:
        directory = self.dealt.directory
        resolved = resolve(self._scenario, labels=directory.labels, users=directory.users, sizes=sizes)
        parameters = resolved.plan.parameters
        if not self._scenario.mechanism.withstand:
            return Noise(parameters.alpha, resolved.delta)
        assert isinstance(self.role, MixingCoordinator)
        least = max(self.role.mixing.least, parameters.relays)
        self.role.mixing = replace(self.role.mixing, relays=parameters.relays, least=least)
        return Noise(parameters.alpha, resolved.delta, parameters.relays)

    def _say_noise(self) -> None:
        """Before anything else that follows from the clusters."""
        if self._noise is None or self.phase != RUNNING or self._noise_said or not self._tells_noise:
            return
        self._noise_said = True
        self._tell_hosts(self._noise)

    def _tell_progress(self) -> None:
        """To everyone, when a stage is over: the phase, and the rounds that are closed."""
        found = Progress(self.phase, self._closed, self._rounds)
        if self.phase != MEETING and found != self._progress_told and self.shares is not None:
            self._progress_told = found
            self._tell_everyone(found)

    def _say_away(self) -> None:
        """To the others, before the next round: whose users they need not wait for."""
        away = self._running.away
        if away == self._away_said:
            return
        self._away_said = away
        keys = [self._hosts[place].key for place in sorted(away)]
        for holder in self._hosts:
            if holder.key not in keys:
                self.say(holder.key, Away(keys))

    def _tell_hosts(self, item: Item) -> None:
        for holder in self._hosts:
            self.say(holder.key, item)

    def _tell_everyone(self, item: Item) -> None:
        self._tell_hosts(item)
        for key in self._others:
            self.say(key, item)

    # Seeing it to its end.

    def _advance(self) -> None:
        """Take whatever steps are due."""
        if self.phase == RUNNING and self._running.finished:
            self._go(CLOSING)
            self._lose_those_away()
            self.log("exchanged", missing=len(self._missing_users()))
        if self._awaited:
            return
        if self.phase == MEETING:
            self._begin()
        elif self.phase == CLOSING:
            self._go(TRACING)
            self._awaited = {"auditor"}
            self.say("auditor", Finish(self._absence.hosts))
        elif self.phase == TRACING:
            self._go(WRITING)
            self._awaited = {"learner"}
            self._tell_facts()
        elif self.phase == WRITING:
            self._go(LEAVING)
            self._tell_everyone(Over())
            self.over = True

    def _lose_those_away(self) -> None:
        """Hosts of which nobody took part in the last round have been waited for: once is enough."""
        lost = self._absence.lost = [self._hosts[place] for place in sorted(self._running.away)]
        self._awaited -= {holder.key for holder in lost}
        if lost:
            self.log("away", nodes=", ".join(self._absence.hosts), phase=self.phase)

    def _tell_facts(self) -> None:
        role = self._running
        noise = self._noise or Noise(self._scenario.mechanism.alpha, self._scenario.privacy.delta)
        for part in encode_column("clusters", role.clusters):
            self.say("learner", part)
        for part in encode_column("missing", np.array(self._missing_users(), dtype=np.int64)):
            self.say("learner", part)
        unreached = [
            (self._name(key), self._name(other))
            for key, found in self._absence.unreached.items()
            for other in sorted(found)
        ]
        facts = Facts(
            outcomes=[dict(attendance.outcomes) for attendance in role.attendance],
            missing_hosts=self._absence.hosts,
            kinds=self._kinds,
            merged=self._plan.merged,
            alpha=noise.alpha,
            delta=noise.delta,
            unreached=unreached,
            withheld=role.withheld,
            person_rows=self._person_rows,
            warnings=[warning[:MAX_REASON] for warning in role.warnings],
            stopped=role.stopped,
            reduced=role.reduced,
        )
        self.say("learner", facts)

    def _missing_users(self) -> list[int]:
        missing = {*self._running.absent, *(user for seen in self._running.attendance for user in seen.missing)}
        return sorted(missing | self._absence.users)

    def _name(self, key: str) -> str:
        return self._joined[key][0] if key in self._joined else f"the {key}"


def _any_between(ascending: NDArray[np.int64], first: int, last: int) -> bool:
    place = int(np.searchsorted(ascending, first))
    return place < len(ascending) and int(ascending[place]) < last
