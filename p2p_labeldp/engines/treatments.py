"""What a mechanism asks of the parties: who flips, who gathers labels, what the learner makes of what arrives.

A treatment is the same for both engines: users flip (or not) with their own coins, a curator or a shuffler (or
nobody) works on all labels at once, the learner gets labels with targets. Peer-to-peer is the one in which users
exchange labels instead of handing them over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.learning import unflip
from p2p_labeldp.mechanisms.catalogue import TRUST, LabelMechanism, make_mechanism
from p2p_labeldp.mechanisms.peer_to_peer import Rosters
from p2p_labeldp.mechanisms.shuffle import permuted_within
from p2p_labeldp.privacy import account
from p2p_labeldp.protocol.intermediary import Work
from p2p_labeldp.protocol.messages import CURATOR, LEARNER, SHUFFLER
from p2p_labeldp.scenario import Coins, Scenario
from p2p_labeldp.streams import Purpose, stream

Labels = NDArray[np.int64]
Targets = NDArray[np.float64]

CURATED = ("cluster_rr", "centralized", "rr_with_prior")


@dataclass
class Treatment:
    """How one scenario's labels travel. ``receiver`` is who users hand their labels to; None: they ask each other."""

    kind: str
    trust: str
    receiver: int | None
    alpha: float
    """With what probability a user flips her label before it leaves her; 0 where she does not."""
    privacy: dict[str, dict[str, Any]]
    """What each party that is not a peer could learn; empty for peer-to-peer, which is accounted for elsewhere."""
    work: Work | None = None
    """The curator's or the shuffler's."""
    targets: Targets | None = None
    """Soft targets that the curator published with the labels, once it has worked."""

    @property
    def flips(self) -> bool:
        return self.alpha > 0

    def soft(self, targets: Targets, correct_flips: bool) -> Targets:
        """What the learner fits: the curator's targets, or what arrived with the flips undone."""
        if self.targets is not None:
            return self.targets
        return unflip(targets, self.alpha) if correct_flips and self.alpha else targets


def treatment_of(scenario: Scenario, labels: int, sizes: list[int], delta: float) -> Treatment:
    """The treatment that a scenario's mechanism asks for, calibrated to its epsilon."""
    mechanism = scenario.mechanism
    kind = mechanism.kind
    if kind == "peer_to_peer":
        return Treatment(kind, TRUST[kind], None, mechanism.alpha, {})
    if kind == "dp_sgd":
        from p2p_labeldp.learning.dp_sgd import TRUST as TRUSTED

        model = {"epsilon": mechanism.epsilon, "delta": delta, "method": "upper_bound"}
        return Treatment(
            kind, TRUSTED, LEARNER, 0.0, {"model": model} | _open(("learner", "network", "auditor"), delta)
        )
    if kind == "none":
        return Treatment(kind, TRUST[kind], LEARNER, 0.0, _open(("learner", "network", "auditor"), delta))
    made = make_mechanism(
        kind, epsilon=mechanism.epsilon, delta=delta, label_count=labels, cluster_sizes=sizes, **_options(scenario)
    )
    spent = {"epsilon": made.epsilon, "delta": made.delta, "method": made.method}
    if kind == "uniform_rr":
        alpha = made.parameters["lambda"] * (labels - 1) / labels
        return Treatment(kind, made.trust, LEARNER, alpha, dict.fromkeys(("learner", "network", "auditor"), spent))
    if kind == "shuffle":
        alpha = made.parameters["alpha"]
        local = account("auditor", cluster_size=1, alpha=alpha, theta=1.0, labels=labels).get_epsilon(0.0)
        seen = {"epsilon": local.as_json()["epsilon"], "delta": 0.0, "method": "exact"}
        privacy = {"learner": spent} | dict.fromkeys(("keeper", "network", "auditor"), seen)
        return Treatment(kind, made.trust, SHUFFLER, alpha, privacy, _shuffling(scenario.coins))
    privacy = {"learner": spent} | _open(("keeper", "network", "auditor"), delta)
    treatment = Treatment(kind, made.trust, CURATOR, 0.0, privacy)
    treatment.work = _curating(treatment, made, scenario.coins)
    return treatment


def _options(scenario: Scenario) -> dict[str, Any]:
    mechanism = scenario.mechanism
    if mechanism.kind == "cluster_rr":
        return {"tau": mechanism.tau}
    if mechanism.kind == "centralized":
        given = {"sigma": mechanism.sigma, "lambda_": mechanism.lambda_}
        chosen = {name: value for name, value in given.items() if value > 0}
        return {"tau": mechanism.tau, "beta": mechanism.beta} | chosen
    if mechanism.kind == "shuffle" and mechanism.epsilon == 0:
        return {"alpha": mechanism.alpha}
    return {}


def _open(views: tuple[str, ...], delta: float) -> dict[str, dict[str, Any]]:
    """Whoever sees true labels learns them."""
    seen = {"epsilon": "inf", "delta": delta, "method": "exact", "reason": "sees the true label"}
    return dict.fromkeys(views, seen)


def generator_of(coins: Coins, purpose: Purpose) -> np.random.Generator:
    """The seed's stream for a purpose, or the operating system's randomness where the coins are its own."""
    return stream(coins.seed, purpose) if coins.source == "seeded" else np.random.default_rng()


def _shuffling(coins: Coins) -> Work:
    def work(users: Labels, labels: Labels, clusters: Labels) -> tuple[Labels, Labels, None]:
        return users, permuted_within(labels, Rosters.of(clusters), generator_of(coins, Purpose.INTERMEDIARY)), None

    return work


def _curating(treatment: Treatment, made: LabelMechanism, coins: Coins) -> Work:
    def work(users: Labels, labels: Labels, clusters: Labels) -> tuple[Labels, Labels, Targets | None]:
        noisy = made.release(labels, clusters, generator_of(coins, Purpose.INTERMEDIARY))
        treatment.targets = noisy.targets
        return users[noisy.users], noisy.labels, noisy.shares

    return work
