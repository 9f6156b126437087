"""Sealed packets by real cryptography: X25519, HKDF-SHA256 and ChaCha20-Poly1305, all from ``cryptography``.

A layer for the public key P of a relay is

    E || ChaCha20-Poly1305(k, nonce 0, content),    e a fresh X25519 key, E = e G,    k = HKDF(e P, info)
    info = DOMAIN, "outer" or "inner", the relay's position, the attempt's digest, E, P

which is the usual way to seal for a public key. Every k is used once, so that the nonce may be fixed. A label takes
two bytes; each layer adds 48. A packet is (2 + 48 * 2L) bytes long when it is deposited and 48 shorter after each
relay, whatever it holds. The key of another attempt, position or onion does not open it: ``info`` differs.
``openings`` are the e of a sender's outer layers; whoever is shown them seals again and compares.

Public keys of small order, with which everyone would know k, are refused when they are published (``usable``).
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from p2p_labeldp.mechanisms.mixing import DOMAIN, expanded
from p2p_labeldp.protocol.sealing import Sealed

KEY, TAG, LABEL = 32, 16, 2  # bytes
LAYER = KEY + TAG
_NONCE = bytes(12)
OUTER, INNER = b"outer", b"inner"
_TRIAL = X25519PrivateKey.from_private_bytes(bytes(KEY))  # any will do


class Onions:
    """Holds nothing: keys are their owners'."""

    key_size = KEY

    def secret_key(self, secret: bytes, which: bytes) -> bytes:
        return expanded(b"key " + which, secret, KEY)

    def public_key(self, key: bytes) -> bytes:
        return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()

    def usable(self, public: bytes) -> bool:
        """A key of small order would open whatever is sealed for it to everyone: ``cryptography`` refuses those."""
        try:
            _TRIAL.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            return False
        return True

    def packet_size(self, relays: int, step: int) -> int:
        return LABEL + LAYER * (2 * relays - step)

    def seal(self, label: int, outer: Sequence[bytes], inner: Sequence[bytes], context: bytes, secret: bytes) -> Sealed:
        fresh = expanded(b"ephemeral", secret, KEY * (len(outer) + len(inner)))
        keys = [fresh[start : start + KEY] for start in range(0, len(fresh), KEY)]
        content = label.to_bytes(LABEL, "big")
        for position in reversed(range(len(inner))):
            content = _layer(keys.pop(), inner[position], content, _info(INNER, position, context))
        layers = [content]
        for position in reversed(range(len(outer))):
            layers.append(_layer(keys[position], outer[position], layers[-1], _info(OUTER, position, context)))
        return Sealed(layers[::-1], keys)

    def peel(self, key: bytes, packets: Sequence[bytes], context: bytes, step: int) -> list[bytes | None]:
        return _contents(key, packets, _info(OUTER, step, context))

    def labels(self, keys: Sequence[bytes], packets: Sequence[bytes], context: bytes) -> list[int | None]:
        contents: list[bytes | None] = list(packets)
        for position, key in enumerate(keys):
            contents = _contents(key, contents, _info(INNER, position, context))
        return [
            None if content is None or len(content) != LABEL else int.from_bytes(content, "big") for content in contents
        ]

    def proves(self, sealed: Sealed, outer: Sequence[bytes], context: bytes) -> bool:
        if len(sealed.layers) != len(outer) + 1 or len(sealed.openings) != len(outer):
            return False
        return all(
            len(opening) == KEY and _layer(opening, public, content, _info(OUTER, position, context)) == packet
            for position, (opening, public, packet, content) in enumerate(
                zip(sealed.openings, outer, sealed.layers, sealed.layers[1:], strict=False)
            )
        )


def _info(onion: bytes, position: int, context: bytes) -> bytes:
    return DOMAIN + onion + position.to_bytes(1, "big") + context


def _layer(fresh: bytes, public: bytes, content: bytes, info: bytes) -> bytes:
    ephemeral = X25519PrivateKey.from_private_bytes(fresh)
    shown = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    return shown + _aead(shared, info + shown + public).encrypt(_NONCE, content, None)


def _contents(key: bytes, packets: Sequence[bytes | None], info: bytes) -> list[bytes | None]:
    """What layers hold; None where the key does not open one, whatever the reason. The key is made ready once: that
    takes as long as to open a layer."""
    own = X25519PrivateKey.from_private_bytes(key)
    public = own.public_key().public_bytes_raw()
    return [None if packet is None else _content(own, public, packet, info) for packet in packets]


def _content(own: X25519PrivateKey, public: bytes, packet: bytes, info: bytes) -> bytes | None:
    shown, sealed = packet[:KEY], packet[KEY:]
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(shown))
        return _aead(shared, info + shown + public).decrypt(_NONCE, sealed, None)
    except (InvalidTag, ValueError):
        return None


def _aead(shared: bytes, info: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(HKDF(SHA256(), 32, None, info).derive(shared))
