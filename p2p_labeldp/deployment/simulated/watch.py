"""What must hold at every step, checked as bytes are written to connections and become durable on disks.

* What a node sends follows from what lasts of its journal (``shadow``), item by item and number by number; so no label
  or answer goes out that a crash could make it draw again, and nothing is said in two ways.
* What it acknowledges lasts. What it takes from a peer is what that peer sent: each item once, in order.
* What it says it keeps, or could say again after a restart, until that lasts with its receiver.
* No block of coins is drawn twice, and no user answers two labels where she has one.
* Reports leave a host once a round, after the close, in the order of users, under a clock that tells the round alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from p2p_labeldp.deployment.costs import HEAD_BYTES
from p2p_labeldp.deployment.erasure import Mark
from p2p_labeldp.deployment.items import Mail, decode_item
from p2p_labeldp.deployment.journal import FILE, TAKEN
from p2p_labeldp.deployment.misbehaving import assignments_of
from p2p_labeldp.deployment.node import ERASED, Node
from p2p_labeldp.deployment.parts import EPOCH
from p2p_labeldp.deployment.simulated.disasters import Scene
from p2p_labeldp.deployment.simulated.network import End
from p2p_labeldp.deployment.simulated.papers import credentials, papers
from p2p_labeldp.deployment.simulated.people import own_rows
from p2p_labeldp.deployment.simulated.shadow import NotHeld, Shadow
from p2p_labeldp.network.frames import Ack, Bye, Item, Open, Ping, decode
from p2p_labeldp.protocol.messages import Answer, Refused, Report, kind_of
from p2p_labeldp.scenario import Scenario

FICKLE = ("liars", "two_faced", "fresh_answers")
"""Adversaries that answer with several labels; the others answer with one."""


class Broken(BaseException):
    """Something does not hold. No program's ``except Exception`` may keep it to itself."""


@cache
def key_of(name: str) -> str:
    return credentials(papers() / name).identity.key


class Watch:
    def __init__(self, scene: Scene, scenarios: dict[str, Scenario], ports: tuple[int, ...]) -> None:
        self.scene = scene
        self.failures: list[str] = []
        self.shadows: dict[str, Shadow] = {}
        self.dealt: Shadow | None = None
        """The coordinator's that has dealt shares, though it may have lost its disk since."""
        self.sent: dict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
        """(sender, receiver) to the items that were written to their connections, by number."""
        self.names = {key_of(name): name for name in scenarios}
        self.coins: dict[tuple[int, int, int], bytes] = {}
        """(round, first, last) to the block that was drawn: once, whatever became of the disk it was on."""
        self.packets: dict[bytes, tuple[int, int]] = {}
        """Of the mixed exchange: the innermost packets, who sealed each, and the label that it holds."""
        self.kept: Counter[tuple[str, str]] = Counter()
        """(node, peer) to the bytes that the peer has made the node's journal keep."""
        self._scenarios, self._ports = scenarios, ports
        self._streams: dict[End, bytearray] = defaultdict(bytearray)
        self._spoken: Counter[str] = Counter()  # items, by sender
        self._answers: dict[tuple[int, int], int] = {}
        self._reports: Counter[tuple[str, int]] = Counter()
        self._closed = 0  # rounds that a coordinator had closed when it lost its disk
        for name in scenarios:
            self._follow_anew(name)

    def broke(self, what: str, error: BaseException | None = None) -> NoReturn:
        if not self.failures:  # what else breaks while everything is taken down is of no interest
            self.scene.fleet.history.note("", "BROKEN", what=what)
            self.failures.append(what)
        raise Broken(what) from error

    # Disks.

    def _follow_anew(self, name: str) -> None:
        role, rows = name.partition("-")[0], own_rows(self.scene.plan, name)
        disk = self.scene.fleet.by_name[name].disk

        def beside(file: str) -> bytes:
            found = disk.files.get(Path("/state") / name / file)
            return b"" if found is None else bytes(found.content[: found.lasting])

        results = Path("/shadow/results")
        scenario = self._scenarios[name]
        self.shadows[name] = Shadow(role, scenario, papers() / name, results, rows, beside, self.packets)
        disk.on_lasting = lambda: self.follow(name)

    @property
    def coordinator(self) -> Shadow:
        """Of the coordinator that has dealt shares, or else of the one there is."""
        now = self.shadows["coordinator"]
        dealt = now.node is not None and now.node._part.shares is not None
        return now if dealt or self.dealt is None else self.dealt

    def wiped(self, name: str) -> None:
        """A machine that begins anew: nobody it spoke to before will listen to it, and what it said counts."""
        if name == "coordinator":
            self._closed = self._rounds_closed()
            self.dealt = self.coordinator
        self._follow_anew(name)
        for sender, receiver in list(self.sent):
            if sender == name:
                del self.sent[sender, receiver]

    def follow(self, name: str) -> Shadow:
        """Bring a node's shadow up to what lasts now."""
        shadow = self.shadows[name]
        file = self.scene.fleet.by_name[name].disk.files.get(Path("/state") / name / FILE)
        if file is None or file.lasting <= shadow.offset:
            return shadow
        before = Counter(shadow.taken)
        try:
            entries = shadow.follow(bytes(file.content[: file.lasting]))
        except NotHeld as error:
            self.broke(f"{name}: {error}", error)
        for key, block in shadow.coins.items():
            lied = name in self.scene.wiped and name in self.scene.liars  # and so hid what it had lost
            if self.coins.setdefault(key, block) != block and not lied:
                self.broke(f"{name} draws coins of round {key[0]}, users {key[1]} to {key[2] - 1}, that were drawn")
        for entry in entries:
            if entry.kind == TAKEN:
                self.kept[name, self.names[entry.peer]] += len(entry.body) + HEAD_BYTES
                self._took(name, self.names[entry.peer], before[entry.peer], (entry.clock, entry.body))
                before[entry.peer] += 1
        return shadow

    def _took(self, name: str, peer: str, number: int, what: tuple[int, bytes]) -> None:
        if peer in self.scene.wiped or peer in self.scene.liars:
            return
        sent = self.sent[peer, name]
        if number >= len(sent) or sent[number] != what:
            why = "was never sent" if number >= len(sent) else "is not what was sent under that number"
            self.broke(f"{name} took as item {number} of {peer} what {why}")

    def started(self, name: str, node: Node) -> None:
        """A node has replayed its journal: it must say again all that it said."""
        shadow = self.follow(name)
        if name in self.scene.liars:
            return
        for key, peer in node._transport._peers.items():
            said = len(shadow.said[key])
            if peer.link.made != said:
                self.broke(f"{name} comes back with {peer.link.made} items for {self.names[key]}, and had said {said}")
        self._look_at_links(name)
        for (sender, receiver), items in self.sent.items():
            if sender == name and len(items) > len(shadow.said[key_of(receiver)]):
                self.broke(f"{name} comes back and does not know of an item that it sent to {receiver}")

    def _look_at_links(self, name: str) -> None:
        """What a node has let go of lasts with its receiver: else one of the two could never go on. So does what it
        would let go of if it were started again now. Where the run is over for it nobody goes on."""
        node, lost = self.scene.nodes.get(name), self.scene.wiped | self.scene.traitors
        if node is None or node._part.over or node._part.ended or name in self.scene.liars:
            return
        dropped = {key: peer.link.dropped for key, peer in node._transport._peers.items()}
        if erased := self.shadows[name].facts.get(ERASED, ""):
            for key, said in msgspec.json.decode(erased, type=Mark).said.items():
                dropped[key] = max(dropped.get(key, 0), said)
        for key, count in dropped.items():
            receiver = self.names[key]
            lasting = self.shadows[receiver].taken[key_of(name)]
            if count > lasting and receiver not in lost:
                self.broke(f"{name} let go of {count} items for {receiver}, where {lasting} last")

    # Connections.

    def wrote(self, end: End, data: bytes) -> None:
        self.scene.fleet.history.sent(data)
        if end.connection.port not in self._ports:
            return
        stream, before = self._streams[end], self._spoken[end.machine.name]
        stream += data
        while len(stream) >= 4 and len(stream) >= 4 + (length := int.from_bytes(stream[:4], "big")):
            frame = bytes(stream[4 : 4 + length])
            del stream[: 4 + length]
            self._wrote(end.machine.name, end.other.machine.name, frame)
        self._look_at_links(end.machine.name)
        for _ in range(before, self._spoken[end.machine.name]):  # all of it is on its way when disaster strikes
            self.scene.said(end.machine.name, "sends")

    def _wrote(self, name: str, peer: str, data: bytes) -> None:
        frame = decode(data)
        note = self.scene.fleet.history.note
        if isinstance(frame, Ping):
            return
        if isinstance(frame, Open):
            note(name, "opens", to=peer, received=frame.received)
            self.scene.opened(name, peer)
        elif isinstance(frame, Bye):
            note(name, "bye", to=peer, code=str(frame.code))
        elif isinstance(frame, Ack):
            note(name, "acks", to=peer, received=frame.received)
            if self.follow(name).taken[key_of(peer)] < frame.received and name not in self.scene.false_ackers:
                self.broke(f"{name} acknowledges {frame.received} items of {peer}, and not all of them last")
        elif isinstance(frame, Item):
            self._item(name, peer, frame)

    def _item(self, name: str, peer: str, item: Item) -> None:
        if name in self.scene.liars:
            self.scene.fleet.history.note(name, "floods", to=peer, item=item.number, bytes=len(item.body))
            return
        sent = self.sent[name, peer]
        what = (item.clock, item.body)
        note = self.scene.fleet.history.note
        if item.number < len(sent):
            note(name, "repeats", to=peer, item=item.number)
            if sent[item.number] != what:
                self.broke(f"{name} sends another item {item.number} to {peer} than before")
            return
        note(name, "sends", to=peer, item=item.number, what=_described(item.body), bytes=len(item.body))
        held = self.follow(name).said[key_of(peer)]
        if name in self.scene.wiped:  # what it says again to whom it had lost nothing but the beginning
            sent += held[len(sent) : item.number]
        if item.number > len(sent):
            self.broke(f"{name} sends item {item.number} to {peer}, where {len(sent)} was due")
        sent.append(what)
        if item.number >= len(held) or held[item.number] != what:
            self.broke(f"{name} sends {_described(item.body)} to {peer}, which does not follow from what lasts")
        self._look_into(name, peer, item)
        self._spoken[name] += 1

    def _look_into(self, name: str, peer: str, item: Item) -> None:
        try:
            mail = decode_item(item.body)
        except Refused:
            self.broke(f"{name} sends {peer} what cannot be read")
        if not isinstance(mail, Mail):
            return
        messages = [(each.sender, each.message) for each in mail.envelopes]
        for sender, message in messages:
            if type(message) is Answer:
                sticky = self._scenarios[name].mechanism.noise == "sticky"
                key = (sender, 0 if sticky else message.round)
                if self._answers.setdefault(key, message.label) != message.label and not self._suspects(name, sender):
                    self.broke(f"user {sender} answers with two labels")
        if peer == "learner" and name != "coordinator":
            self._look_at_reports(name, item, messages)

    def _suspects(self, name: str, user: int) -> bool:
        """Whether a user of this machine was set up to answer as she likes."""
        node = self.shadows[name].node
        assert node is not None
        found = assignments_of(self._scenarios[name], node._part.dealt.directory.users)
        return any(user in each.members for each in found if each.entry.name in FICKLE)

    def _look_at_reports(self, name: str, item: Item, messages: list[tuple[int, Any]]) -> None:
        rounds = {message.round for _, message in messages if type(message) is Report}
        users = [sender for sender, _ in messages]
        if len(rounds) != 1 or any(type(message) is not Report for _, message in messages):
            self.broke(f"{name} sends the learner something else than the reports of one round")
        (round_,) = rounds
        self._reports[name, round_] += 1
        if self._reports[name, round_] > 1 or users != sorted(users) or self._rounds_closed() <= round_:
            self.broke(f"{name} reports before the close, more than once, or not in the order of users")
        if item.clock != (round_ + 2) * EPOCH - 1:
            self.broke(f"{name} tells the learner a clock that depends on more than the round")

    def _rounds_closed(self) -> int:
        coordinator = self.follow("coordinator").node
        return self._closed if coordinator is None else max(self._closed, coordinator._part.closed)


def _described(body: bytes) -> str:
    """What an item is about; nothing in it depends on a label."""
    try:
        item = decode_item(body)
    except Refused:
        return "garbage"
    if not isinstance(item, Mail):
        return type(item).__name__.lower()
    kinds = Counter(kind_of(each.message) for each in item.envelopes)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())
