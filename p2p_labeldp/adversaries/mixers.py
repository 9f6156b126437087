"""Relays and users of the mixed exchange who misbehave: each is the honest role with one habit changed.

None of them learns more than the account says. What they change in a batch is noticed before anything is opened: by
the next relay, whose key opens no strange packet and who takes none twice; by the members, who say go only if their own
packet is there; by the relays, who release nothing unless all members signed the batch that they were shown themselves.
A relay that keeps the order hides nobody and leaves the hiding to the others. A key released early opens nothing
without theirs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from p2p_labeldp.mechanisms.mixing import Secret
from p2p_labeldp.protocol.depositor import DEPOSITED, REFUSES, Depositor, Share
from p2p_labeldp.protocol.host import Said
from p2p_labeldp.protocol.messages import (
    COORDINATOR,
    HOST,
    Batch,
    Committed,
    Halt,
    NoGo,
    Opened,
    Outgoing,
    Stop,
    Unlock,
)
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.relay import PASSED, Relay, batch_parts
from p2p_labeldp.protocol.session import Session, batch_digest
from p2p_labeldp.scenario.entries import CrookedRelays


class CrookedRelay(Relay):
    """``entry.way`` says how; ``old`` are packets of earlier attempts, kept by all of its kind together."""

    entry: CrookedRelays
    old: list[bytes]
    target = 0
    """The place, in what it passes on, of the packet that it is after: the victim's, if it can know which that is."""
    other: Session | None = None
    """If it equivocates: the attempt as those know it who are shown the second batch."""
    second = b""
    """Its signature on that batch."""

    def _mix(self, packets: list[bytes]) -> Sequence[Outgoing]:
        said = super()._mix(packets)
        if self.stage is not PASSED:
            return said
        self.old.append(self._passed[self.target])
        if self.entry.way == "early":
            unlock = Unlock(self.session.round, self.session.attempt, self._inner, self._pledge(self.me, self._nonce))
            return [*said, *((relay, unlock) for relay in self.session.relays if relay != self.me)]
        if self.entry.way == "equivocate" and self.position + 1 == len(self.session.relays):
            return [*said, *self._shown_to_others()]
        return [(to, self._altered(message) if type(message) is Batch else message) for to, message in said]

    def _shown_to_others(self) -> list[Outgoing]:
        """The batch in another order, signed as the first is: for half of those that are shown one."""
        packets = self._passed[::-1]
        self.other, self.second = copy.copy(self.session), self._signed(batch_digest(packets))
        return [(HOST, part) for part in batch_parts(self.session, self.position + 1, packets, self.second)]

    def _strip(self, packets: list[bytes]) -> list[bytes | None]:
        session, hers = self.session, self.session.places.get(self.entry.victim)
        if self.entry.way == "isolate" and self.position == 0 and hers is not None:
            # Packets of its own making in place of all but the victim's: they open, as anyone's would.
            keys = session.outer, session.inner, session.context
            secrets = (self._secrets.of(Secret.ORDER, *session.name, -1 - place) for place in range(len(packets)))
            made = [self._cipher.seal(0, *keys, secret).layers[0] for secret in secrets]
            packets = [packet if place == hers else made[place] for place, packet in enumerate(packets)]
        return super()._strip(packets)

    def _order(self, count: int) -> list[int]:
        order = list(range(count)) if self.entry.way == "order" else super()._order(count)
        hers = self.session.places.get(self.entry.victim)
        if self.position == 0 and hers is not None:
            self.target = order.index(hers)
        return order

    def _altered(self, batch: Batch) -> Batch:
        """The batch as it is passed on in place of the right one."""
        packets, way, target = list(batch.packets), self.entry.way, self.target
        if way == "drop":
            del packets[target]
        elif way == "replace":
            packets[target] = bytes(len(packets[target]))
        elif way == "duplicate":
            packets[target] = packets[target - 1]
        elif way == "replay" and len(self.old) > 1:
            packets[target] = self.old[0]
        elif way == "peel":
            packets[target] = self._taken[0][: len(packets[0])]
        signature = self._signed(batch_digest(packets)) if batch.signature else b""
        return Batch(batch.round, batch.cluster, batch.attempt, batch.step, batch.first, packets, signature)


class CrookedMember(Depositor):
    """Honest but for what she does as a relay."""

    __slots__ = ("_entry", "old")

    def __init__(self, id_: int, label: int, host: MixingHost, entry: CrookedRelays, old: list[bytes]) -> None:
        super().__init__(id_, label, host)
        self._entry, self.old = entry, old

    def shows_two(self, batch: Batch) -> bool:
        """Whether this is one of two batches that she shows."""
        relay, name = self.relay, (batch.round, batch.cluster, batch.attempt)
        return isinstance(relay, CrookedRelay) and relay.other is not None and name == relay.session.name

    def shows_second(self, batch: Batch) -> bool:
        """Whether this is the second of two batches that she shows."""
        return isinstance(self.relay, CrookedRelay) and batch.signature == self.relay.second != b""

    def _relaying(self, session: Session, position: int, share: Share) -> Relay:
        host, keys = self.host, (share.outer, share.inner)
        relay = CrookedRelay(session, position, *keys, host.cipher, host.secrets, host.parameters.labels)
        relay.entry, relay.old = self._entry, self.old
        return relay


class Refuser(Depositor):
    """Says no-go whenever she is shown a batch; the layers that she shows are her own."""

    __slots__ = ()

    def checks(self, session: Session) -> Sequence[Outgoing]:
        share = self._current(session, DEPOSITED)
        if share is None or share.sealed is None:
            return ()
        share.go(REFUSES)
        refusal = NoGo(self.round, share.attempt, session.digest, session.proof, *share.sealed)
        return [(to, refusal) for to in (COORDINATOR, *session.relays)]


class TwoFacedHost(MixingHost):
    """As if there were two hosts: a crooked last relay shows users with odd ids the second of its batches."""

    __slots__ = ()

    def _published(self, sender: int, message: Committed | Opened | Stop | Batch | Halt) -> Sequence[Said]:
        member = self.member(sender) if type(message) is Batch else None
        first = self._sessions.get((message.cluster, message.attempt))
        if not isinstance(member, CrookedMember) or first is None:
            return super()._published(sender, message)
        assert isinstance(message, Batch)
        second = member.shows_second(message)
        session = member.relay.other if second and isinstance(member.relay, CrookedRelay) else first
        assert session is not None
        if not session.show(sender, message, self.cipher.packet_size(session.wanted, session.wanted)):
            return ()
        users = [user for user in self._mine(session.members) if user % 2 == second]
        return [(user, *said) for user in users for said in self.member(user).checks(session)]
