"""Nodes of a deployment with the mixed exchange, run for every coin with real packets: what a node's journal holds
tells it no more than the account says, and no less.

What comes to a node is items: numbered, with clocks, of some size, from some peer, in some order. All of that is held
against the account, with whatever the node's keys open (``eyes``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

import eyes
import pytest
from deployment_model import KeptCoins, Model
from mixed_coins import Flips, agrees, every_run, take_own

from p2p_labeldp.data import Dataset, load
from p2p_labeldp.deployment.journal import TAKEN
from p2p_labeldp.deployment.users import UsersPart
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.session import Session
from p2p_labeldp.scenario import Scenario, parse_scenario


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

    def __init__(
        self, root: bytes, noisy: Sequence[int], keeps: Sequence[int], orders: Any, places: Sequence[int]
    ) -> None:
        self.secrets = eyes.Chosen(root, orders, places)
        scenario, dataset = _given(len(noisy), len(orders))
        flips = [label ^ int(true) for label, true in zip(noisy, dataset.labels, strict=True)]
        super().__init__(scenario, len(noisy), dataset=dataset, tossed=Flips(flips, keeps))
        self.run()
        assert self.results[-1][0].missing == []

    @property
    def session(self) -> Session:
        """As the first host knows it."""
        part = self.parts[self.hosts[0]]
        assert isinstance(part, Noting)
        return part.session

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
        session, users = model.session, len(model.hosts)
        positions = {user: position for position, user in enumerate(session.relays)}
        keys = eyes.Keys(Onions(), session.context, len(session.relays))
        if name.isdigit():
            part = model.parts[key]
            assert isinstance(part, Noting)
            take_own(keys, session, model.secrets, int(name), part.users[0].noisy)
        return eyes.knowledge(items, keys, positions, users)

    return view


def test_two_hosts_that_both_relay_and_everyone_else() -> None:
    nodes = {"learner": "learner", "auditor": "auditor", "eavesdropper": "coordinator", "relay": "1"}
    found = eyes.every_view(every_run(2, (0, 1), execute=Nodes), {name: received(node) for name, node in nodes.items()})
    for name, views in found.items():
        agrees(views, 2, name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("relays", [(2, 0), (1, 2)])
def test_a_host_that_relays_sees_the_labels_of_two_others_shuffled(relays: tuple[int, ...]) -> None:
    honest = [user for user in relays if user != 2]
    runs = every_run(3, relays, honest=honest, draws=[(0, 1, 2), (2, 2, 0)], execute=Nodes)
    agrees(eyes.every_view(runs, {"": received("2")})[""], 3, "relay", 2)


@pytest.mark.slow
def test_the_learner_the_coordinator_and_the_auditor_of_three_hosts() -> None:
    nodes = {"learner": "learner", "auditor": "auditor", "eavesdropper": "coordinator"}
    runs = every_run(3, (0, 1), honest=[1], execute=Nodes)
    found = eyes.every_view(runs, {name: received(node) for name, node in nodes.items()})
    for name, views in found.items():
        agrees(views, 3, name, 2)
