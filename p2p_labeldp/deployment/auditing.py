"""The auditor's part: takes what every node says its roles have sent, and writes it as one trace in causal order.

Nodes' clocks differ, and what they tell arrives in any order. Every item carries its sender's logical
clock, which runs ahead of everything its sender had taken by then; records ordered by it (and, for equal
clocks, by node and place) never show an effect before its cause. Times are the senders' own, lifted where
they would run back, and bounded, since a liar's would lift everyone's after it.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator

import msgpack

from p2p_labeldp.audit.rules import Broken, require_shape
from p2p_labeldp.audit.trace import Event
from p2p_labeldp.deployment.items import MAX_BODY, Directory, Finish, Item, Ready, Records, Traced
from p2p_labeldp.deployment.logs import Log
from p2p_labeldp.deployment.parts import Part
from p2p_labeldp.deployment.roles import SINGLES
from p2p_labeldp.protocol.auditor import Auditor
from p2p_labeldp.protocol.messages import AUDITOR, HOST, Fault, Refusal, Refused
from p2p_labeldp.scenario import EXCHANGES, Scenario

Write = Callable[[Iterator[bytes]], None]
"""Write a trace, given as its bytes in parts; once or again."""

CLOCKS_DIFFER = 3600.0  # seconds by which a node's clock may be ahead of the auditor's
MAX_RECORD = 1024  # bytes, of a user host: none of its messages takes more than a refusal, a line of text

_TRIPLE, _QUINTUPLE = b"\x93", b"\x95"  # MessagePack's arrays of three and of five


class AuditorPart(Part):
    address = AUDITOR

    def __init__(self, key: str, log: Log, scenario: Scenario, write: Write) -> None:
        super().__init__(key, log, scenario)
        self._write = write
        # (clock, node, place) to time and the records as they came, all of one item in one piece: there are millions.
        self._told: list[tuple[int, str, int, float, bytes, array[int]]] = []
        self._kinds: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()  # records, by node
        self._finished = False

    @property
    def waits_for(self) -> str:
        return "the coordinator to name the hosts" if self.shares is None else "the run to end"

    def take(self, key: str, name: str, clock: int, body: bytes, now: float) -> None:
        self._heard_at = clock
        super().take(key, name, clock, body, now)

    def hear(self, key: str, name: str, item: Item) -> None:
        if type(item) is Records:
            self._note(key, name, item)
        elif type(item) is Directory:
            self.know(item)
            self.say("coordinator", Ready())
        elif type(item) is Finish:
            self._finish()
        else:
            super().hear(key, name, item)

    def counts(self) -> Iterator[tuple[str, dict[str, int | str]]]:
        for kind, count in self._kinds.items():
            yield "counted", {"kind": kind, "count": count}

    def trace(self, receiver: int, refusal: Refusal) -> None:
        """Nothing: nobody sends the auditor messages, and its own trace is not about it."""

    def _note(self, key: str, name: str, item: Records) -> None:
        if self._finished:
            raise Refused(Fault.OUT_OF_ORDER, "the trace is written")
        if self.shares is None:
            raise Refused(Fault.OUT_OF_ORDER, "the auditor knows no users yet")
        if not item.records or not 0 <= item.time < math.inf:
            raise Refused(Fault.MALFORMED, "records of nothing, or of no time")
        # What its own users say, and as many refusals as it may trace.
        if key not in SINGLES and self._kept[key] + len(item.records) > 2 * self.costs.most_messages:
            raise Refused(Fault.OUT_OF_ORDER, "more records than its users can have sent")
        latest = max(0.0, self.now - self.shares.directory.started) + CLOCKS_DIFFER
        kept = []
        for raw in item.records:
            record = bytes(raw)
            try:
                kind = self._checked(key, record)
            except Refused as refused:
                self.reject("record", refused)
                continue
            self._kinds[kind] += 1
            kept.append(record)
        self._kept[key] += len(kept)
        if kept:
            time, lengths = min(item.time, latest), array("I", map(len, kept))
            self._told.append((self._heard_at, key, len(self._told), time, b"".join(kept), lengths))

    def _checked(self, key: str, record: bytes) -> str:
        """The kind of a record, if it is one, and of a message that this peer's roles may have sent."""
        relayed = EXCHANGES[self._scenario.mechanism.exchange].relayed
        largest = MAX_BODY if relayed else MAX_RECORD  # relays pass batches on
        if len(record) > largest and key not in SINGLES:
            raise Refused(Fault.OVERSIZED, f"a record takes at most {largest} bytes, not {len(record)}")
        try:
            if record[:1] != _TRIPLE:
                raise ValueError("not a record")
            sender, receiver, message = msgpack.unpackb(record, raw=False)
            event = Event(0, 0, 0.0, sender, receiver, message[0], tuple(message[1:]))
            require_shape(event, self.dealt.directory.users)
        except Broken as broken:
            raise Refused(Fault.MALFORMED, str(broken)) from None
        except (ValueError, TypeError, IndexError, KeyError, msgpack.exceptions.UnpackException) as error:
            raise Refused(Fault.MALFORMED, type(error).__name__) from None
        holder = self.dealt.by_key.get(key)
        mine = sender == SINGLES.get(key) if holder is None else sender == HOST or holder.first <= sender < holder.last
        if not mine:
            raise Refused(Fault.MISDIRECTED, "the sender is not the peer's to speak for")
        return str(event.kind)

    def _finish(self) -> None:
        if self.shares is None:
            raise Refused(Fault.OUT_OF_ORDER, "there is no run to finish")
        self._finished = True
        self._write(self._trace())
        self.log("written", run=self.run)
        self.say("coordinator", Traced(dict(sorted(self._kinds.items()))))

    def _trace(self) -> Iterator[bytes]:
        directory = self.dealt.directory
        yield Auditor().header(
            users=directory.users,
            labels=directory.labels,
            rounds=self._rounds,
            features=directory.features,
            clock="wall",
            hosts=len(directory.hosts),
            run=directory.run,
        )
        pack = msgpack.Packer(autoreset=True).pack
        number, time = 0, 0.0
        for _, _, _, said_at, records, lengths in sorted(self._told, key=lambda told: told[:3]):
            time = max(time, said_at)
            head = pack(time)
            parts: list[bytes] = []
            start = 0
            for length in lengths:
                # [sender, receiver, message] becomes [number, time, sender, receiver, message].
                parts += (_QUINTUPLE, pack(number), head, records[start + 1 : start + length])
                number, start = number + 1, start + length
            yield b"".join(parts)
