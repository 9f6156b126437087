"""What a run promises about each view, as the summary says it, and the delta(epsilon) curve of every promise.

A curve is never better than the promise. Where the promise is that of a cluster whose account can be asked again, the
curve is the account's own; it must give back the promise, or something is wrong with the folder, and the page says so.
Where the promise rests on the flips alone it is the flips' curve. Anywhere else, and where asking would take too long,
it is what (epsilon0, delta0) implies by itself, for any mechanism whatever:

    delta(epsilon) <= delta0 + (1 - delta0) (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)   below epsilon0, then delta0.

delta is convex in e^epsilon, being a sum of max(0, p - e^epsilon q): chords over e^epsilon between computed points lie
above it. (It is not convex in epsilon: the flips' own curve is concave there.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from p2p_labeldp.privacy import Account, account
from p2p_labeldp.privacy.views import CLOSED_FORM, VIEWS
from p2p_labeldp.reporting.recorded import Promise, Recorded

SMALL, LARGE = 200, 2000
"""Users in a cluster: up to SMALL a point costs about 10 milliseconds, up to LARGE some 200; beyond, seconds."""
MANY, FEW, CHEAP = 20, 10, 30
"""Points computed of the one and the other, and of the shuffled view, whose points cost a few milliseconds."""
CLOSED_POINTS = 61
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


@dataclass(frozen=True)
class Promises:
    curves: list[Curve]
    without: list[str]
    """Views of which nothing is promised."""
    doubts: list[str]
    """What does not fit the scenario."""


def epsilon_of(promise: Promise) -> float:
    return math.inf if isinstance(promise.epsilon, str) else float(promise.epsilon)


def least_delta(privacy: dict[str, Promise]) -> float:
    """Where the curves' axis ends: well below every promised delta."""
    stated = [promise.delta for promise in privacy.values() if promise.delta > 0]
    return max(1e-12, 10.0 ** (math.floor(math.log10(min(stated, default=1e-6))) - 3))


def promised(recorded: Recorded) -> Promises:
    """A curve for every view that is promised something."""
    curves: list[Curve] = []
    without, doubts = [], []
    floor = least_delta(recorded.summary.privacy)
    for view, promise in recorded.summary.privacy.items():
        epsilon = epsilon_of(promise)
        if epsilon == math.inf:
            without.append(view)
            continue
        accountant, points, how = _accountant(recorded, view, promise)
        if accountant is not None:
            delta = accountant.get_delta(epsilon).delta
            if _fits(delta, promise):
                found = _sampled(accountant, epsilon, floor, points)
                curves.append(Curve(view, *_chords(found), how, len(found)))
                continue
            silent = epsilon == 0 and recorded.summary.reports == 0  # everyone abstained
            if delta > promise.delta and not silent and (promise.method == "exact" or how == "flips"):
                doubts.append(
                    f"The summary promises epsilon {epsilon:.4g} at delta {promise.delta:.3g} against {view}, but the "
                    f"account of this scenario gives delta {delta:.3g} there: the folder may have been changed."
                )
        curves.append(_implied(view, promise, epsilon))
    return Promises(curves, without, doubts)


def _fits(delta: float, promise: Promise) -> bool:
    """Whether an account gives back the promise, whose epsilon was rounded up by a little."""
    if epsilon_of(promise) == 0:
        return delta <= promise.delta
    return promise.delta * 0.999 - 1e-15 <= delta <= promise.delta * (1 + _FITS) + 1e-15


def _accountant(recorded: Recorded, view: str, promise: Promise) -> tuple[Account | None, int, str]:
    """Whose account a promise is, how many points of it to compute, and what it rests on."""
    summary, mechanism = recorded.summary, recorded.scenario.mechanism
    if summary.mechanism != "peer_to_peer" or summary.alpha is None:
        return None, 0, ""
    shared: dict[str, Any] = {
        "alpha": summary.alpha,
        "labels": max(2, summary.labels),
        "rounds": mechanism.rounds,
        "noise": mechanism.noise,
    }
    size = promise.cluster_size
    if view not in VIEWS:
        return None, 0, ""
    if size is None:
        flips = account("auditor", cluster_size=1, theta=1.0, **shared)
        return flips, CLOSED_POINTS, "flips"
    if size < 1:
        return None, 0, ""
    if view in CLOSED_FORM:
        points = CLOSED_POINTS if mechanism.noise == "sticky" or mechanism.rounds == 1 else FEW
    elif summary.missing or size > LARGE or (mechanism.noise == "fresh" and mechanism.rounds > 1):
        return None, 0, ""
    else:
        points = CHEAP if view == "shuffle" else MANY if size <= SMALL else FEW
    colluders = min(promise.colluders or 0, size - 1) if view == "coalition" else 0
    accountant = account(view, cluster_size=size, theta=mechanism.theta, colluders=colluders, thorough=False, **shared)
    return accountant, points, "account"


def _sampled(accountant: Account, promised: float, floor: float, points: int) -> list[tuple[float, float]]:
    """Points of a curve from 0 on, the promised one among them, more where it falls steeply; ends below ``floor``."""

    def delta(epsilon: float) -> float:
        return max(0.0, accountant.get_delta(epsilon).delta)

    closed = points == CLOSED_POINTS  # of which all of the curve costs nothing
    top = max(promised, min(accountant.local_epsilon, (10 if closed else 2) * max(promised, 0.05)))
    known = {epsilon: delta(epsilon) for epsilon in (0.0, promised, top)}

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
        known[middle] = delta(middle)
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
