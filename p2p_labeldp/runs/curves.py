"""delta(epsilon) of every view, computed once when a run folder is written, so that a page only draws it.

A run's guarantee is that of every cluster, so a view's curve is the largest of the curves of all sizes of clusters that
took part. In the views of a closed form delta grows at every epsilon with the chance that the label is seen: the size
with the largest chance has the largest curve. In the others every size would have to be evaluated, which takes long:
the smallest, the largest and the worst are, and the curve names them. Where nothing but the flips can be counted on, or
somebody went missing, it is the flips' own curve, which no view of a cluster exceeds. Anywhere else it is what the
guarantee (epsilon0, delta0) implies for any mechanism whatever:

    delta(epsilon) <= delta0 + (1 - delta0) (e^epsilon0 - e^epsilon) / (1 + e^epsilon0)   below epsilon0, then delta0.

delta is convex in e^epsilon, being a sum of max(0, p - e^epsilon q), and so is the largest of several such curves:
chords over e^epsilon between the points of a curve lie above it. (It is not convex in epsilon: the flips' own curve is
concave there.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from p2p_labeldp.mechanisms import Holder, Plan
from p2p_labeldp.privacy import Account, Guarantee, View, account, views_of
from p2p_labeldp.privacy.views import has_closed_form
from p2p_labeldp.runs.guarantees import Circumstances, cluster_account
from p2p_labeldp.runs.summary import Curve

SMALL, MIDDLE, LARGE = 200, 1000, 1200
"""Users in a cluster: up to SMALL a point costs about 10 milliseconds, up to LARGE some 200 or more; beyond, seconds.
Clusters of more than MIDDLE are evaluated only where the guarantee is theirs."""
MANY, FEW, CHEAP = 20, 10, 30
"""Points of the one and the other, and of the shuffled view, whose points cost a few milliseconds."""
LINEAR = 3
"""Points of a curve that is a straight line over e^epsilon until it reaches zero."""


def least_delta(table: Mapping[View, Guarantee]) -> float:
    """Where the curves end: well below every stated delta."""
    stated = [guarantee.delta for guarantee in table.values() if guarantee.delta > 0]
    return max(1e-12, 10.0 ** (math.floor(math.log10(min(stated, default=1e-6))) - 3))


def curves(plan: Plan, found: Circumstances, table: Mapping[View, Guarantee], finer: int = 1) -> dict[str, Curve]:
    """A curve for every view that is guaranteed something; ``finer``: so many times the points of a run's."""
    floor = least_delta(table)
    return {
        str(view): _curve(view, guarantee, plan, found, floor, finer)
        for view, guarantee in table.items()
        if guarantee.epsilon < math.inf
    }


@dataclass(frozen=True)
class _Basis:
    """What a guarantee rests on: accounts of which the largest delta counts."""

    accounts: Sequence[Account]
    how: Literal["account", "flips"]
    points: int
    sizes: tuple[int, ...] = ()


def _curve(view: View, guarantee: Guarantee, plan: Plan, found: Circumstances, floor: float, finer: int) -> Curve:
    basis = _basis(view, guarantee, plan, found)
    if basis is None:
        return implied(guarantee)
    points = _sampled(basis, guarantee, floor, basis.points if basis.points == LINEAR else finer * basis.points)
    return Curve(tuple(points), tuple(points.values()), basis.how, basis.sizes)


def _basis(view: View, guarantee: Guarantee, plan: Plan, found: Circumstances) -> _Basis | None:
    sizes = found.seen(view)
    if plan.holder is not Holder.PEERS or view not in views_of(plan.parameters.exchange) or not sizes:
        return None
    parameters = plan.parameters
    fresh = parameters.fresh
    closed = has_closed_form(view, parameters.exchange)
    if guarantee.cluster_size is None or (not closed and any(sizes.values())):
        return _Basis(
            [account(View.AUDITOR, parameters.flips_alone, cluster_size=1)], "flips", CHEAP if fresh else LINEAR
        )
    if closed:
        accounts = [cluster_account(view, size, parameters, found) for size in sizes]
        return _Basis([max(accounts, key=lambda one: one.profile.chance)], "account", FEW if fresh else LINEAR)
    worst = guarantee.cluster_size
    if fresh or worst > LARGE:
        return None
    some = list(sizes) if len(sizes) <= 3 else [min(sizes), max(sizes)]
    chosen = sorted({worst, *(size for size in some if size <= MIDDLE)})
    points = CHEAP if view == View.SHUFFLE else MANY if chosen[-1] <= SMALL else FEW
    points = points if len(chosen) == 1 else max(7, points * 5 // 4 // len(chosen))
    accounts = [cluster_account(view, size, parameters, found) for size in chosen]
    return _Basis(accounts, "account", points, () if len(chosen) == len(sizes) else tuple(chosen))


def _sampled(basis: _Basis, guarantee: Guarantee, floor: float, points: int) -> dict[float, float]:
    """Points of the largest curve from 0 on, the stated one among them, more where it falls steeply; ends below
    ``floor``. All accounts are evaluated at the same epsilons, between which chords then lie above all of them."""
    accounts, stated = basis.accounts, guarantee.epsilon
    linear = points == LINEAR

    def largest(epsilon: float) -> float:
        found = max(one.get_delta(epsilon).delta for one in accounts)
        # Bounds on epsilon and on delta are found in different ways: the better one counts.
        return min(found, guarantee.delta) if epsilon >= stated else found

    local = max(one.local_epsilon for one in accounts)
    top = max(stated, min(local, (10 if linear else 2) * max(stated, 0.05)))
    known = {epsilon: largest(epsilon) for epsilon in (0.0, stated, local if linear and local < math.inf else top)}

    def height(epsilon: float) -> float:
        return math.log10(max(known[epsilon], floor))

    while len(known) < points:
        gaps = [
            (height(left) - height(right) + 0.5 * (right - left) / max(top, 1e-9), left, right)
            for left, right in pairwise(sorted(known))
            if right - left > 1e-6 and known[left] > floor
        ]
        if not gaps:
            break
        _, left, right = max(gaps)
        middle = (left + right) / 2
        known[middle] = largest(middle)
    ordered = sorted(known)
    below = [place for place, epsilon in enumerate(ordered) if known[epsilon] <= floor and epsilon >= stated]
    last = below[0] if below else len(ordered) - 1
    return {epsilon: known[epsilon] for epsilon in ordered[: last + 1]}


def implied(guarantee: Guarantee) -> Curve:
    """The least that follows from one (epsilon, delta) alone: a straight line over e^epsilon, then delta."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    after = epsilon * 1.15 + 0.05
    if epsilon == 0:
        return Curve((0.0, after), (delta, delta), "implied")
    # (e^epsilon - 1) / (1 + e^epsilon) without overflow.
    first = delta + (1 - delta) * -math.expm1(-epsilon) / (1 + math.exp(-epsilon))
    return Curve((0.0, epsilon, after), (first, delta, delta), "implied")


def chords(curve: Curve, floor: float, parts: int = 6) -> tuple[list[float], list[float]]:
    """More points of a curve, on its chords over e^epsilon, for a drawing in which those are no straight lines.

    Evenly over epsilon, and evenly over the logarithm of delta, down to ``floor``.
    """
    epsilons, deltas = [curve.epsilons[0]], [curve.deltas[0]]
    for (left, high), (right, low) in pairwise(zip(curve.epsilons, curve.deltas, strict=True)):
        wide = right - left
        # (e^x - 1) / (e^wide - 1) without overflow.
        shares = {
            math.exp(wide * (p / parts - 1)) * math.expm1(-wide * p / parts) / math.expm1(-wide)
            for p in range(1, parts)
        }
        if high > floor and high > low:
            least = max(low, floor)
            steps = 1 + math.ceil(4 * math.log10(high / least))
            shares |= {(high - high * (least / high) ** (step / steps)) / (high - low) for step in range(1, steps + 1)}
        for share in sorted(share for share in shares if 0 < share < 1):
            epsilons.append(left + wide + math.log(share + (1 - share) * math.exp(-wide)))
            deltas.append(high + (low - high) * share)
        epsilons.append(right)
        deltas.append(low)
    return epsilons, deltas
