"""The roles of the mixed exchange run for every coin, and what an attacker makes of the bytes she receives: no more
than the account says, and no less.

Every flip, every order of an honest relay and every draw of up to four users is run, through the roles as they are
(``mixed_coins``). The divergence between what an attacker knows under one label of the victim and under the other is
the account's delta(epsilon), to twelve digits. What a watcher of the network has is who sends how much to whom, in
which order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import eyes
import pytest
from mixed_coins import ALPHAS, EPSILONS, EVERYONE, Flips, agrees, deposits, every_run, known_to, watched
from mixing import Mixed

from p2p_labeldp.adversaries.mixers import CrookedMember, Refuser
from p2p_labeldp.mechanisms.mixing import Secret
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.protocol.depositor import Depositor
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Vault
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.protocol.signatures import Stamps
from p2p_labeldp.scenario.entries import CrookedRelays


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
            for deposited in deposits(2)
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


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_with_four_users_whoever_is_no_relay_has_what_the_account_says(order: tuple[int, ...]) -> None:
    """Both relays permute so. Whoever is no relay sees of the order the place of her own packet at most, and places are
    drawn uniformly: what she has is alike for all orders, so that two of them stand for all 576."""
    attackers = {
        "learner": known_to(LEARNER),
        "metadata": watched(reports=True),
        "eavesdropper": watched(reports=False),
        "coordinator": known_to(COORDINATOR),
        "peer": known_to(3),
    }
    found = eyes.every_view(every_run(4, (1, 2), honest=[], kept_order=order), attackers)
    for name in ("learner", "metadata", "eavesdropper"):
        agrees(found[name], 4, name, 2)
    agrees(found["coordinator"], 4, "eavesdropper", 2)
    agrees(found["peer"], 4, "peer", 2, own=3)


@pytest.mark.slow
def test_with_four_users_relays_the_auditor_and_the_learner_with_one_user_have_what_the_account_says() -> None:
    """User 3 relays as the first or the last in half of all cases; then the other relay permutes in every way."""
    together = known_to(3, LEARNER)
    cases = [(0.5, eyes.every_view(every_run(4, (1, 2), honest=[]), {"": together})[""])]
    for relays in ((3, 0), (1, 3)):
        attackers = {"relay": known_to(3), "auditor": known_to(EVERYONE), "coalition": together}
        honest = [user for user in relays if user != 3]
        found = eyes.every_view(every_run(4, relays, honest=honest, draws=DRAWS), attackers)
        agrees(found["relay"], 4, "relay", 2)
        agrees(found["auditor"], 4, "auditor", 2)
        cases.append((0.25, found["coalition"]))
    for alpha, epsilon in itertools.product(ALPHAS, EPSILONS):
        parameters = Parameters(alpha, exchange="mixed", relays=2)
        stated = account("coalition", parameters, cluster_size=4, colluders=1).get_delta(epsilon).delta
        most = max(
            sum(share * eyes.divergences(views, 0, alpha, epsilon, 4, deposited=given) for share, views in cases).max()
            for given in deposits(3)
        )
        assert most == pytest.approx(stated, abs=1e-12)


class Retried(eyes.Chosen):
    """With orders of their own for the first attempt."""

    def __init__(self, root: bytes, first: Sequence[Sequence[int]], *then: Any) -> None:
        super().__init__(root, *then)
        self._first = eyes.Chosen(root, first, then[1])

    def of(self, purpose: Secret, *key: int) -> bytes:
        if purpose is Secret.ORDER and key[2] == 0:
            return self._first.of(purpose, *key)
        return super().of(purpose, *key)


class SpoilsOne(CrookedMember):
    """Crooked in the first attempt only; ``no_go``: as a member, who says that she does not find her packet."""

    __slots__ = ("no_go",)

    def _relaying(self, session: Session, position: int, share: Any) -> Any:
        kind = Depositor if session.attempt or self.no_go else CrookedMember
        return kind._relaying(self, session, position, share)

    def checks(self, session: Session) -> Any:
        kind = Refuser if self.no_go and not session.attempt else Depositor
        return kind.checks(self, session)  # type: ignore[arg-type]


def twice(way: str, root: bytes, noisy: Sequence[int], *orders_and_places: Any) -> Mixed:
    """User 2 spoils the first attempt in some way, and the second goes through."""

    def crooked(*who: Any) -> SpoilsOne:
        made = SpoilsOne(*who, CrookedRelays(way="order" if way == "no_go" else way, victim=0, count=1), [])
        made.no_go = way == "no_go"
        return made

    secrets, flips = Retried(root, *orders_and_places), [label ^ user % 2 for user, label in enumerate(noisy)]
    return Mixed(
        len(noisy), relays=2, alpha=0.5, theta=0.5, coins=Flips(flips, [1] * len(noisy)), cipher=Vault(),
        signatures=Stamps(secrets), secrets=secrets, roles={2: crooked},
    ).run()  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "relays"),
    [
        ("replace", ((2, 0), (1, 2))),
        ("duplicate", ((1, 2), (2, 1))),
        ("peel", ((2, 1), (2, 0))),
        ("isolate", ((2, 1), (2, 1))),
        ("no_go", ((1, 2), (1, 2))),
        ("no_go", ((0, 1), (2, 0))),
    ],
)
def test_an_attempt_that_was_spoiled_tells_nothing_beside_the_one_that_is_opened(
    way: str, relays: tuple[tuple[int, ...], ...]
) -> None:
    """The same noisy labels twice, under other keys and in other orders: user 2 and the learner put together all that
    they saw in both, no-gos, halts and what is shown to find out who is to blame included."""
    straight, drawn = [range(3)] * 2, (1, 1, 0)
    root = next(
        root
        for root in (b"members %d" % number for number in range(1000))
        if tuple(each.relays for each in twice(way, root, [0, 0, 0], straight, straight, drawn).sessions.values())
        == relays
    )
    every = [[[*itertools.permutations(range(3))] if user != 2 else [range(3)] for user in pair] for pair in relays]
    orders = [[*itertools.product(*each)] for each in every]
    runs = (
        (noisy, 1 / math.prod(map(len, orders)), twice(way, root, noisy, first, second, drawn))
        for noisy in itertools.product((0, 1), repeat=3)
        for first, second in itertools.product(*orders)
    )
    found = eyes.every_view(runs, {"": known_to(2, LEARNER), "with the coordinator": known_to(2, COORDINATOR, LEARNER)})
    for views in found.values():
        agrees(views, 3, "relay", 2)


def test_all_relays_together_know_whose_label_is_whose() -> None:
    """So that this attacker is able to find it out."""
    found = eyes.every_view(every_run(2, (0, 1), honest=[]), {"": known_to(0, 1)})[""]
    for noisy in itertools.product((0, 1), repeat=2):
        assert any(set(masses) == {noisy} for masses in found.values())
    found = eyes.every_view(every_run(3, (2,), honest=[2], draws=[(0, 1, 2)]), {"": known_to(2)})[""]
    assert all(len(masses) == 1 for masses in found.values()), "one relay alone is all of them"
