"""What is true of a kind of adversary: how it is installed, what it sees, how it is measured.

Each kind is a module of ``adversaries.kinds``, named as ``[[adversaries]]`` names it, with one record, ``ADVERSARY``;
every other room asks the record. Its keys are declared in ``scenario.entries``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.attacks import Attack
from p2p_labeldp.privacy import View
from p2p_labeldp.protocol.coordinator import Coordinator
from p2p_labeldp.protocol.host import Host
from p2p_labeldp.protocol.learner import Learner
from p2p_labeldp.protocol.user import User
from p2p_labeldp.scenario import Entry, Exchange, Scenario


class Examples(Protocol):
    """The part of a population that adversaries are installed by."""

    @property
    def features(self) -> NDArray[np.float32]: ...
    @property
    def labels(self) -> NDArray[np.int64]: ...
    @property
    def cluster(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], NDArray[np.integer]]: ...


class Setup(Protocol):
    """A simulation that has not begun."""

    users: list[User]
    host: Host
    coordinator: Coordinator
    learner: Learner

    @property
    def population(self) -> Examples: ...


@dataclass(frozen=True)
class Assignment:
    """One entry of ``[[adversaries]]``, and the users who belong to it, ascending."""

    number: int
    """The entry's position, from 1."""
    entry: Entry
    members: tuple[int, ...]

    @property
    def victim(self) -> int | None:
        return getattr(self.entry, "victim", None)

    @property
    def where(self) -> str:
        return f"adversaries[{self.number}] ({self.entry.name})"


class Measured(Enum):
    """How what an adversary achieves is found out."""

    WATCHED = "a game on arrays against its view"
    PLAYED = "a game of actors on copies of the victim's cluster"
    PUSHED = "the labels that it moved, beside the honest run"
    NOTED = "what it disturbed"


Replaces = Callable[[Setup, Scenario, Any, User, Callable[[int], int]], User]
"""(setup, scenario, entry, the honest user, who the victim is where users are copies) to who stands in her place."""


@dataclass(frozen=True)
class Adversary:
    """The record of a kind."""

    measured: Callable[[Any], Measured]
    view: Callable[[Any], View | None] = lambda entry: None
    """Whose view it has."""
    misbehaves: bool = True
    """Whether it sends what an honest party would not; whoever only looks may be anything else besides."""
    replaces: Replaces | None = None
    """The role in place of each of its users."""
    install: Callable[[Setup, Scenario, Assignment], None] | None = None
    """What else it changes before the run, besides its users."""
    wanted: Callable[[Any, Scenario, str, int], tuple[int, float]] = lambda entry, scenario, where, total: (
        getattr(entry, "count", 0),
        getattr(entry, "fraction", 0.0),
    )
    """How many users are drawn for an entry that names none: a count, or a fraction."""
    beside_victim: bool = False
    """Whether its users are drawn from the victim's cluster."""
    flips_hold: bool = False
    """Where it misbehaves: whether every user still flips her label once, as the account of the flips alone assumes.
    Nothing is guaranteed otherwise."""
    hidden_from: bool = False
    """Where it misbehaves: whether one honest relay of the mixed exchange hides the others from it all the same."""
    attacks: tuple[Attack, ...] = ()
    """Attacks of its own, played on what it sees beside the best there is."""
    exchanges: Collection[str] = (Exchange.PULL,)
    """In which exchanges there are such."""
    deployed: bool = False
    """Whether nodes of a deployment can carry it: its users are known before there are clusters, for one."""
    alone: str = ""
    """The party that it is, where there is one of a kind: the coordinator or the learner."""
