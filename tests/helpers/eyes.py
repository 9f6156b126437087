"""What a party of the mixed exchange can work out of the bytes that it receives: an attacker with the definition of the
protocol, and with none of the code that says what parties see.

Messages are read as anyone would read MessagePack. Bytes are names: packets look random to whoever has no key, so that
of a name nothing is known but where else it occurs. Names are numbered in the order of their first appearance. To these
an attacker adds whatever her keys give: she tries every outer key she has on every name, for each step, and all inner
keys together on every name; from the nonces of all relays she works out the draws.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import msgpack
import numpy as np
import pytest
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.mixing import Secret, Secrets, drawn_places, permutation
from p2p_labeldp.protocol.sealing import Cipher

Seen = list[Any]
"""Messages as they are read, [sender, receiver, [kind, field, ...]] each, in their order; or other things besides."""


class Chosen(Secrets):
    """Secrets of which the orders of relays, and their draw, are chosen; everything else follows from a root."""

    def __init__(self, root: bytes, orders: Sequence[Sequence[int]], places: Sequence[int]) -> None:
        super().__init__(root)
        self._orders = [_secret_of(tuple(order)) for order in orders]
        self._nonces = _nonces_of(tuple(places), len(orders))

    def of(self, purpose: Secret, *key: int) -> bytes:
        if purpose is Secret.ORDER and key[-1] >= 0:
            return self._orders[key[-1]]
        return self._nonces[key[-1]] if purpose is Secret.DRAW else super().of(purpose, *key)


@cache
def _secret_of(order: tuple[int, ...]) -> bytes:
    """By which a relay permutes so."""
    tried = (bytes(30) + number.to_bytes(2, "big") for number in itertools.count())
    return next(secret for secret in tried if tuple(permutation(secret, len(order)).tolist()) == order)


@cache
def _nonces_of(places: tuple[int, ...], relays: int) -> list[bytes]:
    """By which relays draw these places; all but the last nonce are the same for all draws."""
    others = [bytes([place]) * 32 for place in range(relays - 1)]
    for number in itertools.count():
        last = number.to_bytes(32, "big")
        nonces = [*others, bytes(16 - 3) + last[-3:] + bytes(16)]
        if tuple(drawn_places([nonce[:16] for nonce in nonces], len(places)).tolist()) == places:
            return nonces
    raise AssertionError("there is no end of numbers")


@dataclass
class Keys:
    """What an attacker has by itself: its own users' secrets of one attempt."""

    cipher: Cipher
    context: bytes
    relays: int
    outer: list[bytes] = field(default_factory=list)
    inner: dict[int, bytes] = field(default_factory=dict)  # by position
    nonces: dict[int, bytes] = field(default_factory=dict)
    packets: dict[bytes, Hashable] = field(default_factory=dict)
    """Of its own users, with as many layers as there are."""
    facts: tuple[Hashable, ...] = ()
    """Labels and coins of its own users."""


def read(frame: bytes) -> Any:
    return msgpack.unpackb(frame, raw=False, strict_map_key=False)


def knowledge(seen: Seen, keys: Keys, positions: Mapping[int, int], size: int) -> Hashable:
    """All that follows from messages and keys; ``positions`` are those of the relays, by user, and public."""
    inner, nonces = dict(keys.inner), dict(keys.nonces)
    packets: dict[bytes, None] = {}
    for kind, sender, fields in _messages(seen):
        if kind in ("unlock", "reveal"):
            (inner if kind == "unlock" else nonces)[positions[sender]] = fields[2]
        elif kind in ("deposit", "batch"):
            packets |= dict.fromkeys([fields[2]] if kind == "deposit" else fields[5])
    names: dict[bytes, int] = {}

    def named(value: Any) -> Hashable:
        if isinstance(value, bytes):
            return keys.packets.get(value, names.setdefault(value, len(names)))
        if isinstance(value, dict):
            return tuple((named(key), named(each)) for key, each in value.items())
        return tuple(map(named, value)) if isinstance(value, list | tuple) else value

    lines = named(seen)
    links: list[Hashable] = []
    tried, packets = packets, {}
    while tried:  # what a key gives may be tried again
        packets |= tried
        peeled = [
            (packet, found)
            for packet, key, step in itertools.product(tried, keys.outer, range(keys.relays))
            if (found := keys.cipher.peel(key, [packet], keys.context, step)[0]) is not None
        ]
        links += [(named(packet), named(found)) for packet, found in peeled]
        tried = {found: None for _, found in peeled if found not in packets}
    opened: list[Hashable] = []
    if len(inner) == keys.relays:
        ordered = [inner[position] for position in range(keys.relays)]
        labels = keys.cipher.labels(ordered, [*packets], keys.context)
        opened = [(named(packet), label) for packet, label in zip(packets, labels, strict=True)]
    places: tuple[int, ...] = ()
    if len(nonces) == keys.relays:
        places = tuple(drawn_places([nonces[position] for position in range(keys.relays)], size).tolist())
    return lines, tuple(links), tuple(opened), places, keys.facts


def _messages(seen: Any) -> Iterable[tuple[str, int, list[Any]]]:
    """Wherever they stand in what is seen."""
    if isinstance(seen, list | tuple):
        if len(seen) == 3 and isinstance(seen[2], list) and seen[2] and isinstance(seen[2][0], str):
            yield seen[2][0], seen[0], seen[2][1:]
            return
        for each in seen:
            yield from _messages(each)


Views = dict[Hashable, dict[tuple[int, ...], float]]
"""Of an attacker: what is known, and by what everyone holds (noisy labels, first of all) the chance of it."""


def every_view(
    runs: Iterable[tuple[tuple[int, ...], float, Any]], attackers: Mapping[str, Callable[[Any], Hashable]]
) -> dict[str, Views]:
    """``runs``: what everyone holds, the chance of the other coins, and what there is to be seen."""
    found: dict[str, Views] = {name: defaultdict(lambda: defaultdict(float)) for name in attackers}
    for held, chance, run in runs:
        for name, view in attackers.items():
            found[name][view(run)][held] += chance
    return found


def divergences(
    views: Views,
    victim: int,
    alpha: float,
    epsilon: float,
    size: int,
    theta: float = 1.0,
    deposited: Mapping[int, int] = MappingProxyType({}),
) -> NDArray[np.float64]:
    """The hockey-stick divergence between what is seen if the victim's label is 0, and if it is 1, and back: for all
    labels of everyone else. What is held besides noisy labels is who keeps what she gets.

    ``deposited``: what the attacker's own users have chosen to deposit, whatever their labels are.
    """
    held = sorted({each for masses in views.values() for each in masses})
    held = [each for each in held if all(each[user] == label for user, label in deposited.items())]
    table = np.array([[masses.get(each, 0.0) for each in held] for masses in views.values()])
    noisy, kept = np.array([each[:size] for each in held]), np.array([sum(each[size:]) for each in held])
    if len(held[0]) > size:
        table = table * theta**kept * (1 - theta) ** (size - kept)
    flipping = [user for user in range(size) if user not in deposited]
    found = []
    for labels in itertools.product((0, 1), repeat=size):
        one, other = (
            table
            @ np.where(noisy == [*labels[:victim], label, *labels[victim + 1 :]], 1 - alpha, alpha)[:, flipping].prod(1)
            for label in (0, 1)
        )
        assert one.sum() == pytest.approx(1.0), "every coin was there"
        found.append([np.maximum(0.0, a - math.exp(epsilon) * b).sum() for a, b in ((one, other), (other, one))])
    return np.array(found)
