"""Every coin of a tiny cluster, and what each view sees: the truth that the formulas are held against.

Nothing here uses the package. A world is one outcome of all coins: a flip for each user, and in each round
whom each user asks and whether her report is kept. Its probability depends only on how many users flipped
and how many reports were kept, so worlds are listed once and weighed for any alpha and theta.
"""

from functools import lru_cache
from itertools import combinations, product
from math import factorial

import numpy as np
import pytest
from scipy import stats


class Worlds:
    """All outcomes of the coins of n users over R rounds with sticky noise and K labels."""

    def __init__(self, users, labels=2, rounds=1, permuted=False):
        self.users, self.labels, self.rounds, self.permuted = users, labels, rounds, permuted
        sizes = [labels] * users + [users] * (users * rounds) + [2] * (users * rounds)
        grid = np.indices(sizes).reshape(len(sizes), -1)
        if permuted:  # in each round everyone is asked by exactly one
            asked = grid[users : users + users * rounds].reshape(rounds, users, -1)
            grid = grid[:, (np.sort(asked, axis=1) == np.arange(users)[:, None]).all(axis=(0, 1))]
        self.shift = grid[:users]
        self.asked = grid[users : users + users * rounds].reshape(rounds, users, -1)
        self.kept = grid[users + users * rounds :].reshape(rounds, users, -1)
        self.flips = (self.shift > 0).sum(axis=0)
        self.sent = self.kept.sum(axis=(0, 1))

    def weights(self, alpha, theta):
        n, total = self.users, self.users * self.rounds
        flip = (alpha / (self.labels - 1)) ** self.flips * (1 - alpha) ** (n - self.flips)
        keep = theta**self.sent * (1 - theta) ** (total - self.sent)
        return flip * keep / (factorial(n) ** self.rounds if self.permuted else n**total)

    def seen(self, view, true_labels, colluders=0):
        """One number per world that says all that the view sees in it. User 0 is the victim."""
        n = self.users
        noisy = (np.array(true_labels)[:, None] + self.shift) % self.labels
        fields = []
        if view == "shuffle":
            counts = [(noisy == label).sum(axis=0) for label in range(self.labels)]
            return _number(counts, n + 1)
        first_colluder = n - colluders
        for asked, kept in zip(self.asked, self.kept, strict=True):
            answers = np.take_along_axis(noisy, asked, axis=0)
            for user in range(n):
                answer, target = answers[user], asked[user]
                remote = target != user
                if view in ("learner", "metadata", "network", "auditor", "coalition"):
                    fields.append(np.where(kept[user] == 1, answer + 1, 0))
                member = view == "peer" or (view == "coalition" and colluders > 0)
                knows = self.permuted and member  # the permutation
                if view in ("metadata", "auditor") or (view == "peer" and user == n - 1) or knows:
                    fields.append(target)
                if view == "auditor" or (view == "peer" and user == n - 1):
                    fields.append(answer)
                if view in ("eavesdropper", "network"):
                    fields.append(np.where(remote, target, user))
                    fields.append(np.where(remote, answer + 1, 0))
                if view == "coalition":
                    # Colluders know whom they asked and what they heard, and who asked which of them.
                    inside = target >= first_colluder
                    mine = user >= first_colluder
                    fields.append(np.where(inside | mine, target + 1, 0))
                    fields.append(np.where(mine, answer + 1, 0))
        if view == "coalition":
            fields.extend(noisy[first_colluder:])
        return _number(fields, max(n, self.labels) + 1)


def _number(fields, base):
    code = np.zeros(fields[0].shape, dtype=np.int64)
    for place, field in enumerate(fields):
        if place and place % 20 == 0:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
        code = code * base + field
    return code


@lru_cache(maxsize=64)
def _worlds(users, labels, rounds, permuted):
    return Worlds(users, labels, rounds, permuted)


@lru_cache(maxsize=512)
def _outcomes(view, users, labels, rounds, colluders, permuted, first, second, others):
    worlds = _worlds(users, labels, rounds, permuted)
    codes = [worlds.seen(view, (mine, *others), colluders) for mine in (first, second)]
    _, numbered = np.unique(np.concatenate(codes), return_inverse=True)
    return np.split(numbered, 2)


@lru_cache(maxsize=4)
def _pairs(view, users, labels, rounds, colluders, alpha, theta, permuted):
    """The distributions of what is seen with one label of the victim and with another, for all labels of the others."""
    weights = _worlds(users, labels, rounds, permuted).weights(alpha, theta)
    pairs = []
    for others in product(range(labels), repeat=users - 1):
        for first, second in combinations(range(labels), 2):
            one, two = _outcomes(view, users, labels, rounds, colluders, permuted, first, second, others)
            size = int(max(one.max(), two.max())) + 1
            pairs.append((np.bincount(one, weights, size), np.bincount(two, weights, size)))
    return pairs


def _hockey_stick(one, two, epsilon):
    """The larger of both directions."""
    return max(float(np.maximum(0, p - np.exp(epsilon) * q).sum()) for p, q in ((one, two), (two, one)))


def delta(view, users, alpha, theta, epsilon, *, labels=2, rounds=1, colluders=0, permuted=False):
    """The largest hockey-stick divergence over all labels of the others and both directions."""
    pairs = _pairs(view, users, labels, rounds, colluders, alpha, theta, permuted)
    return max(_hockey_stick(one, two, epsilon) for one, two in pairs)


@pytest.fixture
def enumerated():
    """delta(view, users, alpha, theta, epsilon, ...) from every coin."""
    return delta


def fresh_delta(view, users, alpha, theta, epsilon, rounds, *, labels=2, colluders=0, permuted=False):
    """The same over rounds that flip anew each: the distributions of one round, multiplied out."""
    worst = 0.0
    for once in _pairs(view, users, labels, 1, colluders, alpha, theta, permuted):
        one, two = np.ones(1), np.ones(1)
        for _ in range(rounds):
            one, two = np.outer(one, once[0]).ravel(), np.outer(two, once[1]).ravel()
        worst = max(worst, _hockey_stick(one, two, epsilon))
    return worst


@pytest.fixture
def enumerated_fresh():
    """delta(view, users, alpha, theta, epsilon, rounds, ...) from every coin, with fresh flips."""
    return fresh_delta


def direct_deltas(cluster_size, alpha, theta, epsilon, rounds=1):
    """The learner's delta for every n1, up and down, summed over every m, k and N1 with scipy's point masses."""
    n, trials = cluster_size, cluster_size * rounds
    distributions = np.zeros((n + 1, n + 1))
    for ones in range(n + 1):
        stays = stats.binom.pmf(np.arange(ones + 1), ones, 1 - alpha)
        distributions[ones] = np.convolve(stays, stats.binom.pmf(np.arange(n - ones + 1), n - ones, alpha))
    shares = (np.arange(n + 1) / n)[:, None]
    arrive = stats.binom.pmf(np.arange(trials + 1), trials, theta)
    up, down = np.zeros(n), np.zeros(n)
    for sent in np.flatnonzero(arrive > 1e-40):
        received = distributions @ stats.binom.pmf(np.arange(sent + 1)[None, :], sent, shares)
        without, victim = received[:-1], received[1:]
        up += arrive[sent] * np.maximum(0, victim - np.exp(epsilon) * without).sum(axis=1)
        down += arrive[sent] * np.maximum(0, without - np.exp(epsilon) * victim).sum(axis=1)
    return up, down


@pytest.fixture
def direct_sum():
    return direct_deltas


def _vectors(users, labels):
    if labels == 1:
        return [(users,)]
    return [(count, *rest) for count in range(users + 1) for rest in _vectors(users - count, labels - 1)]


@lru_cache(maxsize=64)
def _drawn(reports, users, labels):
    """P(counts of reported labels | counts of noisy labels): a row for each of the latter."""
    table = [
        stats.multinomial.pmf(np.array(_vectors(reports, labels)), reports, np.array(noisy) / users)
        for noisy in _vectors(users, labels)
    ]
    return np.array(table).reshape(len(_vectors(users, labels)), -1)


def _noisy(true_counts, alpha):
    """The distribution of the counts of noisy labels, in the order of _vectors."""
    labels, users = len(true_counts), sum(true_counts)
    distribution = {(0,) * labels: 1.0}
    for held, count in enumerate(true_counts):
        for _ in range(count):
            grown = {}
            for counts, mass in distribution.items():
                for label in range(labels):
                    after = (*counts[:label], counts[label] + 1, *counts[label + 1 :])
                    chance = 1 - alpha if label == held else alpha / (labels - 1)
                    grown[after] = grown.get(after, 0.0) + mass * chance
            distribution = grown
    return np.array([distribution[counts] for counts in _vectors(users, labels)])


def counted_delta(view, users, labels, alpha, theta, epsilon):
    """The worst over all data sets by counts alone: who holds or reports a label does not matter.

    The victim's labels are 0 and 1; other names for them are other data sets of the others.
    """
    worst = 0.0
    for others in _vectors(users - 1, labels):
        first, second = list(others), list(others)
        first[0] += 1
        second[1] += 1
        pair = [_noisy(tuple(counts), alpha) for counts in (first, second)]
        parts = [(1.0, *pair)]
        if view == "learner":
            parts = []
            for reports in range(users + 1):
                drawn = _drawn(reports, users, labels)
                parts.append((stats.binom.pmf(reports, users, theta), pair[0] @ drawn, pair[1] @ drawn))
        for one, two in ((1, 2), (2, 1)):
            excess = sum(part[0] * np.maximum(0, part[one] - np.exp(epsilon) * part[two]).sum() for part in parts)
            worst = max(worst, float(excess))
    return worst


@pytest.fixture
def counted():
    """delta(view, users, labels, alpha, theta, epsilon) over all data sets, by counts."""
    return counted_delta


@lru_cache(maxsize=16)
def _reported(users, labels, theta, rounds):
    """P(everyone's reports | everyone's noisy labels): whom each asks and whether she keeps it, coin by coin.

    Given the noisy labels the coins of different users and rounds are independent, so their outcomes are listed user
    by user and multiplied out. 0 is no report.
    """
    table = []
    for noisy in product(range(labels), repeat=users):
        one = np.zeros(labels + 1)
        for asked, kept in product(range(users), (False, True)):
            one[noisy[asked] + 1 if kept else 0] += (theta if kept else 1 - theta) / users
        row = np.ones(1)
        for _ in range(users * rounds):
            row = np.outer(row, one).ravel()
        table.append(row)
    return np.array(table)


@lru_cache(maxsize=16)
def _flipped(users, labels, alpha):
    """P(everyone's noisy labels | everyone's labels), flip by flip: axes are victim's label, others' labels, noisy."""
    flip = np.full((labels, labels), alpha / (labels - 1))
    np.fill_diagonal(flip, 1 - alpha)
    everyone = {(): np.ones(1)}
    for _ in range(users):
        everyone = {
            (*held, label): np.outer(row, flip[label]).ravel()
            for held, row in everyone.items()
            for label in range(labels)
        }
    return np.array(list(everyone.values())).reshape(labels, -1, labels**users)


def multiplied_delta(users, labels, alpha, theta, epsilons, rounds=1, noise="sticky"):
    """The learner's delta at each epsilon: the worst over every label of everyone."""
    held = _flipped(users, labels, alpha)
    once = 1 if noise == "fresh" else rounds
    seen = [rows @ _reported(users, labels, theta, once) for rows in held]
    worst = np.zeros(len(epsilons))
    for first, second in product(range(labels), repeat=2):
        for one, two in zip(seen[first], seen[second], strict=True) if first != second else ():
            over, under = one, two
            for _ in range(rounds - 1 if noise == "fresh" else 0):
                over, under = np.outer(over, one).ravel(), np.outer(under, two).ravel()
            excess = [np.maximum(over - np.exp(epsilon) * under, 0).sum() for epsilon in epsilons]
            worst = np.maximum(worst, excess)
    return worst


@pytest.fixture
def multiplied():
    """delta(users, labels, alpha, theta, epsilons, rounds, noise) of the learner, from every coin, multiplied out."""
    return multiplied_delta
