"""The actors engine: one trio task per user (or per cluster), mailboxes in memory, virtual time.

An actor is a thin loop around a role: take what is in the mailbox, let the role act, send what it says.
The coordinator and the learner empty their mailboxes per wake-up and are the only ones with timers, so
that a limit on every wait costs nothing per user. Users end with a message, not by being cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from itertools import islice

import trio
from trio.lowlevel import checkpoint, wait_task_rescheduled
from trio.testing import MockClock

from p2p_labeldp.collector import quiet_collector
from p2p_labeldp.engines.outcome import Outcome, Population
from p2p_labeldp.errors import RunError, leaves
from p2p_labeldp.mechanisms import Coins, Holder, Plan, PriorOf, Randomness
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.network.memory import Mailbox, MemoryNetwork, OnBatch
from p2p_labeldp.protocol.assembly import Mixing
from p2p_labeldp.protocol.auditor import Auditor, Record
from p2p_labeldp.protocol.coordinator import Coordinator, Target
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.intermediary import Curator, Intermediary, Shuffler
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    PARTIES,
    Features,
    Outgoing,
    Refused,
    Roster,
    kind_of,
    name_of,
)
from p2p_labeldp.protocol.mixing_coordinator import MixingCoordinator
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.sealing import Cipher, Vault
from p2p_labeldp.protocol.submitter import Responder, Submitter
from p2p_labeldp.protocol.user import LEFT, User
from p2p_labeldp.scenario import EXCHANGES, Network
from p2p_labeldp.streams import KeyedStream, Purpose

_MANY = 2_000  # users from whom on the collector's work is worth saving
STRIDE = 8192  # messages of a broadcast sent before others get a turn; bounds what waits in mailboxes


class Simulation:
    """One run of the protocol in memory."""

    def __init__(
        self,
        population: Population,
        plan: Plan,
        coins: Coins,
        settings: Network,
        *,
        hosting: str = "user",
        seed: int = 0,
        randomness: Randomness | None = None,
        prior_of: PriorOf | None = None,
        target: Target | None = None,
        faults: Faults | None = None,
        cipher: Cipher | None = None,
        write: Callable[[bytes], object] = lambda _: None,
        on_batch: OnBatch | None = None,
    ) -> None:
        count = len(population.labels)
        parameters = plan.parameters
        self.population = population
        self.hosting = hosting
        self.seed = seed
        self.faults = faults
        self.auditor = Auditor()
        self.network = MemoryNetwork(
            count,
            self.auditor,
            write,
            latency=settings.latency,
            jitter=settings.jitter,
            draws=KeyedStream(seed, Purpose.NETWORK),
            faults=faults,
            on_batch=on_batch,
        )
        self.intermediary: Intermediary | None = None
        self.users: list[User]
        mixing: Mixing | None = None
        labels = enumerate(population.labels.tolist())
        if EXCHANGES[parameters.exchange].relayed:
            host = MixingHost(parameters, coins, 0, count, cipher or Vault())
            host.member = lambda user: self.users[user]  # type: ignore[assignment,return-value]
            self.host: Host = host
            self.users = [Depositor(i, label, host) for i, label in labels]
            mixing = Mixing(host.cipher, host.signatures, host.secrets, parameters.relays, parameters.minimum_size)
        else:
            self.host = Host(parameters, coins, 0, count)
            if plan.holder is Holder.PEERS:
                self.users = [User(i, label, self.host) for i, label in labels]
            elif plan.stages is None:
                receiver = PARTIES[plan.holder.value]
                self.users = [Submitter(i, label, self.host, receiver) for i, label in labels]
            else:
                self.users = [Responder(i, label, self.host, plan.stages) for i, label in labels]
        # The last word on a round comes no later than this, whatever is lost on the way.
        patience = settings.hello_limit + (parameters.rounds + 1) * settings.round_limit
        teller = COORDINATOR
        if plan.work is not None:
            assert randomness is not None
            kind = Shuffler if plan.holder is Holder.SHUFFLER else Curator
            work = partial(plan.work, randomness=randomness)
            self.intermediary = kind(count, parameters.labels, work, patience, settings.round_limit)
            teller = kind.address
            patience += settings.round_limit
        self.coordinator = (Coordinator if mixing is None else partial(MixingCoordinator, mixing=mixing))(
            count,
            population.features.shape[1],
            parameters.rounds,
            population.cluster,
            settings.hello_limit,
            settings.round_limit,
            LEARNER if self.intermediary is None else self.intermediary.address,
            target,
        )
        limit = settings.round_limit
        self.learner = Learner(count, parameters.rounds, parameters.labels, patience, limit, teller, prior_of)
        self._nursery: trio.Nursery | None = None
        header = self.auditor.header(
            users=count,
            labels=parameters.labels,
            rounds=parameters.rounds,
            features=population.features.shape[1],
            **({} if faults is None else {"faults": True}),  # a reader must not expect arrivals on time
        )
        write(header)

    def run(self) -> Outcome:
        """Run to the end, in virtual time; whatever happens, what was traced is written."""
        try:
            # A small run is over sooner than the one full collection that this takes.
            with quiet_collector() if len(self.population.labels) >= _MANY else nullcontext():
                trio.run(
                    self.main,
                    clock=MockClock(autojump_threshold=0),
                    restrict_keyboard_interrupt_to_checkpoints=True,
                )
        except BaseExceptionGroup as group:
            raise _first_cause(group) from group
        finally:
            self.network.flush()
        return self.outcome()

    def outcome(self) -> Outcome:
        """What the learner has received, and who took part."""
        rounds = [self.learner.reports(round_) for round_ in range(self.learner.rounds)]
        kinds = {str(kind.__struct_config__.tag): count for kind, count in self.network.kinds.items()}
        return Outcome(
            clusters=self.coordinator.clusters,
            rounds=rounds,
            messages=dict(sorted(kinds.items())),
            outcomes=[dict(attendance.outcomes) for attendance in self.coordinator.attendance],
            missing=self._missing(),
            withheld=self.coordinator.withheld,
            shares=self.learner.shares,
            prior=self.learner.prior,
            virtual_seconds=self.network.last_time,
            faults=[] if self.faults is None else self.faults.fired(),
            warnings=[*self.coordinator.warnings, *([] if self.faults is None else self.faults.warnings())],
            stopped=self.coordinator.stopped,
            reduced=self.coordinator.reduced,
            delivery={} if self.faults is None else self.faults.delivery,
        )

    def _missing(self) -> list[int]:
        """Users whose hello, done or label never came, or came too late."""
        missing = {*self.coordinator.absent, *(u for a in self.coordinator.attendance for u in a.missing)}
        missing.update(user for round_ in range(self.learner.rounds) for user in self.learner.lost(round_))
        if self.intermediary is not None:
            missing.update(self.intermediary.lost())
        return sorted(missing)

    async def main(self) -> None:
        network = self.network
        network.boxes[COORDINATOR] = Mailbox()
        network.boxes[LEARNER] = Mailbox()
        if self.intermediary is not None:
            network.boxes[self.intermediary.address] = Mailbox()
        network.boxes[HOST] = Mailbox(_Desk(self._host_receives))
        network.boxes[AUDITOR] = Mailbox(_Desk(lambda record: None))  # who has seen it when it was traced
        async with trio.open_nursery() as background:
            background.start_soon(network.carry)
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._lead)
                if self.hosting == "user":
                    for user in self.users:
                        network.boxes[user.id] = Mailbox()
                        self._nursery.start_soon(self._user_actor, user, name="user")
                else:
                    await self._say_hello_for_all()
            background.cancel_scope.cancel()

    async def _lead(self) -> None:
        """The coordinator and the learner; when they have finished, whoever was not dismissed ends too."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._timed_actor, self.coordinator, COORDINATOR)
            nursery.start_soon(self._timed_actor, self.learner, LEARNER)
            if self.intermediary is not None:
                nursery.start_soon(self._timed_actor, self.intermediary, self.intermediary.address)
        await self.network.settled()
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()

    async def _user_actor(self, user: User) -> None:
        network = self.network
        send = network.send
        me = user.id
        box = network.boxes[me]
        assert box is not None
        try:
            send(me, *user.hello(Features(self.population.features[me])))
            while user.state is not LEFT:
                if not box.queue:
                    # Mailbox.wait() written out: one coroutine less for every parked user.
                    box.task = trio.lowlevel.current_task()
                    await wait_task_rescheduled(box.abandon)
                queue, box.queue = box.queue, []
                for _, _, sender, _, message in queue:
                    try:
                        for to, out in user.receive(sender, message):
                            send(me, to, out)
                    except Refused as refused:
                        network.refuse(sender, me, kind_of(message), refused)
        except Exception as error:
            raise self._broken(name_of(me), error) from error

    async def _say_hello_for_all(self) -> None:
        """Where clusters have a task each, users speak through one lobby until they know their cluster."""
        features = self.population.features
        for user in self.users:
            self.network.send(user.id, *user.hello(Features(features[user.id])))
            if user.id % STRIDE == STRIDE - 1:
                await checkpoint()

    async def _cluster_actor(self, members: list[int], box: Mailbox) -> None:
        network = self.network
        send = network.send
        users = self.users
        me = -1
        try:
            while any(users[member].state is not LEFT for member in members):
                await box.wait()
                queue = box.queue
                # Users of a cluster ask each other, so that the queue grows while it is worked off.
                for _, _, sender, me, message in queue:
                    try:
                        for to, out in users[me].receive(sender, message):
                            send(me, to, out)
                    except Refused as refused:
                        network.refuse(sender, me, kind_of(message), refused)
                queue.clear()
        except Exception as error:
            raise self._broken(name_of(me), error) from error

    async def _timed_actor(self, role: Coordinator | Learner | Intermediary, address: int) -> None:
        """The coordinator or the learner: many messages in, broadcasts out, and a limit on each phase."""
        network = self.network
        box = network.boxes[address]
        assert box is not None
        outbox: deque[Iterable[Outgoing]] = deque()
        stage: object = None
        deadline = float("inf")
        try:
            while not role.finished or outbox:
                if role.stage != stage:
                    stage = role.stage
                    deadline = float("inf") if role.limit is None else network.now + role.limit
                if not (outbox or box.queue):
                    with trio.move_on_at(deadline) as scope:
                        await box.wait()
                    if scope.cancelled_caught:
                        network.advance(deadline)
                        outbox.append(iter(role.expire()))
                for _, _, sender, _, message in box.take():
                    try:
                        said = role.receive(sender, message)
                        if said:  # mostly there is nothing to say
                            outbox.append(iter(said))
                    except Refused as refused:
                        network.refuse(sender, address, kind_of(message), refused)
                if outbox:
                    self._send_some(outbox, address)
                    await checkpoint()
        except Exception as error:
            raise self._broken(name_of(address), error) from error

    def _send_some(self, outbox: deque[Iterable[Outgoing]], address: int) -> None:
        send = self.network.send
        left = STRIDE
        while outbox and left > 0:
            part = list(islice(outbox[0], left))
            for to, out in part:
                send(address, to, out)
            left -= len(part)
            if left > 0:
                outbox.popleft()

    def _host_receives(self, record: Record) -> None:
        _, _, sender, _, message = record
        try:
            said = self.host.receive(sender, message)
        except Refused as refused:
            self.network.refuse(sender, HOST, kind_of(message), refused)
            return
        send = self.network.send
        for speaker, receiver, out in said:
            send(speaker, receiver, out)
        if self.hosting == "cluster" and type(message) is Roster:
            self._house(message)

    def _house(self, part: Roster) -> None:
        """Give a cluster's users a task, once its first members are known."""
        assert self._nursery is not None
        members = self.host.rosters[part.cluster][part.first :].tolist()
        boxes = self.network.boxes
        if part.first == 0:
            box = Mailbox()
            self._houses = (members, box)
            self._nursery.start_soon(self._cluster_actor, members, box, name="cluster")
        else:
            known, box = self._houses
            known.extend(members)
        for member in members:
            boxes[member] = box

    def _broken(self, actor: str, error: Exception) -> RunError:
        cause = f"{type(error).__name__}: {error}"
        return RunError(f"{actor} broke at virtual time {self.network.now:g} s, seed {self.seed}: {cause}")


class _Desk(list[Record]):
    """A host is no task of its own: what is put into its queue is dealt with at once."""

    def __init__(self, receive: Callable[[Record], None]) -> None:
        super().__init__()
        self.append = receive  # type: ignore[method-assign]


def _first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first leaf; an interrupt counts before anything that followed from it."""
    found = leaves(group)
    return next((leaf for leaf in found if isinstance(leaf, KeyboardInterrupt)), found[0])
