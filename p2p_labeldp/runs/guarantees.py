"""What a run guarantees: every view's epsilon for the clusters that really took part.

The guarantee of a run is that of its worst cluster. Clusters below the minimum size abstain and say nothing. Where
somebody of a cluster went missing after the assignment, some ask went unanswered: who reports then tells whom she could
have asked, and no better bound than the local one is proved, so that the flips alone are counted on in that cluster.
Closed-form views only lose chances to see something, but in the mixed exchange: there a cluster that somebody is
missing from opens nothing; should it have opened in an earlier round, the flips alone count in every view.

Where someone sends what an honest user would not, she may add no noise, or ask whom she likes: again the flips
alone are counted on, and nothing at all for users who make new noise for every asker, or whose roles were replaced by
code that nobody has accounted for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from p2p_labeldp.adversaries.install import colluding, misbehaving
from p2p_labeldp.adversaries.kinds import adversary_called
from p2p_labeldp.adversaries.record import Assignment
from p2p_labeldp.engines.outcome import Outcome
from p2p_labeldp.mechanisms import Holder, Plan
from p2p_labeldp.privacy import Account, Exchange, Guarantee, Parameters, View, account, views_of
from p2p_labeldp.privacy.views import has_closed_form
from p2p_labeldp.scenario import EXCHANGES

FRESH = "fresh_answers"
"""The kind of adversary that makes new noise for every asker."""
COLLUDERS = 1  # of the coalition that stands in every run's table, where no more are known

Table = dict[View, Guarantee]


@dataclass(frozen=True)
class Circumstances:
    """What a run's guarantees depend on besides its plan."""

    sizes: Mapping[int, int]
    """Each size of a cluster that took part, with the most users of such a cluster who went missing."""
    delta: float
    misbehaving: tuple[str, ...] = ()
    """Kinds of adversaries who send what an honest party would not."""
    replaced: bool = False
    """Whether roles were replaced by code that nobody has accounted for."""
    colluders: Mapping[int, int] = field(default_factory=dict)
    """The most colluders that a cluster of a size holds; empty where nobody colludes, and one is assumed."""
    crooked: Mapping[int, int] = field(default_factory=dict)
    """The most users that a cluster of a size holds who misbehave, or collude; of the mixed exchange, where one honest
    relay hides the others from all of them (``Adversary.hidden_from``), and empty elsewhere."""
    distrusted: bool = False
    """Whether users of large enough clusters abstained, so that others may be fewer than they think."""
    reported: Mapping[int, int] | None = None
    """As ``sizes``, of what was reported: a cluster that was withheld reported nothing after somebody went missing."""

    @classmethod
    def of(cls, outcome: Outcome, parameters: Parameters, delta: float, **facts: Any) -> Circumstances:
        """Those of a finished exchange."""
        sizes = cluster_sizes(outcome.clusters, parameters, outcome.missing)
        held = set(outcome.withheld)
        counted = [user for user in outcome.missing if int(outcome.clusters[user]) not in held]
        reported = cluster_sizes(outcome.clusters, parameters, counted) if held else None
        distrusted = bool(outcome.reduced) or _distrusted(outcome, parameters)
        return cls(sizes, delta, reported=reported, distrusted=distrusted, **facts)

    def seen(self, view: View) -> Mapping[int, int]:
        """The sizes that count for a view: who sees reports alone learns nothing of what was not released, unless
        crooked relays tell."""
        alone = view in _REPORTS_ALONE and not self.crooked
        return self.reported if alone and self.reported is not None else self.sizes


def _distrusted(outcome: Outcome, parameters: Parameters) -> bool:
    """Whether more abstained in some round than are heard from in clusters below the minimum size, or that stopped."""
    sizes = np.bincount(outcome.clusters[outcome.clusters >= 0])
    below = np.flatnonzero(sizes < parameters.minimum_size)
    heard = np.isin(outcome.clusters, [*below, *outcome.stopped])
    heard[np.array(outcome.missing, dtype=np.int64)] = False
    return any(counts.get("abstained", 0) > int(heard.sum()) for counts in outcome.outcomes)


_REPORTS_ALONE = (View.LEARNER, View.SHUFFLE)


def cluster_sizes(clusters: NDArray[np.integer], parameters: Parameters, missing: Iterable[int] = ()) -> dict[int, int]:
    """Each distinct size of a cluster that took part, with the most users of such a cluster who went missing."""
    sizes = np.bincount(clusters[clusters >= 0])
    absent = [user for user in missing if clusters[user] >= 0]
    lost = np.bincount(clusters[absent], minlength=len(sizes))
    worst: dict[int, int] = {}
    for size, gone in zip(sizes.tolist(), lost.tolist(), strict=True):
        if size >= max(1, parameters.minimum_size):
            worst[size] = max(gone, worst.get(size, 0))
    return worst


def colluders_by_size(clusters: NDArray[np.integer], members: Iterable[int], sizes: Iterable[int]) -> dict[int, int]:
    """Of each size of a cluster that took part, the most colluders in one that holds someone else too."""
    everyone = np.bincount(clusters[clusters >= 0])
    placed = [user for user in members if clusters[user] >= 0]
    inside = np.bincount(clusters[placed], minlength=len(everyone))
    found = dict.fromkeys(sizes, 0)
    for size, pooled in zip(everyone.tolist(), inside.tolist(), strict=True):
        if size in found and pooled < size:
            found[size] = max(found[size], pooled)
    return found


def circumstances(
    outcome: Outcome, parameters: Parameters, delta: float, assignments: Sequence[Assignment], *, replaced: bool = False
) -> Circumstances:
    """What the guarantees of an exchange depend on; ``replaced``: roles are code that nobody has accounted for."""
    pooling, sizes = colluding(assignments), cluster_sizes(outcome.clusters, parameters)
    kinds = tuple(misbehaving(assignments))
    hiding = EXCHANGES[parameters.exchange].relayed and all(adversary_called(kind).hidden_from for kind in kinds)
    crooked = {*pooling, *(user for each in assignments if each.entry.name in kinds for user in each.members)}
    return Circumstances.of(
        outcome,
        parameters,
        delta,
        misbehaving=kinds,
        replaced=replaced,
        colluders=colluders_by_size(outcome.clusters, pooling, sizes) if pooling else {},
        crooked=colluders_by_size(outcome.clusters, sorted(crooked), sizes) if kinds and hiding else {},
    )


def guarantees(plan: Plan, found: Circumstances, views: Sequence[View] | None = None) -> Table:
    """View to guarantee: what the plan states, or what the exchange of those who took part comes to in ``views``."""
    views = views_of(plan.parameters.exchange) if views is None else views
    if found.replaced:
        return nothing_guaranteed(views, found.delta, "roles were replaced by code that nobody has accounted for")
    if plan.holder is not Holder.PEERS:
        return dict(plan.privacy)
    kinds = sorted(set(found.misbehaving))
    if FRESH in kinds:
        return nothing_guaranteed(
            views, found.delta, "some users make new noise for every asker, which protects nobody's label for long"
        )
    unknown = [kind for kind in kinds if not adversary_called(kind).flips_hold]
    if unknown:
        return nothing_guaranteed(
            views, found.delta, f"nothing says that users still flip their labels once beside {', '.join(unknown)}"
        )
    if kinds and not found.crooked:
        table = flips_alone(
            plan.parameters, found.delta, f"not everyone is honest ({', '.join(kinds)}): the flips alone are counted on"
        )
        most = max(found.colluders.values(), default=0) or None
        return table | {View.COALITION: msgspec.structs.replace(table[View.COALITION], colluders=most)}
    if found.distrusted:
        return flips_alone(
            plan.parameters, found.delta, "users of large enough clusters abstained: the flips alone are counted on"
        )
    known = tuple(sorted(found.colluders.items())), tuple(sorted(found.crooked.items()))
    table = {
        view: _honest(view, plan.parameters, tuple(sorted(found.seen(view).items())), *known, found.delta)
        for view in views
    }
    if not kinds:
        return table
    why = f"whatever they do ({', '.join(kinds)}), the others' labels are seen shuffled if one relay is honest"
    return {
        view: msgspec.structs.replace(
            each, method="upper_bound", reason=f"{why}; {each.reason}" if each.reason else why
        )
        for view, each in table.items()
    }


@lru_cache(maxsize=512)
def _honest(
    view: View,
    parameters: Parameters,
    sizes: tuple[tuple[int, int], ...],
    colluders: tuple[tuple[int, int], ...],
    crooked: tuple[tuple[int, int], ...],
    delta: float,
) -> Guarantee:
    """Where everyone is honest, or it does not matter. Runs that differ in their coins alone, as those of a sweep, are
    accounted for once."""
    found = Circumstances(dict(sizes), delta, colluders=dict(colluders), crooked=dict(crooked))
    return worst_of(view, parameters, found)


def worst_of(view: View, parameters: Parameters, found: Circumstances) -> Guarantee:
    """A view's guarantee in every cluster: that of the worst."""
    if not found.sizes:
        return Guarantee(
            epsilon=0.0, delta=found.delta, view=view, method="exact", error_bound=0.0,
            reason="everyone abstained, so that there is nothing to see",
        )  # fmt: skip
    worst: Guarantee | None = None
    for size, lost in sorted(found.sizes.items()):
        if worst is not None and not lost and _within(view, size, parameters, found, worst.epsilon):
            continue
        mine = _of_size(view, size, lost, parameters, found)
        worst = mine if worst is None or mine.epsilon > worst.epsilon else worst
    assert worst is not None, "there is a size"
    return worst


def _within(view: View, size: int, parameters: Parameters, found: Circumstances, epsilon: float) -> bool:
    """Whether clusters of a size are proved to keep to an epsilon: cheaper than to find their own."""
    if epsilon == math.inf:
        return True
    cheap = (View.LEARNER, View.COALITION) if EXCHANGES[parameters.exchange].independent else ()
    if view in cheap and _cheap_delta(view, size, parameters, found, epsilon) <= found.delta:
        return True
    return cluster_account(view, size, parameters, found).keeps_to(epsilon, found.delta)


def _cheap_delta(view: View, size: int, parameters: Parameters, found: Circumstances, epsilon: float) -> float:
    """A bound on the learner's delta, with her colluders, by the shuffled view: a hundredth of the account's time.

    The learner's reports are made from the shuffled labels. Colluders are answered by the victim with probability rho,
    which costs what her flip leaves; else at most as many others have answered them as there were asks, and
    the victim is among the shuffled labels of the rest.
    """
    asks = colluders_in(size, found) * parameters.rounds if view == View.COALITION else 0
    hidden = size - 2 * asks
    if hidden < 1 or parameters.fresh:
        return 1.0
    pull = replace(parameters, theta=1.0, exchange=Exchange.PULL, relays=0)
    shuffled = account(View.SHUFFLE, pull, cluster_size=hidden, thorough=False)
    rest = shuffled.get_delta(epsilon).delta
    if not asks:
        return rest
    seen = -math.expm1(asks * math.log1p(-1 / size))
    local = account(View.AUDITOR, replace(parameters, rounds=1).flips_alone, cluster_size=1).get_delta(epsilon).delta
    return (seen * local + (1 - seen) * rest) * (1 + 1e-12)  # rounding goes to the safe side


def _of_size(view: View, size: int, lost: int, parameters: Parameters, found: Circumstances) -> Guarantee:
    known: dict[str, Any] = {"colluders": colluders_in(size, found)} if view == View.COALITION else {}
    if lost and not has_closed_form(view, parameters.exchange):
        reason = f"{lost} of {size} users went missing: the flips alone are counted on"
        return msgspec.structs.replace(_flips(view, parameters, found.delta, reason), cluster_size=size, **known)
    accountant = cluster_account(view, size, parameters, found)
    answer = accountant.get_epsilon(found.delta)
    if not found.crooked.get(size):
        known |= accountant.conditional(found.delta)
    if lost:
        answer = msgspec.structs.replace(answer, method="upper_bound", error_bound=answer.epsilon)
    return msgspec.structs.replace(
        answer, view=view, cluster_size=size, searched=None, worst_ones=None, paper_epsilon=None, shuffle_epsilon=None,
        **known,
    )  # fmt: skip


def colluders_in(size: int, found: Circumstances) -> int:
    """How many users of a cluster of that size collude with the learner, at most all but one."""
    return min(found.colluders.get(size, 0) if found.colluders else COLLUDERS, size - 1)


def cluster_account(view: View, size: int, parameters: Parameters, found: Circumstances) -> Account:
    """The accountant of a view of a cluster, with the colluders that it holds; without any, they see what she sees.

    Beside users who misbehave as relays no view is more than what they could tell it, and what it knows by itself.
    """
    if found.crooked.get(size):
        itself = view in (View.PEER, View.RELAY) or (view == View.COALITION and not found.colluders)
        known = min(found.crooked[size] + itself, size - 1)
        if known:
            return account(
                View.COALITION, parameters, cluster_size=size, colluders=known, thorough=False, relaying=True
            )
    colluders = colluders_in(size, found) if view == View.COALITION else 0
    if view == View.COALITION and not colluders:
        view = View.LEARNER
    return account(view, parameters, cluster_size=size, colluders=colluders, thorough=False)


def flips_alone(parameters: Parameters, delta: float, reason: str) -> Table:
    """What every view is left with when nothing but a user's own flips can be counted on."""
    return {view: _flips(view, parameters, delta, reason) for view in views_of(parameters.exchange)}


def _flips(view: View, parameters: Parameters, delta: float, reason: str) -> Guarantee:
    local = account(View.AUDITOR, parameters.flips_alone, cluster_size=1).get_epsilon(delta)
    why = reason if local.epsilon < math.inf else f"{reason}, and alpha leaves labels unflipped"
    return Guarantee(
        epsilon=local.epsilon,
        delta=delta,
        view=view,
        method="upper_bound",
        reason=why,
        local_epsilon=local.local_epsilon,
    )


def nothing_guaranteed(views: Sequence[View], delta: float, reason: str) -> Table:
    return {
        view: Guarantee(epsilon=math.inf, delta=delta, view=view, method="upper_bound", reason=reason) for view in views
    }


def headline(table: Mapping[View, Guarantee], present: Iterable[View] = ()) -> View:
    """The view to lead with: of the adversaries who are present and the learner, the one that learns most."""
    learner = View.MODEL if View.MODEL in table else View.LEARNER
    return max((*(view for view in present if view in table), learner), key=lambda view: table[view].epsilon)
