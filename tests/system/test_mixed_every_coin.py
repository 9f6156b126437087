"""The roles of the mixed exchange run for every coin, and what an attacker makes of the bytes she receives: no more
than the account says, and no less.

Every flip, every order of an honest relay and every draw of up to three users is run, through the roles as they are. An
attacker (``eyes``) reads what comes to her and tries her keys on all of it. What she knows under one label of the
victim is held against what she knows under the other: the divergence is the account's delta(epsilon), to twelve digits.
What a watcher of the network has is who sends how much to whom, in which order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import Any

import eyes
import numpy as np
import pytest
from mixing import Mixed
from numpy.typing import NDArray

from p2p_labeldp.adversaries.mixers import CrookedMember
from p2p_labeldp.mechanisms.mixing import NONCE, Secret
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.protocol.messages import COORDINATOR, HOST, LEARNER
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Sealed, Vault
from p2p_labeldp.protocol.signatures import Stamps
from p2p_labeldp.protocol.wire import Envelope, encode
from p2p_labeldp.scenario.entries import CrookedRelays

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


class Noted:
    """Seals as another does, and notes what was sealed for whom."""

    def __init__(self, cipher: Any) -> None:
        self._cipher, self.sealed = cipher, dict[bytes, Sealed]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cipher, name)

    def seal(self, *facts: Any) -> Sealed:
        found: Sealed = self._cipher.seal(*facts)
        self.sealed[facts[-1]] = found
        return found


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
        len(noisy), relays=len(orders), alpha=0.5, theta=0.5, coins=Flips(flips, keeps), cipher=Noted(make()),
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
        frames = [
            eyes.read(encode(Envelope(*sent)))
            for sent in run.sent
            if EVERYONE in parties or {*sent[:2]} & {*parties} or (users and sent[1] == HOST)
        ]
        session, secrets, cipher = run.session, run.hosts[0].secrets, run.cipher
        positions = {user: position for position, user in enumerate(session.relays)}
        keys = eyes.Keys(cipher, session.context, len(session.relays))
        for user in users:
            own = secrets.of(Secret.MEMBER, 0, 0, user)[NONCE:]
            keys.outer.append(cipher.secret_key(own, b"outer"))
            layers = cipher.sealed[secrets.of(Secret.SEAL, 0, 0, user)].layers
            keys.packets |= {layer: (user, step) for step, layer in enumerate(layers)}
            if user in positions:
                keys.inner[positions[user]] = cipher.secret_key(own, b"inner")
                keys.nonces[positions[user]] = secrets.of(Secret.DRAW, 0, 0, 0, positions[user])[:NONCE]
        keys.facts = tuple((user, run.users[user].noisy) for user in users)
        return eyes.knowledge(frames, keys, positions, len(run.users))

    return view


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
def root_for(size: int, relays: tuple[int, ...]) -> bytes:
    """Nonces of the members that make these users relays."""
    for number in itertools.count():
        root = b"members %d" % number
        tried = executed(root, [0] * size, [1] * size, [range(size)] * len(relays), [0] * size)
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
    **settings: Any,
) -> Iterator[tuple[tuple[int, ...], float, Mixed]]:
    """Every coin but the flips, whose chances come later.

    ``honest``: these relays permute in every way; the others keep the order, as crooked ones may. ``draws``: some of
    the draws, where they are known to whom it is about.
    """
    root, permuting = root_for(size, relays), relays if honest is None else honest
    orders = [[*itertools.permutations(range(size))] if relay in permuting else [range(size)] for relay in relays]
    kept = [*itertools.product((0, 1), repeat=size)] if keeps else [(1,) * size]
    drawn = [*itertools.product(range(size), repeat=size)] if draws is None else draws
    chance = 1 / (math.factorial(size) ** len(permuting) * len(drawn))
    for noisy in itertools.product((0, 1), repeat=size):
        for order, places, keep in itertools.product(itertools.product(*orders), drawn, kept):
            run = executed(root, noisy, keep, order, places, **settings)
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
            eyes.divergences(views, 0, alpha, epsilon, size, theta, deposited).max() for deposited in _deposits(own)
        )
        assert found == pytest.approx(stated, abs=1e-12)


def _deposits(own: int | None) -> list[dict[int, int]]:
    return [{}] if own is None else [{own: 0}, {own: 1}]


def test_with_two_users_every_coin_and_every_party() -> None:
    """Both relay. User 1 knows with her own label everything there is to know."""
    attackers = {
        "learner": known_to(LEARNER),
        "metadata": watched(reports=True),
        "eavesdropper": watched(reports=False),
        "coordinator": known_to(COORDINATOR),
        "auditor": known_to(EVERYONE),
        "relay": known_to(1),
        "relay and learner": known_to(1, LEARNER),
    }
    found = eyes.every_view(every_run(2, (0, 1), keeps=True), attackers)
    for theta in (0.6, 1.0):
        for name in ("learner", "metadata", "eavesdropper", "auditor", "relay"):
            agrees(found[name], 2, name, 2, theta)
        agrees(found["relay and learner"], 2, "relay", 2, theta)
        agrees(found["coordinator"], 2, "eavesdropper", 2, theta)


def test_real_packets_tell_no_more_and_no_less() -> None:
    attackers = {"learner": known_to(LEARNER), "auditor": known_to(EVERYONE), "relay": known_to(1)}
    found = eyes.every_view(every_run(2, (0, 1), make=Onions), attackers)
    for name, views in found.items():
        agrees(views, 2, name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("relays", [(2, 1), (1, 2), (2, 0), (0, 2)])
def test_a_relay_sees_the_others_shuffled_wherever_she_stands(relays: tuple[int, ...]) -> None:
    """User 2 relays, alone, with the learner and with the coordinator; the other one, be it the victim, permutes."""
    attackers = {
        "alone": known_to(2),
        "with the learner": known_to(2, LEARNER),
        "with the coordinator": known_to(2, COORDINATOR, LEARNER),
    }
    found = eyes.every_view(every_run(3, relays, honest=[user for user in relays if user != 2]), attackers)
    for views in found.values():
        agrees(views, 3, "relay", 2)


@pytest.mark.slow
@pytest.mark.parametrize("relays", [(0, 1), (1, 0), (1, 2)])
def test_whoever_is_no_relay_sees_her_draw_and_the_learner_the_reports(relays: tuple[int, ...]) -> None:
    """User 2, unless she relays; the learner; whoever watches; and the auditor."""
    attackers = {
        "learner": known_to(LEARNER),
        "metadata": watched(reports=True),
        "auditor": known_to(EVERYONE),
        "eavesdropper": known_to(COORDINATOR),
        "peer": known_to(2),
    }
    found = eyes.every_view(every_run(3, relays, honest=relays[:1]), attackers)
    for name, views in found.items():
        if name != "peer" or 2 not in relays:
            agrees(views, 3, name, 2, own=2 if name == "peer" else None)


@pytest.mark.slow
def test_the_learner_with_one_user_on_average_over_who_relays() -> None:
    """User 2 is each of two relays, or none, as often as not: the average for the worst labels is the account's."""
    cases = [
        eyes.every_view(every_run(3, relays, honest=[0]), {"": known_to(2, LEARNER)})[""]
        for relays in ((0, 1), (2, 0), (0, 2))
    ]
    for alpha, epsilon in itertools.product(ALPHAS, EPSILONS):
        parameters = Parameters(alpha, exchange="mixed", relays=2)
        stated = account("coalition", parameters, cluster_size=3, colluders=1).get_delta(epsilon).delta
        found = [
            sum(eyes.divergences(views, 0, alpha, epsilon, 3, deposited=deposited) for views in cases).max() / 3
            for deposited in _deposits(2)
        ]
        assert max(found) == pytest.approx(stated, abs=1e-12)


DRAWS = [(0, 1, 2, 3), (3, 3, 0, 1), (2, 2, 2, 2)]
"""Relays know the draws, so that what they learn is the same for each of them."""


@pytest.mark.slow
@pytest.mark.parametrize(("relays", "honest"), [((2, 1, 3), 1), ((2, 3, 0), 0), ((1, 3, 2), 1)])
def test_relays_on_both_sides_of_an_honest_one_see_the_others_shuffled(relays: tuple[int, ...], honest: int) -> None:
    """Users 2 and 3, first and last, or both before or behind the honest relay, with the learner."""
    runs = every_run(4, relays, honest=[honest], draws=DRAWS)
    found = eyes.every_view(runs, {"": known_to(2, 3, LEARNER)})[""]
    agrees(found, 4, "coalition", 3, colluders=2, relaying=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["order", "early"])
@pytest.mark.parametrize("relays", [(2, 1), (1, 2)])
def test_relays_that_keep_the_order_or_release_at_once_see_no_more(relays: tuple[int, ...], way: str) -> None:
    entry = CrookedRelays(way=way, victim=0, count=1)
    crooked = {2: lambda *who: CrookedMember(*who, entry, [])}
    runs = every_run(3, relays, honest=[1], draws=[(0, 1, 2), (1, 1, 0), (2, 0, 2)], roles=crooked)
    agrees(eyes.every_view(runs, {"": known_to(2, LEARNER)})[""], 3, "relay", 2)


def test_all_relays_together_know_whose_label_is_whose() -> None:
    """So that this attacker is able to find it out."""
    found = eyes.every_view(every_run(2, (0, 1), honest=[]), {"": known_to(0, 1)})[""]
    for noisy in itertools.product((0, 1), repeat=2):
        assert any(set(masses) == {noisy} for masses in found.values())
    found = eyes.every_view(every_run(3, (2,), honest=[2], draws=[(0, 1, 2)]), {"": known_to(2)})[""]
    assert all(len(masses) == 1 for masses in found.values()), "one relay alone is all of them"
