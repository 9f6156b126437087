"""The mixed exchange's randomness: who relays, in which order packets leave a relay, whose label each user draws.

Nobody chooses any of it alone. Parties commit to random nonces, then open them; what is drawn is a function of all
nonces together, so that it is uniform if one of them is:

    relays  = the first L places of permutation(digest of everyone's nonces)        public
    order   = permutation(secret of the relay), one for each relay                  known to that relay alone
    places  = floor(n u), u uniform from the digest of the relays' nonces            known to the relays alone

Whoever is at place i of the cluster gets the label at ``places[i]`` of the batch that the last relay passed on, and
that came from place ``order_1[order_2[... order_L[places[i]]]]``. Numbers come from SHAKE-256, a cryptographic
generator whose output is any number of bytes.

Secrets and nonces come from ``Secrets``: in a seeded run they follow from the seed and from a relay's position, not
from who it is, so that arrays compute the exchange without drawing relays; else from the operating system.

**The permutation that the members of a cluster agree on**, each of whom asks whom she is mapped to, is the paper's
aside in "Comparison to the shuffle model": a secret of the members alone, by a key agreement. Every member contributes
a number that nobody can guess, her coin ``PEER`` of the round, which is of no other use there; what they agree on is
``permutation`` of the digest of all numbers, ids ascending, so that it is uniform to whoever lacks one of them. How the
numbers come to all members and to nobody else is not part of this package: a simulation takes it as done, sends no
message for it and counts none, and a deployment refuses the exchange.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.coins import Coins, SeededCoins
from p2p_labeldp.streams import Purpose

DOMAIN = b"p2p_labeldp mixed 1: "
"""Begins everything that is hashed here, so that no digest of this exchange is one of anything else."""
NONCE = 16
"""Bytes of a nonce: 128 bits are enough that nobody finds another opening of a commitment."""


class Secret(Enum):
    """What a secret is for; secrets for different purposes are independent."""

    MEMBER = b"member"  # a member's nonce and the keys she relays with
    SEAL = b"seal"  # the ephemeral keys of a member's packet
    ORDER = b"order"  # a relay's permutation
    DRAW = b"draw"  # a relay's nonce of the draw
    COORDINATOR = b"coordinator"  # the coordinator's nonce
    STAMP = b"stamp"  # the key of simulated signatures

    __hash__ = object.__hash__  # members are equal if they are one; by their names takes several times as long


PACKED = [struct.Struct(f"<{count}q").pack for count in range(8)]
"""So many whole numbers, as bytes."""


class Secrets:
    """32 bytes for each purpose and key, all from one root; asking again gives the same ones."""

    __slots__ = ("_base",)

    def __init__(self, root: bytes) -> None:
        self._base = {
            purpose: hashlib.blake2b(key=root, digest_size=32, person=purpose.value.ljust(16)) for purpose in Secret
        }

    def of(self, purpose: Secret, *key: int) -> bytes:
        hashed = self._base[purpose].copy()
        hashed.update(PACKED[len(key)](*key))
        return hashed.digest()


@runtime_checkable
class Rooted(Protocol):
    """Coins that keep secrets besides, so that a node which is restarted has the same ones."""

    secrets: Secrets


def secrets_of(coins: Coins) -> Secrets:
    """Those that go with the coins: of their seed, their own, or of the operating system."""
    if isinstance(coins, SeededCoins):
        return Secrets(struct.pack("<QQ", coins.seed, int(Purpose.MIXING)))
    return coins.secrets if isinstance(coins, Rooted) else Secrets(os.urandom(32))


def digest(what: bytes, parts: Iterable[bytes]) -> bytes:
    """SHA-256 over a name and parts whose lengths their readers know."""
    return hashlib.sha256(b"".join((DOMAIN, what, *parts))).digest()


def expanded(what: bytes, secret: bytes, size: int) -> bytes:
    """``size`` bytes that look random to whoever does not know the secret."""
    return hashlib.shake_256(DOMAIN + what + secret).digest(size)


def permutation(secret: bytes, count: int) -> NDArray[np.int64]:
    """The numbers 0..count-1 in the order of independent words; uniform, since equal words are drawn anew."""
    for attempt in itertools.count():
        words = _words(b"order %d " % attempt, secret, count)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order
    raise AssertionError("some attempt has no equal words")


def relay_places(public: bytes, size: int, relays: int) -> list[int]:
    """Places in the cluster of the relays, first to last, from what everyone opened."""
    found: list[int] = permutation(digest(b"relays", [public]), size)[:relays].tolist()
    return found


def drawn_places(nonces: Sequence[bytes], size: int) -> NDArray[np.int64]:
    """For each member a place in the batch, with replacement, from what the relays opened."""
    words = _words(b"draw ", digest(b"nonces", nonces), size)
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * size).astype(np.int64)


def draw_nonce(secrets: Secrets, round_: int, cluster: int, attempt: int, relay: int) -> bytes:
    """The nonce of the relay at a position, 0 to L-1."""
    return secrets.of(Secret.DRAW, round_, cluster, attempt, relay)[:NONCE]


def sources(secrets: Secrets, round_: int, cluster: int, size: int, relays: int) -> NDArray[np.int64]:
    """For each place in a cluster, the place whose noisy label its user draws: the whole exchange on arrays."""
    order = np.arange(size)
    for relay in range(relays):
        order = order[permutation(secrets.of(Secret.ORDER, round_, cluster, 0, relay), size)]
    nonces = [draw_nonce(secrets, round_, cluster, 0, relay) for relay in range(relays)]
    return order[drawn_places(nonces, size)]


def agreed_places(contributions: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each place in a cluster, the place whose user she asks; one contribution for each place."""
    return permutation(digest(b"agreement", [contributions.astype("<f8").tobytes()]), len(contributions))


def _words(what: bytes, secret: bytes, count: int) -> NDArray[np.uint64]:
    return np.frombuffer(expanded(what, secret, 8 * count), dtype="<u8").astype(np.uint64, copy=False)
