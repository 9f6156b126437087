"""A mechanism with its noise fixed: what users, curators and learners do, and what it costs.

Each mechanism is a module of this room with one record, ``MECHANISM``, named as ``mechanism.kind`` names it. A record
says whom the mechanism trusts and turns a ``Request`` into a ``Plan``; every other room asks the plan.

    plan = make_plan("cluster_rr", epsilon=0.5, labels=10, sizes=[300, 400], tau=0.05)
    released = release(plan, labels, clusters, coins, randomness)

Asked for (epsilon, delta), a plan spends at most that and at least .999 of the epsilon, in total, for all that is
released and for neighbours that differ in one label; where that cannot be, the request is refused with what can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.errors import RequestError
from p2p_labeldp.mechanisms.coins import KEEP, PEER, Coins, Randomness
from p2p_labeldp.mechanisms.exchange import Rosters, exchange, flip
from p2p_labeldp.privacy import Guarantee, Parameters, Relation, View

Shares = NDArray[np.float64]

LARGEST_DELTA = 1e-3
POOLED_FROM = 0.9
"""Labels drawn anew at least this often are nearly exchangeable within their cluster: what a label tells of its own
user is worth less than the noise that pooling takes away. A public parameter decides, never a label."""


class Holder(Enum):
    """Whom users hand their labels to."""

    PEERS = "peers"
    LEARNER = "learner"
    CURATOR = "curator"
    SHUFFLER = "shuffler"


class Work(NamedTuple):
    """What a curator or a shuffler passes on: noisy labels of users, and the distributions that it publishes."""

    users: Labels
    labels: Labels
    shares: Shares | None = None
    """q(y|c), a row for each cluster, where the learner needs it to undo the drawing."""


class PriorOf(Protocol):
    """What a learner expects of everyone's label, (n, K), having heard of some: rows that sum to 1, none negative.

    It is made from what users sent already, so that it tells no more of them.
    """

    def __call__(self, users: Labels, labels: Labels) -> Shares: ...


@dataclass(frozen=True)
class Stages:
    """A mechanism of two rounds, each user in one of them: the second answers with the first's model as her prior.

    Whatever the prior is, an answer costs what the plan states: users need not trust who sends it.
    """

    share: float
    """Of the users, in the first round: each draws her own by her coin ``PEER`` of that round."""
    respond: Callable[[Labels, Shares, NDArray[np.float64]], Labels]
    """Labels, priors and coins of the second round's users to their noisy labels, row by row."""
    undone: Callable[[Shares, Shares], Shares]
    """Targets and priors of the second round's users to targets with the known noise undone."""


class Working(Protocol):
    """The one piece of work of a curator or a shuffler."""

    def __call__(self, users: Labels, labels: Labels, clusters: Labels, randomness: Randomness) -> Work: ...


@dataclass(frozen=True, eq=False)
class Plan:
    """A mechanism with its noise fixed."""

    kind: str
    trust: str
    """Whom one must trust with what."""
    holder: Holder
    parameters: Parameters
    """With ``alpha`` 0 where users do not flip, ``theta`` 1 where all labels are passed on. A user who hands her label
    to the learner herself keeps to ``theta`` too; a curator or a shuffler gets all of them."""
    numbers: Mapping[str, float]
    """What the noise came to, by the names of the scenario's keys."""
    privacy: Mapping[View, Guarantee] = field(default_factory=dict)
    """Everyone's guarantee, as far as it does not depend on who took part; the learner's at least where it is known."""
    exchangeable: bool = False
    """Whether a label says nothing of its reporter, only of her cluster."""
    beta: float = 0.0
    """How much of the drawing from published shares the learner undoes."""
    work: Working | None = None
    stages: Stages | None = None
    """Where the learner's model of some users is the prior of the others."""
    paper_epsilon: float | None = None
    """What the paper's theorem says of Algorithm 1. Too small: for comparison."""
    stating: Callable[[], Guarantee] | None = None
    """Finds the learner's guarantee where that takes long and nothing of the plan depends on it."""
    learner: Any = None
    """The learner's own plan where learning is the mechanism (DP-SGD)."""

    @property
    def stated(self) -> Guarantee:
        """What is spent in total: against the learner or, where she is trusted, against who sees the model."""
        if self.stating is not None:
            return self.stating()
        return self.privacy.get(View.MODEL) or self.privacy[View.LEARNER]

    @property
    def epsilon(self) -> float:
        return self.stated.epsilon

    @property
    def delta(self) -> float:
        return self.stated.delta


@dataclass(frozen=True)
class Request:
    """What is asked of a mechanism."""

    kind: str
    labels: int
    sizes: tuple[int, ...]
    """Of the clusters that take part, distinct, ascending."""
    users: int
    """How many take part in all."""
    epsilon: float | None
    """In total; None: the noise is given."""
    delta: float
    parameters: Parameters
    """Theta, rounds, noise and the minimum size; alpha where it is given."""
    options: Mapping[str, Any]

    def with_flips(self, alpha: float = 0.0, theta: float = 1.0, rounds: int = 1) -> Parameters:
        """The plan's parameters where they do not follow the scenario's."""
        return replace(self.parameters, alpha=alpha, theta=theta, labels=self.labels, rounds=rounds)

    def needed_epsilon(self, instead: str = "") -> float:
        if self.epsilon is None:
            raise RequestError(f"mechanism.epsilon is needed for {self.kind}{instead}; a number above 0")
        return self.epsilon


def default_delta(sizes: Iterable[int], users: int) -> float:
    """The paper's 1 / (smallest cluster)^2, but at most 1/users and a thousandth.

    One tiny cluster must not set a delta at which nobody is protected.
    """
    smallest = min(sizes, default=1)
    return min(1 / smallest**2, 1 / max(1, users), LARGEST_DELTA)


@dataclass(frozen=True)
class Mechanism:
    """The record of a mechanism."""

    trust: str
    plan: Callable[[Request], Plan]
    trusts: str
    """Whom one must trust, in a word or two."""
    story: str
    """What a user did, as a sentence about her goes on."""
    learner_sees: str
    """What the learner is shown of labels."""
    colour: str
    """In every chart; ``marker``, one of those in ``reporting/styles.py`` or else a circle, tells it apart in print."""
    marker: str
    options: tuple[str, ...] = ()
    """What may be set beside epsilon and delta; anything else is refused."""
    default_delta: Callable[[Iterable[int], int], float] = default_delta
    """Of the sizes of clusters and the number of users, where no delta is asked for."""
    holder: Holder = Holder.LEARNER
    """Whom users hand their labels to, as its plans say too: known before there is one."""
    stages: int = 1
    """Rounds of its own, for each that the scenario asks for."""
    learns: bool = False
    """Whether learning is the mechanism: users hand over true labels, and its noise is the learner's alone."""
    trusted: str = ""
    """With what, or not to do what."""
    needs: str = ""
    """A module that an extra installs."""
    extra: str = ""
    """That extra."""


@dataclass(frozen=True, eq=False)
class Released:
    """What the learner receives: (user ids ascending, labels) of each round, and what a curator published."""

    rounds: Sequence[tuple[Labels, NDArray[np.integer]]]
    shares: Shares | None = None
    prior: Shares | None = None
    """The priors that users of a second stage got before they answered, (n, K); rows of zeros for all others."""
    abstained: int = 0
    """Users of clusters below the minimum size."""


def release(
    plan: Plan,
    labels: NDArray[np.integer],
    clusters: NDArray[np.integer],
    coins: Coins,
    randomness: Randomness | None,
    prior_of: PriorOf | None = None,
) -> Released:
    """The mechanism on arrays: labels and clusters of users 0..n-1 in, what the learner receives out.

    ``prior_of`` is the learner's part of a mechanism with stages.
    """
    rosters = Rosters.of(clusters)
    parameters = plan.parameters
    abstained = int(rosters.sizes[rosters.sizes < parameters.minimum_size].sum())
    if plan.holder is Holder.PEERS:
        rounds = [(found.users, found.labels) for found in exchange(labels, rosters, parameters, coins)]
        return Released(rounds, abstained=abstained)
    noisy = labels.astype(np.int64, copy=False)
    takes_part = rosters.sizes[clusters] >= parameters.minimum_size
    if parameters.tosses:
        drawn = coins.block(0, 0, len(noisy))
        noisy = flip(noisy, drawn, parameters.alpha, parameters.labels).astype(np.int64, copy=False)
        takes_part &= drawn[:, KEEP] < parameters.theta
        if plan.stages is not None:
            assert prior_of is not None
            first = drawn[:, PEER] < plan.stages.share
            return _staged(plan.stages, labels, noisy, takes_part, first, coins, prior_of, abstained)
    users = np.flatnonzero(takes_part)
    if plan.work is None:
        return Released([(users, noisy[users])], abstained=abstained)
    assert randomness is not None
    done = plan.work(users, noisy[users], clusters[users].astype(np.int64), randomness)
    return Released([(done.users, done.labels)], done.shares, abstained=abstained)


def _staged(
    stages: Stages,
    labels: NDArray[np.integer],
    noisy: Labels,
    takes_part: NDArray[np.bool_],
    first: NDArray[np.bool_],
    coins: Coins,
    prior_of: PriorOf,
    abstained: int,
) -> Released:
    early, late = np.flatnonzero(takes_part & first), np.flatnonzero(takes_part & ~first)
    prior = told_to_others(early, prior_of(early, noisy[early]))
    drawn = coins.block(1, 0, len(labels))
    answers = stages.respond(labels[late].astype(np.int64), prior[late], drawn[late])
    return Released([(early, noisy[early]), (late, answers)], None, prior, abstained)


def told_to_others(users: Labels, prior: Shares) -> Shares:
    """The priors of all but these users; rows of zeros for them."""
    told = prior.copy()
    told[users] = 0.0
    return told


def sees_true_labels(views: Iterable[View], delta: float) -> dict[View, Guarantee]:
    """Whoever sees true labels learns them."""
    return {
        view: Guarantee(epsilon=math.inf, delta=delta, view=view, method="exact", reason="sees the true label")
        for view in views
    }


def spends(view: View, epsilon: float, delta: float, *, exact: bool = False, **facts: Any) -> Guarantee:
    """A mechanism's total, stated for a view."""
    method: Any = "exact" if exact else "upper_bound"
    relation = facts.pop("relation", Relation.REPLACE_LABEL)
    return Guarantee(epsilon=epsilon, delta=delta, view=view, method=method, relation=relation, **facts)
