"""Label privacy in two stages: the model of the first users' labels is the prior of the others'.

The idea is that of Ghazi, Golowich, Kumar, Manurangsi and Zhang (2021), LP-2ST; the code is our own. Half of the users,
each by her own coin, answer by randomized response. The learner makes a model of that and tells every other user
what it expects of her, a prior over the labels. She keeps the k likeliest, with k chosen for the best chance that
the right label comes out (`rr_with_prior`): a label among them goes through randomized response on those k, any other
is replaced by a uniform one of them.

**Privacy.** Each label is used once, in one stage. A first-stage label costs epsilon, and the model is made from what
was sent already. Given any prior, whoever made it up, a second-stage answer has a probability between p and p e^epsilon
whatever the label is. So the whole costs epsilon at delta 0 (parallel composition), and nobody need be trusted: users
do all of it themselves. Coins are multiples of 2^-53; the chance of a uniform draw is rounded up until epsilon
holds with that included.

**Undoing it.** Among the kept labels the flips are known: the target is (onehot - c/k on the kept) / (1 - c), with c
the chance of a uniform draw. What is not kept cannot be undone. With k = 1 the answer is the prior's own and stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.arrays import Labels
from p2p_labeldp.mechanisms.algorithm_1 import chance_for, spent_epsilon
from p2p_labeldp.mechanisms.coins import FLIP, OTHER
from p2p_labeldp.mechanisms.plan import Holder, Mechanism, Plan, Request, Shares, Stages, spends
from p2p_labeldp.mechanisms.rr_with_prior import ranked, replacing_chance
from p2p_labeldp.privacy import View

TRUST = "Nobody need be trusted: each user randomises her own label, whatever prior the learner sends her."
FIRST = 0.5
"""The share of users in the first stage."""
_COIN = 2.0**-53


def answer_epsilon(kept: int, chance: float) -> float:
    """What an answer costs that is a uniform draw from ``kept`` labels with this chance, rounding of coins included."""
    if kept == 1:
        return 0.0
    least = chance * (1 / kept - 2 * _COIN)
    most = 1 - chance + (chance + _COIN) * (1 / kept + 2 * _COIN)
    return math.log(most / least)


def answer_chance(kept: int, epsilon: float) -> float:
    """The least chance of a uniform draw that costs at most epsilon."""
    chance = replacing_chance(kept, epsilon)
    while chance < 1 and answer_epsilon(kept, chance) > epsilon:
        chance = min(1.0, chance * (1 + 4 * _COIN))
    return chance


@dataclass(frozen=True, eq=False)
class Answering:
    """The second stage, row by row: the same function for one user and for all."""

    epsilon: float
    chances: NDArray[np.float64]
    """Of a uniform draw, by the number of labels kept less one."""

    def respond(self, labels: Labels, prior: Shares, coins: NDArray[np.float64]) -> Labels:
        order, kept, rank = ranked(prior, self.epsilon)
        rows = np.arange(len(labels))
        uniform = order[rows, (coins[:, OTHER] * kept).astype(np.int64)]
        replaced = (coins[:, FLIP] < self.chances[kept - 1]) | (rank[rows, labels] >= kept)
        found: Labels = np.where(replaced, uniform, labels).astype(np.int64)
        return found

    def undone(self, targets: Shares, prior: Shares) -> Shares:
        _, kept, rank = ranked(prior, self.epsilon)
        chance = np.where(kept == 1, 0.0, self.chances[kept - 1])[:, None]
        drawn = np.where(rank < kept[:, None], chance / kept[:, None], 0.0)
        found: Shares = (targets - drawn) / (1 - chance)
        return found


def plan(request: Request) -> Plan:
    epsilon, labels = request.needed_epsilon(), request.labels
    first = chance_for(epsilon, 1 / labels, labels)
    chances = np.array([answer_chance(kept, epsilon) for kept in range(1, labels + 1)])
    spent = max(
        spent_epsilon(math.inf, 1 / labels, first, labels),
        *(answer_epsilon(kept, chance) for kept, chance in enumerate(chances.tolist(), 1)),
    )
    answering = Answering(epsilon, chances)
    return Plan(
        request.kind,
        TRUST,
        Holder.LEARNER,
        request.with_flips(first * (labels - 1) / labels, rounds=2),
        {"alpha": first * (labels - 1) / labels, "lambda": first},
        {view: spends(view, spent, 0.0, exact=True) for view in (View.LEARNER, View.NETWORK, View.AUDITOR)},
        stages=Stages(FIRST, answering.respond, answering.undone),
    )


MECHANISM = Mechanism(
    TRUST,
    plan,
    holder=Holder.LEARNER,
    stages=2,
    trusts="nobody",
    story="randomised her label by herself and sent it to the learner, half of the users with a prior from the others",
    learner_sees="every noisy label, with its owner",
    colour="#e377c2",
    marker=">",
)
