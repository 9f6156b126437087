"""The mixed exchange step by step, without a network: roles, queues between them, and what a test does to messages."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from cryptography import x509

from p2p_labeldp.deployment.certificates import fingerprint, init_certificates
from p2p_labeldp.deployment.certified import CertifiedKey, HostSignatures
from p2p_labeldp.deployment.items import Certificates, Directory, Holder
from p2p_labeldp.deployment.shares import Shares
from p2p_labeldp.mechanisms.coins import Coins, SeededCoins
from p2p_labeldp.mechanisms.mixing import Secrets, secrets_of
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.assembly import Mixing
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.messages import (
    AUDITOR,
    COORDINATOR,
    HOST,
    LEARNER,
    Features,
    Message,
    Outgoing,
    Refusal,
    Refused,
    Report,
    kind_of,
)
from p2p_labeldp.protocol.mixing_coordinator import MixingCoordinator
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Cipher, Vault
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.protocol.signatures import Signatures, Stamps
from p2p_labeldp.protocol.user import LEFT

Sent = tuple[int, int, Any]
Tamper = Callable[[int, int, Any], Iterable[Sent]]
"""(sender, receiver, message) to what becomes of it on the way."""


@cache
def certificates() -> list[CertifiedKey]:
    """A host for each of twelve users."""
    with tempfile.TemporaryDirectory() as folder:
        init_certificates(Path(folder) / "certs", 12)
        return [CertifiedKey.load(Path(folder) / "certs" / f"users-{user + 1}") for user in range(12)]


class Certified:
    """Everyone signs with a certificate of her own."""

    def __init__(self, size: int) -> None:
        self.keys = certificates()[:size]
        holders = [
            Holder(fingerprint(x509.load_pem_x509_certificate(key.chain)), f"users-{user}", "host:1", user, user + 1)
            for user, key in enumerate(self.keys)
        ]
        self.everyone = HostSignatures(self.keys[0], Shares(Directory("", 0.0, size, 1, 2, holders)))
        self.everyone.take(Certificates(0, [key.chain for key in self.keys]))
        self.size, self.verifies, self.signers = 64, self.everyone.verifies, self.everyone.signers

    def sign(self, user: int, statement: bytes) -> bytes:
        return self.keys[user].sign(statement)


class Mixed:
    """Users 0..size-1 in one cluster, carried by so many hosts."""

    def __init__(
        self,
        size: int,
        *,
        relays: int = 3,
        cipher: Cipher | None = None,
        signatures: Signatures | None = None,
        hosts: int = 1,
        coins: Coins | None = None,
        labels: int = 2,
        rounds: int = 1,
        noise: str = "sticky",
        alpha: float = 0.2,
        theta: float = 1.0,
        minimum_size: int = 2,
        tamper: Tamper = lambda *sent: [sent],
        order: np.random.Generator | None = None,
        roles: dict[int, Callable[..., Depositor]] | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """``secrets`` are those of the coins unless given."""
        cipher, coins = cipher or Vault(), coins or SeededCoins(5)
        real = isinstance(cipher, Onions)
        signatures = signatures or (Certified(size) if real else Stamps(secrets_of(coins)))
        self.parameters = Parameters(
            alpha, theta, labels, noise, rounds, max(minimum_size, relays), exchange="mixed", relays=relays
        )
        self.cipher = cipher
        edges = [size * place // hosts for place in range(hosts + 1)]
        self.hosts = [
            MixingHost(self.parameters, coins, edges[place], edges[place + 1], cipher, signatures)
            for place in range(hosts)
        ]
        self.true = [user % labels for user in range(size)]
        self.users: list[Depositor] = []
        for host in self.hosts:
            host.secrets = secrets or self.hosts[0].secrets
            host.member = lambda user: self.users[user]
            for user in range(host._first, host._last):
                role = (roles or {}).get(user, Depositor)
                self.users.append(role(user, self.true[user], host))
        mixing = Mixing(cipher, signatures, secrets or secrets_of(coins), relays, self.parameters.minimum_size)
        self.coordinator = MixingCoordinator(
            size, 1, rounds, lambda ids, _: np.zeros_like(ids), 60.0, 60.0, mixing=mixing
        )
        self.sent: list[Sent] = []
        self.refusals: list[tuple[int, Refusal]] = []
        self.reports: list[dict[int, int]] = [{} for _ in range(rounds)]
        self._tamper, self._order = tamper, order
        # By sender and link: what the coordinator tells a host and its users stays in order, as on one connection.
        self._queues: dict[tuple[int, int], deque[tuple[int, int, Message]]] = {}
        self.expired = 0
        self.sessions: dict[tuple[int, int, int], Session] = {}

    def run(self) -> Mixed:
        for user in self.users:
            self._send(user.id, *user.hello(Features(np.zeros(1, dtype=np.float32))))
        self.settle()
        while not self.coordinator.finished:
            self.expired += 1
            self._say(COORDINATOR, self.coordinator.expire())
            self.settle()
        return self

    def settle(self) -> None:
        """Deliver until nothing is on its way."""
        while self._queues:
            keys = list(self._queues)
            key = keys[0] if self._order is None else keys[int(self._order.integers(len(keys)))]
            queue = self._queues[key]
            receiver, place, message = queue.popleft()
            if not queue:
                del self._queues[key]
            self._deliver(key[0], receiver, place, message)

    def of_kind(self, kind: type[Any]) -> list[Sent]:
        return [each for each in self.sent if type(each[2]) is kind]

    @property
    def named(self) -> str:
        return " | ".join(self.coordinator.warnings)

    @property
    def session(self) -> Any:
        """The newest attempt, as the first host knows it."""
        return list(self.sessions.values())[-1]

    def outcomes(self) -> list[dict[str, int]]:
        return [each.outcomes for each in self.coordinator.attendance]

    def _send(self, sender: int, receiver: int, message: Message) -> None:
        for each in self._tamper(sender, receiver, message):
            self.sent.append(each)
            sender, receiver, message = each
            if receiver == AUDITOR:
                self.refusals.append((sender, cast(Refusal, message)))
            elif receiver == HOST:
                for place in range(len(self.hosts)):
                    self._queues.setdefault((sender, -10 - place), deque()).append((HOST, place, message))
            elif sender == COORDINATOR and receiver >= 0:
                place = next(place for place, host in enumerate(self.hosts) if receiver < host._last)
                self._queues.setdefault((sender, -10 - place), deque()).append((receiver, 0, message))
            else:
                self._queues.setdefault((sender, receiver), deque()).append((receiver, 0, message))

    def _say(self, sender: int, said: Iterable[Outgoing]) -> None:
        for to, message in said:
            self._send(sender, to, message)

    def _deliver(self, sender: int, receiver: int, place: int, message: Message) -> None:
        try:
            if receiver == HOST:
                host = self.hosts[place]
                if type(message).__name__ == "Roster" or host.rosters:
                    said = host.receive(sender, message)
                    self.sessions.update({each.name: each for each in self.hosts[0]._sessions.values()})
                    for each in said:
                        self._send(*each)
            elif receiver == COORDINATOR:
                self._say(COORDINATOR, self.coordinator.receive(sender, message))
            elif receiver == LEARNER:
                if type(message) is Report:
                    self.reports[message.round][sender] = message.label
            else:
                self._say(receiver, self.users[receiver].receive(sender, message))
        except Refused as refused:
            self.refusals.append((receiver, Refusal(sender, kind_of(message), refused.fault, refused.detail)))

    def all_left(self) -> bool:
        return all(user.state is LEFT for user in self.users)
