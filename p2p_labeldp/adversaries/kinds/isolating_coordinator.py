"""A coordinator who colludes with the learner and leaves the victim no crowd to hide in.

In a small cluster she is among honest users, few as they are; else among users of the coordinator's own.
"""

from __future__ import annotations

import numpy as np

from p2p_labeldp.adversaries.leaders import Isolator, TwoRosters
from p2p_labeldp.adversaries.record import Adversary, Assignment, Measured, Setup
from p2p_labeldp.adversaries.roles import Plant
from p2p_labeldp.errors import RequestError
from p2p_labeldp.privacy import View
from p2p_labeldp.scenario import Scenario
from p2p_labeldp.scenario.entries import IsolatingCoordinator
from p2p_labeldp.streams import Purpose, stream


def install(setup: Setup, scenario: Scenario, assignment: Assignment) -> None:
    entry = assignment.entry
    assert isinstance(entry, IsolatingCoordinator)
    if entry.way == "small_cluster":
        others = np.delete(np.arange(len(setup.users)), entry.victim)
        drawn = stream(scenario.coins.seed, Purpose.ADVERSARIES, assignment.number).permutation(others)
        setup.coordinator = Isolator(setup.coordinator, entry.victim, drawn[: max(0, entry.size - 1)].tolist())
        return
    kind = TwoRosters if entry.way == "inconsistent" else Isolator
    setup.coordinator = kind(setup.coordinator, entry.victim, assignment.members)


def wanted(entry: IsolatingCoordinator, scenario: Scenario, where: str, total: int) -> tuple[int, float]:
    if entry.size > total:
        raise RequestError(f"{where}: size = {entry.size} is not allowed; it must be at most the users, {total}")
    if entry.way == "small_cluster":
        return 0, 0.0
    return max(1, (entry.size or scenario.clusters.minimum_size) - 1), 0.0


ADVERSARY = Adversary(
    lambda entry: Measured.WATCHED if entry.way == "small_cluster" else Measured.PLAYED,
    lambda entry: View.LEARNER if entry.way == "small_cluster" else View.COALITION,
    replaces=lambda setup, scenario, entry, honest, moved: Plant(
        honest.id, honest.label, honest.host, moved(entry.victim)
    ),
    install=install,
    wanted=wanted,
    alone="coordinator",
    flips_hold=True,
    deployed=True,
)
