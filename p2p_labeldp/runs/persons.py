"""What protects all labels of one person together, where she has several rows.

A guarantee is for one label. Of k labels that change one after the other each step costs (epsilon, delta), so that

    P(S) <= e^(k epsilon) Q(S) + delta (1 + e^epsilon + ... + e^((k - 1) epsilon))

whatever the rows have in common: the same cluster, the same noise, a host. An upper bound, and nothing better is said.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from p2p_labeldp.mechanisms import Plan
from p2p_labeldp.privacy import Guarantee, View
from p2p_labeldp.runs.guarantees import Circumstances, Table, guarantees

STEPS = 200  # halvings of the delta of a single step, far more than the fixed point takes


def person_guarantees(plan: Plan, found: Circumstances, rows: int) -> Table:
    """View to guarantee for all labels of a person with at most so many rows; empty where everyone has one."""
    if rows <= 1:
        return {}
    table = guarantees(plan, found)

    def at(view: View) -> Callable[[float], Guarantee]:
        return lambda delta: guarantees(plan, dataclasses.replace(found, delta=delta), (view,))[view]

    return {view: for_group(at(view), single.delta, rows) for view, single in table.items()}


def for_group(at: Callable[[float], Guarantee], delta: float, rows: int) -> Guarantee:
    """The guarantee for ``rows`` labels at ``delta``; ``at`` gives that of one label at any delta."""
    step = delta / rows
    for _ in range(STEPS):
        single = at(step)
        spent = single.delta * _factor(single.epsilon, rows)
        if single.epsilon == math.inf or spent <= delta * (1 + 1e-12) or single.delta == 0:
            return _stated(single, rows, max(delta, 0.0))
        if single.delta > step * (1 + 1e-9):  # a mechanism whose delta is what it is
            return _stated(single, rows, min(1.0, spent))
        step = min(step / 2, delta / _factor(single.epsilon, rows))
    raise AssertionError("epsilon is bounded by the flips, so that some delta is small enough")


def _factor(epsilon: float, rows: int) -> float:
    """1 + e^epsilon + ... + e^((rows - 1) epsilon), rounded up."""
    if epsilon == math.inf or rows * epsilon > 700:
        return math.inf
    return math.fsum(math.exp(place * epsilon) for place in range(rows)) * (1 + 1e-12)


def _stated(single: Guarantee, rows: int, delta: float) -> Guarantee:
    reason = f"for all labels of a person with {rows} rows" + (f"; {single.reason}" if single.reason else "")
    return Guarantee(epsilon=rows * single.epsilon, delta=delta, view=single.view, method="upper_bound", reason=reason)
