"""The mixed exchange for chosen coins, by roles or by nodes as they are: every run of a few users, what attackers know.

An attacker (``eyes``) reads what comes to her and tries her keys on all of it. What she knows under one label of the
victim is held against what she knows under the other, and against the account.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Any

import eyes
import numpy as np
import pytest
from mixing import Mixed
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.mixing import NONCE, Secret, Secrets
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.protocol.messages import HOST, LEARNER
from p2p_labeldp.protocol.sealing import Vault
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.protocol.signatures import Stamps
from p2p_labeldp.protocol.wire import Envelope, encode

EPSILONS = (0.0, 0.2, 0.7, 1.5)
ALPHAS = (0.1, 0.3)
EVERYONE = 99
"""Sees every message, and has nobody's secrets: the auditor."""


class Flips:
    """Coins that are given: who flips, and who keeps."""

    def __init__(self, flips: Sequence[int], keeps: Sequence[int]) -> None:
        self._coins = np.array([[1.0 - flip, 0.5, 1.0 - keep, 0.0] for flip, keep in zip(flips, keeps, strict=True)])

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        return self._coins[start:stop]


def executed(
    root: bytes,
    noisy: Sequence[int],
    keeps: Sequence[int],
    orders: Sequence[Sequence[int]],
    places: Sequence[int],
    make: Any = Vault,
    **settings: Any,
) -> Mixed:
    """The roles, with these coins. Users' true labels are their places' parities; a flip makes them what they hold."""
    flips = [label ^ user % 2 for user, label in enumerate(noisy)]
    secrets = eyes.Chosen(root, orders, places)
    run = Mixed(
        len(noisy), relays=len(orders), alpha=0.5, theta=0.5, coins=Flips(flips, keeps), cipher=make(),
        signatures=Stamps(secrets), secrets=secrets, **settings,
    )  # fmt: skip
    run.run()
    assert run.expired == 0
    assert run.refusals == [] or settings
    return run


def known_to(*parties: int) -> Any:
    """What these parties know together: of users everything that they hold, of others what they receive."""

    def view(run: Mixed) -> Hashable:
        users = [party for party in parties if 0 <= party < EVERYONE]
        seen = [
            (eyes.read(encode(Envelope(*sent))), sent)
            for sent in run.sent
            if EVERYONE in parties or {*sent[:2]} & {*parties} or (users and sent[1] == HOST)
        ]
        return tuple(
            eyes.knowledge(
                [frame for frame, (*_, message) in seen if getattr(message, "attempt", attempt) == attempt],
                _keys(run, session, users),
                {user: position for position, user in enumerate(session.relays)},
                len(run.users),
            )
            for (_, _, attempt), session in run.sessions.items()
        )

    return view


def _keys(run: Mixed, session: Session, users: Sequence[int]) -> eyes.Keys:
    """What these users have of an attempt."""
    keys = eyes.Keys(run.cipher, session.context, len(session.relays))
    for user in users:
        take_own(keys, session, run.hosts[0].secrets, user, run.users[user].noisy)
    return keys


def take_own(keys: eyes.Keys, session: Session, secrets: Secrets, user: int, noisy: int) -> None:
    """A user's own secrets of an attempt, and the label that she deposited."""
    cipher, attempt = keys.cipher, session.attempt
    own, seal = secrets.of(Secret.MEMBER, 0, attempt, user)[NONCE:], secrets.of(Secret.SEAL, 0, attempt, user)
    keys.outer.append(cipher.secret_key(own, b"outer"))
    layers = cipher.seal(noisy, session.outer, session.inner, session.context, seal).layers
    keys.packets |= {layer: (user, step) for step, layer in enumerate(layers)}
    if user in session.relays:
        position = session.relays.index(user)
        keys.inner[position] = cipher.secret_key(own, b"inner")
        keys.nonces[position] = secrets.of(Secret.DRAW, 0, 0, attempt, position)[:NONCE]
    keys.facts += ((user, noisy),)


def watched(reports: bool) -> Any:
    """Who sends how much to whom, in which order; with the reports' contents, or without."""

    def view(run: Mixed) -> Hashable:
        return tuple(
            (sender, receiver, len(frame), frame if reports and receiver == LEARNER else b"")
            for sender, receiver, message in run.sent
            if reports or receiver != LEARNER
            for frame in (encode(Envelope(sender, receiver, message)),)
        )

    return view


@cache
def root_for(size: int, relays: tuple[int, ...], execute: Callable[..., Any] = executed) -> bytes:
    """Nonces of the members that make these users relays."""
    for number in itertools.count():
        root = b"members %d" % number
        tried = execute(root, [0] * size, [1] * size, [range(size)] * len(relays), [0] * size)
        if tried.session.relays == relays:
            return root
    raise AssertionError("there is no end of numbers")


def every_run(
    size: int,
    relays: tuple[int, ...],
    *,
    honest: Sequence[int] | None = None,
    draws: Sequence[Sequence[int]] | None = None,
    keeps: bool = False,
    kept_order: Sequence[int] | None = None,
    execute: Callable[..., Any] = executed,
    **settings: Any,
) -> Iterator[tuple[tuple[int, ...], float, Any]]:
    """Every coin but the flips, whose chances come later; ``execute`` makes a run of them.

    ``honest``: these relays permute in every way; the others keep the order, as crooked ones may, or have the one that
    is given. ``draws``: some of the draws, where they are known to whom it is about.
    """
    root, permuting = root_for(size, relays, execute), relays if honest is None else honest
    straight = range(size) if kept_order is None else kept_order
    orders = [[*itertools.permutations(range(size))] if relay in permuting else [straight] for relay in relays]
    kept = [*itertools.product((0, 1), repeat=size)] if keeps else [(1,) * size]
    drawn = [*itertools.product(range(size), repeat=size)] if draws is None else draws
    chance = 1 / (math.factorial(size) ** len(permuting) * len(drawn))
    for noisy in itertools.product((0, 1), repeat=size):
        for order, places, keep in itertools.product(itertools.product(*orders), drawn, kept):
            run = execute(root, noisy, keep, order, places, **settings)
            yield (*noisy, *(keep if keeps else ())), chance, run


def agrees(
    views: eyes.Views, size: int, name: str, relays: int, theta: float = 1.0, own: int | None = None, **more: Any
) -> None:
    """The victim is user 0. The worst of all labels of the others is what the account states, and of all labels that
    the attacker's own user deposits, if there is one."""
    for alpha, epsilon in itertools.product(ALPHAS, EPSILONS):
        parameters = Parameters(alpha, theta, exchange="mixed", relays=relays)
        stated = account(name, parameters, cluster_size=size, **more).get_delta(epsilon).delta
        found = max(
            eyes.divergences(views, 0, alpha, epsilon, size, theta, deposited).max() for deposited in deposits(own)
        )
        assert found == pytest.approx(stated, abs=1e-12)


def deposits(own: int | None) -> list[dict[int, int]]:
    return [{}] if own is None else [{own: 0}, {own: 1}]
