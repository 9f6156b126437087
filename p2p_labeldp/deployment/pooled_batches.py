"""What colluders pool of a mixed exchange: the labels that were drawn for them, and what their relays know.

A relay is told all inner keys, and opens the batch: it knows every noisy label of the cluster, and not whose it is. The
first relay knows who deposited what; each knows how its own step went. Only where all relays of a cluster are in the
pool do these fit together, from deposit to label, by the outer keys of all of them. Nothing is noted that such a relay
is not told by the protocol: whoever reads the pool must open and peel with the keys that are in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from p2p_labeldp.mechanisms.mixing import Secret
from p2p_labeldp.protocol.depositor import Depositor, Share
from p2p_labeldp.protocol.messages import Deposit, Drawn, Message, Reveal, Unlock
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.user import User

Rosters = Mapping[int, Sequence[int]]
"""Users by cluster, ascending."""
PerRound = tuple[dict[int, int], ...]
"""User to label."""


class Opened(NamedTuple):
    """A batch of which a relay is in the pool."""

    context: bytes
    relays: int
    inner: list[bytes]
    """All relays' keys, as they were released."""
    batch: list[bytes]
    """As all members were shown it."""
    outer: dict[int, bytes]
    """By position: keys of the relays that are in the pool."""
    deposits: dict[int, bytes]
    """By user: what the first relay was handed, if it is in the pool."""

    def labels(self, labels: int) -> dict[bytes, int]:
        """What the packets hold; what is no label counts as 0, as it does for relays."""
        found = Onions().labels(self.inner, self.batch, self.context)
        return {
            packet: 0 if label is None or label >= labels else label
            for packet, label in zip(self.batch, found, strict=True)
        }

    def tied(self, labels: Mapping[bytes, int]) -> dict[int, int]:
        """Whose label is whose, where all relays are in the pool."""
        if len(self.outer) < self.relays:
            return {}
        users, packets = sorted(self.deposits), [self.deposits[user] for user in sorted(self.deposits)]
        for position in range(self.relays):
            peeled = Onions().peel(self.outer[position], packets, self.context, position)
            packets = [packet or b"" for packet in peeled]
        return {user: labels[packet] for user, packet in zip(users, packets, strict=True) if packet in labels}


@dataclass
class Batches:
    """Of the colluders of one host, or of all."""

    members: dict[int, Depositor] = field(default_factory=dict)
    """Those of this host; none where pools were merged."""
    draws: dict[tuple[int, int], int] = field(default_factory=dict)
    """By round and user."""
    opened: dict[tuple[int, int], Opened] = field(default_factory=dict)
    """By round and cluster."""
    _keys: dict[tuple[int, int, int], bytes] = field(default_factory=dict)  # by round, attempt and relay
    _deposits: dict[tuple[int, int, int], dict[int, bytes]] = field(default_factory=dict)  # of each, by user

    @classmethod
    def of(cls, users: Iterable[User]) -> Batches:
        return cls({user.id: user for user in users if isinstance(user, Depositor)})

    def note(self, sender: int, receiver: int, message: Message) -> None:
        """Something that a colluder said or was told."""
        if type(message) is Drawn and receiver in self.members:
            self.draws.setdefault((message.round, receiver), message.label)
        elif type(message) is Deposit and receiver in self.members:
            self._deposits.setdefault((message.round, message.attempt, receiver), {})[sender] = message.packet
        elif type(message) is Unlock:
            self._keys[message.round, message.attempt, sender] = message.key
        if type(message) in (Unlock, Reveal, Drawn):
            for user in (sender, receiver):
                if user in self.members:
                    self._open(self.members[user])

    def _open(self, member: Depositor) -> None:
        """As soon as a colluder who relays has all keys, and the batch."""
        session = None if member.relay is None else member.relay.session
        if session is None or not session.batch or (session.round, session.cluster) in self.opened:
            return
        attempt = session.round, session.attempt
        inner = {relay: key for relay in session.relays if (key := self._keys.get((*attempt, relay))) is not None}
        outer: dict[int, bytes] = {}
        for position, relay in enumerate(session.relays):
            if relay in self.members:
                host = self.members[relay].host
                own = Share(session.attempt, host.secrets.of(Secret.MEMBER, *attempt, relay), host.cipher)
                outer[position], inner[relay] = own.outer, own.inner
        if len(inner) == len(session.relays):
            self.opened[session.round, session.cluster] = Opened(
                session.context,
                len(session.relays),
                [inner[relay] for relay in session.relays],
                list(session.batch),
                outer,
                self._deposits.get((*attempt, session.relays[0]), {}),
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "draws": [[*key, label] for key, label in sorted(self.draws.items())],
            "batches": [
                {
                    "round": round_,
                    "cluster": cluster,
                    "context": found.context.hex(),
                    "relays": found.relays,
                    "inner": [key.hex() for key in found.inner],
                    "batch": [packet.hex() for packet in found.batch],
                    "outer": [[position, key.hex()] for position, key in sorted(found.outer.items())],
                    "deposits": [[user, packet.hex()] for user, packet in sorted(found.deposits.items())],
                }
                for (round_, cluster), found in sorted(self.opened.items())
            ],
        }

    def take(self, read: Mapping[str, Any]) -> None:
        """What another host's colluders noted; files of the other exchange have nothing of it."""
        self.draws |= {(round_, user): label for round_, user, label in read.get("draws", ())}
        for each in read.get("batches", ()):
            found = Opened(
                bytes.fromhex(each["context"]),
                int(each["relays"]),
                [bytes.fromhex(key) for key in each["inner"]],
                [bytes.fromhex(packet) for packet in each["batch"]],
                {position: bytes.fromhex(key) for position, key in each["outer"]},
                {user: bytes.fromhex(packet) for user, packet in each["deposits"]},
            )
            known = self.opened.setdefault((each["round"], each["cluster"]), found)
            known.outer.update(found.outer)
            known.deposits.update(found.deposits)

    def seen(self, rounds: int, labels: int, rosters: Rosters) -> tuple[PerRound, PerRound, PerRound]:
        """Per round: labels drawn for colluders, labels of opened clusters in no order, and whose is whose."""
        draws, opened, tied = (tuple[dict[int, int], ...]({} for _ in range(rounds)) for _ in range(3))
        for (round_, user), label in sorted(self.draws.items()):
            draws[round_][user] = label
        for (round_, cluster), found in sorted(self.opened.items()):
            held = found.labels(labels)
            if len(held) == len(rosters[cluster]):
                opened[round_].update(zip(rosters[cluster], sorted(held.values()), strict=True))
            tied[round_].update(found.tied(held))
        return draws, opened, tied
