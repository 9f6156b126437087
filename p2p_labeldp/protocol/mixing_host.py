"""A host in the mixed exchange: what is public of an attempt comes to it once, and its users act on it.

Commitments, openings and the batch to agree on are as long as the cluster is large. Like rosters they travel once per
host, so that the cost of a cluster stays linear in its users. The host checks what is the same for all, and asks each
of its users in the cluster what she says to it; every user decides for herself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Protocol

from p2p_labeldp.mechanisms.coins import Coins
from p2p_labeldp.mechanisms.mixing import secrets_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.host import Host, Said
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    Batch,
    Committed,
    Fault,
    Goodbye,
    Halt,
    Message,
    Opened,
    Outgoing,
    Refusal,
    Refused,
    Round,
    Stop,
    kind_of,
    name_of,
)
from p2p_labeldp.protocol.sealing import Cipher
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.protocol.signatures import Signatures, Stamps


class Member(Protocol):
    """What a host asks of its users."""

    def opens(self, session: Session) -> Sequence[Outgoing]: ...
    def deposits(self, session: Session) -> Sequence[Outgoing]: ...
    def checks(self, session: Session) -> Sequence[Outgoing]: ...
    def stops(self, session: Session | None, attempt: int, again: bool) -> Sequence[Outgoing]: ...
    def retries(self, session: Session | None) -> Sequence[Outgoing]: ...


class MixingHost(Host):
    """``member`` finds a user it carries, by her id."""

    __slots__ = ("_ended", "_sessions", "cipher", "member", "run", "secrets", "signatures")

    def __init__(
        self,
        parameters: Parameters,
        coins: Coins,
        first: int,
        last: int,
        cipher: Cipher,
        signatures: Signatures | None = None,
    ) -> None:
        """``signatures`` are simulated ones unless given."""
        super().__init__(parameters, coins, first, last)
        self.cipher = cipher
        self.secrets = secrets_of(coins)
        self.signatures = signatures or Stamps(self.secrets)
        self.run = ""
        """The run's name, where it has one: part of what is signed."""
        self.member: Callable[[int], Member]
        self._sessions: dict[tuple[int, int], Session] = {}  # of this round, by cluster and attempt
        self._ended: set[tuple[int, int]] = set()  # of those, which the coordinator ended for another one

    def receive(self, sender: int, message: Message) -> Sequence[Said]:
        if isinstance(message, Committed | Opened | Stop):
            if sender != COORDINATOR:
                raise Refused(Fault.MISDIRECTED, f"only the coordinator may send this, not {name_of(sender)}")
            return self._published(sender, message)
        if isinstance(message, Batch | Halt):
            return self._published(sender, message)
        if type(message) in (Round, Goodbye):
            said = super().receive(sender, message)
            self._sessions.clear()
            self._ended.clear()
            return said
        return super().receive(sender, message)

    def _published(self, sender: int, message: Committed | Opened | Stop | Batch | Halt) -> Sequence[Said]:
        cluster, key = message.cluster, (message.cluster, message.attempt)
        roster = self.rosters.get(cluster)
        if roster is None or message.round != self.closed:
            raise Refused(Fault.OUT_OF_ORDER, f"round {message.round} of cluster {cluster} is not under way here")
        session = self._sessions.get(key)
        if type(message) is Stop:
            return self._stop(message, session)
        if type(message) is Committed:
            if session is None:
                wanted, size = self.parameters.relays, self.cipher.key_size
                session = self._sessions[key] = Session(self.run, message.round, *key, wanted, size, self.signatures)
            whole = session.commit(message, roster, self.parameters.minimum_size)
            return self._ask_all("opens", session, message) if whole else ()
        if session is None:
            raise Refused(Fault.OUT_OF_ORDER, f"attempt {message.attempt} of cluster {cluster} has no commitments")
        if type(message) is Opened:
            if not session.open(message):
                return ()
            if not all(map(self.cipher.usable, (*session.outer, *session.inner))):
                raise Refused(Fault.MALFORMED, "a relay's key is none that anything can be sealed for")
            return self._ask_all("deposits", session, message)
        if type(message) is Batch:
            size = self.cipher.packet_size(session.wanted, session.wanted)
            whole = message.step == session.wanted and session.show(sender, message, size)
            return self._ask_all("checks", session, message) if whole else ()
        assert type(message) is Halt
        if sender not in session.relays:
            raise Refused(Fault.MISDIRECTED, f"{name_of(sender)} is no relay of this attempt")
        session.halted.add(sender)
        if len(session.halted) < len(session.relays) or key not in self._ended:
            return ()
        return self._ask_all("retries", session, message)

    def _stop(self, message: Stop, session: Session | None) -> Sequence[Said]:
        if message.again:
            self._ended.add((message.cluster, message.attempt))
        users = self._mine(self.rosters[message.cluster])
        return self._each(users, methodcaller("stops", session, message.attempt, message.again), message)

    def _ask_all(self, question: str, session: Session, about: Message) -> Sequence[Said]:
        """What each of its members in the attempt says; ``question`` is one of a ``Member``."""
        return self._each(self._mine(session.members), methodcaller(question, session), about)

    def _mine(self, users: Sequence[int]) -> list[int]:
        first, last = self._first, self._last
        return [user for user in users if first <= user < last]

    def _each(
        self, users: Sequence[int], ask: Callable[[Member], Sequence[Outgoing]], about: Message
    ) -> Sequence[Said]:
        said: list[Said] = []
        member = self.member
        for user in users:
            try:
                for to, out in ask(member(user)):
                    said.append((user, to, out))
            except Refused as refused:
                refusal = Refusal(COORDINATOR, kind_of(about), refused.fault, refused.detail)
                said.append((user, AUDITOR, refusal))
        return said
