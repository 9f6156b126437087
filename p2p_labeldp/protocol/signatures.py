"""Who signed what in the mixed exchange: the one interface that the roles use, its statements, and its simulated form.

Three things are signed, each by the key that stands for a user (in deployments that of her host's certificate):

    keys     commitment of the opening (round, cluster, attempt, user, nonce, public keys), run
    batch    context, digest of the batch           by the last relay, of the batch that it shows to all
    go       context, digest of the batch           by a member who found her packet in it

where ``context`` is a digest of run, round, cluster, attempt, members, who signs for them, everyone's opening and so
the relays (``session``). A statement begins with ``DOMAIN``, its kind and the user, so that none can be taken for
another, nor for anything else that a certificate's key signs. So whoever forwards keys, batches or gos cannot alter
them, and a last relay that shows two batches has signed both: ``signed_twice`` is what a third party checks.

``Stamps`` is the simulated form: eight bytes of a keyed hash, whose key the simulation keeps.
``deployment.certified`` has the real one. The roles know neither; their tests run with both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from p2p_labeldp.mechanisms.mixing import DOMAIN, PACKED, Secret, Secrets

SIGNED_KEYS, SIGNED_BATCH, SIGNED_GO = b"keys", b"batch", b"go"
_SIGNED, _user = DOMAIN + b"signed ", PACKED[1]


class Signatures(Protocol):
    """Signs for one's own users, and checks what anyone signed."""

    size: int
    """Bytes of a signature."""

    def sign(self, user: int, statement: bytes) -> bytes: ...

    def verifies(self, user: int, statement: bytes, signature: bytes) -> bool: ...

    def signers(self, users: Sequence[int]) -> bytes:
        """A digest, of 32 bytes, of whose key signs for each of these users."""
        ...


def statement(what: bytes, user: int, content: bytes) -> bytes:
    """What is signed, word for word."""
    return _SIGNED + what + _user(user) + content


def signed_twice(signatures: Signatures, relay: int, evidence: Sequence[bytes]) -> bool:
    """Whether a relay has shown two batches in one attempt: its context, and twice a digest and the relay's signature.

    Needs nothing but the evidence and the relay's certificate.
    """
    if len(evidence) != 5 or evidence[1] == evidence[3]:
        return False
    context, *pairs = evidence
    return all(
        signatures.verifies(relay, statement(SIGNED_BATCH, relay, context + digest), signature)
        for digest, signature in (pairs[:2], pairs[2:])
    )


class Stamps:
    """Simulated signatures. One for all users of a simulation."""

    __slots__ = ("_base", "size")

    def __init__(self, secrets: Secrets) -> None:
        self.size = 8
        self._base = hashlib.blake2b(key=secrets.of(Secret.STAMP), digest_size=self.size)

    def sign(self, user: int, statement: bytes) -> bytes:
        hashed = self._base.copy()
        hashed.update(statement)
        return hashed.digest()

    def verifies(self, user: int, statement: bytes, signature: bytes) -> bool:
        return signature == self.sign(user, statement)

    def signers(self, users: Sequence[int]) -> bytes:
        return bytes(32)
