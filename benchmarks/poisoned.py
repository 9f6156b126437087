"""What liars do to what the learner receives: in closed form, and on arrays for many runs at once.

A report carries the pushed label unless three things hold: its sender does not lie in her report, whom she asked
does not lie in her answer, and the noisy label that comes through is another one. With a share f of liars and a
noisy share p of the pushed label among honest users that is 1 - (1-f)(1-f)(1-p) = p + (2f - f^2)(1-p). In plain
randomized response a liar speaks for herself alone: p + f(1-p). Copying about doubles what few liars can do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.mechanisms.coins import KEEP, PEER, Coins
from p2p_labeldp.mechanisms.exchange import Rosters, flip
from p2p_labeldp.privacy import Parameters

Labels = NDArray[np.int64]


def poisoned_share(share: float, fraction: float, *, answers: bool = True, reports: bool = True) -> float:
    """The pushed label's expected share of a cluster's reports, with ``fraction`` of its users liars."""
    honest = (1 - fraction * answers) * (1 - fraction * reports)
    return 1 - honest * (1 - share)


def poisoned_share_alone(share: float, fraction: float) -> float:
    """The same where users report their own noisy labels: randomized response."""
    return share + fraction * (1 - share)


def poisoned_reports(
    labels: Labels,
    clusters: Labels,
    parameters: Parameters,
    coins: Coins,
    liars: NDArray[np.bool_],
    label: int,
    *,
    answers: bool = True,
    reports: bool = True,
) -> tuple[Labels, Labels]:
    """(users ascending, what they report) of the first round, as ``roles.Liar`` and honest users would send it."""
    drawn = coins.block(0, 0, len(labels))
    rosters = Rosters.of(clusters)
    members = np.argsort(clusters, kind="stable") if rosters.members is None else rosters.members
    answered = flip(labels, drawn, parameters.alpha, parameters.labels).astype(np.int64)
    if answers:
        answered[liars] = label
    places = (drawn[:, PEER] * rosters.sizes[clusters]).astype(np.int64)
    reported = answered[members[rosters.starts[clusters] + places]]
    if reports:
        reported[liars] = label
    kept = (drawn[:, KEEP] < parameters.theta) & (rosters.sizes[clusters] >= parameters.minimum_size)
    users = np.flatnonzero(kept)
    return users, reported[users]
