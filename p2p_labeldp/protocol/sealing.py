"""Sealed packets: the one interface that relays and users of the mixed exchange use, and its simulated form.

A packet is a label in two onions, the inner one inside the outer one, each with a layer for every relay. A relay
takes its outer layer off with a key of its own; what is left is shorter, looks like any other packet and cannot be
linked to what it was. The inner layers come off when all relays have released their inner keys.

``Vault`` is the simulated form: a packet is a random number of eight bytes, what it holds is in the vault, and the
vault hands it out layer by layer to whoever shows the key. Whoever has not got the key has eight bytes. It costs a
hundredth of real cryptography and keeps the structure: who must act, in which order, on what. ``onions`` is the real
form. The roles know neither; their tests run with both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from p2p_labeldp.mechanisms.mixing import DOMAIN, expanded


class Sealed(NamedTuple):
    """A packet as its sender keeps it."""

    layers: list[bytes]
    """With 0, 1, ..., L outer layers taken off; the first is what she deposits, the last what all are shown."""
    openings: list[bytes]
    """What each outer layer was sealed with: they prove the layers, and are shown only if the packet got lost."""


class Cipher(Protocol):
    """How packets are sealed. Keys are bytes; a public key follows from its secret."""

    key_size: int
    """Bytes of a public key."""

    def secret_key(self, secret: bytes, which: bytes) -> bytes:
        """A secret key, made from a member's secret of the attempt; ``which`` is outer or inner."""
        ...

    def public_key(self, key: bytes) -> bytes: ...

    def usable(self, public: bytes) -> bool:
        """Whether something can be sealed for a public key that someone else has published."""
        ...

    def packet_size(self, relays: int, step: int) -> int:
        """Bytes of a packet that ``step`` relays have passed on."""
        ...

    def seal(self, label: int, outer: Sequence[bytes], inner: Sequence[bytes], context: bytes, secret: bytes) -> Sealed:
        """A label under the relays' public keys; ``context`` names the attempt, ``secret`` is the sender's for it."""
        ...

    def peel(self, key: bytes, packets: Sequence[bytes], context: bytes, step: int) -> list[bytes | None]:
        """Packets without the outer layer of the relay at ``step``; None where the key does not open one."""
        ...

    def labels(self, keys: Sequence[bytes], packets: Sequence[bytes], context: bytes) -> list[int | None]:
        """What is in packets without outer layers, given all inner keys; None where it is no label."""
        ...

    def proves(self, sealed: Sealed, outer: Sequence[bytes], context: bytes) -> bool:
        """Whether each layer is what the one before becomes when its relay takes its own off."""
        ...


TOKEN = 8
"""Bytes of a simulated packet or public key; two of ten million are equal with probability 1e-6."""
_token = hashlib.blake2b(DOMAIN + b"simulated", digest_size=TOKEN)


_Onion = tuple[tuple[bytes, ...], int, bytes, list[bytes]]
"""Public keys of its layers, the outermost first (outer ones, then inner ones); label; context; and its looks with
0, 1, ..., L outer layers taken off."""
_NOTHING: _Onion = (), 0, b"", []


class Vault:
    """What simulated packets hold. One for all users of a simulation."""

    __slots__ = ("_held", "key_size")

    def __init__(self) -> None:
        self.key_size = TOKEN
        self._held: dict[bytes, _Onion] = {}  # by their looks, those that have been shown to anyone

    def secret_key(self, secret: bytes, which: bytes) -> bytes:
        return hashlib.blake2b(secret + which, digest_size=16).digest()

    def public_key(self, key: bytes) -> bytes:
        hashed = _token.copy()
        hashed.update(key)
        return hashed.digest()

    def usable(self, public: bytes) -> bool:
        return len(public) == TOKEN

    def packet_size(self, relays: int, step: int) -> int:
        return TOKEN

    def seal(self, label: int, outer: Sequence[bytes], inner: Sequence[bytes], context: bytes, secret: bytes) -> Sealed:
        looks = expanded(b"looks", secret, TOKEN * (len(outer) + 1))
        layers = [looks[start : start + TOKEN] for start in range(0, len(looks), TOKEN)]
        self._held[layers[0]] = (*outer, *inner), label, context, layers
        return Sealed(layers, [])

    def peel(self, key: bytes, packets: Sequence[bytes], context: bytes, step: int) -> list[bytes | None]:
        public, held, found = self.public_key(key), self._held, list[bytes | None]()
        for packet in packets:
            onion = held.get(packet, _NOTHING)
            keys, _, sealed_for, layers = onion
            if step + 1 < len(layers) and layers[step] == packet and sealed_for == context and keys[step] == public:
                looks = layers[step + 1]
                held[looks] = onion
                found.append(looks)
            else:
                found.append(None)
        return found

    def labels(self, keys: Sequence[bytes], packets: Sequence[bytes], context: bytes) -> list[int | None]:
        public, found = tuple(map(self.public_key, keys)), list[int | None]()
        for packet in packets:
            under, label, sealed_for, layers = self._held.get(packet, _NOTHING)
            fits = bool(layers) and sealed_for == context and under[layers.index(packet) :] == public
            found.append(label if fits else None)
        return found

    def proves(self, sealed: Sealed, outer: Sequence[bytes], context: bytes) -> bool:
        keys, _, sealed_for, layers = self._held.get(sealed.layers[0], _NOTHING) if sealed.layers else _NOTHING
        return bool(layers) and layers == sealed.layers and sealed_for == context and keys[: len(outer)] == tuple(outer)
