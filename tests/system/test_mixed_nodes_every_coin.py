"""Nodes of a deployment with the mixed exchange, run for every coin with real packets: what a node's journal holds
tells it no more than the account says, and no less.

What comes to a node is items: numbered, with clocks, of some size, from some peer, in some order. All of that is held
against the account, with whatever the node's keys open (``eyes``).
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
from deployment_model import KeptCoins, Model
from numpy.typing import NDArray

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.deployment.journal import TAKEN
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.mechanisms.mixing import NONCE, Secret
from p2p_labeldp.privacy import Parameters, account
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.scenario import Scenario, parse_scenario

EPSILONS = (0.0, 0.3, 1.0)


class Flips:
    """Coins that are given."""

    def __init__(self, flips: Sequence[int]) -> None:
        self._coins = np.array([[1.0 - flip, 0.5, 0.0, 0.0] for flip in flips])

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        return self._coins[start:stop]


class Noting(UsersPart):
    """Keeps what is public of the attempt, which a host forgets."""

    session: Session

    def said(self) -> list[tuple[str, int, bytes]]:
        if isinstance(self.host, MixingHost):
            for session in self.host._sessions.values():
                self.session = session
        return super().said()


class Nodes(Model):
    """A host for each user; everyone holds the noisy label that is given, and orders and draws are those given."""

    def __init__(self, root: bytes, noisy: Sequence[int], orders: Any, places: Sequence[int]) -> None:
        self.secrets = eyes.Chosen(root, orders, places)
        scenario, dataset = _given(len(noisy), len(orders))
        flips = [label ^ int(true) for label, true in zip(noisy, dataset.labels, strict=True)]
        super().__init__(scenario, len(noisy), dataset=dataset, tossed=Flips(flips))
        self.run()
        assert self.results[-1][0].missing == []

    def make_users(self, name: str, log: Any, kind: type[UsersPart]) -> UsersPart:
        coins = KeptCoins(self._tossed, {})
        coins.secrets = self.secrets
        return Noting(name, log, self.scenario, self.rows(name), self._plan(), coins, None, self.signing(name))


@cache
def _given(users: int, relays: int) -> tuple[Scenario, Dataset]:
    scenario = parse_scenario(
        f"""
        [data]
        name = "synthetic"
        users = {users}
        [clusters]
        count = 1
        minimum_size = {relays}
        [mechanism]
        alpha = 0.4
        exchange = "mixed"
        relays = {relays}
        [coins]
        source = "seeded"
        """
    )
    return scenario, load(scenario.data, 0)


def received(name: str) -> Any:
    """What came to a node, and whatever follows from it and from its own secrets."""

    def view(model: Nodes) -> Hashable:
        key = model.hosts[int(name)] if name.isdigit() else name
        items = [
            [entry.peer, entry.clock, len(entry.body), eyes.read(entry.body)]
            for entry in model.journals[key]
            if entry.kind == TAKEN
        ]
        part = model.parts[model.hosts[0]]
        assert isinstance(part, Noting)
        session, users, relays = part.session, len(model.hosts), len(part.session.relays)
        positions = {user: position for position, user in enumerate(session.relays)}
        keys = eyes.Keys(Onions(), session.context, relays)
        if name.isdigit():
            _own(model, keys, int(name), session)
        return eyes.knowledge(items, keys, positions, users)

    return view


def _own(model: Nodes, keys: eyes.Keys, user: int, session: Session) -> None:
    """A host's own secrets: those of its one user."""
    part, secrets, onions = model.parts[model.hosts[user]], model.secrets, keys.cipher
    assert isinstance(part, Noting)
    own, noisy = secrets.of(Secret.MEMBER, 0, 0, user)[NONCE:], part.users[0].noisy
    seal = secrets.of(Secret.SEAL, 0, 0, user)
    layers = onions.seal(noisy, session.outer, session.inner, session.context, seal).layers
    keys.packets = {layer: (user, step) for step, layer in enumerate(layers)}
    keys.outer = [onions.secret_key(own, b"outer")]
    if user in session.relays:
        position = session.relays.index(user)
        keys.inner = {position: onions.secret_key(own, b"inner")}
        keys.nonces = {position: secrets.of(Secret.DRAW, 0, 0, 0, position)[:NONCE]}
    keys.facts = (noisy,)


@cache
def root_for(size: int, relays: tuple[int, ...]) -> bytes:
    """Nonces of the members that make these users relays."""
    for number in itertools.count():
        root = b"members %d" % number
        part = Nodes(root, [0] * size, [range(size)] * len(relays), [0] * size).parts[f"{1:064x}"]
        assert isinstance(part, Noting)
        if part.session.relays == relays:
            return root
    raise AssertionError("there is no end of numbers")


def every_run(
    size: int, relays: tuple[int, ...], honest: Sequence[int], draws: Any
) -> Iterator[tuple[tuple[int, ...], float, Nodes]]:
    """Everyone's noisy label, every order of the ``honest`` relays, and these draws."""
    orders = [[*itertools.permutations(range(size))] if relay in honest else [range(size)] for relay in relays]
    chance = 1 / (math.factorial(size) ** len(honest) * len(draws))
    for noisy in itertools.product((0, 1), repeat=size):
        for order, places in itertools.product(itertools.product(*orders), draws):
            yield noisy, chance, Nodes(root_for(size, relays), noisy, order, places)


def agrees(views: eyes.Views, size: int, name: str, relays: int) -> None:
    """The victim is user 0; the worst labels of the others are what the account is about."""
    for alpha, epsilon in itertools.product((0.1, 0.3), EPSILONS):
        parameters = Parameters(alpha, exchange="mixed", relays=relays)
        stated = account(name, parameters, cluster_size=size).get_delta(epsilon).delta
        assert eyes.divergences(views, 0, alpha, epsilon, size).max() == pytest.approx(stated, abs=1e-12)


def test_two_hosts_that_both_relay_and_everyone_else() -> None:
    nodes = {"learner": "learner", "auditor": "auditor", "eavesdropper": "coordinator", "relay": "1"}
    draws = [*itertools.product(range(2), repeat=2)]
    found = eyes.every_view(every_run(2, (0, 1), (0, 1), draws), {name: received(node) for name, node in nodes.items()})
    for name, views in found.items():
        agrees(views, 2, name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("relays", [(2, 0), (1, 2)])
def test_a_host_that_relays_sees_the_labels_of_two_others_shuffled(relays: tuple[int, ...]) -> None:
    honest = [user for user in relays if user != 2]
    runs = every_run(3, relays, honest, [(0, 1, 2), (2, 2, 0)])
    agrees(eyes.every_view(runs, {"": received("2")})[""], 3, "relay", 2)


@pytest.mark.slow
def test_the_learner_the_coordinator_and_the_auditor_of_three_hosts() -> None:
    nodes = {"learner": "learner", "auditor": "auditor", "eavesdropper": "coordinator"}
    draws = [*itertools.product(range(3), repeat=3)]
    found = eyes.every_view(every_run(3, (0, 1), (1,), draws), {name: received(node) for name, node in nodes.items()})
    for name, views in found.items():
        agrees(views, 3, name, 2)
