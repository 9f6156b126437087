"""Messages between actors of one process, in virtual time.

Sending numbers and traces a message, then either puts it straight into the receiver's mailbox or, where
messages take time, into one heap ordered by (time, addresses, sequence number) that a single task delivers from.
How long a message takes depends on the seed and the message alone, not on the order in which tasks ran; and what
arrives at one time does so in the order of its senders.

``now`` changes only when every task is blocked and the clock jumps, so it is set there and read for free:
by the network when it delivers, and with ``advance`` by a task that waits for the clock itself.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from operator import itemgetter

import trio
import trio.testing
from trio.lowlevel import reschedule

from p2p_labeldp.network.faults import Faults
from p2p_labeldp.network.rules import key_of
from p2p_labeldp.protocol.auditor import BATCH, Auditor, Record
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    HOST,
    PARTIES,
    Fault,
    Message,
    Refusal,
    Refused,
    kind_of,
)
from p2p_labeldp.streams import KeyedStream

Send = Callable[[int, int, Message], None]
OnBatch = Callable[[list[Record]], int]
"""Shown what was sent since it was last asked; says after how many more messages it wants to be asked again.

The run waits until it returns, and virtual time with it: nothing that it does changes what follows. What it is shown is
no longer there afterwards.
"""
_message = itemgetter(4)  # of a record


class Mailbox:
    """A list and one parked task; a fraction of the cost of a channel (see benchmarks/engines.py)."""

    __slots__ = ("queue", "task")

    def __init__(self, queue: list[Record] | None = None) -> None:
        self.queue: list[Record] = [] if queue is None else queue
        self.task: trio.lowlevel.Task | None = None

    def put(self, record: Record) -> None:
        self.queue.append(record)
        task = self.task
        if task is not None:
            self.task = None
            reschedule(task)

    async def wait(self) -> None:
        """Return when there is something in the queue."""
        if self.queue:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self.abandon)

    def abandon(self, _: object) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def take(self) -> list[Record]:
        queue, self.queue = self.queue, []
        return queue


class MemoryNetwork:
    """Carries messages between users 0..n-1 and the other parties, whose addresses are negative."""

    def __init__(
        self,
        users: int,
        auditor: Auditor,
        write: Callable[[bytes], object],
        *,
        latency: float = 0.0,
        jitter: float = 0.0,
        draws: KeyedStream | None = None,
        faults: Faults | None = None,
        on_batch: OnBatch | None = None,
    ) -> None:
        self.now = 0.0
        self.last_time = 0.0
        """When the last message was sent, of those that are flushed."""
        self.kinds: Counter[type[Message]] = Counter()
        # Negative addresses index from the end, which is where the other parties' mailboxes stand.
        self.boxes: list[Mailbox | None] = [None] * (users + len(PARTIES))
        self._auditor = auditor
        self._write = write
        self._on_batch = on_batch
        self._number = auditor.number
        self._batch = auditor.batch
        self._latency = latency
        self._jitter = jitter
        self._draws = draws
        self._faults = faults
        self._transit: list[tuple[float, int, Record]] = []
        self._waker = Mailbox()
        self._handed_out = 0  # how often messages that were due have been delivered
        # The message with which the batch is to be written; whoever is shown batches sees the first message at once.
        self._full = BATCH - 1 if on_batch is None else 0
        self.send: Send = self._slowly if latency or jitter or faults is not None else self._instantly()
        """Trace a message, given its sender and receiver, and set it on its way."""

    def _instantly(self) -> Send:
        """``send`` where messages take no time, with everything it touches at hand: the hot path of a run."""
        number = self._auditor.number.__next__
        batch, boxes, flush = self._batch, self.boxes, self.flush
        note = batch.append
        lowest, users = -len(PARTIES), len(boxes) - len(PARTIES)

        def send(sender: int, receiver: int, message: Message) -> None:
            sent = number()
            record = (sent, self.now, sender, receiver, message)
            note(record)
            if sent >= self._full:
                flush()
            box = boxes[receiver] if lowest <= receiver < users else None
            if box is None:
                self.deliver(record)  # which refuses it
                return
            box.queue.append(record)
            task = box.task
            if task is not None:
                box.task = None
                reschedule(task)

        return send

    def _slowly(self, sender: int, receiver: int, message: Message) -> None:
        """``send`` where messages take time."""
        record = (next(self._number), self.now, sender, receiver, message)
        self._batch.append(record)
        if record[0] >= self._full:
            self.flush()
        self._delay(record)

    def refuse(self, sender: int, receiver: int, kind: str, refused: Refused) -> None:
        """Record that ``receiver`` will not act on what ``sender`` sent her."""
        refusal = Refusal(sender, kind, refused.fault, refused.detail)
        number = next(self._number)
        self._batch.append((number, self.now, receiver, AUDITOR, refusal))
        if number >= self._full:
            self.flush()

    def flush(self) -> None:
        """Write what has been traced so far."""
        batch = self._batch
        self.kinds.update(map(type, map(_message, batch)))
        if batch:
            last, self.last_time = batch[-1][:2]
            self._full = last + (BATCH if self._on_batch is None else self._on_batch(batch))
        self._write(self._auditor.take())

    def deliver(self, record: Record) -> None:
        _, _, sender, receiver, message = record
        known = -len(PARTIES) <= receiver < len(self.boxes) - len(PARTIES)
        box = self.boxes[receiver] if known else None
        if box is None:
            fault = Refused(Fault.MISDIRECTED, f"there is nobody at address {receiver}")
            self.refuse(sender, receiver, kind_of(message), fault)
        else:
            box.put(record)

    def _deliver_once(self, record: Record) -> None:
        assert self._faults is not None
        if self._faults.is_new(record):
            self.deliver(record)

    async def carry(self) -> None:
        """Deliver messages that take time, each when it is due. Runs until it is cancelled.

        Sleeping until each delivery would cost a cancellation per message, four times as much as moving
        the virtual clock by hand, which must not overtake anyone else's deadline.
        """
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock), "messages take virtual time"
        transit = self._transit
        deliver = self.deliver if self._faults is None else self._deliver_once
        while True:
            while not transit:
                await self._waker.wait()
                self._waker.take()
            await trio.testing.wait_all_tasks_blocked()
            until_due = transit[0][0] - trio.current_time()
            until_deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
            clock.jump(max(0.0, min(until_due, until_deadline)))
            if until_deadline < until_due:
                continue
            self.now = transit[0][0]
            self._handed_out += 1
            while transit and transit[0][0] <= self.now:
                deliver(heapq.heappop(transit)[2])

    def advance(self, time: float) -> None:
        """Say that a task which waited for the clock has seen it reach ``time``."""
        self.now = max(self.now, time)

    async def settled(self) -> None:
        """Return when nothing is on its way and everyone waits."""
        seen = -1
        # The carrier may have woken together with this task and handed out the last messages just before.
        while self._transit or seen != self._handed_out:
            seen = self._handed_out
            await trio.testing.wait_all_tasks_blocked()

    def _delay(self, record: Record) -> None:
        delay = self._latency
        # The link from the coordinator to a host keeps its order, as one connection does: a roster must
        # not be overtaken by the assignments that rest on it.
        if self._jitter and record[3] != HOST:
            assert self._draws is not None, "jitter is drawn"
            delay += self._jitter * self._draws.uniform(*key_of(*record[2:]))
        if not self._transit:
            self._waker.put(record)
        # By addresses before numbers, which tell in what order tasks ran.
        order = (record[2] << 96) + (record[3] << 48) + record[0]
        for time in (self.now + delay,) if self._faults is None else self._faults.arrivals(record, delay):
            heapq.heappush(self._transit, (time, order, record))
