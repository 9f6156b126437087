"""Whose account a promise of a run is: the clusters that took part, and the accountants of their sizes.

A promise is that of every cluster, so a curve must be the largest of all sizes' curves. In the views of a closed form
delta is the larger the likelier the label is seen, at every epsilon alike: the size with the largest chance has the
largest curve. In the others every size would have to be asked, which takes long; three of them are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from p2p_labeldp.adversaries.cast import ONLOOKERS
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.privacy import Account, Parameters, account
from p2p_labeldp.privacy.views import CLOSED_FORM, VIEWS
from p2p_labeldp.reporting.recorded import Promise, Recorded
from p2p_labeldp.reporting.traffic import Traffic
from p2p_labeldp.runs.guarantees import FRESH, cluster_sizes

SMALL, MIDDLE, LARGE = 200, 1000, 1200
"""Users in a cluster: up to SMALL a point costs about 10 milliseconds, up to LARGE some 200 or more; beyond, seconds.
Clusters of more than MIDDLE are asked only where the promise is theirs."""
MANY, FEW, CHEAP = 20, 10, 30
"""Points computed of the one and the other, and of the shuffled view, whose points cost a few milliseconds."""
CLOSED_POINTS = 61
MOST_COALITIONS = 12
"""Different (users, colluders) of a cluster that are asked for; beyond, the flips alone are counted on."""


@dataclass(frozen=True)
class Rests:
    """What a view's promise rests on."""

    accounts: list[Account]
    """Of which the largest delta counts; none: what they would say is not known here."""
    how: str = "implied"
    """"account", "flips" or "implied"."""
    points: int = 0
    some: tuple[int, ...] = ()
    """The sizes of the clusters that were asked, where there are others."""
    demand: tuple[Account, ...] = ()
    """What the promise must not be better than, where that is more than ``accounts``."""


@dataclass(frozen=True)
class Ground:
    """What a folder tells of its accounts beyond the promises themselves."""

    recorded: Recorded
    sizes: dict[int, int] | None
    """Each size of a cluster that took part, to the most users whom such a cluster lost; None: not known."""

    @classmethod
    def of(cls, recorded: Recorded, traffic: Traffic | None = None) -> Ground:
        return cls(recorded, _sizes(recorded, traffic))

    @property
    def misbehaving(self) -> list[str]:
        """Kinds of adversaries who send what an honest party would not."""
        entries = self.recorded.scenario.adversaries
        return [entry.name for entry in entries if not isinstance(entry, ONLOOKERS)]

    @property
    def exchanged(self) -> bool:
        """Whether users exchanged labels, with flips that are known."""
        summary = self.recorded.summary
        return summary.mechanism == "peer_to_peer" and summary.alpha is not None

    @property
    def silent(self) -> bool:
        """Whether everyone abstained, so that there is nothing to see."""
        if not self.exchanged:
            return False
        if self.sizes is not None:
            return not self.sizes
        outcomes = self.recorded.summary.outcomes_by_round
        said = sum(count for counts in outcomes for kind, count in counts.items() if kind != "abstained")
        return bool(outcomes) and said == 0 and not self.recorded.summary.missing

    @property
    def flips(self) -> Account | None:
        """The account of an honest user's flips; None where there are none to count on."""
        if not self.exchanged or FRESH in self.misbehaving:
            return None
        return account("auditor", cluster_size=1, theta=1.0, **self._shared)

    @property
    def _shared(self) -> dict[str, Any]:
        summary, mechanism = self.recorded.summary, self.recorded.scenario.mechanism
        return {
            "alpha": summary.alpha, "labels": max(2, summary.labels), "rounds": mechanism.rounds,
            "noise": mechanism.noise,
        }  # fmt: skip

    @property
    def fresh(self) -> bool:
        mechanism = self.recorded.scenario.mechanism
        return mechanism.noise == "fresh" and mechanism.rounds > 1

    def account(self, view: str, size: int, colluders: int = 0) -> Account:
        colluders = min(colluders, size - 1) if view == "coalition" else 0
        theta = self.recorded.scenario.mechanism.theta
        return account(view, cluster_size=size, theta=theta, colluders=colluders, thorough=False, **self._shared)

    def rests(self, view: str, promise: Promise) -> Rests:
        """What a finite promise about ``view`` rests on."""
        flips = self.flips
        if view not in VIEWS or flips is None or self.silent:
            return Rests([])
        if promise.cluster_size is None or self.misbehaving:
            return Rests([flips], "flips", CLOSED_POINTS)
        if not self.sizes:
            return Rests([])
        if view in CLOSED_FORM:
            worst = max(self.sizes, key=lambda size: self.account(view, size).profile.chance)
            return Rests([self.account(view, worst)], "account", FEW if self.fresh else CLOSED_POINTS)
        colluders = promise.colluders or 0
        if self.recorded.summary.missing:
            return Rests([], demand=tuple(self._without_the_missing(view, colluders)))
        if self.fresh:
            return Rests([])
        stated = [promise.cluster_size] if promise.cluster_size in self.sizes else []
        if stated and stated[0] > LARGE:
            return Rests([])
        chosen = sorted({*stated, *(size for size in (min(self.sizes), max(self.sizes)) if size <= MIDDLE)})
        if len(self.sizes) <= 3:
            chosen = sorted({*chosen, *(size for size in self.sizes if size <= MIDDLE)})
        accounts = [self.account(view, size, colluders) for size in chosen]
        if not stated:
            return Rests([], demand=tuple(accounts))
        points = CHEAP if view == "shuffle" else MANY if chosen[-1] <= SMALL else FEW
        points = points if len(chosen) == 1 else max(7, points * 5 // 4 // len(chosen))
        return Rests(accounts, "account", points, () if len(chosen) == len(self.sizes) else tuple(chosen))

    def _without_the_missing(self, view: str, colluders: int) -> list[Account]:
        """The accounts of at most three sizes of which the clusters are whole, and what bounds the others' learner."""
        if self.recorded.clusters is None or self.sizes is None:
            return []
        whole = [size for size, lost in self.sizes.items() if not lost and size <= MIDDLE]
        found = [] if self.fresh else [self.account(view, size, colluders) for size in {*whole[:1], *whole[-1:]}]
        rounds = self.recorded.scenario.mechanism.rounds
        for size, lost in self.sizes.items():
            if lost and view != "coalition" and rounds == 1 and size <= LARGE:
                found.append(account("shuffle", cluster_size=max(1, size - lost), theta=1.0, **self._shared))
        return found

    def colluding(self) -> Promise | None:
        """What is promised against the learner and all the users who pool with it in this run; None: nobody does."""
        recorded, flips = self.recorded, self.flips
        members = sorted({user for part in recorded.summary.adversaries if part.kind == "collusion"
                          for user in part.members})  # fmt: skip
        stated = recorded.summary.privacy.get("coalition")
        if not members or stated is None or not self.exchanged or self.silent:
            return None
        counted = float("inf") if flips is None else flips.get_epsilon(stated.delta).epsilon
        alone = Promise(
            "inf" if counted == float("inf") else counted, stated.delta, "upper_bound", colluders=len(members)
        )
        if self.misbehaving or recorded.summary.missing or self.fresh or recorded.clusters is None:
            return alone
        clusters = recorded.clusters
        sizes = np.bincount(clusters[clusters >= 0])
        theirs = [clusters[user] for user in members if user < len(clusters) and clusters[user] >= 0]
        inside = np.bincount(np.array(theirs, dtype=np.int64), minlength=len(sizes))
        pairs = sorted({
            (size, pooled)
            for size, pooled in zip(sizes.tolist(), inside.tolist(), strict=True)
            if size in (self.sizes or {}) and 0 < pooled < size
        })  # fmt: skip
        if len(pairs) > MOST_COALITIONS or any(size > MIDDLE for size, _ in pairs):
            return alone
        epsilon, size, method = 0.0, None, "exact"
        for users, pooled in pairs:
            answer = self.account("coalition", users, pooled).get_epsilon(stated.delta)
            if answer.epsilon >= epsilon:
                epsilon, size, method = answer.epsilon, users, answer.method
        learner = recorded.summary.privacy.get("learner")
        if learner is not None and (learner.epsilon == "inf" or float(learner.epsilon) > epsilon):
            epsilon_or_inf, size, method = learner.epsilon, learner.cluster_size, learner.method
            return Promise(epsilon_or_inf, stated.delta, method, size, len(members))
        return Promise("inf" if epsilon == float("inf") else epsilon, stated.delta, method, size, len(members))


def _sizes(recorded: Recorded, traffic: Traffic | None) -> dict[int, int] | None:
    summary, scenario = recorded.summary, recorded.scenario
    least = max(1, scenario.clusters.minimum_size if scenario.defences.abstain else 1)
    if recorded.clusters is not None:
        missing = [user for user in summary.missing if user < len(recorded.clusters)]
        parameters = Parameters(alpha=0.0, theta=0.0, minimum_size=least)
        found = cluster_sizes(Outcome(recorded.clusters, [], missing=missing), parameters)
        return dict(sorted(found.items()))
    span = summary.cluster_sizes
    if span is None or not summary.clusters:
        return None
    told: list[int] | None = None
    if span.smallest == span.largest or scenario.data.name == "crowd":
        told = [span.smallest, span.largest]
    elif traffic is not None and traffic.complete and not traffic.left_out:
        rosters = sorted({len(members) for members in traffic.rosters.values()} - {0})
        told = rosters if rosters and (rosters[0], rosters[-1]) == (span.smallest, span.largest) else None
    return None if told is None else {size: 0 for size in sorted(set(told)) if size >= least}
