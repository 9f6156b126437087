"""What a run promises about each view, as the summary says it, and the delta(epsilon) curve of every promise.

A curve is never better than the promise. Where the promise is that of clusters whose accounts can be asked again, the
curve is the largest of theirs; it must give back the promise, or something is wrong with the folder, and the page says
so. Where the promise rests on the flips alone it is the flips' curve. Anywhere else, and where asking would take too
long, it is what (epsilon0, delta0) implies by itself, for any mechanism whatever:

    delta(epsilon) <= delta0 + (1 - delta0) (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)   below epsilon0, then delta0.

delta is convex in e^epsilon, being a sum of max(0, p - e^epsilon q), and so is the largest of several such curves:
chords over e^epsilon between computed points lie above it. (It is not convex in epsilon: the flips' own curve is
concave there.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from p2p_labeldp.privacy import Account
from p2p_labeldp.privacy.views import VIEWS
from p2p_labeldp.reporting.accounts import CLOSED_POINTS, Ground
from p2p_labeldp.reporting.recorded import Promise, Recorded
from p2p_labeldp.reporting.traffic import Traffic
from p2p_labeldp.reporting.words import rounded_up
from p2p_labeldp.runs.guarantees import FRESH

SUB = 6
"""Points drawn between two computed ones, on the chord, which is no straight line on these scales."""
_FITS = 1e-6


@dataclass(frozen=True)
class Curve:
    view: str
    epsilons: list[float]
    deltas: list[float]
    how: str
    """"account", "flips" or "implied"."""
    computed: int
    some: tuple[int, ...] = ()
    """The sizes of the clusters whose curve it is, where there are others."""


@dataclass(frozen=True)
class Promises:
    curves: list[Curve]
    without: list[str]
    """Views of which nothing is promised."""
    doubts: list[str]
    """What does not fit the scenario."""
    silent: bool = False
    """Everyone abstained: there is nothing to see."""
    colluding: Promise | None = None
    """Against the learner with all the users who pool with it in this run."""
    local_epsilon: float = math.inf
    """What an honest user's flips guarantee by themselves, over all rounds, without any delta."""

    def says_nothing(self, view: str) -> bool:
        """Whether it is proved that what a view shows does not depend on any label."""
        return self.silent or any(
            curve.view == view and curve.how != "implied" and not curve.some and curve.deltas[0] == 0
            for curve in self.curves
        )


def epsilon_of(promise: Promise) -> float:
    return math.inf if isinstance(promise.epsilon, str) else float(promise.epsilon)


def headline(recorded: Recorded, promises: Promises) -> tuple[str, Promise] | None:
    """The view and the promise that a run is judged by: the learner's, with whoever pools with it."""
    privacy = recorded.summary.privacy
    if "model" in privacy:
        return "model", privacy["model"]
    if promises.colluding is not None:
        return "coalition", promises.colluding
    return ("learner", privacy["learner"]) if "learner" in privacy else None


def least_delta(privacy: dict[str, Promise]) -> float:
    """Where the curves' axis ends: well below every promised delta."""
    stated = [promise.delta for promise in privacy.values() if promise.delta > 0]
    return max(1e-12, 10.0 ** (math.floor(math.log10(min(stated, default=1e-6))) - 3))


def promised(recorded: Recorded, traffic: Traffic | None = None) -> Promises:
    """A curve for every view that is promised something."""
    ground = Ground.of(recorded, traffic)
    curves: list[Curve] = []
    without: list[str] = []
    doubts = _inconsistent(ground)
    floor = least_delta(recorded.summary.privacy)
    for view, promise in recorded.summary.privacy.items():
        epsilon = epsilon_of(promise)
        if epsilon == math.inf:
            without.append(view)
            continue
        doubts += _misplaced(ground, view, promise)
        rests = ground.rests(view, promise)
        accounts = rests.accounts
        if accounts and _fits(_largest(accounts, epsilon), promise):
            found = _sampled(accounts, epsilon, floor, rests.points)
            curves.append(Curve(view, *_chords(found), rests.how, len(found), rests.some))
            continue
        doubts += _too_good(view, promise, [*accounts, *rests.demand])
        curves.append(_implied(view, promise, epsilon))
    flips = ground.flips
    local = math.inf if flips is None else flips.local_epsilon
    return Promises(curves, without, doubts, ground.silent, ground.colluding(), local)


def _inconsistent(ground: Ground) -> list[str]:
    """What summary and scenario say differently."""
    summary, mechanism = ground.recorded.summary, ground.recorded.scenario.mechanism
    found = []
    if ground.exchanged and not math.isclose(summary.alpha or 0.0, mechanism.alpha, rel_tol=1e-9):
        found.append(
            f"The summary says alpha {summary.alpha:.4g}, but the scenario {mechanism.alpha:.4g}: the folder may have "
            "been changed."
        )
    finite = [view for view, promise in summary.privacy.items() if view in VIEWS and epsilon_of(promise) < math.inf]
    if ground.exchanged and FRESH in ground.misbehaving and finite:
        found.append(
            f"The summary promises something against {', '.join(finite)}, though users make new noise for every asker: "
            "the folder may have been changed."
        )
    return found


def _misplaced(ground: Ground, view: str, promise: Promise) -> list[str]:
    """Whether a promise names a cluster that did not take part."""
    size, span = promise.cluster_size, ground.recorded.summary.cluster_sizes
    if size is None or not ground.exchanged:
        return []
    known = ground.sizes
    if size in known if known is not None else span is None or span.smallest <= size <= span.largest:
        return []
    return [
        f"The summary’s promise against {view} is that of a cluster of {size:,} users, but no cluster that took part "
        "has so many: the folder may have been changed."
    ]


def _too_good(view: str, promise: Promise, accounts: Sequence[Account]) -> list[str]:
    """Whether a promise is better than some account that it must not be better than."""
    epsilon = epsilon_of(promise)
    for accountant in accounts:
        if accountant.get_delta(epsilon).delta <= promise.delta * (1 + _FITS) + 1e-15:
            continue
        # Bounds on epsilon and on delta are found in different ways: the promise is compared with its own kind.
        least = accountant.get_epsilon(promise.delta).epsilon
        if least > epsilon * (1 + _FITS) + 1e-12:
            return [
                f"The summary promises epsilon {rounded_up(epsilon, 4)} at delta {rounded_up(promise.delta)} against "
                f"{view}, but the account of this scenario gives epsilon {rounded_up(least, 4)} there: the folder may "
                "have been changed."
            ]
    return []


def _fits(delta: float, promise: Promise) -> bool:
    """Whether an account gives back the promise, whose epsilon was rounded up by a little."""
    if epsilon_of(promise) == 0:
        return delta <= promise.delta
    return promise.delta * 0.999 - 1e-15 <= delta <= promise.delta * (1 + _FITS) + 1e-15


def _largest(accounts: Sequence[Account], epsilon: float) -> float:
    return max(0.0, *(accountant.get_delta(epsilon).delta for accountant in accounts))


def _sampled(accounts: Sequence[Account], promised: float, floor: float, points: int) -> list[tuple[float, float]]:
    """Points of the largest curve from 0 on, the promised one among them, more where it falls steeply; ends below
    ``floor``. All accounts are asked at the same epsilons, between which chords then lie above all of them."""
    closed = points == CLOSED_POINTS  # of which all of the curve costs nothing
    local = max(accountant.local_epsilon for accountant in accounts)
    top = max(promised, min(local, (10 if closed else 2) * max(promised, 0.05)))
    known = {epsilon: _largest(accounts, epsilon) for epsilon in (0.0, promised, top)}

    def height(epsilon: float) -> float:
        return math.log10(max(known[epsilon], floor))

    while len(known) < points:
        ordered = sorted(known)
        gaps = [
            (height(left) - height(right) + 0.5 * (right - left) / max(top, 1e-9), left, right)
            for left, right in pairwise(ordered)
            if right - left > 1e-6 and known[left] > floor
        ]
        if not gaps:
            break
        _, left, right = max(gaps)
        middle = (left + right) / 2
        known[middle] = _largest(accounts, middle)
    ordered = sorted(known)
    below = [place for place, epsilon in enumerate(ordered) if known[epsilon] <= floor and epsilon >= promised]
    last = below[0] if below else len(ordered) - 1
    return [(epsilon, known[epsilon]) for epsilon in ordered[: last + 1]]


def _chords(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    epsilons, deltas = [points[0][0]], [points[0][1]]
    for (left, high), (right, low) in pairwise(points):
        for part in range(1, SUB + 1):
            epsilon = left + (right - left) * part / SUB
            share = math.expm1(epsilon - left) / math.expm1(right - left) if part < SUB else 1.0
            epsilons.append(epsilon)
            deltas.append(high + (low - high) * share)
    return epsilons, deltas


def _implied(view: str, promise: Promise, epsilon: float) -> Curve:
    """The least that follows from one (epsilon, delta) alone."""
    delta = promise.delta
    epsilons = [*np.linspace(0.0, epsilon, 25).tolist(), epsilon * 1.15 + 0.05]
    # (e^a - e^x) / (1 + e^a) without overflow.
    deltas = [
        delta + (1 - delta) * max(0.0, -math.expm1(x - epsilon)) / (1 + math.exp(-epsilon)) if x < epsilon else delta
        for x in epsilons
    ]
    return Curve(view, epsilons, deltas, "implied", 1)
