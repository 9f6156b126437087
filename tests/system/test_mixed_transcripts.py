"""What is seen of a mixed exchange is the same for all labels and draws: who sends to whom, when, how much.

Executions are compared that share who takes part, who relays and who keeps, and differ in every label, every flip,
every relay's order and every draw. What a party receives is compared with its contents, where those may not depend on
any of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small import MIXED, population_of, simulated

from p2p_labeldp.adversaries.install import install
from p2p_labeldp.mechanisms.coins import FLIP, OTHER, SeededCoins
from p2p_labeldp.mechanisms.mixing import Secret, Secrets
from p2p_labeldp.network.faults import Faults
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.protocol.messages import COORDINATOR, LEARNER
from p2p_labeldp.protocol.mixing_host import MixingHost
from p2p_labeldp.protocol.onions import Onions
from p2p_labeldp.protocol.sealing import Vault
from p2p_labeldp.protocol.wire import Envelope, encode
from p2p_labeldp.scenario import Network, make_entry, parse_scenario, replace

SIZE, CLUSTERS = 24, 2
PARAMETERS = Parameters(0.4, 0.6, 3, "fresh", 2, 4, exchange="mixed", relays=3)
CIPHERS = pytest.mark.parametrize("make", [Vault, Onions])
NETWORKS = pytest.mark.parametrize(
    "network",
    [Network(), Network(latency=0.1), Network(latency=0.05, jitter=0.3)],
    ids=["at once", "latency", "jitter"],
)
SCENARIO = parse_scenario(MIXED, overrides=[f"data.users={SIZE}", f"clusters.count={CLUSTERS}"])
Seen = list[tuple[float, int, int, int]]
Contents = list[tuple[float, int, int, bytes]]


class Flips(SeededCoins):
    """Coins whose flips are another seed's; who keeps what stays."""

    def __init__(self, seed: int, flips: int) -> None:
        super().__init__(seed)
        self._flips = SeededCoins(flips)

    def block(self, round_: int, start: int, stop: int) -> NDArray[np.float64]:
        found = super().block(round_, start, stop)
        found[:, [FLIP, OTHER]] = self._flips.block(round_, start, stop)[:, [FLIP, OTHER]]
        return found


class Draws(Secrets):
    """Secrets whose orders and draws are another seed's; who relays stays."""

    def __init__(self, root: bytes, other: bytes) -> None:
        super().__init__(root)
        self._others = Secrets(other)

    def of(self, purpose: Secret, *key: int) -> bytes:
        return (self._others if purpose in (Secret.ORDER, Secret.DRAW) else super()).of(purpose, *key)


def execution(
    seed: int,
    network: Network,
    hosting: str,
    make: Callable[[], Any],
    orders: int | None = None,
    disturbed: dict[str, Any] | None = None,
) -> tuple[Seen, Contents]:
    """Everything that was sent in a run whose labels, flips, orders and draws are those of ``seed``.

    ``orders``: another seed for orders and draws. ``disturbed``: by a fault or an adversary.
    """
    disturbed = disturbed or {}
    labels = np.random.default_rng(seed).integers(0, 3, SIZE)
    population = population_of(labels, np.arange(SIZE) % CLUSTERS)
    rules = [make_entry("faults", disturbed)] if "rule" in disturbed else []
    faults = Faults(rules, SIZE, 7, 1000.0) if rules else None
    settings = {"hosting": hosting, "seed": 7, "cipher": make(), "faults": faults}
    simulation = simulated(population, PARAMETERS, Flips(7, seed), network, **settings)
    assert isinstance(simulation.host, MixingHost)
    simulation.host.secrets = Draws(b"the same", b"%d" % (seed if orders is None else orders))
    if "kind" in disturbed:
        install(simulation, replace(SCENARIO, adversaries=[make_entry("adversaries", disturbed)]))
    contents: Contents = []
    send = simulation.network.send

    def noted(sender: int, receiver: int, message: Any) -> None:
        contents.append((simulation.network.now, sender, receiver, encode(Envelope(sender, receiver, message))))
        send(sender, receiver, message)

    simulation.network.send = noted
    outcome = simulation.run()
    assert bool(outcome.warnings) == bool(disturbed)
    contents.sort()  # the order within one moment is how tasks happen to run
    return sorted((time, sender, receiver, len(frame)) for time, sender, receiver, frame in contents), contents


@CIPHERS
@NETWORKS
@pytest.mark.parametrize("hosting", ["user", "cluster"])
def test_whoever_watches_the_network_sees_the_same_for_all_labels_and_draws(
    hosting: str, network: Network, make: type[Any]
) -> None:
    one, other = (execution(seed, network, hosting, make)[0] for seed in (1, 2))
    assert len(one) > 20 * SIZE
    assert one == other


DISTURBED = {
    "no-go": {"kind": "no_go", "users": [3]},
    "a relay drops a packet": {"kind": "crooked_relays", "count": 6, "way": "drop", "victim": 0},
    "a first relay isolates a packet": {"kind": "crooked_relays", "count": 6, "way": "isolate", "victim": 0},
    "users are gone": {"rule": "crash", "users": [3, 4], "at": 0.5},
    "a user is gone for a while": {"rule": "crash", "users": [5], "at": 2.0, "restart": 20.0},
}


@pytest.mark.parametrize("hosting", ["user", "cluster"])
@pytest.mark.parametrize("what", DISTURBED)
def test_so_it_is_where_attempts_fail_and_users_abstain(what: str, hosting: str) -> None:
    """Who halts, who says no-go, who is left out and when another attempt begins."""
    network = Network(latency=0.05, jitter=0.3)
    one, other = (execution(seed, network, hosting, Vault, disturbed=DISTURBED[what])[0] for seed in (1, 2))
    assert one == other
    assert len(one) > len(execution(1, network, hosting, Vault)[0]), "there was another attempt"


@pytest.mark.parametrize("way", ["replace", "peel"])
def test_whose_packet_a_relay_spoils_depends_on_orders_and_not_on_labels(way: str) -> None:
    """Behind an honest relay it knows places, not senders: who says no-go tells where her packet was in an attempt that
    nobody opens."""
    network = Network(latency=0.05, jitter=0.3)
    entry = {"kind": "crooked_relays", "count": 6, "way": way, "victim": 0}
    one, other, elsewhere = (
        execution(seed, network, "cluster", Vault, orders=orders, disturbed=entry)[0]
        for seed, orders in ((1, 1), (2, 1), (1, 2))
    )
    assert one == other
    assert one != elsewhere


@pytest.mark.parametrize("hosting", ["user", "cluster"])
def test_so_does_the_coordinator_contents_and_all(hosting: str) -> None:
    """But for the digests of sealed batches, whose packets no two executions share."""
    received = [
        [each for each in execution(seed, Network(latency=0.1), hosting, Onions)[1] if each[2] == COORDINATOR]
        for seed in (1, 2)
    ]
    kinds = [[frame for *_, frame in each if b"passed" not in frame] for each in received]
    assert kinds[0] == kinds[1]


def test_the_learner_receives_reports_and_the_close_and_nothing_else() -> None:
    _, contents = execution(1, Network(latency=0.1), "user", Vault)
    kinds = {frame.split(b"\xa6")[-1][:6] for *_, receiver, frame in contents if receiver == LEARNER}
    assert kinds == {b"report", b"closed"}


def test_labels_and_draws_did_differ() -> None:
    """So these tests are able to fail."""
    one, other = (execution(seed, Network(), "user", Vault)[1] for seed in (1, 2))
    drawn = [[frame for *_, frame in each if b"drawn" in frame] for each in (one, other)]
    assert len(drawn[0]) == 2 * SIZE
    assert drawn[0] != drawn[1]
