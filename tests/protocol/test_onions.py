"""Real packets: test vectors, and what does not open."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from p2p_labeldp.mechanisms.mixing import drawn_places, permutation, relay_places
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Cipher, Sealed, Vault
from p2p_labeldp.protocol.session import batch_digest, commitment

ONIONS = Onions()
KEYS = [hashlib.sha256(b"key %d" % place).digest() for place in range(6)]
OUTER, INNER = KEYS[:3], KEYS[3:]
PUBLIC = [ONIONS.public_key(key) for key in KEYS]
CONTEXT = hashlib.sha256(b"context").digest()


def sealed(cipher: Cipher = ONIONS, label: int = 513, context: bytes = CONTEXT) -> Sealed:
    public = [cipher.public_key(key) for key in KEYS]
    return cipher.seal(label, public[:3], public[3:], context, hashlib.sha256(b"secret").digest())


def test_vectors() -> None:
    """What is on the wire does not change unnoticed."""
    packet = sealed().layers[0]
    assert hashlib.sha256(packet).hexdigest() == VECTORS["packet"]
    assert commitment(1, 2, 0, 7, b"opening").hex() == VECTORS["commitment"]
    assert batch_digest([b"one", b"two"]).hex() == VECTORS["batch"]
    assert permutation(b"secret", 8).tolist() == VECTORS["permutation"]
    assert drawn_places([b"a" * 16, b"b" * 16], 8).tolist() == VECTORS["places"]
    assert relay_places(b"public", 10, 3) == VECTORS["relays"]


def test_a_layer_opens_as_the_standards_say() -> None:
    """Independently of our code: X25519, HKDF-SHA256 and ChaCha20-Poly1305, the relay's side written out."""
    packet = sealed().layers[0]
    own, shown = X25519PrivateKey.from_private_bytes(OUTER[0]), packet[:32]
    shared = own.exchange(X25519PublicKey.from_public_bytes(shown))
    info = b"p2p_labeldp mixed 1: outer\x00" + CONTEXT + shown + PUBLIC[0]
    key = HKDF(SHA256(), 32, None, info).derive(shared)
    assert ChaCha20Poly1305(key).decrypt(bytes(12), packet[32:], None) == sealed().layers[1]


@pytest.mark.parametrize("cipher", [ONIONS, Vault()], ids=["onions", "vault"])
def test_layers_come_off_in_order_and_the_label_is_inside(cipher: Cipher) -> None:
    made = sealed(cipher)
    packet: bytes | None = made.layers[0]
    for step in range(3):
        assert packet == made.layers[step]
        assert packet is not None
        assert len(packet) == cipher.packet_size(3, step)
        packet = cipher.peel(OUTER[step], [packet], CONTEXT, step)[0]
    assert packet == made.layers[3]
    assert packet is not None
    assert cipher.labels(INNER, [packet], CONTEXT)[0] == 513
    assert cipher.proves(made, [cipher.public_key(key) for key in OUTER], CONTEXT)


@pytest.mark.parametrize("cipher", [ONIONS, Vault()], ids=["onions", "vault"])
def test_nothing_else_opens_it(cipher: Cipher) -> None:
    packet = sealed(cipher).layers[0]
    assert cipher.peel(OUTER[1], [packet], CONTEXT, 0)[0] is None, "another key"
    assert cipher.peel(OUTER[0], [packet], CONTEXT, 1)[0] is None, "another position"
    assert cipher.peel(OUTER[0], [packet], bytes(32), 0)[0] is None, "another attempt"
    assert cipher.peel(OUTER[0], [bytes([packet[0] ^ 1]) + packet[1:]], CONTEXT, 0)[0] is None, "altered"
    assert cipher.peel(OUTER[0], [b""], CONTEXT, 0)[0] is None
    last = sealed(cipher).layers[-1]
    for step in range(3):
        cipher.peel(OUTER[step], [sealed(cipher).layers[step]], CONTEXT, step)[0]
    assert cipher.labels(INNER[::-1], [last], CONTEXT)[0] is None, "keys in another order"
    assert cipher.labels(OUTER, [last], CONTEXT)[0] is None, "outer keys for the inner onion"
    assert cipher.labels(INNER, [last], bytes(32))[0] is None


@pytest.mark.parametrize("cipher", [ONIONS, Vault()], ids=["onions", "vault"])
def test_layers_that_are_not_hers_prove_nothing(cipher: Cipher) -> None:
    made, public = sealed(cipher), [cipher.public_key(key) for key in OUTER]
    assert not cipher.proves(Sealed(made.layers[:2], made.openings), public, CONTEXT)
    assert not cipher.proves(Sealed(made.layers[::-1], made.openings), public, CONTEXT)
    assert not cipher.proves(made, public[::-1], CONTEXT)
    assert not cipher.proves(Sealed([], []), public, CONTEXT)


def test_a_packet_takes_two_bytes_for_its_label_and_48_for_each_layer() -> None:
    assert [ONIONS.packet_size(3, step) for step in range(4)] == [290, 242, 194, 146]


def test_keys_of_small_order_are_not_usable() -> None:
    assert not ONIONS.usable(bytes(32))
    assert not ONIONS.usable(b"\x01" + bytes(31))
    assert not ONIONS.usable(b"short")
    assert all(map(ONIONS.usable, PUBLIC))


VECTORS: dict[str, object] = {
    "batch": "3c640f2f157929754a8b1df902989035789fb281c63d4d6c085716ef8e6ef6a5",
    "commitment": "bf9c4d48bd89a28610d0d764295dbd18bd8a67e3f719e81bbe2a702accb07ec1",
    "packet": "3e48557fc1fc9fd3bf6e6c296f5e6e3ac00ab2af28ba25e907cbe4373455df19",
    "permutation": [7, 3, 0, 5, 4, 1, 2, 6],
    "places": [1, 6, 1, 3, 7, 0, 7, 6],
    "relays": [8, 4, 3],
}
