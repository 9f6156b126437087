"""One program of a deployment: the trio loop around a part, its journal and its connections.

The order of things is what makes a crash harmless. What arrives is written into the journal and acted on; when
the journal is on the disk, and not before, what followed goes out and the peers are told that their
items are safe. Killed before that, nobody has seen anything; killed after it, everything is said again
with the same numbers, and the peers drop what they have.

Whatever lies outside the node it reaches through its ``World``. Steps are taken in a thread, one at a time: to cluster
users or to fit a model may take minutes, and a node that says nothing for ten seconds counts as gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import trio

from p2p_labeldp.data.rows import Rows
from p2p_labeldp.deployment.admission import PROGRAM, SHUNNED, Admission, digest_of, require_own
from p2p_labeldp.deployment.certificates import settle as finish_renewal
from p2p_labeldp.deployment.enrolment import Desk
from p2p_labeldp.deployment.erasure import Mark, RoundKeys
from p2p_labeldp.deployment.invitations import read_allowed
from p2p_labeldp.deployment.journal import (
    EXPIRED,
    JOINED,
    SEALED,
    SETTLED,
    TAKEN,
    Entry,
    Journal,
)
from p2p_labeldp.deployment.logs import Logger
from p2p_labeldp.deployment.making import Making
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.roles import (
    SINGLES,
    gatherer_of,
    require_deployable,
    require_role,
    require_schema,
    singles_of,
)
from p2p_labeldp.deployment.services import serve
from p2p_labeldp.deployment.world import World
from p2p_labeldp.errors import RequestError, RunError
from p2p_labeldp.mechanisms.plan import Holder
from p2p_labeldp.mechanisms.planning import mechanism_of
from p2p_labeldp.network.addresses import EVERYWHERE, format_address, parse_address
from p2p_labeldp.network.frames import Bye, Parting
from p2p_labeldp.network.tls import Transport
from p2p_labeldp.protocol.beforehand import rounds_of
from p2p_labeldp.scenario import EXCHANGES, MECHANISMS, Scenario

TICK = 0.02  # seconds between looks at what has been acknowledged, where that is all that is waited for
COUNT = 0.5  # seconds between two counts, where they are wanted
REMIND = 5.0  # seconds after which a node says for whom it still waits
LONGEST_WORK = 6 * 3600.0  # seconds over the limit that a node which is there may take over the results
BETWEEN = (Parting.DEALT, Parting.JOURNAL, Parting.RUN)  # refusals of a study that is not this node's
ERASED = "erased"  # the fact that says where a node resumes whose secrets of rounds are gone
FAREWELL = 3.0  # seconds a dismissed node stays, so that the coordinator hears that it was; and it, for latecomers


class Node:
    """A role's program. ``place`` is where a learner or an auditor leaves its results, and a user host the model.

    ``rows`` are a user host's own, or the learner's test examples; the others have none.
    """

    def __init__(
        self,
        role: str,
        scenario: Scenario,
        *,
        certificates: Path,
        state: Path,
        place: Path | None = None,
        rows: Rows | None = None,
        enrolment: Path | None = None,
        logger: Logger | None = None,
        world: World | None = None,
        patient: bool = False,
    ) -> None:
        """``patient`` is a node that waits for a study to begin for as long as that takes."""
        require_role(role, scenario)
        require_deployable(scenario)
        require_schema(scenario)
        self._singles = singles_of(scenario)
        self.role = role
        self._world = world or World()
        self.scenario = scenario = scenario.settled(deployed=True)
        self._certificates = certificates
        finish_renewal(certificates)
        self.credentials = self._world.credentials(certificates)
        me = self.credentials.identity
        if me.role != role:
            raise RequestError(f"--certs {certificates}: the certificate is a {me.role}'s, not a {role}'s")
        self.log = logger or Logger(me.name)
        self.log.node = me.name
        self._allowed = read_allowed(scenario.deployment.allow) if role == "coordinator" else None
        self._desk = None
        if role == "coordinator" and enrolment is not None:
            self._desk = Desk(enrolment, self._allowed, scenario.deployment.approve)
        secret = (certificates / "key.pem").read_bytes()
        self.journal = Journal(state, owner=me.fingerprint, secret=secret, disk=self._world.disk)
        if self.journal.dropped:
            self.log("warning", warning=f"a crash left {self.journal.dropped} bytes of the journal unfinished; dropped")
        require_own(self.journal, role, scenario)
        self._mark = Mark()
        """Up to which the secrets of the mixed exchange are erased; the next one waits in ``_next_mark``."""
        self._next_mark: Mark | None = None
        self._entries = 0  # in the journal
        self._keys: RoundKeys | None = None
        if role == "users" and EXCHANGES[scenario.mechanism.exchange].relayed:
            if erased := self.journal.fact(ERASED, ""):
                self._mark = msgspec.json.decode(erased, type=Mark)
            self._keys = RoundKeys(state, self._world.disk, self._world.entropy, self._mark)
        self._part: Part = Making(
            scenario=scenario,
            key=me.key,
            log=self.log,
            world=self._world,
            journal=self.journal,
            certificates=certificates,
            place=place,
            rows=rows,
            run=lambda: self._part.run,
            allowed=self._allowed,
            keys=self._keys,
        ).part(role)
        known = {role: self.journal.fact(f"known {role}", "") for role in self._singles}
        self._admission = Admission(role, scenario, self._part, digest_of(scenario), self._allowed, known)
        self._transport = Transport(
            self.credentials,
            greeting=self._admission.greet,
            admit=self._admission.admit,
            log=self.log,
            sockets=self._world.sockets,
            chance=self._world.chance,
            program=PROGRAM,
        )
        self._dialled: dict[str, str] = {}
        self._dropped: set[str] = set()
        self._joined = False
        self._patient = patient
        self._late = ""
        self._last_seen = 0.0
        self._reminded = 0.0
        self._watched = 0.0
        self._progress: tuple[str, int, int] | None = None
        self._counted = 0.0
        self._counts: dict[object, dict[str, int | str]] = {}
        self._shown = self._part.shown

    # Beginning.

    def _replay(self) -> None:
        """Take everything again that was taken before, and make everything again that was said."""
        taken: Counter[str] = Counter()
        self.log.muted = True
        for count, entry in enumerate(self.journal.entries()):
            if count == self._mark.entries:
                self._resume()
            taken[entry.peer] += entry.kind in (TAKEN, SEALED)
            if (found := self._unsealed(entry)) is not None:
                self._apply(found)
            said = self._part.said()
            for each in said if count >= self._mark.entries else ():
                self._transport.post(*each)
            self._entries += 1
        if self._entries == self._mark.entries:
            self._resume()
        count = self._entries
        self.log.muted = False
        self._shown = self._part.shown
        for key, received in taken.items():
            if received:
                self._transport.restore(key, received)
        if count:
            self.log("replayed", count=count, run=self._part.run)

    def _unsealed(self, entry: Entry) -> Entry | None:
        """What was taken; None where it was said in a round whose key is erased."""
        if entry.kind != SEALED:
            return entry
        if self._keys is None:
            raise RequestError(f"--state {self.journal.path.parent}: the journal is of another exchange")
        body = self._keys.open(entry.body)
        return None if body is None else entry._replace(kind=TAKEN, body=body)

    def _resume(self) -> None:
        """Here the journal can be read again: what was said before is acknowledged, and nobody asks for it."""
        if self._mark.rounds:
            self._part.clock = self._mark.clock
            for key, made in self._mark.said.items():
                self._transport.begin_at(key, made)

    def _apply(self, entry: Entry) -> None:
        self._joined |= entry.kind == JOINED
        self._part.apply(entry)

    # Running.

    async def run(self, started: Callable[[str], None] | None = None) -> None:
        """Play the part to its end. ``started`` is told the address that the node listens at."""
        self._replay()
        listen = self._listen_at()
        if listen.endswith(":0"):  # whatever port is free, but the same one again
            listen = self.journal.fact("listen", listen)
        async with trio.open_nursery() as nursery:
            host, port = await nursery.start(self._transport.run, listen)
            address = format_address(host, port)
            if listen.endswith(":0"):
                self.journal.replace_fact("listen", format_address(parse_address(listen)[0], port))
            self.journal.commit()
            await serve(
                nursery,
                self.scenario.deployment,
                self._part,
                self.health,
                self._desk,
                self._certificates,
                self.credentials,
                self.log,
                self._world.sockets,
            )
            self.log("listening", listen=address, role=self.role)
            self._say_whom_to_trust()
            if started is not None:
                started(address)
            if self.role == "users" and not self._joined:
                entry = Entry(self._world.time(), JOINED, name=format_address(self._advertised(host), port))
                await self._do([entry])
            try:
                await self._play()
            finally:
                if self._part.over or self._part.ended:
                    self._erase_all()
            await self._farewell()
            nursery.cancel_scope.cancel()

    def _say_whom_to_trust(self) -> None:
        """In mechanisms that trust someone, and of those who are: what this node gets to know, and keeps."""
        kind = self.scenario.mechanism.kind
        record = mechanism_of(kind)
        if record.holder is Holder.PEERS:
            return
        self.log("trust", kind=kind, reason=record.trust)
        if self.role in (gatherer_of(self.scenario), "auditor"):
            held = f"every user's {'noisy' if MECHANISMS[kind].flips else 'true'} label, with its owner"
            self.log("warning", warning=f"this node is sent {held}, and its journal keeps them: {self.journal.path}")

    def _listen_at(self) -> str:
        deployment = self.scenario.deployment
        if deployment.listen:
            return deployment.listen
        own: str = "127.0.0.1:0" if self.role == "users" else getattr(deployment, self.role)
        return own

    def _advertised(self, host: str) -> str:
        """Under which name others reach this node, which listens at ``host``."""
        return self.scenario.deployment.advertise or (self._world.hostname() if host in EVERYWHERE else host)

    @property
    def withheld(self) -> list[int]:
        """Clusters that released nothing, since they would not keep the target; known to the learner."""
        return self._part.withheld

    def health(self) -> dict[str, Any]:
        """Nothing in it depends on a label or a coin: whoever reads it may be anyone."""
        return {
            "status": "ok",
            "version": PROGRAM,
            **self._shown,
            "rounds": rounds_of(self.scenario),
            "strangers_refused": self._transport.strangers.count,
            "log_lines_dropped": self.log.dropped,
            "node": self.credentials.identity.name,
            "role": self.role,
            "connected": len(self._transport.connected),
        }

    async def _play(self) -> None:
        part, transport = self._part, self._transport
        stage: object = object()
        whole: object = object()
        deadline = last = float("inf")
        self._last_seen = self._reminded = trio.current_time()
        while not part.over:
            self._dial()
            if part.stage != stage:
                stage = part.stage
                limit = part.limit
                deadline = float("inf") if limit is None else trio.current_time() + limit
                if part.whole[0] != whole:
                    whole, limit = part.whole
                    last = float("inf") if limit is None else trio.current_time() + limit
                deadline = min(deadline, last)
                self._reminded = trio.current_time()
            self._tell_progress()
            self._tell_counts()
            arrivals = None
            if not self._settled:
                with trio.move_on_after(max(TICK, min(REMIND / 5, deadline - trio.current_time()))):
                    arrivals = await transport.receive(or_acknowledged=part.done or self._next_mark is not None)
            if arrivals:
                await self._take(arrivals)
                if part.over or part.stage != stage:
                    continue
            # Limits hold however much a peer has to say.
            now = trio.current_time()
            if self._settled:
                await self._do([Entry(self._world.time(), SETTLED)])
            elif now >= deadline and (not self._at_work() or now >= deadline + LONGEST_WORK):
                hosts = self._everyone() if self.role == "coordinator" else ()
                away = sorted({*self._dialled, *hosts} - transport.connected)
                await self._do([Entry(self._world.time(), EXPIRED, name=",".join(away))])
                deadline = now + (part.limit or float("inf"))
            await self._erase()
            self._watch(now)
        self._tell_counts()

    @property
    def _settled(self) -> bool:
        """Whether there is nothing left to do, and all that was said has arrived."""
        return self._part.done and not any(self._transport.unacknowledged(key) for key in SINGLES)

    def _dial(self) -> None:
        for key, address in self._part.dials.items():
            if self._dialled.get(key) != address and key not in self._part.costs.shunned:
                self._dialled[key] = address
                mutual = self.role == "users" and key not in SINGLES
                self._transport.connect(key, address, mutual=mutual, relay=self.scenario.deployment.relay)

    def _at_work(self) -> bool:
        """Whether the one that the coordinator waits for is there, and takes its time over the results."""
        return self._part.works_for_us in self._transport.connected

    async def _take(self, arrivals: list[Any]) -> None:
        now = self._world.time()
        await self._do([Entry(now, TAKEN, a.key, a.identity.name, a.clock, a.body) for a in arrivals])
        for key in dict.fromkeys(arrival.key for arrival in arrivals):
            # A host that came too late has said nothing that counts: it says the same when the next study begins.
            if key not in self._part.costs.shunned | self._part.late:
                self._transport.acknowledge(key)

    async def _do(self, entries: list[Entry]) -> None:
        """Journal, act, commit, and only then let anyone know."""
        for key, clock, body in await self._world.work(self._step, entries):
            self._transport.post(key, clock, body)
        if self._keys is not None and self._part.closed > max(self._mark.rounds, self._keys.erased):
            self._mark_round()
        self._shown = self._part.shown
        for key in sorted(self._part.costs.shunned - self._dropped):
            self._dropped.add(key)
            self._transport.close_peer(key, SHUNNED, Parting.SHUNNED)
        for key in sorted(self._part.late - self._dropped):
            self._dropped.add(key)
            self._transport.close_peer(key, self._admission.too_late(), Parting.DEALT)

    def _step(self, entries: list[Entry]) -> list[tuple[str, int, bytes]]:
        said: list[tuple[str, int, bytes]] = []
        while self._admission.met:
            role, fingerprint = self._admission.met.popitem()
            self.journal.replace_fact(f"known {role}", fingerprint)
        for entry in entries:
            if entry.kind == TAKEN and not self._part.costs.admits(entry.peer, entry.name, len(entry.body)):
                continue
            self.journal.append(self._sealed(entry))
            self._entries += 1
            self._apply(entry)
            said += self._part.said()
        self.journal.commit()
        return said

    def _sealed(self, entry: Entry) -> Entry:
        """As the journal holds it: what another user host said can be read for as long as the round's key is there."""
        if self._keys is None or entry.kind != TAKEN or entry.peer in SINGLES:
            return entry
        return entry._replace(kind=SEALED, body=self._keys.seal(self._part.closed, entry.body))

    def _mark_round(self) -> None:
        """A round is over: what was said until now must arrive before its key may go."""
        closed = self._part.closed
        if self._next_mark is None or self._next_mark.rounds < closed:
            assert self._keys is not None
            said = self._transport.made()
            self._next_mark = Mark(closed, self._keys.erased, self._entries, self._part.clock, said)

    async def _erase(self) -> None:
        """The secrets of rounds that are over, once everything that was said in them has arrived."""
        mark = self._next_mark
        if self._keys is None or mark is None or not self._transport.all_acknowledged(mark.said):
            return
        self._next_mark, self._mark = None, mark
        await self._world.work(self._erase_before, mark)

    def _erase_before(self, mark: Mark) -> None:
        """First the word that it is done, then the deed: a crash between the two does it again."""
        assert self._keys is not None
        self.journal.replace_fact(ERASED, msgspec.json.encode(mark).decode())
        self.journal.commit()
        self._keys.erase(mark.rounds)
        self.log("erased", count=mark.rounds)

    def _erase_all(self) -> None:
        """The run is over for this node: nothing of it is resumed that any secret is needed for."""
        if self._keys is not None:
            rounds = max(self._part.closed, self.scenario.mechanism.rounds) + 1
            said = self._transport.made()
            self._erase_before(Mark(rounds, self._keys.erased, self._entries, self._part.clock, said))

    def _watch(self, now: float) -> None:
        """Say for whom this node waits, and give up when the coordinator stays away for too long."""
        if now - self._watched < TICK:
            return
        self._watched = now
        self._transport.drop_revoked()
        connected = self._transport.connected
        if self.role == "coordinator" or "coordinator" in connected:
            self._last_seen = now
        limit = 2 * self.scenario.deployment.away_limit
        refused = self._transport.refusals.get("coordinator")
        if self._patient and self._part.shares is None:
            self._wait_for_next(refused, now)
            refused = None
        if refused is not None and refused.code == Parting.JOURNAL:
            why = f"the journal of this run is not there, or not all of it ({refused.reason}); name the folder"
            raise RequestError(f"--state {self.journal.path.parent}: {why} that this node has run with")
        if refused is not None and refused.code.final:
            raise RequestError(f"the coordinator refuses this node: {refused.reason}")
        if self._admission.misfit:
            raise RequestError(f"this node and the coordinator cannot work together: {self._admission.misfit}")
        if now - self._last_seen > limit:
            raise RunError(f"the coordinator stayed away for {limit:g} seconds")
        if now - self._reminded >= REMIND:
            self._reminded = now
            self._transport.strangers.tell()
            away = sorted(self._name(key) for key in self._dialled if key not in connected)
            self.log("waiting", **{"for": self._part.waits_for, "missing": ", ".join(away)})

    def _wait_for_next(self, refused: Bye | None, now: float) -> None:
        """No study has begun for this node: one that is under way, or at its end, is not its own."""
        if refused is not None and refused.code not in BETWEEN:
            raise RequestError(f"the coordinator refuses this node: {refused.reason}")
        self._last_seen = now
        if refused is not None and refused.reason != self._late:
            self._late = refused.reason
            self.log("late", reason=f"it waits for the next study: {refused.reason}")

    def _name(self, key: str) -> str:
        shares = self._part.shares
        holder = None if shares is None else shares.by_key.get(key)
        return key if holder is None else holder.name

    def _tell_progress(self) -> None:
        found = self._part.progress
        if found is not None and found != self._progress:
            self._progress = found
            self.log("progress", phase=found[0], done=found[1], total=found[2])

    def _tell_counts(self) -> None:
        """For an operator who wants them; what has not changed is not said again."""
        now = trio.current_time()
        if not self.scenario.deployment.counts or (now - self._counted < COUNT and not self._part.over):
            return
        self._counted = now
        for event, facts in self._part.counts():
            which = event, facts.get("kind", facts.get("first"))
            if self._counts.get(which) != facts:
                self._counts[which] = facts
                self.log(event, **facts)

    async def _farewell(self) -> None:
        """Everyone was told to go: the coordinator stays until they have heard it, the others until it has.

        The learner stays until the hosts that asked for the model have it.
        """
        transport = self._transport
        first = self.role == "coordinator"
        begun, met = trio.current_time(), trio.Event()

        # Who has heard it is written down: a coordinator that is killed now finds nobody there to tell it again.
        dismissed = set(self.journal.fact("dismissed", "").split()) if first else set()

        def stays() -> bool:
            if first:
                told = transport.connected if self._part.failure else self._everyone()
                heard = {key for key in told if not transport.unacknowledged(key)} - dismissed
                if heard:
                    dismissed.update(heard)
                    self.journal.replace_fact("dismissed", " ".join(sorted(dismissed)))
                    self.journal.commit()
                # Whoever comes too late is told so, if it has begun to introduce itself; strangers keep nobody here.
                late = transport.callers > 0 and trio.current_time() < begun + FAREWELL
                return any(key not in dismissed for key in told) or late
            if "coordinator" in transport.connected:
                met.set()
                return True
            # Heard on a connection that is gone: the coordinator, too, may have been killed, and comes to ask.
            return transport.unacknowledged("coordinator") > 0 or not met.is_set()

        self._dial()  # a node that was killed in the middle of this has not met anyone yet
        owed = self._part.asked
        with trio.move_on_after(self.scenario.deployment.away_limit):
            while any(transport.unacknowledged(key) for key in owed):  # noqa: ASYNC110 - likewise
                await trio.sleep(TICK)
        with trio.move_on_after(self.scenario.deployment.away_limit if first else FAREWELL):
            while stays():  # noqa: ASYNC110 - acknowledgements wake nobody
                await trio.sleep(TICK)
        self.log("left", run=self._part.run)
        if self._part.failure:
            raise self._part.failure

    def _everyone(self) -> list[str]:
        shares = self._part.shares
        hosts = [
            holder.key for holder in (shares.hosts if shares else ()) if holder.key not in self._part.costs.shunned
        ]
        return [*self._singles[1:], *hosts]
