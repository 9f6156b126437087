"""Sufficient statistics of a view: counts about the victim's label, which are all that the attacks here use.

Rounds that share one flip are put together: sticky noise makes one block of all rounds, fresh noise one block of
each. A report whose sender's question is known shows the noisy label of the peer she asked; otherwise it is a
draw from the `pool`: the users of the cluster who are not the adversary's own, since those know who asked them. Someone
of whom no question is seen on the wire asked herself.

In the permutation such reports are the pool's labels themselves, each at most once in a round; where all are reported
sticky rounds after the first show the same again.

In the mixed exchange nobody is asked: every report is a draw from everyone's labels, those of the adversary's own users
among them, which it knows; so are the labels that were drawn for these. Where it opened a batch it has all labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.audit.array_views import ClusterViews
from p2p_labeldp.audit.views import View
from p2p_labeldp.mechanisms.exchange import flip
from p2p_labeldp.privacy import Parameters
from p2p_labeldp.scenario import EXCHANGES

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Evidence:
    """Counts by label. Axes: view, block of rounds that share a flip, label."""

    parameters: Parameters
    pool: int
    """How many users' labels a report is drawn from whose sender's question is not known."""
    shuffled: NDArray[np.bool_]
    """By view and block: whether ``drawn`` are the pool's noisy labels themselves, each once, rather than draws from
    them. In the mixed exchange those of the adversary's own users are left out then."""
    seen: Counts
    """How often the victim showed each noisy label, to someone the adversary hears."""
    drawn: Counts
    """Reports that may be anyone's label."""
    known: Counts
    """Noisy labels of others in the pool that are known."""
    hidden: Counts
    """True labels of those in the pool, but the victim, whose noisy labels are not known. One column more than
    there are labels: those whose true label is not known either."""
    reported: Counts
    """All reports of the cluster."""
    own: Counts
    """The victim's own reports."""


def evidence_of(view: View, victim: int) -> Evidence:
    """What one view says. The victim's own label, should the background hold it, is not looked at."""
    cluster = view.cluster_of(victim)
    return evidence_of_all(view.within(cluster), view.clusters[cluster].index(victim))


def evidence_of_all(views: ClusterViews, victim: int) -> Evidence:
    """What each of many views says about the user at the same place."""
    parameters, labels, size = views.parameters, views.parameters.labels, views.cluster_size
    fresh, shuffled = parameters.noise == "fresh", views.adversary == "shuffle"
    relayed = EXCHANGES[parameters.exchange].relayed and not shuffled
    blocks = parameters.rounds if fresh else 1
    seen, drawn, known, reported, own = (np.zeros((len(views), blocks, labels), dtype=np.int64) for _ in range(5))
    opened = np.full((len(views), blocks), shuffled)
    nothing = np.full((len(views), size), -1, dtype=np.int32)
    truth = np.array([views.background.get(user, labels) for user in range(size)])
    # Noisy labels that are known; the last place is for those of users of other clusters.
    noisy = np.full((len(views), blocks, size + 1), -1, dtype=np.int32)
    if relayed:
        noisy[..., sorted(views.members)] = _own_labels(views, truth[sorted(views.members)], blocks)
    for round_ in range(parameters.rounds):
        block = round_ if fresh else 0
        peers, answers, reports, draws, batch, tied = (
            nothing if every is None else every[:, round_]
            for every in (views.asks, views.answers, views.reports, views.draws, views.opened, views.tied)
        )
        if relayed:
            seen[:, block] += _by_label(tied[:, [victim]], True, labels)
            heard = _by_label(np.where(draws >= 0, draws, reports), True, labels)
            now = (batch[:, 0] >= 0) & ~opened[:, block]
            drawn[:, block] += np.where((now | opened[:, block])[:, None], 0, heard)
            drawn[now, block] = _by_label(batch[now], True, labels)
            opened[:, block] |= now
        else:
            seen[:, block] += _by_label(answers, peers == victim, labels)
            _learn(noisy[:, block], peers, answers)
            if views.reports is None or (round_ > block and (shuffled or _same_again(parameters))):
                continue
            if views.sees_the_wire:
                peers = np.where(peers < 0, np.arange(size, dtype=np.int32), peers)
            drawn[:, block] += _by_label(reports, peers < 0, labels)
            unheard = np.where(answers < 0, reports, -1)
            seen[:, block] += _by_label(unheard, peers == victim, labels)
            _learn(noisy[:, block], peers, unheard)
        reported[:, block] += _by_label(reports, True, labels)
        if not shuffled:
            own[:, block] += _by_label(reports[:, [victim]], True, labels)
    for run, round_, user, label in views.surplus:
        block = round_ if fresh else 0
        seen[run, block, label] += user == victim
        if noisy[run, block, user] < 0:
            noisy[run, block, user] = label
    pool = np.array([relayed or user not in views.members for user in range(size)])
    pooled, noisy = int(pool.sum()), noisy[..., :size]
    pool[victim] = False
    for label in range(labels):
        known[..., label] = ((noisy == label) & pool).sum(axis=2)
    unknown = pool & (noisy < 0)
    hidden = np.stack([(unknown & (truth == label)).sum(axis=2) for label in range(labels + 1)], axis=2)
    if relayed:
        drawn -= np.where(opened[..., None], known, 0)
    return Evidence(parameters, pooled, opened, seen, drawn, known, hidden, reported, own)


def _own_labels(views: ClusterViews, truth: NDArray[np.int64], blocks: int) -> NDArray[np.int32]:
    """What the adversary's own users deposited, by view and block; -1 where a label or coins are not known."""
    coins, parameters = views.coins[:, :blocks], views.parameters
    true = np.broadcast_to(truth, coins.shape[:-1])
    noisy = flip(true.ravel(), np.nan_to_num(coins).reshape(-1, 4), parameters.alpha, parameters.labels)
    told = (true < parameters.labels) & ~np.isnan(coins[..., 0])
    return np.where(told, noisy.reshape(true.shape), -1).astype(np.int32)


def _same_again(parameters: Parameters) -> bool:
    """Whether rounds that share a flip report the same labels, in another order."""
    return EXCHANGES[parameters.exchange].permuted and parameters.theta == 1


def _by_label(values: NDArray[np.int32], where: NDArray[np.bool_] | bool, labels: int) -> Counts:
    return np.stack([((values == label) & where).sum(axis=1) for label in range(labels)], axis=1)


def _learn(noisy: NDArray[np.int32], peers: NDArray[np.int32], labels: NDArray[np.int32]) -> None:
    """Note the labels that were shown as those of the peers who showed them."""
    views, askers = np.nonzero((peers >= 0) & (labels >= 0))
    noisy[views, peers[views, askers]] = labels[views, askers]
