"""What a trace says about the coins: flips, choices and subsampling, and tests of each against its distribution.

Samples of several runs are pooled. Every test has an exact or conservative p-value, so that a family-wise
error of 1e-6 means what it says; the family is split evenly (Bonferroni). Choices are compared with the
uniform distribution through the randomised probability integral transform: place j of n becomes (j + U)/n with U
uniform, which is exactly uniform whatever the cluster sizes. (Of more than 10,000 choices the p-value is that of the
limiting distribution, which for those that matter is Massart's bound: 2 exp(-2 n gap^2).) A favourite user whom that
gap hides is found by counting how often each was asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.privacy import Parameters


@dataclass
class Sample:
    """Counts and choices of one run, or of several pooled."""

    flipped: int = 0
    flip_chances: int = 0
    kept: int = 0
    keep_chances: int = 0
    moves: Counter[int] = field(default_factory=Counter)
    """How far flipped labels moved, 1..K-1, cyclically."""
    places: list[int] = field(default_factory=list)
    own_places: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    askers: list[int] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    """For each choice a number that it shares with those made in the same cluster of the same round of the same run."""
    group_count: int = 0
    _numbers: dict[Hashable, int] = field(default_factory=dict, repr=False)

    def flip(self, truth: int, noisy: int, labels: int) -> None:
        self.flip_chances += 1
        if truth != noisy:
            self.flipped += 1
            self.moves[(noisy - truth) % labels] += 1

    def keep(self, kept: bool) -> None:
        self.keep_chances += 1
        self.kept += kept

    def choice(self, place: int, own_place: int, size: int, asker: int, peer: int, among: Hashable) -> None:
        """Where the asker and the peer stand in a cluster of ``size``, who they are, and which round and cluster."""
        self.places.append(place)
        self.own_places.append(own_place)
        self.sizes.append(size)
        self.askers.append(asker)
        self.peers.append(peer)
        if among not in self._numbers:
            self._numbers[among] = self.group_count
            self.group_count += 1
        self.groups.append(self._numbers[among])

    def pool(self, other: Sample) -> None:
        """Add another run's sample to this one."""
        self.flipped += other.flipped
        self.flip_chances += other.flip_chances
        self.kept += other.kept
        self.keep_chances += other.keep_chances
        self.moves += other.moves
        self.places += other.places
        self.own_places += other.own_places
        self.sizes += other.sizes
        self.askers += other.askers
        self.peers += other.peers
        self.groups += [self.group_count + group for group in other.groups]
        self.group_count += other.group_count


@dataclass(frozen=True)
class FitTest:
    """One test of the coins: what was seen, what was expected, how surprising that is."""

    name: str
    seen: str
    expected: str
    p_value: float


def fit_tests(sample: Sample, parameters: Parameters) -> list[FitTest]:
    """Every test there is data for."""
    tests = []
    if sample.flip_chances:
        tests.append(_share("flips", sample.flipped, sample.flip_chances, parameters.alpha))
    if parameters.labels > 2 and sample.flipped:
        tests.append(_moves(sample, parameters.labels))
    if sample.keep_chances:
        tests.append(_share("subsampling", sample.kept, sample.keep_chances, parameters.theta))
    sizes = np.array(sample.sizes, dtype=np.int64)
    if len(sizes):
        places, own = np.array(sample.places), np.array(sample.own_places)
        tests.append(_self_asks(int(np.count_nonzero(places == own)), sizes))
        tests.append(_uniform("choice_of_place", places, sizes))
        tests.append(_uniform("choice_beside_oneself", (places - own) % sizes, sizes))
    if sample.groups:
        tests.append(_asked(sample, sizes))
    return tests


def _share(name: str, seen: int, chances: int, probability: float) -> FitTest:
    from scipy import stats  # two thirds of a second, which only those who test should pay

    p_value = float(stats.binomtest(seen, chances, probability).pvalue)
    return FitTest(name, f"{seen} of {chances}", f"{probability:g} of them", p_value)


def _moves(sample: Sample, labels: int) -> FitTest:
    """The label that a flip moves to is uniform over the others: the integral transform again."""
    moves = np.repeat(np.arange(labels - 1), [sample.moves[move + 1] for move in range(labels - 1)])
    return _uniform("choice_of_label", moves, np.full(len(moves), labels - 1))


def _uniform(name: str, places: NDArray[np.int64], sizes: NDArray[np.int64]) -> FitTest:
    from scipy import stats

    # A fixed stream, and choices in an order of their own: the same choices always give the same p-value.
    order = np.lexsort((places, sizes))
    spread = np.random.default_rng(2026).random(len(places))
    result = stats.kstest((places[order] + spread) / sizes[order], "uniform")
    return FitTest(name, f"largest gap {result.statistic:.4f}", "uniform", float(result.pvalue))


def _self_asks(seen: int, sizes: NDArray[np.int64]) -> FitTest:
    """A user chooses herself with probability 1/n: a sum of independent binomials, convolved exactly."""
    from scipy import stats

    chances = np.ones(1)
    expected = 0.0
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        expected += count / size
        # Up to where the rest weighs less than 1e-30; cutting it only makes the p-value smaller by that.
        most = min(int(count), int(stats.binom.isf(1e-30, count, 1 / size)) + 1)
        chances = np.convolve(chances, stats.binom.pmf(np.arange(most + 1), count, 1 / size))
    below, above = float(chances[: seen + 1].sum()), float(chances[seen:].sum())
    p_value = min(1.0, 2 * min(below, above) + 1e-25)
    return FitTest("self_asks", f"{seen} of {len(sizes)}", f"about {expected:.1f}", p_value)


def _asked(sample: Sample, sizes: NDArray[np.int64]) -> FitTest:
    """How often each user was asked, over all runs; the most surprising of them counts, times their number.

    A user of a cluster of n is chosen with probability 1/n by each who chooses there. Where n is not the same in all
    runs the sum's tails are, from one away from its mean on, at most those of the binomial with as many trials and the
    same mean (Hoeffding 1956, theorem 4). Users count where they chose a peer themselves: others may have been gone.
    """
    from scipy import stats

    askers, peers, groups = (np.array(column) for column in (sample.askers, sample.peers, sample.groups))
    users, asker = np.unique(askers, return_inverse=True)
    choosers = np.bincount(groups)[groups]
    chances = np.bincount(asker, choosers)
    expected = np.bincount(asker, choosers / sizes)
    peer = np.minimum(np.searchsorted(users, peers), len(users) - 1)
    present = (users[peer] == peers) & np.isin(groups * len(users) + peer, groups * len(users) + asker)
    seen = np.bincount(peer[present], minlength=len(users))
    share = np.minimum(expected / chances, 1.0)
    above = np.where(seen >= expected + 1, stats.binom.sf(seen - 1, chances, share), 1.0)
    below = np.where(seen <= expected - 1, stats.binom.cdf(seen, chances, share), 1.0)
    p_values = 2 * np.minimum(above, below)
    user = int(p_values.argmin())
    p_value = min(1.0, float(len(users) * p_values[user]))
    return FitTest(
        "asked_by_user", f"user {users[user]} asked {seen[user]} times", f"about {expected[user]:.1f}", p_value
    )
