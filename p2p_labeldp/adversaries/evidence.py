"""Sufficient statistics of a view: counts about the victim's label, which are all that the attacks here use.

Rounds that share one flip are put together: sticky noise makes one block of all rounds, fresh noise one block of
each. A report whose sender's question is known shows the noisy label of the peer she asked; otherwise it is a
draw from the `pool`: the users of the cluster who are not the adversary's own, since those know who asked them. Someone
of whom no question is seen on the wire asked herself.

In the permutation such reports are the pool's labels themselves, each at most once in a round; where all are reported
sticky rounds after the first show the same again.

In the mixed exchange nobody is asked: every report is a draw from everyone's labels, those of the adversary's own users
among them, which it knows; so are the labels that were drawn for these. Where it opened a batch it has all labels.

The two makers do the same, one for a view, one for the arrays of many views.
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
    parameters, labels = view.parameters, view.parameters.labels
    if EXCHANGES[parameters.exchange].relayed and view.adversary != "shuffle":
        return _mixed_evidence_of(view, victim)
    fresh = parameters.noise == "fresh"
    shuffled = view.adversary == "shuffle"
    roster = view.clusters[view.cluster_of(victim)]
    pool = [user for user in roster if user not in view.members]
    blocks = parameters.rounds if fresh else 1
    seen, drawn, known, reported, own = (np.zeros((1, blocks, labels), dtype=np.int64) for _ in range(5))
    hidden = np.zeros((1, blocks, labels + 1), dtype=np.int64)
    noisy: list[dict[int, int]] = [{} for _ in range(blocks)]
    for round_ in range(parameters.rounds):
        block = round_ if fresh else 0
        for user in roster:
            for _, answered in view.answers_by(user, round_):
                noisy[block][user] = answered[0]
                if user == victim:
                    for label in answered:
                        seen[0, block, label] += 1
        if view.reports is None or (round_ > block and (shuffled or _same_again(parameters))):
            continue
        questions = view.asks[round_] if view.asks is not None else {}
        answers = view.answers[round_] if view.answers is not None else {}
        for user in roster:
            if user not in view.reports[round_]:
                continue
            label = view.reports[round_][user]
            reported[0, block, label] += 1
            own[0, block, label] += user == victim and not shuffled
            peer = questions.get(user, user if view.sees_the_wire else None)
            if peer is None:
                drawn[0, block, label] += 1
            elif (peer, user) not in answers:
                noisy[block][peer] = label
                seen[0, block, label] += peer == victim
    for block, found in enumerate(noisy):
        for user in pool:
            if user in found and user != victim:
                known[0, block, found[user]] += 1
            elif user != victim:
                hidden[0, block, view.background.get(user, labels)] += 1
    all_shuffled = np.full((1, blocks), shuffled)
    return Evidence(parameters, len(pool), all_shuffled, seen, drawn, known, hidden, reported, own)


def _mixed_evidence_of(view: View, victim: int) -> Evidence:
    parameters, labels = view.parameters, view.parameters.labels
    roster, fresh = view.clusters[view.cluster_of(victim)], parameters.noise == "fresh"
    blocks = parameters.rounds if fresh else 1
    seen, drawn, known, reported, own = (np.zeros((1, blocks, labels), dtype=np.int64) for _ in range(5))
    hidden = np.zeros((1, blocks, labels + 1), dtype=np.int64)
    opened = np.zeros((1, blocks), dtype=np.bool_)
    for round_ in range(parameters.rounds):
        block = round_ if fresh else 0
        for _, answered in view.answers_by(victim, round_):
            seen[0, block, answered[0]] += 1
        batch = {} if view.opened is None else view.opened[round_]
        reports = {} if view.reports is None else view.reports[round_]
        draws = {} if view.draws is None else view.draws[round_]
        for user in roster:
            if user in reports:
                reported[0, block, reports[user]] += 1
                own[0, block, reports[user]] += user == victim
        if roster[0] in batch and not opened[0, block]:
            opened[0, block] = True
            drawn[0, block] = np.bincount([batch[user] for user in roster], minlength=labels)
        elif not opened[0, block]:
            for user in roster:
                if user in draws:
                    drawn[0, block, draws[user]] += 1
                elif user in reports:
                    drawn[0, block, reports[user]] += 1
        if block == round_:
            for user in roster:
                mine = view.noisy_of(user, round_) if user in view.members else None
                if mine is not None:
                    known[0, block, mine] += 1
                elif user != victim:
                    hidden[0, block, view.background.get(user, labels)] += 1
    drawn -= np.where(opened[..., None], known, 0)
    return Evidence(parameters, len(roster), opened, seen, drawn, known, hidden, reported, own)


def evidence_of_all(views: ClusterViews, victim: int) -> Evidence:
    """What each of many views says about the user at the same place."""
    parameters, labels, size = views.parameters, views.parameters.labels, views.cluster_size
    if EXCHANGES[parameters.exchange].relayed and views.adversary != "shuffle":
        return _mixed_evidence_of_all(views, victim)
    fresh = parameters.noise == "fresh"
    shuffled = views.adversary == "shuffle"
    pool = np.array([user not in views.members for user in range(size)])
    blocks = parameters.rounds if fresh else 1
    seen, drawn, known, reported, own = (np.zeros((len(views), blocks, labels), dtype=np.int64) for _ in range(5))
    nothing = np.full((len(views), size), -1, dtype=np.int32)
    noisy = np.full((len(views), blocks, size), -1, dtype=np.int32)
    for round_ in range(parameters.rounds):
        block = round_ if fresh else 0
        peers, answers, reports = (
            nothing if every is None else every[:, round_] for every in (views.asks, views.answers, views.reports)
        )
        seen[:, block] += _by_label(answers, peers == victim, labels)
        _learn(noisy[:, block], peers, answers)
        if views.reports is None or (round_ > block and (shuffled or _same_again(parameters))):
            continue
        reported[:, block] += _by_label(reports, True, labels)
        if not shuffled:
            own[:, block] += _by_label(reports[:, [victim]], True, labels)
        if views.sees_the_wire:
            peers = np.where(peers < 0, np.arange(size, dtype=np.int32), peers)
        drawn[:, block] += _by_label(reports, peers < 0, labels)
        unheard = np.where(answers < 0, reports, -1)
        seen[:, block] += _by_label(unheard, peers == victim, labels)
        _learn(noisy[:, block], peers, unheard)
    truth = np.array([views.background.get(user, labels) for user in range(size)])
    pool[victim] = False
    unknown = pool & (noisy < 0)
    for label in range(labels):
        known[..., label] = ((noisy == label) & pool).sum(axis=2)
    hidden = np.stack([(unknown & (truth == label)).sum(axis=2) for label in range(labels + 1)], axis=2)
    pooled, all_shuffled = size - len(views.members), np.full((len(views), blocks), shuffled)
    return Evidence(parameters, pooled, all_shuffled, seen, drawn, known, hidden, reported, own)


def _mixed_evidence_of_all(views: ClusterViews, victim: int) -> Evidence:
    parameters, labels, size = views.parameters, views.parameters.labels, views.cluster_size
    fresh, members = parameters.noise == "fresh", sorted(views.members)
    blocks = parameters.rounds if fresh else 1
    seen, drawn, known, reported, own = (np.zeros((len(views), blocks, labels), dtype=np.int64) for _ in range(5))
    opened = np.zeros((len(views), blocks), dtype=np.bool_)
    nothing = np.full((len(views), size), -1, dtype=np.int32)
    for round_ in range(parameters.rounds):
        block = round_ if fresh else 0
        reports, draws, batch, tied = (
            nothing if every is None else every[:, round_]
            for every in (views.reports, views.draws, views.opened, views.tied)
        )
        seen[:, block] += _by_label(tied[:, [victim]], True, labels)
        reported[:, block] += _by_label(reports, True, labels)
        own[:, block] += _by_label(reports[:, [victim]], True, labels)
        now = (batch[:, 0] >= 0) & ~opened[:, block]
        heard = _by_label(np.where(draws >= 0, draws, reports), True, labels)
        drawn[:, block] += np.where((now | opened[:, block])[:, None], 0, heard)
        drawn[now, block] = _by_label(batch[now], True, labels)
        opened[:, block] |= now
    truth = np.array([views.background.get(user, labels) for user in range(size)])
    others = [user for user in range(size) if user != victim and user not in views.members]
    hidden = np.bincount(truth[others], minlength=labels + 1)[: labels + 1].astype(np.int64)
    hidden = np.broadcast_to(hidden, (len(views), blocks, labels + 1)).copy()
    for place, member in enumerate(members):
        for block in range(blocks):
            if truth[member] == labels:
                hidden[:, block, labels] += 1
                continue
            same = np.full(len(views), truth[member])
            noisy = flip(same, views.coins[:, block, place], parameters.alpha, labels)
            known[np.arange(len(views)), block, noisy] += 1
    drawn -= np.where(opened[..., None], known, 0)
    return Evidence(parameters, size, opened, seen, drawn, known, hidden, reported, own)


def _same_again(parameters: Parameters) -> bool:
    """Whether rounds that share a flip report the same labels, in another order."""
    return EXCHANGES[parameters.exchange].permuted and parameters.theta == 1


def _by_label(values: NDArray[np.int32], where: NDArray[np.bool_] | bool, labels: int) -> Counts:
    return np.stack([((values == label) & where).sum(axis=1) for label in range(labels)], axis=1)


def _learn(noisy: NDArray[np.int32], peers: NDArray[np.int32], labels: NDArray[np.int32]) -> None:
    """Note the labels that were shown as those of the peers who showed them."""
    views, askers = np.nonzero((peers >= 0) & (labels >= 0))
    noisy[views, peers[views, askers]] = labels[views, askers]
